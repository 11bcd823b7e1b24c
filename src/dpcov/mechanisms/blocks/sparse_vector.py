"""The sparse vector technique: find the first query above a threshold, at the price of one query.

Privacy
-------
Guarantee : epsilon-DP for any number of queries (so epsilon**2 / 2-zCDP).  Public inputs : threshold, epsilon,
    sensitivity, whether the queries are monotone.  Private input : the answers.  Numerics : idealized.
Proof : blocks.md, Theorem 3.

References
----------
Dwork, Roth (2014), section 3.6; Lyu, Su, Li (2017); Dong, Liang, Yi (2022), Algorithm 3 and Lemma 5.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from dpcov.errors import UsageError
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

    Parameters
    ----------
    queries : iterable of float
        Exact **sensitive** answers, read one by one until the search ends; may be endless.
    threshold : float
        Public.
    epsilon : Fraction or float
        What the whole search costs.
    sensitivity : float
        Largest change of one answer between neighbors.
    monotone : bool
        Whether a change of the table moves all answers up or all down; then half the noise suffices.
    entropy : Entropy

    Returns
    -------
    int or None
        Position of the query, from 0; None if there was none.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> sparse_vector([0, 0, 1e6], threshold=1e3, epsilon=1, entropy=SystemEntropy())
    2
    """
    if not (epsilon > 0 and 0 < sensitivity < math.inf and math.isfinite(threshold)):
        raise UsageError("epsilon and sensitivity must be positive, and the threshold finite.")
    threshold_scale = 2.0 * sensitivity / float(epsilon)
    query_scale = threshold_scale if monotone else 2.0 * threshold_scale
    noisy_threshold = threshold + threshold_scale * _laplace(entropy)
    for position, answer in enumerate(queries):
        if answer + query_scale * _laplace(entropy) >= noisy_threshold:
            return position
    return None


def sparse_vector_error(
    n_queries: int,
    *,
    epsilon: Fraction | float,
    beta: float,
    sensitivity: float = 1.0,
    monotone: bool = False,
) -> float:
    """Bound how far the search errs: with probability at least 1 - beta all its comparisons are right up to this.

    Then every answer before the position found is at most threshold + error, and the answer found is at least
    threshold - error: (6 / epsilon) log(2 t / beta), or (4 / epsilon) log(2 t / beta) for monotone queries.
    """
    if n_queries < 1 or not 0.0 < beta < 1.0 or not epsilon > 0:
        raise UsageError("Give at least one query, a positive epsilon and a beta between 0 and 1.")
    return (
        (4.0 if monotone else 6.0) * sensitivity / float(epsilon) * math.log(2.0 * n_queries / beta)
    )


def _laplace(entropy: Entropy) -> float:
    return float(laplaces(1, entropy)[0])
