import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

from dpcov.data.moments import MomentsSpec, gather
from dpcov.mechanisms.blocks.clip_search import Candidates, choose_clip, clipping_bias
from dpcov.mechanisms.blocks.shells import clipped_sscp, clipped_trace, outlier_counts, shell_counts
from dpcov.mechanisms.separate import mend_spectrum
from dpcov.noise.entropy import SeededEntropy

SHELLS = 6


def table(seed, n_rows=200, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, d))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows *= 2.0 ** -rng.uniform(0, SHELLS + 2, size=(n_rows, 1))
    rows[0] = 0.0
    return rows


def moments_of(rows):
    return gather([rows], rows.shape[1], MomentsSpec(shells=SHELLS, normalized=True))


def clipped(rows, norm):
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    return rows * np.minimum(1.0, norm / lengths)[:, None]


@pytest.mark.parametrize("shell", range(SHELLS))
def test_clipping_read_off_the_shells_is_clipping_the_rows(shell):
    rows = table(1)
    moments, expected = moments_of(rows), clipped(rows, 2.0**-shell)
    sscp = expected.T @ expected
    np.testing.assert_allclose(
        clipped_sscp(moments, shell) * 4.0**-shell, sscp, atol=1e-5 * np.trace(sscp)
    )
    assert clipped_trace(moments, shell) == pytest.approx(np.trace(sscp), rel=1e-5)


def test_counts_of_rows_in_and_beyond_shells():
    rows = table(2)
    lengths, moments = np.linalg.norm(rows, axis=1), moments_of(rows)
    counts = shell_counts(moments)
    assert counts.sum() == len(rows)
    np.testing.assert_array_equal(
        outlier_counts(counts), [np.sum(lengths > 2.0**-shell) for shell in range(SHELLS)]
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), first=st.integers(0, SHELLS - 1))
def test_the_bias_bound_holds_and_one_row_moves_it_in_one_direction_by_at_most_one(seed, first):
    rows = table(seed, n_rows=12)
    other = rows.copy()
    other[3] = table(seed + 1, n_rows=12)[5]
    both = [moments_of(each) for each in (rows, other)]
    moves = []
    for shell in range(first, SHELLS):
        biases = [clipping_bias(shell_counts(each), first, shell) for each in both]
        moves.append((biases[1] - biases[0]) * 4.0**first)
        lost = (
            clipped_sscp(both[0], first) * 4.0**-first - clipped_sscp(both[0], shell) * 4.0**-shell
        )
        assert np.linalg.norm(lost) <= biases[0] + 1e-4
    assert np.all(np.abs(moves) <= 1)
    assert np.all(np.array(moves) >= 0) or np.all(np.array(moves) <= 0)


def candidates(noise, separately=None, first=0):
    noise = np.array(noise)
    separately = noise * 2 if separately is None else np.array(separately)
    return Candidates(
        shells=range(first, first + len(noise)), together=noise, separately=separately
    )


@pytest.mark.parametrize("search", ["balance", "marginal"])
def test_obvious_choices(search):
    entropy, counts = SeededEntropy(1), np.array([0, 0, 0, 10**9, 10**9])
    offered = candidates([1e6 * 4.0**-t for t in range(5)])
    assert choose_clip(counts, offered, search=search, epsilon=1, entropy=entropy).shell == 3
    full = np.array([10**9, 0, 0, 0, 0])
    assert choose_clip(full, offered, search=search, epsilon=1, entropy=entropy).shell == 0
    assert choose_clip(0 * full, offered, search=search, epsilon=1, entropy=entropy).shell == 4
    later = candidates([1e6] * 3, [1.0] * 3, first=2)
    choice = choose_clip(full, later, search=search, epsilon=1, entropy=entropy)
    assert (choice.shell, choice.separately) == (2, True)


def test_the_balance_found_satisfies_the_theorem():
    rng, entropy, draws, beta, failures = np.random.default_rng(0), SeededEntropy(9), 300, 0.1, 0
    for _ in range(draws):
        counts = rng.poisson(10 ** rng.uniform(0, 4, size=10))
        offered = candidates(10 ** rng.uniform(1, 4) * 4.0 ** -np.arange(10))
        found = choose_clip(counts, offered, search="balance", epsilon=0.5, entropy=entropy).shell
        error = 4 / 0.5 * np.log(2 * 10 / beta)
        passed = clipping_bias(counts, 0, found) <= offered.noise[found] + error
        crossed = (
            found == 9 or clipping_bias(counts, 0, found + 1) >= offered.noise[found + 1] - error
        )
        failures += not (passed and crossed)
    assert failures <= binom.isf(1e-9, draws, beta)


def test_monotone_spectra_are_the_nearest_possible_ones():
    rng = np.random.default_rng(3)
    for _ in range(10):
        noisy = rng.normal(size=5) + np.arange(5) / 2
        mended = mend_spectrum(noisy, 3.0, "monotone")
        assert np.all(np.diff(mended) >= -1e-12)
        assert mended.min() >= 0
        assert mended.sum() <= 3.0 + 1e-9
        constraints = [
            {"type": "ineq", "fun": lambda x: np.diff(x, prepend=0.0)},
            {"type": "ineq", "fun": lambda x: 3.0 - x.sum()},
        ]
        best = minimize(
            lambda x, y=noisy: np.sum((x - y) ** 2), np.full(5, 0.5), constraints=constraints
        )
        np.testing.assert_allclose(mended, best.x, atol=1e-4)
    noisy = np.array([-1.0, 5.0, 2.0])
    np.testing.assert_array_equal(mend_spectrum(noisy, 3.0, "clip"), [0.0, 3.0, 2.0])
    np.testing.assert_array_equal(mend_spectrum(noisy, 3.0, "raw"), noisy)
