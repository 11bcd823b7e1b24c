import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.mechanisms.laplace import Laplace
from tests.mechanisms.chosen import problem

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
