import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpcov.audit import Neighboring, attaining, half_noise, lower_bound_of_event, released
from dpcov.data.moments import Moments
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.nuclear_projection import NuclearProjection
from dpcov.noise.continuous import exponentials
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import nuclear_noise, symmetric_nuclear_noise
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP

ROWS = np.repeat(np.array([[1.0, 0.0, 0.0], [0.75, 0.5, 0.25]]), [4, 3], axis=0)


def problem_of(rows, relation="replace-one", rows_per_person=1):
    n_rows = len(rows) if relation == "replace-one" else None
    return Problem(
        n_features=rows.shape[1], neighbors=relation, n_rows=n_rows, rows_per_person=rows_per_person
    )


def sscp_release(mechanism, rows, budget, seed, relation="replace-one", rows_per_person=1):
    problem, moments = problem_of(rows, relation, rows_per_person), Moments(rows.shape[1])
    moments.add(rows)
    calibration = mechanism.calibrate(problem, budget)
    arrays = mechanism.draw(Ask.saved(moments), calibration, problem, SeededEntropy(seed)).arrays
    count = max(1, int(arrays["row_count"][0])) if "row_count" in arrays else len(rows)
    return arrays["second_moment"] * count


def naive_projection(matrix, radius):
    # Soft thresholding of the singular values, the threshold found by a root finder.
    left, singular, right = np.linalg.svd(matrix)
    if singular.sum() > radius:
        excess = brentq(lambda t: np.maximum(singular - t, 0).sum() - radius, 0, singular[0])
        singular = np.maximum(singular - excess, 0)
    return (left * singular) @ right


def naive(rows, shares, shape, seed, relation):
    # d'Orsi and Novikov, Algorithm 2, with the same random numbers.
    entropy, sscp = SeededEntropy(seed), rows.T @ rows
    sensitivity = 2 if relation == "replace-one" else 1
    scale = sensitivity / shares[0]
    if shape == "square":
        noise = nuclear_noise(len(sscp), scale, entropy)
        noise = (noise + noise.T) / 2
    else:
        noise = symmetric_nuclear_noise(len(sscp), scale, entropy, shape)
    laplace = (exponentials(1, entropy) - exponentials(1, entropy))[0] / shares[1]
    return naive_projection(sscp + noise, max(0.0, 2 * (np.trace(sscp) + laplace)))


@pytest.mark.parametrize("shape", ["square", "nuclear", "wishart"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize(("split", "shares"), [("full", (5 / 7, 2 / 7)), ("paper", (1 / 2, 1 / 5))])
def test_naive_transcription(shape, relation, split, shares):
    mechanism = NuclearProjection(noise=shape, budget_split=split)
    kept = 1.0 if relation == "replace-one" else 0.95
    for seed in range(6):
        ours = sscp_release(mechanism, ROWS, Budget(epsilon="0.5"), seed, relation)
        expected = naive(ROWS, [0.5 * kept * share for share in shares], shape, seed, relation)
        assert ours == pytest.approx(expected, abs=1e-7 * (1 + np.abs(expected).max()))


def test_all_of_epsilon_is_spent_and_the_papers_split_says_what_it_spends():
    budget = Budget(epsilon="0.9")
    for relation in ("replace-one", "add-remove-one"):
        for split in ("full", "paper"):
            calibration = NuclearProjection(budget_split=split).calibrate(
                problem_of(ROWS, relation), budget
            )
            parts = [calibration.matrix, calibration.trace, calibration.row_count]
            total = sum(part.epsilon for part in parts if part is not None)
            assert calibration.promise == PureDP(epsilon=total)
            assert total == budget.epsilon if split == "full" else total < budget.epsilon
    calibration = NuclearProjection(budget_split="paper").calibrate(problem_of(ROWS), budget)
    assert calibration.promise.epsilon == budget.epsilon * 7 / 10


def theorem_bound(dimension, trace, epsilon, beta):
    # nuclear_projection.md, Theorem 3: Wishart noise, sensitivities of replace-one.
    scale, root = 2 / (5 / 7 * epsilon), math.sqrt(2 * math.log(4 / beta))
    spectral = scale / 2 * (math.sqrt(dimension + 1) + math.sqrt(dimension) + root) ** 2
    slack = 7 / (2 * epsilon) * math.log(1 / beta)
    return max(math.sqrt(spectral * (3 * trace + 2 * slack)), 4 * slack)


@pytest.mark.parametrize("epsilon", ["0.05", "1"])
def test_theorem_bounds_the_error(epsilon):
    # 20 draws, each within the bound with probability 0.9; more than 15 excesses have probability below 1e-9.
    rows = np.repeat(np.eye(40), 5, axis=0)
    sscp, bound = rows.T @ rows, theorem_bound(40, 200.0, float(epsilon), 0.05)
    mechanism = NuclearProjection()
    errors = [
        np.linalg.norm(sscp_release(mechanism, rows, Budget(epsilon=epsilon), s) - sscp)
        for s in range(20)
    ]
    assert np.sum(np.array(errors) > bound) <= 15


def test_the_theorem_needs_the_projection(monkeypatch):
    monkeypatch.setattr(
        "dpcov.mechanisms.nuclear_projection.project_nuclear_ball", lambda matrix, radius: matrix
    )
    rows = np.repeat(np.eye(40), 5, axis=0)
    release = sscp_release(NuclearProjection(), rows, Budget(epsilon="0.05"), 0)
    assert np.linalg.norm(release - rows.T @ rows) > theorem_bound(40, 200.0, 0.05, 0.05)


def test_doubling_the_rows_per_person_is_halving_epsilon():
    for relation in ("replace-one", "add-remove-one"):
        once = sscp_release(NuclearProjection(), ROWS, Budget(epsilon=1), 3, relation)
        twice = sscp_release(
            NuclearProjection(), ROWS, Budget(epsilon=2), 3, relation, rows_per_person=2
        )
        assert twice == pytest.approx(once, rel=1e-9, abs=1e-9)


def likelihood_scores(mechanism, budget, pair, draws):
    scores, tables = [], [rows.T @ rows for rows in (pair.first, pair.second)]
    for each in released(mechanism, budget, pair, draws):
        noisy = np.array([one.arrays["second_moment"] for one in each]) * len(pair.first)
        first, second = (np.abs(np.linalg.eigvalsh(noisy - table)).sum(axis=1) for table in tables)
        scores.append(second - first)
    return scores


def test_audit_of_the_matrix():
    # Rows that both tables share keep the radius out of the way; the traces are equal, so only the matrix's part leaks.
    budget, mechanism, attained = (
        Budget(epsilon="2.1"),
        NuclearProjection(),
        attaining("replace-one"),
    )
    common = np.repeat(np.eye(2), 50, axis=0)
    pair = Neighboring(
        relation="replace-one",
        first=np.vstack([attained.first, common]),
        second=np.vstack([attained.second, common]),
    )
    part = 2.1 * 5 / 7

    def bound(spent, draws):
        return lower_bound_of_event(
            *likelihood_scores(mechanism, spent, pair, draws), lambda x: x > 1.5
        )

    assert bound(budget, 1_500) <= part
    assert bound(half_noise(budget), 5_000) > part


def test_what_cannot_be_honored_is_refused():
    for options in ({"noise": "round"}, {"budget_split": "most"}, {"clip": 3}):
        with pytest.raises(UsageError):
            NuclearProjection(**options)
    for budget in (Budget(rho=1), Budget(epsilon="1e-40")):
        with pytest.raises(BudgetError):
            NuclearProjection().calibrate(problem_of(ROWS), budget)
