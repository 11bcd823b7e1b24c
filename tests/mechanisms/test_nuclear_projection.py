import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpcov.audit import Neighboring, attaining, half_noise
from dpcov.mechanisms.nuclear_projection import NuclearProjection
from dpcov.noise.continuous import exponentials
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import nuclear_noise, symmetric_nuclear_noise
from dpcov.privacy.budget import Budget
from tests.audit.bounds import lower_bound_of_event
from tests.mechanisms.chosen import nuclear_scores, sscps

ROWS = np.repeat(np.array([[1.0, 0.0, 0.0], [0.75, 0.5, 0.25]]), [4, 3], axis=0)


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
        options = {"seed": seed, "neighbors": relation}
        (ours,) = sscps(mechanism, ROWS, Budget(epsilon="0.5"), **options)
        expected = naive(ROWS, [0.5 * kept * share for share in shares], shape, seed, relation)
        assert ours == pytest.approx(expected, abs=1e-7 * (1 + np.abs(expected).max()))


def theorem_bound(dimension, trace, epsilon, beta):
    # nuclear_projection.md, Theorem 3: Wishart noise, sensitivities of replace-one.
    scale, root = 2 / (5 / 7 * epsilon), math.sqrt(2 * math.log(4 / beta))
    spectral = scale / 2 * (math.sqrt(dimension + 1) + math.sqrt(dimension) + root) ** 2
    slack = 7 / (2 * epsilon) * math.log(1 / beta)
    return max(math.sqrt(spectral * (3 * trace + 2 * slack)), 4 * slack)


@pytest.mark.parametrize("epsilon", ["0.05", "1"])
def test_theorem_bounds_the_error(epsilon):
    # Each draw is within with probability 0.9; more than 15 excesses have probability below 1e-9.
    rows = np.repeat(np.eye(40), 5, axis=0)
    sscp, bound = rows.T @ rows, theorem_bound(40, 200.0, float(epsilon), 0.05)
    errors = sscps(NuclearProjection(), rows, Budget(epsilon=epsilon), 20) - sscp
    assert np.sum(np.linalg.norm(errors, axis=(1, 2)) > bound) <= 15


def test_the_theorem_needs_the_projection(monkeypatch):
    monkeypatch.setattr(
        "dpcov.mechanisms.nuclear_projection.project_nuclear_ball", lambda matrix, radius: matrix
    )
    rows = np.repeat(np.eye(40), 5, axis=0)
    (release,) = sscps(NuclearProjection(), rows, Budget(epsilon="0.05"))
    assert np.linalg.norm(release - rows.T @ rows) > theorem_bound(40, 200.0, 0.05, 0.05)


def test_audit_of_the_matrix():
    # Common rows keep the radius out of the way; traces are equal, so only the matrix's part leaks.
    budget, mechanism = Budget(epsilon="2.1"), NuclearProjection()
    attained = attaining("replace-one")
    common = np.repeat(np.eye(2), 50, axis=0)
    pair = Neighboring(
        relation="replace-one",
        first=np.vstack([attained.first, common]),
        second=np.vstack([attained.second, common]),
    )
    part = 2.1 * 5 / 7

    def bound(spent, draws):
        return lower_bound_of_event(
            *nuclear_scores(mechanism, spent, pair, draws), lambda x: x > 1.5
        )

    assert bound(budget, 1_500) <= part
    assert bound(half_noise(budget), 5_000) > part
