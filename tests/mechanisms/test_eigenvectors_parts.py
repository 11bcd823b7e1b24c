import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise
from dpcov.mechanisms.eigenvectors import Eigenvectors, adaptive_shares, direction_exponent
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.mechanisms.chosen import choose, drawn, problem

ENTROPY = SeededEntropy(0)
ROWS = np.array([[1.0, 0.0, 0.0], [0.0, 0.75, 0.0], [0.5, 0.5, 0.25], [0.0, 0.25, 0.5]])
SSCP = ROWS.T @ ROWS
VALUES = np.linalg.eigvalsh(SSCP)[::-1]
QUARTER = {"eigenvalues": Fraction(1, 4), "quotients": Fraction(1, 4), "directions": Fraction(1, 2)}
VALUES_ONLY = {"eigenvalues": Fraction(1, 2), "quotients": None, "directions": Fraction(1, 2)}
QUOTIENTS_ONLY = {"eigenvalues": None, "quotients": Fraction(1, 2), "directions": Fraction(1, 2)}


def of(kind, amount):
    return kind(epsilon=amount) if kind is PureDP else kind(rho=amount)


@pytest.mark.parametrize(
    ("options", "d", "shares"),
    [
        ({}, 3, VALUES_ONLY),
        ({"values": "quotients"}, 3, QUARTER),
        ({"values": "quotients", "rank": 1}, 2, QUARTER),
        ({"values": "quotients", "allocation": "uniform"}, 3, QUOTIENTS_ONLY),
        (
            {"value_share": 0.25},
            2,
            {"eigenvalues": Fraction(1, 4), "quotients": None, "directions": Fraction(3, 4)},
        ),
        (
            {"value_share": 0.25},
            1,
            {"eigenvalues": Fraction(1), "quotients": None, "directions": None},
        ),
        (
            {"values": "quotients"},
            1,
            {"eigenvalues": None, "quotients": Fraction(1), "directions": None},
        ),
    ],
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_the_budget_is_split_as_stated(options, d, shares, neighbors):
    for budget, kind in ((Budget(epsilon="0.8"), PureDP), (Budget(rho="0.8"), ZCDP)):
        made = Eigenvectors(**options).calibrate(problem(d, neighbors), budget)
        rest = Fraction(4, 5) * (1 if neighbors == "replace-one" else Fraction(19, 20))
        for name, share in shares.items():
            expected = None if share is None else of(kind, rest * share)
            assert getattr(made, name) == expected
        assert made.row_count == (
            None if neighbors == "replace-one" else of(kind, Fraction(4, 100))
        )
        assert made.promise == budget.promise


def chosen_parts(monkeypatch, noise=0.0):
    """Directions are unit vectors in order; noise on values is so many scales everywhere."""
    sampler = choose(
        monkeypatch,
        "dpcov.mechanisms.eigenvectors.sample_eigenvectors",
        lambda sscp, exponents, rank: np.eye(len(sscp))[:, ::-1][:, :rank],
    )
    asked = []

    def draw(self, size, entropy):
        asked.append((self, size))
        return np.full(size, noise * self.scale)

    monkeypatch.setattr(AdditiveNoise, "draw", draw)
    return sampler, asked


@pytest.mark.parametrize("rank", [None, 1, 2, 3])
def test_values_are_put_on_directions_the_largest_first(monkeypatch, rank):
    sampler, asked = chosen_parts(monkeypatch, noise=0.5)
    (made,) = drawn(Eigenvectors(rank=rank, allocation="uniform"), ROWS, Budget(epsilon=4))
    # Half of epsilon = 4 for the values, whose sensitivity is 2; noise half its scale.
    expected = np.zeros(3)
    expected[: rank or 3] = (VALUES[: rank or 3] + 0.5) / 4
    np.testing.assert_allclose(made.arrays["second_moment"], np.diag(expected[::-1]), rtol=1e-9)
    ((noise, size),) = asked
    assert (noise.law, size) == ("laplace", rank or 3)
    ((sscp, exponents, asked_rank),) = sampler.asked
    np.testing.assert_allclose(sscp, SSCP, rtol=1e-9)
    n_drawn = min(rank or 3, 2)
    assert exponents == pytest.approx([2 / n_drawn / 2] * n_drawn)
    assert asked_rank == (rank or 3)
    assert (made.post, made.radius) == ("clip", 1.0)


@pytest.mark.parametrize(
    ("budget", "law"), [(Budget(epsilon=4), "laplace"), (Budget(rho=2), "gaussian")]
)
@pytest.mark.parametrize("rank", [2, 3])
def test_adaptive_exponents_follow_noisy_values_and_their_margin(monkeypatch, budget, law, rank):
    sampler, _ = chosen_parts(monkeypatch, noise=-0.5)
    drawn(Eigenvectors(rank=rank, failure_probability=0.1), ROWS, budget)
    log = math.log(2 * rank / 0.1)
    if law == "laplace":
        scale, margin, power = 1.0, log, 0.5
        exponents = [2.0 / 2]
    else:
        scale, margin, power = 1.0, math.sqrt(2 * log), 2 / 3
        exponents = [math.sqrt(8 * 1.0) / 2]
    weights = (VALUES[:2] - 0.5 * scale + margin) ** power
    shares = weights / weights.sum()
    expected = exponents[0] * (shares if law == "laplace" else np.sqrt(shares))
    assert sampler.asked[0][1] == pytest.approx(expected, rel=1e-9)


def test_without_a_first_look_at_the_values_shares_are_even_and_quotients_follow(monkeypatch):
    sampler, asked = chosen_parts(monkeypatch, noise=1.0)
    mechanism = Eigenvectors(values="quotients", allocation="uniform", value_share=0.25)
    (made,) = drawn(mechanism, ROWS, Budget(epsilon=4))
    # A quarter of epsilon for the quotients: scale 2.
    np.testing.assert_allclose(
        made.arrays["second_moment"], np.diag(np.diag(SSCP) + 2.0) / 4, rtol=1e-9
    )
    assert [size for _, size in asked] == [3]
    assert sampler.asked[0][1] == pytest.approx([3 / 2 / 2] * 2)


def test_quotients_after_a_first_look_at_the_values(monkeypatch):
    sampler, asked = chosen_parts(monkeypatch, noise=0.0)
    (made,) = drawn(Eigenvectors(values="quotients", rank=2), ROWS, Budget(epsilon=8))
    # Two quarters of epsilon = 8, each of scale 1: for the margin, and for the quotients.
    assert [(noise.scale, size) for noise, size in asked] == [(pytest.approx(1.0), 2)] * 2
    weights = np.sqrt(VALUES[:2] + math.log(2 * 2 / 0.05))
    assert sampler.asked[0][1] == pytest.approx(4 / 2 * weights / weights.sum())
    expected = np.diag([0.0, SSCP[1, 1], SSCP[2, 2]]) / 4
    np.testing.assert_allclose(made.arrays["second_moment"], expected, rtol=1e-9)


def test_one_column_has_no_direction_to_draw(monkeypatch):
    sampler, _ = chosen_parts(monkeypatch)
    for allocation in ("adaptive", "uniform"):
        mechanism, rows = Eigenvectors(allocation=allocation), np.array([[1.0], [0.5]])
        (made,) = drawn(mechanism, rows, Budget(epsilon=1))
        assert made.arrays["second_moment"] == pytest.approx(np.array([[1.25 / 2]]))
    assert [asked[1] for asked in sampler.asked] == [[], []]


def test_a_clip_norm_scales_the_result(monkeypatch):
    chosen_parts(monkeypatch)
    mechanism = Eigenvectors(clip=0.5, values="quotients", allocation="uniform")
    (made,) = drawn(mechanism, np.array([[1.0], [0.25]]), Budget(epsilon=1))
    expected = np.array([[(0.25 + 0.0625) / 2]])
    assert made.arrays["second_moment"] == pytest.approx(expected, rel=1e-5)
    assert made.radius == 0.5


@pytest.mark.parametrize(
    ("cost", "power"), [(PureDP(epsilon=Fraction(1)), 1 / 2), (ZCDP(rho=Fraction(1)), 2 / 3)]
)
def test_shares_are_powers_of_falling_values_and_never_nothing(cost, power):
    shares = adaptive_shares(np.array([7.0, 1.0, 3.0, -900.0]), 2.0, cost)
    # The nearest falling sequence is 7, 2, 2, -900; the last has a thousandth of the margin.
    weights = np.array([9.0, 4.0, 4.0, 0.002]) ** power
    assert [float(share) for share in shares] == pytest.approx(weights / weights.sum(), rel=1e-9)
    assert sum(shares) == 1


def test_exponents_of_the_theorem_and_of_the_paper():
    pure, concentrated = PureDP(epsilon=Fraction(3)), ZCDP(rho=Fraction(3))
    for k in (1, 5):
        public, private = problem(2, k=k), problem(2, "add-remove-one", k)
        for cost, exponent, numbers in (
            (pure, "tight", (1.5, 3)),
            (concentrated, "tight", (math.sqrt(24) / 2, math.sqrt(24))),
            (pure, "paper", (0.75, 0.75)),
            (concentrated, "paper", (math.sqrt(6) / 4, math.sqrt(6) / 4)),
        ):
            found = [direction_exponent(cost, each, exponent) for each in (public, private)]
            assert found == pytest.approx([number / k for number in numbers], rel=1e-12)
