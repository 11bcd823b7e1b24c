import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, eigenvalues
from dpcov.mechanisms.eigenvectors import Eigenvectors, adaptive_shares, direction_exponent
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.mechanisms.chosen import choose, drawn, problem

RELATIONS = ("replace-one", "add-remove-one")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_adaptive_shares_are_positive_and_sum_to_one(values, margin):
    for cost in (PureDP(epsilon=Fraction(1)), ZCDP(rho=Fraction(1, 9))):
        shares = adaptive_shares(np.array(values), margin, cost)
        assert sum(shares) == 1
        assert min(shares) > 0


@pytest.mark.parametrize("relation", RELATIONS)
@given(numerator=st.integers(1, 10**9), rows_per_person=st.integers(1, 9))
@settings(max_examples=50)
def test_exponents_are_rounded_to_the_safe_side(relation, numerator, rows_per_person):
    asked = problem(2, relation, rows_per_person)
    interval = rows_per_person * (2 if relation == "replace-one" else 1)
    amount = Fraction(numerator, 10**7)
    pure, concentrated = PureDP(epsilon=amount), ZCDP(rho=amount)
    tight = Fraction(direction_exponent(pure, asked, "tight")) * interval
    assert (1 - Fraction(1, 10**15)) * amount < tight <= amount
    eta = Fraction(direction_exponent(concentrated, asked, "tight")) * interval
    assert (1 - Fraction(1, 10**15)) * amount < eta**2 / 8 <= amount
    paper = Fraction(direction_exponent(pure, asked, "paper")) * 4 * rows_per_person
    assert (1 - Fraction(1, 10**15)) * amount < paper <= amount
    paper = Fraction(direction_exponent(concentrated, asked, "paper")) * 4 * rows_per_person
    assert (1 - Fraction(1, 10**15)) * amount < paper**2 / 2 <= amount


def unit_rows(count, dimension):
    finite = st.lists(st.floats(-1, 1), min_size=dimension, max_size=dimension)
    return st.lists(finite, min_size=count, max_size=count).map(
        lambda rows: np.array([np.array(r) / max(1.0, np.linalg.norm(r)) for r in rows])
    )


@given(unit_rows(4, 3), unit_rows(2, 3), unit_rows(2, 3))
@example(np.diag([1.0, 0, 0, 0])[:, :3], np.eye(3)[[0, 0]], np.eye(3)[[1, 1]])
def test_sensitivities(common, before, after):
    # Two rows of one person; the example attains the score's interval (2k) and nothing more.
    for relation, changed in (("replace-one", after), ("add-remove-one", np.zeros((2, 3)))):
        first, second = (common.T @ common + rows.T @ rows for rows in (before, changed))
        sensitivity = eigenvalues(problem(3, relation, 2))
        l1, squared = float(sensitivity.l1), float(sensitivity.l2_squared)
        change = np.linalg.eigvalsh(first) - np.linalg.eigvalsh(second)
        assert np.abs(change).sum() <= l1 + 1e-12
        assert np.square(change).sum() <= squared + 1e-12
        spectrum = np.linalg.eigvalsh(first - second)
        assert max(spectrum[-1], 0.0) - min(spectrum[0], 0.0) <= l1 + 1e-12
        assert np.abs(spectrum).max() <= 2 + 1e-12


ENTROPY = SeededEntropy(0)
ROWS = np.array([[1.0, 0.0, 0.0], [0.0, 0.75, 0.0], [0.5, 0.5, 0.25], [0.0, 0.25, 0.5]])
SSCP = ROWS.T @ ROWS
VALUES = np.linalg.eigvalsh(SSCP)[::-1]


def of(kind, amount):
    return kind(epsilon=amount) if kind is PureDP else kind(rho=amount)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_values_and_directions_share_what_the_row_count_leaves(d, neighbors):
    for budget, kind in (
        (Budget(epsilon="0.8"), PureDP),
        (Budget(rho="0.8"), ZCDP),
        (Budget(epsilon=1, delta="1e-6"), ZCDP),
    ):
        asked, total = problem(d, neighbors, 3), budget.epsilon or budget.rho
        total = budget.zcdp_rho() if budget.delta else total
        made = Eigenvectors().calibrate(asked, budget)
        rest = total * (1 if neighbors == "replace-one" else Fraction(19, 20))
        values = rest / 2 if d > 1 else rest
        assert made.directions == (of(kind, rest / 2) if d > 1 else None)
        assert made.eigenvalues == additive_noise(of(kind, values), eigenvalues(asked))
        assert made.row_count == (None if rest == total else of(kind, total / 20))
        assert made.promise == budget.promise


def chosen_parts(monkeypatch, noise=0.0):
    """Directions are unit vectors in order; noise on values is so many scales everywhere."""
    sampler = choose(
        monkeypatch,
        "dpcov.mechanisms.eigenvectors.sample_eigenvectors",
        lambda sscp, exponents: np.eye(len(sscp))[:, ::-1],
    )
    asked = []

    def draw(self, size, entropy):
        asked.append((self, size))
        return np.full(size, noise * self.scale)

    monkeypatch.setattr(AdditiveNoise, "draw", draw)
    return sampler, asked


def test_values_are_put_on_directions_the_largest_first(monkeypatch):
    sampler, asked = chosen_parts(monkeypatch, noise=0.5)
    (made,) = drawn(Eigenvectors(allocation="uniform"), ROWS, Budget(epsilon=4))
    # Half of epsilon = 4 for the values, whose sensitivity is 2; noise half its scale.
    expected = (VALUES + 0.5) / 4
    np.testing.assert_allclose(made.arrays["second_moment"], np.diag(expected[::-1]), rtol=1e-9)
    ((noise, size),) = asked
    assert (noise.law, size) == ("laplace", 3)
    ((sscp, exponents),) = sampler.asked
    np.testing.assert_allclose(sscp, SSCP, rtol=1e-9)
    assert exponents == pytest.approx([2 / 2 / 2] * 2)
    assert (made.post, made.radius) == ("clip", 1.0)


@pytest.mark.parametrize(
    ("budget", "law"), [(Budget(epsilon=4), "laplace"), (Budget(rho=2), "gaussian")]
)
def test_adaptive_exponents_follow_noisy_values_and_their_margin(monkeypatch, budget, law):
    sampler, _ = chosen_parts(monkeypatch, noise=-0.5)
    drawn(Eigenvectors(), ROWS, budget)
    log = math.log(2 * 3 / 0.05)
    # The scale of the noise on values is 1 under either law.
    margin, power = (log, 1 / 2) if law == "laplace" else (math.sqrt(2 * log), 2 / 3)
    weights = (VALUES[:2] - 0.5 + margin) ** power
    shares = weights / weights.sum()
    expected = shares if law == "laplace" else math.sqrt(8) / 2 * np.sqrt(shares)
    assert sampler.asked[0][1] == pytest.approx(expected, rel=1e-9)


def test_one_column_has_no_direction_to_draw(monkeypatch):
    sampler, _ = chosen_parts(monkeypatch)
    for allocation in ("adaptive", "uniform"):
        mechanism, rows = Eigenvectors(allocation=allocation), np.array([[1.0], [0.5]])
        (made,) = drawn(mechanism, rows, Budget(epsilon=1))
        assert made.arrays["second_moment"] == pytest.approx(np.array([[1.25 / 2]]))
    assert [asked[1] for asked in sampler.asked] == [[], []]


@pytest.mark.parametrize(
    ("cost", "power"), [(PureDP(epsilon=Fraction(1)), 1 / 2), (ZCDP(rho=Fraction(1)), 2 / 3)]
)
def test_shares_are_powers_of_falling_values_and_never_nothing(cost, power):
    shares = adaptive_shares(np.array([7.0, 1.0, 3.0, -900.0]), 2.0, cost)
    # The nearest falling sequence is 7, 2, 2, -900; the last has a thousandth of the margin.
    weights = np.array([9.0, 4.0, 4.0, 0.002]) ** power
    assert [float(share) for share in shares] == pytest.approx(weights / weights.sum(), rel=1e-9)
    assert sum(shares) == 1
