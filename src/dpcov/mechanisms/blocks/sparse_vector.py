"""Find the first query above a threshold at the price of one query, and a radius by that search.

Privacy
-------
Guarantee : epsilon-DP for any number of queries (so epsilon**2 / 2-zCDP), under both relations.
Public inputs : threshold, radii, epsilon, beta, sensitivity, whether the queries are monotone.
Private input : the answers.  Numerics : idealized.  Proof : blocks.md, Theorems 3 and 4.

References
----------
Dwork, Roth (2014), section 3.6; Lyu, Su, Li (2017); Dong, Liang, Yi (2022), Algorithm 3, Lemmas 5
and 9; Dong, Yi (2023), Universal private estimators.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.noise.entropy import Entropy


def sparse_vector(
    queries: Iterable[float],
    *,
    threshold: float,
    epsilon: Fraction | float,
    sensitivity: float = 1.0,
    monotone: bool = False,
    entropy: Entropy,
) -> int | None:
    """Find the first query whose answer is about the threshold or more (AboveThreshold).

    Exact **sensitive** answers are read one by one until the search ends; they may be endless.
    The whole search costs ``epsilon``; ``sensitivity`` is the largest change of one answer, and
    ``monotone`` queries all move one way when the table changes: half the noise then suffices.
    Returns the query's position, from 0, or None.
    """
    threshold_scale = 2.0 * sensitivity / float(epsilon)
    query_scale = threshold_scale if monotone else 2.0 * threshold_scale
    # One draw serves all comparisons: their number costs nothing.
    noisy_threshold = threshold + threshold_scale * float(laplaces(1, entropy)[0])
    for position, answer in enumerate(queries):
        if answer + query_scale * float(laplaces(1, entropy)[0]) >= noisy_threshold:
            return position
    return None


def private_radius(
    outliers: Sequence[int],
    *,
    epsilon: Fraction | float,
    beta: float,
    rows_per_person: int = 1,
    entropy: Entropy,
) -> int:
    """Choose among increasing radii, each twice the one before, by doubling from the smallest.

    ``outliers`` is the **sensitive** number of rows longer than each radius; the last radius is
    public and holds all rows.  Returns a position: with probability at least 1 - beta / 2 no radius
    before it holds all rows, and the radius is at most twice too large.
    """
    # The noise of one comparison, so that a radius without outliers is rarely passed over.
    patience = 4.0 * rows_per_person / float(epsilon) * math.log(2.0 / beta)
    found = sparse_vector(
        (-float(count) for count in outliers[:-1]),
        threshold=-patience,
        epsilon=epsilon,
        sensitivity=rows_per_person,
        monotone=True,
        entropy=entropy,
    )
    return len(outliers) - 1 if found is None else found
