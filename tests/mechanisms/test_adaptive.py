import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers.synthetic import synthetic_rows
from dpcov.mechanisms.adaptive import RULES, Adaptive
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, MatrixNoise
from dpcov.mechanisms.blocks.clip_search import ClipChoice
from dpcov.mechanisms.separate import Separate
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.mechanisms.chosen import choose, drawn, problem


@pytest.mark.parametrize(("constants", "beta"), [("theory", 0.025), ("tuned", 0.9)])
def test_both_mechanisms_are_compared_at_one_probability_of_failure(constants, beta):
    """The two bounds of separate noise share it: each fails with half of it."""
    noises = SimpleNamespace(
        together=SimpleNamespace(frobenius_bound=lambda d, b: d / b),
        separately=SimpleNamespace(
            matrix=SimpleNamespace(spectral_bound=lambda d, b: 4 * d / b),
            values=SimpleNamespace(norm_bound=lambda d, b: 5 * d / b),
        ),
    )
    found = Adaptive(constants=constants, shells=3)._candidates(noises, 9.0, 1, 2)
    norms, factor = np.array([0.5, 0.25]), RULES[constants].separate_factor
    expected = factor * (norms * 2 * np.sqrt(9 * 16 / beta) + norms**2 * 20 / beta)
    assert found.shells == range(1, 3)
    np.testing.assert_allclose(found.separately, expected, rtol=1e-12)
    np.testing.assert_allclose(found.together, norms**2 * 2 / beta, rtol=1e-12)


@pytest.mark.parametrize("constants", ["theory", "tuned"])
@pytest.mark.parametrize("budget", [Budget(rho=1), Budget(epsilon=4)])
def test_rows_far_below_the_norm_bound_are_found(constants, budget):
    rows = synthetic_rows(20_000, 10, 3, np.random.default_rng(0)) * 2.0**-10
    (made,) = drawn(Adaptive(constants=constants), rows, budget)
    zero = np.linalg.norm(rows.T @ rows) / len(rows)
    assert np.linalg.norm(made.arrays["second_moment"] - rows.T @ rows / len(rows)) < 0.5 * zero
    assert made.notes[0] == "rows were first clipped to 2^-10 of the norm bound"


ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-5, 0.0]])
NAME = "dpcov.mechanisms.adaptive."


def clipped(rows, norm):
    return rows * np.minimum(1.0, norm / np.linalg.norm(rows, axis=1))[:, None]


def part(kind, amount):
    return PureDP(epsilon=amount) if kind == "epsilon" else ZCDP(rho=amount)


@pytest.mark.parametrize("kind", ["epsilon", "rho"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("k", [1, 2])
def test_parts_of_the_budget_buy_their_noise(kind, neighbors, k):
    moved, rest = (2, 1.0) if neighbors == "replace-one" else (1, 0.95)

    def scale(share, sensitivity):
        if kind == "epsilon":
            return k * sensitivity / (0.8 * rest * share)
        return k * math.sqrt(sensitivity / (2 * 0.8 * rest * share))

    def searching(share):
        return 0.8 * rest * share if kind == "epsilon" else math.sqrt(2 * 0.8 * rest * share)

    budget = Budget(**{kind: "0.8"})
    for options, shares in (
        ({}, (1 / 8, 1 / 8, 1 / 4, 1 / 2)),
        ({"radius": False}, (0, 1 / 7, 2 / 7, 4 / 7)),
        ({"constants": "tuned"}, (1 / 24, 1 / 24, 1 / 6, 3 / 4)),
        ({"constants": "tuned", "radius": False}, (0, 1 / 12, 1 / 6, 3 / 4)),
    ):
        made = Adaptive(**options).calibrate(problem(2, neighbors, k), budget)
        assert float(made.radius_epsilon or 0) == pytest.approx(searching(shares[0]))
        assert made.trace.scale == pytest.approx(scale(shares[1], 1))
        assert float(made.search_epsilon) == pytest.approx(searching(shares[2]))
        assert made.together.scale == pytest.approx(scale(shares[3], moved))
        for noise in (made.separately.values, made.separately.matrix):
            assert noise.scale == pytest.approx(scale(shares[3] / 2, moved))
        assert made.row_count == (None if moved == 2 else part(kind, Fraction("0.8") / 20))
        assert made.promise == budget.promise
    separate = Separate().calibrate(problem(2, neighbors, k), budget)
    for noise in (separate.noise.values, separate.noise.matrix):
        assert noise.scale == pytest.approx(scale(1 / 2, moved))
    assert separate.row_count == made.row_count


class Drawn:
    """Vectors are so many scales; matrices of two columns -1/2 and 1/2 as many on the diagonal."""

    def __init__(self, monkeypatch, vector=0.0, matrix=0.0):
        monkeypatch.setattr(
            AdditiveNoise, "draw", lambda self, size, entropy: np.full(size, vector * self.scale)
        )
        monkeypatch.setattr(
            MatrixNoise,
            "draw",
            lambda self, size, entropy: np.diag(matrix * self.scale * (np.arange(size) - 0.5)),
        )


@pytest.mark.parametrize(
    ("rule", "post", "trace"), [("raw", "none", None), ("monotone", "psd", 4), ("clip", "psd", 4)]
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_a_separate_release_is_divided_and_bounded_by_the_rows(
    monkeypatch, rule, post, trace, neighbors
):
    Drawn(monkeypatch, vector=8.0)
    monkeypatch.setattr(
        "dpcov.mechanisms.blocks.counts.rounded_gaussian", lambda *_: np.array([-1])
    )
    mechanism, asked = Separate(eigenvalues=rule, clip=0.5), problem(2, neighbors, n_rows=5)
    (made,) = drawn(mechanism, ROWS, Budget(rho=1), neighbors=neighbors)
    rows = 5 if neighbors == "replace-one" else 4
    shortened = clipped(ROWS, 0.5) * 2
    values, vectors = np.linalg.eigh(shortened.T @ shortened)
    values = values + 8 * mechanism.calibrate(asked, Budget(rho=1)).noise.values.scale
    if rule == "clip":
        values = np.minimum(values, rows)
    elif rule == "monotone":
        values = values - (values.sum() - rows) / 2
    expected = (vectors * values) @ vectors.T / rows / 4
    np.testing.assert_allclose(made.arrays["second_moment"], expected, atol=1e-5)
    assert (made.post, made.radius) == (post, 0.5)
    assert ("row_count" in made.arrays) == (neighbors == "add-remove-one")


@pytest.fixture
def steps(monkeypatch):
    """Stand-ins for the steps that choose: a first shell of 1, and a clip norm in shell 2."""

    def told(separately):
        radius = choose(
            monkeypatch, NAME + "private_radius", lambda outliers, **_: len(outliers) - 2
        )
        choice = ClipChoice(shell=2, separately=separately)
        search = choose(monkeypatch, NAME + "choose_clip", lambda counts, candidates, **_: choice)
        return radius, search

    return told


@pytest.mark.parametrize("separately", [False, True])
@pytest.mark.parametrize("constants", ["theory", "tuned"])
def test_an_adaptive_release_step_by_step(monkeypatch, steps, separately, constants):
    radius, search = steps(separately)
    Drawn(monkeypatch, vector=0.5, matrix=0.25)
    mechanism = Adaptive(shells=6, constants=constants, eigenvalues="raw")
    public = problem(2, k=2, n_rows=500)
    calibration = mechanism.calibrate(public, Budget(rho=2))
    (made,) = drawn(mechanism, ROWS, Budget(rho=2), k=2, n_rows=500)

    # Rows longer than 2^-5, 2^-4, ..., 1.
    assert radius.asked == [
        ([4, 4, 3, 3, 2, 0], calibration.radius_epsilon, pytest.approx(0.05 / 8), 2)
    ]
    counts, candidates, kind, epsilon, k = search.asked[0]
    assert counts.tolist() == [2, 1, 0, 1, 0, 1]
    assert (kind, epsilon, k) == (RULES[constants].search, calibration.search_epsilon, 2)
    noise = calibration.trace.scale / 4
    trace = np.sum(clipped(ROWS, 0.5) ** 2) + 0.5 * noise
    upper = min(trace + noise * math.sqrt(2 * math.log(8 / 0.05)), 500 / 4)
    expected = mechanism._candidates(calibration, upper, 1, 2)
    assert candidates.shells == range(1, 6)
    np.testing.assert_allclose(candidates.together, expected.together, rtol=1e-9)
    np.testing.assert_allclose(candidates.separately, expected.separately, rtol=1e-5)

    shortened = clipped(ROWS, 0.25)
    sscp = shortened.T @ shortened * 16
    if separately:
        scales = calibration.separately.matrix.scale, calibration.separately.values.scale
        vectors = np.linalg.eigh(sscp + np.diag([-0.125, 0.125]) * scales[0])[1]
        final = (vectors * (np.linalg.eigvalsh(sscp) + 0.5 * scales[1])) @ vectors.T
    else:
        final = sscp + np.diag([-0.125, 0.125]) * calibration.together.scale
    np.testing.assert_allclose(made.arrays["second_moment"], final / 16 / 500, atol=1e-7)
    assert (made.post, made.radius) == ("psd", 1.0)
    assert made.notes[:2] == (
        "rows were first clipped to 2^-1 of the norm bound",
        "clip norm 2^-2 of the norm bound",
    )
    assert made.notes[2].endswith("separately" if separately else "the matrix")


@pytest.mark.parametrize("rule", ["monotone", "clip", "raw"])
@pytest.mark.parametrize(("vector", "bound"), [(0.0, None), (1e6, 5.0), (-1e6, 0.0)])
def test_what_is_left_of_a_matrix_under_the_private_trace(monkeypatch, steps, rule, vector, bound):
    steps(False)
    Drawn(monkeypatch, vector=vector, matrix=100.0)
    mechanism, public = Adaptive(shells=6, eigenvalues=rule, radius=False), problem(2, n_rows=5)
    calibration = mechanism.calibrate(public, Budget(rho=2))
    (released,) = drawn(mechanism, ROWS, Budget(rho=2))
    assert released.notes[0] == "rows were first clipped to 2^-0 of the norm bound"
    made = released.arrays["second_moment"] * 5 * 16
    shortened = clipped(ROWS, 0.25)
    values, vectors = np.linalg.eigh(
        shortened.T @ shortened * 16 + np.diag([-50, 50]) * calibration.together.scale
    )
    if bound is None:
        noise = calibration.trace.scale * math.sqrt(2 * math.log(8 / 0.05))
        bound = min((np.sum(ROWS**2) + noise) * 16, 5.0)
    if rule == "monotone":
        assert values[0] < 0 < bound < values[1] or bound == 0
        values = np.array([0.0, bound])
    elif rule == "clip":
        values = np.clip(values, 0.0, bound)
    np.testing.assert_allclose(made, (vectors * values) @ vectors.T, atol=1e-3)
