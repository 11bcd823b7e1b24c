import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law

from dpcov.audit import attaining, half_noise
from dpcov.mechanisms.blocks.sensitivity import eigenvalues as value_sensitivity
from dpcov.mechanisms.eigenvectors import Eigenvectors, adaptive_shares, direction_exponent
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.audit.bounds import refutes
from tests.mechanisms.chosen import audited_sscps, direction_shares, problem, range_bound, sscps
from tests.statistical.goodness import GoodnessError, assert_same_law

ROWS = np.repeat(np.diag([1.0, 0.8, 0.5])[[0, 1, 2, 2]], [6, 5, 3, 3], axis=0)
RELATIONS = ("replace-one", "add-remove-one")
BUDGETS = (Budget(epsilon=4), Budget(rho="0.5"))


def uniform_direction(generator, matrix, exponent):
    # Rejection from the uniform law: slow, and independent of the envelope that the package uses.
    top = np.linalg.eigvalsh(matrix)[-1]
    while True:
        u = generator.standard_normal(len(matrix))
        u /= np.linalg.norm(u)
        if generator.uniform() < math.exp(exponent * (u @ matrix @ u - top)):
            return u


def falling(values):
    # The minimax formula of isotonic regression.
    spans = range(len(values))
    return np.array(
        [
            min(max(values[a : b + 1].mean() for b in spans[i:]) for a in spans[: i + 1])
            for i in spans
        ]
    )


def naive(mechanism, rows, budget, relation, generator, sharper=1.0):
    # Amin et al., Algorithm 1, with the proven constants written out again.
    sscp, d = rows.T @ rows, rows.shape[1]
    pure, replace = budget.rho is None, relation == "replace-one"
    total = float(budget.epsilon if pure else budget.rho) * (1.0 if replace else 0.95)
    values_part, directions_part = total / 2, total / 2
    if pure:
        scale = (2 if replace else 1) / values_part
        noise, tau = generator.laplace(scale=scale, size=d), scale * math.log(2 * d / 0.05)
    else:
        scale = math.sqrt((2 if replace else 1) / (2 * values_part))
        noise, tau = (
            generator.normal(scale=scale, size=d),
            scale * math.sqrt(2 * math.log(2 * d / 0.05)),
        )
    values = np.linalg.eigvalsh(sscp)[::-1] + noise
    weights = np.ones(d - 1)
    if mechanism.allocation == "adaptive":
        weights = np.maximum(falling(values[:-1]) + tau, 1e-3 * tau) ** (1 / 2 if pure else 2 / 3)
    parts = directions_part * weights / weights.sum()
    if mechanism.exponent == "paper":
        exponents = (parts if pure else np.sqrt(2 * parts)) / 4
    else:
        exponents = (parts if pure else np.sqrt(8 * parts)) / (2 if replace else 1)
    found = np.empty((d, 0))
    for exponent in exponents:
        basis = np.linalg.qr(found, mode="complete")[0][:, found.shape[1] :]
        u = uniform_direction(generator, basis.T @ sscp @ basis, sharper * exponent)
        found = np.column_stack([found, basis @ u])
    found = np.column_stack([found, np.linalg.qr(found, mode="complete")[0][:, -1]])
    if mechanism.values == "quotients":
        values = np.diag(found.T @ sscp @ found) + noise
    return (found * values) @ found.T


def assert_same_matrices(first, second):
    # Entries of the matrix and of its square; each pair of samples at ALPHA.
    for a, b in ((first, second), (first @ first, second @ second)):
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1)):
            assert_same_law(a[:, i, j], b[:, i, j])


CASES = [
    (Eigenvectors(allocation="uniform", exponent="paper"), BUDGETS[0], "replace-one"),
    (Eigenvectors(exponent="paper"), BUDGETS[0], "replace-one"),
    (Eigenvectors(), BUDGETS[0], "replace-one"),
    (Eigenvectors(), BUDGETS[0], "add-remove-one"),
    (Eigenvectors(), BUDGETS[1], "replace-one"),
    (Eigenvectors(values="quotients", allocation="uniform"), BUDGETS[1], "add-remove-one"),
]


@pytest.mark.parametrize(("mechanism", "budget", "relation"), CASES)
def test_law_against_naive_transcription(mechanism, budget, relation):
    generator = np.random.default_rng(0)
    slow = np.array([naive(mechanism, ROWS, budget, relation, generator) for _ in range(800)])
    assert_same_matrices(sscps(mechanism, ROWS, budget, 800, neighbors=relation), slow)


def test_law_is_tested_with_power():
    generator, mechanism = np.random.default_rng(0), Eigenvectors()
    slow = np.array(
        [naive(mechanism, ROWS, BUDGETS[0], "replace-one", generator, 2.0) for _ in range(800)]
    )
    with pytest.raises(GoodnessError):
        assert_same_matrices(sscps(mechanism, ROWS, BUDGETS[0], 800), slow)


@given(
    st.sampled_from(["adaptive", "uniform"]),
    st.sampled_from(["eigenvalues", "quotients"]),
    st.floats(1e-6, 0.999),
    st.integers(1, 5),
    st.data(),
)
def test_the_parts_of_the_budget_compose_to_it(allocation, values, value_share, n_features, data):
    rank = data.draw(st.none() | st.integers(1, n_features))
    mechanism = Eigenvectors(
        allocation=allocation, values=values, value_share=value_share, rank=rank
    )
    for relation, budget in itertools.product(RELATIONS, BUDGETS):
        calibration = mechanism.calibrate(problem(n_features, relation), budget)
        names = ("eigenvalues", "quotients", "directions", "row_count")
        parts = [part for name in names if (part := getattr(calibration, name)) is not None]
        numbers = [p.epsilon if isinstance(p, PureDP) else p.rho for p in parts]
        assert sum(numbers) == (budget.epsilon or budget.rho)
        assert min(numbers) > 0


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
    assert Fraction(direction_exponent(pure, asked, "paper")) * 4 * rows_per_person <= amount
    paper = Fraction(direction_exponent(concentrated, asked, "paper")) * 4 * rows_per_person
    assert paper**2 / 2 <= amount


def unit_rows(count, dimension):
    finite = st.lists(st.floats(-1, 1), min_size=dimension, max_size=dimension)
    return st.lists(finite, min_size=count, max_size=count).map(
        lambda rows: np.array([np.array(r) / max(1.0, np.linalg.norm(r)) for r in rows])
    )


@given(unit_rows(4, 3), unit_rows(2, 3), unit_rows(2, 3), st.integers(0, 99))
@example(np.diag([1.0, 0, 0, 0])[:, :3], np.eye(3)[[0, 0]], np.eye(3)[[1, 1]], 0)
def test_sensitivities(common, before, after, seed):
    # Two rows of one person; the example attains the score's interval (2k) and nothing more.
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    for relation, changed in (("replace-one", after), ("add-remove-one", np.zeros((2, 3)))):
        first, second = (common.T @ common + rows.T @ rows for rows in (before, changed))
        sensitivity = value_sensitivity(problem(3, relation, 2))
        l1, squared = float(sensitivity.l1), float(sensitivity.l2_squared)
        for change in (
            np.linalg.eigvalsh(first) - np.linalg.eigvalsh(second),
            np.diag(basis.T @ (first - second) @ basis),
        ):
            assert np.abs(change).sum() <= l1 + 1e-12
            assert np.square(change).sum() <= squared + 1e-12
        spectrum = np.linalg.eigvalsh(first - second)
        assert max(spectrum[-1], 0.0) - min(spectrum[0], 0.0) <= l1 + 1e-12
        assert np.abs(spectrum).max() <= 2 + 1e-12


def direction_loss(exponent, dimension, top, beta):
    # eigenvectors.md, Lemma 4, minimized over a grid of eta.
    eta = np.geomspace(1e-8, 1.0, 400)
    mass = beta_law.sf(1 - eta, 0.5, (dimension - 1) / 2)
    return float(np.min(top * eta + (math.log(1 / beta) - np.log(mass)) / exponent))


def theorem_bound(eigenvalues, exponents, scale, beta):
    d, top = len(eigenvalues), eigenvalues[0]
    losses = [direction_loss(k, d - i, top, beta / (2 * d)) for i, k in enumerate(exponents)]
    tau = scale * math.log(2 * d / beta)
    return math.sqrt(
        2 * sum(v * loss for v, loss in zip(eigenvalues, losses, strict=False))
    ) + tau * math.sqrt(d)


def test_theorem_bounds_the_error(monkeypatch):
    # With probability 0.95 each; more than 12 excesses in 40 have probability below 1e-6.
    rows = np.repeat(np.eye(4), [4000, 1000, 200, 50], axis=0)
    sscp, mechanism = rows.T @ rows, Eigenvectors(allocation="uniform")
    bound = theorem_bound(np.diag(sscp), [2 / 3 / 2] * 3, 2 / 2, 0.05)
    errors = np.linalg.norm(sscps(mechanism, rows, Budget(epsilon=4), 40) - sscp, axis=(1, 2))
    assert np.sum(errors > bound) <= 12
    # The bound would notice directions that ignore the data.
    monkeypatch.setattr(Eigenvectors, "_exponents", lambda *_: [1e-9] * 3)
    blind = np.linalg.norm(sscps(mechanism, rows, Budget(epsilon=4), 40) - sscp, axis=(1, 2))
    assert np.sum(blind > bound) > 12


@pytest.mark.parametrize(
    ("relation", "kind"), [("replace-one", "zcdp"), ("add-remove-one", "pure")]
)
def test_audit_of_the_directions(relation, kind):
    # The pair attains the interval; epsilon (eta) and rho (eta**2 / 8) pay for its length eta.
    mechanism = Eigenvectors(rank=1, allocation="uniform", value_share=0.1)
    budget = Budget(epsilon=3) if kind == "pure" else Budget(rho="1.25")
    part = mechanism.calibrate(problem(2, relation, n_rows=4), budget).directions
    eta = float(part.epsilon) if kind == "pure" else math.sqrt(8 * part.rho)
    claimed, planted = (
        range_bound(direction_shares(mechanism, each, attaining(relation), 2_000))
        for each in (budget, half_noise(budget))
    )
    assert 0.3 * eta < claimed <= eta < planted


def value_scores(budget, draws):
    # With one feature the values take all of the budget but the row count's twentieth.
    pair = attaining("add-remove-one", n_features=1)
    return [each[:, 0, 0] for each in audited_sscps(Eigenvectors(), budget, pair, draws)]


@pytest.mark.parametrize("budget", [Budget(epsilon=2), Budget(rho="0.5")])
def test_audit_of_the_values(budget):
    assert not refutes(budget.promise, *value_scores(budget, 1_500))
    assert refutes(budget.promise, *value_scores(half_noise(budget), 1_500))


def test_one_feature_needs_no_direction():
    rows = np.ones((5, 1))
    for values in ("eigenvalues", "quotients"):
        drawn = sscps(Eigenvectors(values=values), rows, Budget(epsilon=1), 400)[:, 0, 0]
        # The whole budget buys Laplace noise of scale 2.
        assert np.mean(np.abs(drawn - 5)) == pytest.approx(2, abs=6.2 * 2 / math.sqrt(400))


@pytest.mark.parametrize("values", ["eigenvalues", "quotients"])
def test_epsilon_and_delta_are_spent_as_the_zcdp_inside_them(values):
    budget = Budget(epsilon=1, delta="1e-6")
    made = Eigenvectors(values=values).calibrate(problem(3, "add-remove-one"), budget)
    parts = [made.eigenvalues, made.quotients, made.directions, made.row_count]
    assert sum(part.rho for part in parts if part is not None) == budget.zcdp_rho()
    assert made.promise == budget.promise
