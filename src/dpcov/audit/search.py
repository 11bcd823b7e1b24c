"""The search for the two tables that a mechanism protects least: known pairs, random restarts, coordinate steps.

Contract: what the search draws is used for the choice only; the bound comes from fresh releases of the pair
it returns.
"""

import time
from typing import Any

import numpy as np

from dpcov.audit.evidence import SEARCH_ALPHA, weigh
from dpcov.audit.neighboring import Neighboring, attaining, pair_of, perturbed, random_pair, turned
from dpcov.audit.releases import drawers, released_within
from dpcov.mechanisms.base import Mechanism
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors, Promise

GENERIC_ROWS = np.array([[0.31, -0.47], [0.23, 0.61], [0.11, 0.07], [-0.53, 0.29]])
"""Rows of two columns whose products fall between all grid points."""


def known_pairs(relation: Neighbors, n_features: int = 2) -> list[Neighboring]:
    """The attaining pair, also turned and beside another row; no special numbers; a short row against none."""
    best, nobody = attaining(relation, n_features), np.zeros((3, n_features))
    axes = np.eye(n_features)
    generic = np.resize(GENERIC_ROWS.T, (n_features, len(GENERIC_ROWS))).T / np.sqrt(n_features / 2)
    return [
        best,
        turned(best),
        pair_of(relation, axes[1:2], axes[0], axes[1], label="beside a row"),
        pair_of(relation, generic[2:], generic[0], generic[1], label="generic"),
        pair_of(relation, nobody, 0.3 * axes[0], nobody[0], label="short row"),
    ]


def search(
    mechanism: Mechanism[Any],
    promise: Promise,
    budget: Budget,
    relation: Neighbors,
    *,
    n_features: int,
    candidates: int,
    draws: int,
    seconds: float,
    random: np.random.Generator,
    entropy: Entropy,
) -> Neighboring:
    """Return the pair with the largest bound on a batch of its own, among ``candidates`` or what the time allows.

    The known pairs come first, then random restarts in turn with steps from the best pair so far.
    """
    start, best, best_bound = time.perf_counter(), attaining(relation, n_features), -1.0
    known = known_pairs(relation, n_features)
    for number in range(candidates):
        spent = time.perf_counter() - start
        if number > 0 and spent > seconds:
            break
        if number < len(known):
            pair = known[number]
        elif number % 2:
            pair = random_pair(relation, n_features, random)
        else:
            pair = perturbed(best, random)
        both = drawers(mechanism, budget, pair, entropy)
        tables = released_within(both, draws, seconds / min(candidates, len(known)))
        bound = weigh(promise, tables, len(pair.first), SEARCH_ALPHA).bound
        if bound > best_bound:
            best, best_bound = pair, bound
    return best
