import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpcov
from dpcov.audit import Neighboring, half_noise
from dpcov.data.moments import Moments
from dpcov.data.questions import Ask
from dpcov.mechanisms.laplace import Laplace
from dpcov.noise.entropy import SeededEntropy
from tests.audit.bounds import lower_bound_epsilon, refutes, released
from tests.mechanisms.chosen import problem
from tests.statistical.goodness import assert_same_law

RELATIONS = ("replace-one", "add-remove-one")


def upper_norm(change):
    return np.abs(change[np.triu_indices(len(change))]).sum()


def attaining_rows(d):
    """Unit rows whose exchange moves the upper triangle most, for even d (laplace.md, Lemma 2)."""
    if d == 1:
        return np.ones(1), np.zeros(1)
    half = np.ones((d // 2, d // 2))
    signs = np.block([[half, half], [half, -half]])
    vectors = np.linalg.eigh(signs + np.diag(np.diagonal(signs)))[1]
    return vectors[:, -1], vectors[:, 0]


def largest_change(d):
    """The exact sensitivity: half the spread of the spectrum over all sign matrices."""
    upper, best = np.triu_indices(d), 0.0
    for signs in itertools.product((-1.0, 1.0), repeat=len(upper[0])):
        matrix = np.zeros((d, d))
        matrix[upper] = signs
        matrix += matrix.T
        values = np.linalg.eigvalsh(matrix)
        best = max(best, (max(values[-1], 0.0) - min(values[0], 0.0)) / 2)
    return best


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_bound_holds_for_every_pair_and_is_tight_where_it_says_so(d):
    exact, bound = largest_change(d), float(Laplace().l1_sensitivity(problem(d)))
    assert exact <= bound * (1 + 1e-12)
    assert bound <= exact * (1.016 if d == 3 else 1 + 1e-12)


@pytest.mark.parametrize("d", [1, 2, 4, 10, 50])
def test_the_bounds_are_attained(d):
    x, y = attaining_rows(d)
    flat = np.full(d, d**-0.5)
    for neighbors, change in (
        ("replace-one", np.outer(x, x) - np.outer(y, y)),
        ("add-remove-one", np.outer(flat, flat)),
    ):
        bound = float(Laplace().l1_sensitivity(problem(d, neighbors)))
        assert upper_norm(change) == pytest.approx(bound, rel=1e-9)


@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_neighbors_stay_within_the_sensitivity(d, k, seed):
    random = np.random.default_rng(seed)
    old, new = random.normal(size=(2, k, d)) ** random.integers(1, 4)
    old, new = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (old, new))
    for sensitivity in ("tight", "paper"):
        mechanism = Laplace(sensitivity=sensitivity)
        both = mechanism.l1_sensitivity(problem(d, k=k))
        alone = mechanism.l1_sensitivity(problem(d, "add-remove-one", k))
        assert upper_norm(old.T @ old - new.T @ new) <= float(both) * (1 + 1e-12)
        assert upper_norm(old.T @ old) <= float(alone) * (1 + 1e-12)


def lap_cov(X, epsilon, l1, random):
    """LapCov of Dong et al., appendix I, entry by entry."""
    n, d = X.shape
    noise = np.zeros((d, d))
    for i in range(d):
        for j in range(i, d):
            noise[i, j] = noise[j, i] = random.laplace()
    return X.T @ X / n + noise * l1 / (epsilon * n)


@pytest.mark.parametrize("sensitivity", ["tight", "paper"])
def test_the_noise_is_the_papers(sensitivity):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(30, 3))
    moments, truth, entropy = dpcov.moments(X, norm_bound=1.0), X.T @ X / 30, SeededEntropy(1)
    l1 = {"tight": math.sqrt(8.5), "paper": math.sqrt(18)}[sensitivity]
    random, upper = np.random.default_rng(1), np.triu_indices(3)
    ours = [
        dpcov.second_moment(
            moments,
            budget=dpcov.Budget(epsilon=2),
            mechanism="laplace",
            sensitivity=sensitivity,
            entropy=entropy,
        )
        for _ in range(500)
    ]
    naive = [lap_cov(X, 2.0, l1, random) for _ in range(500)]
    assert_same_law(
        np.concatenate([(made.second_moment("none") - truth)[upper] for made in ours]),
        np.concatenate([(matrix - truth)[upper] for matrix in naive]),
    )
    squares = [np.linalg.norm(made.second_moment("none") - truth) ** 2 for made in ours]
    assert math.sqrt(np.mean(squares)) == pytest.approx(ours[0].expected_error(), rel=0.15)


def test_largest_entry_of_the_noise():
    """Theorem 2 at beta = 0.1 on 300 releases; a correct sampler fails with probability 1e-9."""
    d, beta, repeats = 5, 0.1, 300
    mechanism, public = Laplace(), problem(d)
    calibration = mechanism.calibrate(public, dpcov.Budget(epsilon=1))
    bound = calibration.scale * math.log(d * (d + 1) / 2 / beta) + 1
    empty, entropy = Moments(d, mechanism.moments_spec(public)), SeededEntropy(3)
    drawn = [
        mechanism.draw(Ask.saved(empty), calibration, public, entropy).arrays["sscp"]
        for _ in range(repeats)
    ]
    exceeded = sum(np.abs(noise).max() > bound for noise in drawn)
    assert exceeded <= stats.binom.isf(1e-9, repeats, beta)
    # Halved noise would hardly ever exceed the bound.
    assert exceeded > 0


def exchange(d=2):
    first, second = np.zeros((2, 4, d))
    first[0], second[0] = attaining_rows(d)
    return Neighboring(relation="replace-one", first=first, second=second)


def scores(budget, pair, draws):
    """Log-likelihood ratios up to a factor: nothing tells Laplace noise apart better."""
    upper = np.triu_indices(pair.n_features)
    ours, theirs = (4.0**20 * (rows.T @ rows)[upper] for rows in (pair.first, pair.second))

    def score(statistics):
        seen = statistics.arrays["sscp"][upper].astype(float)
        # The extreme value has a probability of its own: rounding must not scatter it.
        return round(np.sum(np.abs(seen - theirs) - np.abs(seen - ours)) / 4.0**20, 9)

    return [
        np.array([score(each) for each in table])
        for table in released(Laplace(), budget, pair, draws)
    ]


def test_the_audit_nearly_attains_epsilon_and_catches_half_the_noise():
    budget, pair = dpcov.Budget(epsilon=1), exchange()
    claimed = scores(budget, pair, 3000)
    assert not refutes(budget.promise, *claimed)
    assert lower_bound_epsilon(*claimed, alpha=1e-3) > 0.5
    assert refutes(budget.promise, *scores(half_noise(budget), pair, 6000))
