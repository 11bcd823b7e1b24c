import math

import numpy as np
import pytest
from scipy.stats import beta as beta_law

from dpcov.audit import attaining, half_noise
from dpcov.mechanisms.kapralov_talwar import KapralovTalwar
from dpcov.privacy.budget import Budget
from tests.audit.bounds import refutes
from tests.mechanisms.chosen import audited_sscps, direction_shares, problem, range_bound, sscps
from tests.statistical.goodness import GoodnessError, assert_same_law

ROWS = np.repeat(np.array([[1.0, 0.0], [0.6, 0.6]]), [4, 3], axis=0)


def naive(rows, exponent, scale, generator):
    # On the circle a direction is an angle, drawn here from the tabulated density.
    residue, found = rows.T @ rows, np.zeros((2, 2))
    angles = np.linspace(0, np.pi, 20_000, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for _ in range(2):
        scores = exponent * np.einsum("ni,ij,nj->n", circle, residue, circle)
        cumulative = np.cumsum(np.exp(scores - scores.max()))
        u = circle[np.searchsorted(cumulative, generator.uniform() * cumulative[-1])]
        value = u @ residue @ u + generator.laplace(scale=scale)
        residue = residue - value * np.outer(u, u)
        found = found + value * np.outer(u, u)
    return found


def assert_same_matrices(first, second):
    for i, j in ((0, 0), (1, 1), (0, 1)):
        assert_same_law(first[:, i, j], second[:, i, j])


@pytest.mark.parametrize(
    ("mechanism", "relation", "exponent", "scale"),
    # epsilon = 8, two rounds, halves: 2 for every direction and value, add-remove-one 5 % less.
    [
        (KapralovTalwar(), "replace-one", 2 / 2, 1 / 2),
        (KapralovTalwar(exponent="paper"), "replace-one", 2 / 4, 1 / 2),
        (KapralovTalwar(), "add-remove-one", 1.9, 1 / 1.9),
    ],
)
def test_law_against_naive_transcription(mechanism, relation, exponent, scale):
    generator = np.random.default_rng(0)
    slow = np.array([naive(ROWS, exponent, scale, generator) for _ in range(400)])
    assert_same_matrices(sscps(mechanism, ROWS, Budget(epsilon=8), 400, neighbors=relation), slow)


def test_law_is_tested_with_power():
    generator = np.random.default_rng(0)
    blunt = np.array([naive(ROWS, 0.25, 0.5, generator) for _ in range(400)])
    with pytest.raises(GoodnessError):
        assert_same_matrices(sscps(KapralovTalwar(), ROWS, Budget(epsilon=8), 400), blunt)


def test_everything_is_found_when_there_is_little_noise(monkeypatch):
    monkeypatch.setattr("dpcov.mechanisms.kapralov_talwar.direction_exponent", lambda *_: 1e8)
    rows = np.repeat(np.diag([1.0, 0.75, 0.5]), 10_000, axis=0)
    found = sscps(KapralovTalwar(), rows, Budget(epsilon=30), 1)[0]
    assert found == pytest.approx(rows.T @ rows, abs=20)


def theorem_bound(eigenvalues, exponent, scale, beta):
    # kapralov_talwar.md, Theorem 2, with Lemma 4 of eigenvectors.md on a grid of eta.
    d, top, eta = len(eigenvalues), eigenvalues[0], np.geomspace(1e-8, 1.0, 400)
    mass = beta_law.sf(1 - eta, 0.5, (d - 1) / 2)
    loss = np.min(top * eta + (math.log(2 / beta) - np.log(mass)) / exponent)
    noise = d * (scale * math.log(2 * d / beta)) ** 2
    return math.sqrt(np.sum(eigenvalues**2) - max(0.0, top - loss) ** 2 + noise)


def test_theorem_bounds_the_error(monkeypatch):
    # epsilon = 12: 2 for every direction and value.  13 excesses in 40 have probability below 1e-6.
    rows = np.repeat(np.eye(3), [3000, 300, 30], axis=0)
    sscp, budget = rows.T @ rows, Budget(epsilon=12)
    bound = theorem_bound(np.diag(sscp), 1.0, 0.5, 0.05)
    errors = np.linalg.norm(sscps(KapralovTalwar(), rows, budget, 40) - sscp, axis=(1, 2))
    assert np.sum(errors > bound) <= 12
    # The bound would notice directions that ignore the data.
    monkeypatch.setattr("dpcov.mechanisms.kapralov_talwar.direction_exponent", lambda *_: 1e-9)
    blind = np.linalg.norm(sscps(KapralovTalwar(), rows, budget, 40) - sscp, axis=(1, 2))
    assert np.sum(blind > bound) > 12


def test_audit_of_the_direction():
    # The pair attains the interval, whose length is the direction's part of epsilon.
    mechanism, budget = KapralovTalwar(rank=1, value_share=0.1), Budget(epsilon=3)
    part = float(mechanism.calibrate(problem(2), budget).direction.epsilon)
    claimed, planted = (
        range_bound(direction_shares(mechanism, each, attaining("replace-one"), 1_500))
        for each in (budget, half_noise(budget))
    )
    assert 0.3 * part < claimed <= part < planted


def test_audit_of_the_value():
    # One feature: no direction to hide behind; the value is almost the whole budget.
    mechanism, pair = KapralovTalwar(value_share=0.999), attaining("add-remove-one", n_features=1)

    def scores(budget):
        return [each[:, 0, 0] for each in audited_sscps(mechanism, budget, pair, 1_500)]

    budget = Budget(epsilon=2)
    assert not refutes(budget.promise, *scores(budget))
    assert refutes(budget.promise, *scores(half_noise(budget)))
