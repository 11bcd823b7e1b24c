import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from dpcov.errors import NumericError, UsageError
from dpcov.noise import eigenvectors
from dpcov.noise.eigenvectors import sample_binghams, sample_eigenvectors
from dpcov.noise.entropy import SeededEntropy

ALPHA = 1e-9

CASES = {
    "d=3 spread": (np.array([9.0, 4.0, 0.0]), [1.0, 0.5]),
    "d=3 uneven budget": (np.array([100.0, 3.0, 0.0]), [0.05, 2.0]),
    "d=5 spread": (np.array([30.0, 20.0, 12.0, 5.0, 0.0]), [0.3, 0.3, 0.3, 0.3]),
    "d=5 double": (np.array([50.0, 50.0, 8.0, 8.0, 1.0]), [0.02, 0.5, 0.1, 1.0]),
}


def rotated(eigenvalues, seed=0):
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2


def naive_eigenvectors(sscp, exponents, entropy):
    # Amin et al., Algorithm 1, as written: a fresh basis of the complement for every direction.
    dimension = len(sscp)
    drawn = np.empty((dimension, 0))
    for exponent in exponents:
        complement = np.linalg.qr(drawn, mode="complete")[0][:, drawn.shape[1] :]
        compressed = complement.T @ sscp @ complement
        (direction,) = sample_binghams(exponent * (compressed + compressed.T) / 2, 1, entropy)
        drawn = np.column_stack([drawn, complement @ direction])
    return np.column_stack([drawn, np.linalg.qr(drawn, mode="complete")[0][:, -1]])


def statistics(sampler, eigenvalues, exponents, size, seed):
    # Rows: the scores u_i' S u_i, then every |<u_i, e_j>|**2.
    sscp, entropy = np.diag(eigenvalues), SeededEntropy(seed)
    squares = np.array([sampler(sscp, exponents, entropy) ** 2 for _ in range(size)])
    scores = np.einsum("j,nji->ni", eigenvalues, squares)
    return np.column_stack([scores, squares.reshape(size, -1)])


def smallest_pvalue(first, second):
    return min(ks_2samp(a, b).pvalue for a, b in zip(first.T, second.T, strict=True))


@cache
def naive_statistics(name):
    return statistics(naive_eigenvectors, *CASES[name], 1_000, 2)


def fast_pvalue(name, seed=1, factor=1.0):
    eigenvalues, exponents = CASES[name]
    exponents = [factor * exponent for exponent in exponents]
    fast = statistics(sample_eigenvectors, eigenvalues, exponents, 1_000, seed)
    return smallest_pvalue(fast, naive_statistics(name))


@pytest.mark.parametrize("name", CASES)
def test_law_against_naive_transcription(name):
    assert fast_pvalue(name) > ALPHA


def test_law_is_tested_with_power(monkeypatch):
    # Exponents 1.6 times too large, or proposals kept unseen, must be noticed.
    assert fast_pvalue("d=5 spread", factor=1.6) < ALPHA
    monkeypatch.setattr(eigenvectors, "acceptance", lambda ratio, dimension: np.ones_like(ratio))
    assert fast_pvalue("d=5 spread") < ALPHA


@pytest.mark.parametrize("tolerance", [0.0, 1.0])
def test_law_does_not_depend_on_the_tuning(tolerance, monkeypatch):
    monkeypatch.setattr(eigenvectors, "TOLERATED_EXCESS", tolerance)
    assert fast_pvalue("d=5 spread", seed=3) > ALPHA


@settings(deadline=None)
@given(st.integers(1, 9), st.data())
def test_columns_are_orthonormal(dimension, data):
    rank = data.draw(st.integers(1, dimension))
    eigenvalues = np.array(
        data.draw(st.lists(st.floats(0, 1e6), min_size=dimension, max_size=dimension))
    )
    exponents = data.draw(
        st.lists(st.floats(1e-9, 1e3), min_size=(k := min(rank, dimension - 1)), max_size=k)
    )
    sscp = rotated(eigenvalues)
    before = sscp.copy()
    drawn = sample_eigenvectors(sscp, exponents, SeededEntropy(0))
    rank += rank == dimension - 1
    assert drawn.shape == (dimension, rank)
    assert np.abs(drawn.T @ drawn - np.eye(rank)).max() < 1e-13
    assert (sscp == before).all()


@pytest.mark.parametrize(
    ("eigenvalues", "exponents"),
    [
        ([0.0] * 5 + [110176.0], [2.0, 1e-9]),
        ([0.0, 964886.4300368662, 463618.1592864076], [643.0, 0.5]),
    ],
)
def test_a_budget_that_collapses_behind_a_spike(eigenvalues, exponents):
    # Conditioning leaves no digit of the tuned traces; the envelope must be tuned anew.
    drawn = sample_eigenvectors(rotated(np.array(eigenvalues)), exponents, SeededEntropy(0))
    assert np.abs(drawn.T @ drawn - np.eye(drawn.shape[1])).max() < 1e-14


@pytest.mark.parametrize("bad", [0.99e-100, 0.0, -1.0, math.inf, math.nan])
def test_bad_exponents_are_refused(bad):
    with pytest.raises(UsageError, match="share of the budget"):
        sample_eigenvectors(np.eye(3), [1.0, bad], SeededEntropy(0))


def test_the_conditioned_factor_stays_the_inverse():
    # 40 directions at one t, never tuned anew: factor factor' must still invert t I - M.
    generator = np.random.default_rng(0)
    compressed = rotated(np.geomspace(1e6, 1.0, 60))
    envelope = tuned = eigenvectors._tuned_envelope(compressed, 1e-4)
    gaps = 1e6 - np.geomspace(1e6, 1.0, 60)
    shift = 1e6 + 0.5 * eigenvectors.envelope_width(1e-4 * gaps) / 1e-4
    for _ in range(40):
        direction = generator.standard_normal(len(compressed))
        direction /= np.linalg.norm(direction)
        reflection = eigenvectors._reflection(direction)
        compressed = eigenvectors._compress(compressed, reflection)
        envelope = eigenvectors._condition(envelope, direction, reflection)
    inverse = np.linalg.inv(shift * np.eye(20) - compressed)
    assert envelope.factor @ envelope.factor.T == pytest.approx(
        inverse, abs=1e-8 * np.abs(inverse).max()
    )
    assert envelope.tuned_square_trace == tuned.square_trace
    assert envelope.trace == pytest.approx(np.trace(inverse), rel=1e-8)
    assert envelope.square_trace == pytest.approx(np.trace(inverse @ inverse), rel=1e-6)


def test_hopeless_scales_raise():
    with pytest.raises(NumericError):
        sample_eigenvectors(rotated(np.array([1.0, 1.0, 1.0, 0.5])), [1e25] * 3, SeededEntropy(0))


def test_a_sampler_that_accepts_nothing_ends_in_an_error(monkeypatch):
    monkeypatch.setattr(eigenvectors, "MAX_BATCHES", 3)
    monkeypatch.setattr(eigenvectors, "acceptance", lambda ratio, dimension: np.zeros_like(ratio))
    with pytest.raises(NumericError, match="nothing was released"):
        sample_eigenvectors(np.eye(3), [1.0, 1.0], SeededEntropy(1))


def test_an_envelope_is_the_inverse_at_the_best_shift():
    # Gaps 0, 1 and 3 at exponent 2: the width solves 1/b + 1/(b + 4) + 1/(b + 12) = 1.
    width = eigenvectors.envelope_width(np.array([0.0, 2.0, 6.0]))
    assert 1 / width + 1 / (width + 4) + 1 / (width + 12) == pytest.approx(1.0)
    matrix = rotated(np.array([4.0, 3.0, 1.0]))
    found = eigenvectors._tuned_envelope(matrix, 2.0)
    inverse = np.linalg.inv((4.0 + width / 4) * np.eye(3) - matrix)
    assert found.factor @ found.factor.T == pytest.approx(inverse)
    assert (found.trace, found.square_trace) == pytest.approx(
        (np.trace(inverse), np.trace(inverse @ inverse))
    )
    assert found.trace == pytest.approx(2 * 2.0)
    assert found.tuned_square_trace == found.square_trace
    assert found.suits(2.0)


def summary(dimension, exponent, rank):
    """Entries of three draws from one seed, and the word that comes after them."""
    sscp = rotated(np.linspace(0.0, 20.0, dimension), seed=dimension)
    entropy = SeededEntropy(dimension)
    exponents = exponent * np.linspace(1.0, 2.0, min(rank, dimension - 1))
    draws = np.array([sample_eigenvectors(sscp, exponents, entropy) for _ in range(3)])
    weights = np.arange(1.0, draws.size + 1).reshape(draws.shape)
    values = [
        draws[0, 0, 0],
        draws[0, -1, -1],
        draws[1, -1, 0],
        draws[2, 0, -1],
        np.mean(weights * draws),
    ]
    return [float(value) for value in values], int(entropy.words(1)[0])


RECORDED = """
2 0.5 2 -0.86085337 0.86085337 0.65071770 -0.52256543 2.41560977 11397347291966545692
5 0.3 5 0.48914219 -0.09832373 0.80035854 -0.54186627 -4.84880878 12670285900695204622
30 0.01 7 0.02385496 0.20494771 0.29954035 0.22406349 -0.46400048 18032645996724320182
"""


@pytest.mark.parametrize("row", RECORDED.split("\n")[1:-1])
def test_a_seed_gives_the_same_directions_in_every_version(row):
    dimension, exponent, rank, *expected, expected_word = row.split()
    values, word = summary(int(dimension), float(exponent), int(rank))
    assert word == int(expected_word)
    assert values == pytest.approx([float(value) for value in expected], abs=1e-6)
