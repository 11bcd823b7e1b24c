"""A private radius that contains all but a few rows, at most twice too large.

Privacy
-------
Guarantee : epsilon-DP under both relations.  Public inputs : the radii, epsilon, beta, rows per person.
Private input : how many rows are longer than each radius.  Numerics : idealized.  Proof : blocks.md, Theorem 4.

References
----------
Dong, Yi (2023), Universal private estimators; Dong, Liang, Yi (2022), Lemma 9.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from dpcov.errors import UsageError
from dpcov.mechanisms.blocks.sparse_vector import sparse_vector
from dpcov.noise.entropy import Entropy


def private_radius(
    outliers: Sequence[int],
    *,
    epsilon: Fraction | float,
    beta: float,
    rows_per_person: int = 1,
    entropy: Entropy,
) -> int:
    """Choose among increasing radii, each twice the one before, by doubling from the smallest one.

    Parameters
    ----------
    outliers : sequence of int
        **Sensitive** number of rows longer than each radius; the last radius is public and holds all rows.
    epsilon : Fraction or float
        What the search costs.
    beta : float
        Probability of missing the promises of :func:`private_radius_outliers`.
    rows_per_person : int
    entropy : Entropy

    Returns
    -------
    int
        Position of the radius: with probability at least 1 - beta / 2 no radius before it holds all rows.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> private_radius([10**6, 10**6, 0, 0], epsilon=1, beta=0.05, entropy=SystemEntropy())
    2
    """
    if not outliers or not 0.0 < beta < 1.0:
        raise UsageError("Give at least one radius, and a beta between 0 and 1.")
    found = sparse_vector(
        (-float(count) for count in outliers[:-1]),
        threshold=-_patience(epsilon, beta, rows_per_person),
        epsilon=epsilon,
        sensitivity=rows_per_person,
        monotone=True,
        entropy=entropy,
    )
    return len(outliers) - 1 if found is None else found


def private_radius_outliers(
    n_radii: int, *, epsilon: Fraction | float, beta: float, rows_per_person: int = 1
) -> float:
    """Bound the rows outside the radius found, with probability at least 1 - beta; ``n_radii`` were tried."""
    reach = 2.0 * rows_per_person / float(epsilon)
    return _patience(epsilon, beta, rows_per_person) + reach * (
        math.log(2.0 * n_radii / beta) + math.log(2.0 / beta)
    )


def _patience(epsilon: Fraction | float, beta: float, rows_per_person: int) -> float:
    """Outliers to put up with: the noise of one comparison, so that a radius without any is rarely passed over."""
    if not epsilon > 0:
        raise UsageError("epsilon must be positive.")
    return 4.0 * rows_per_person / float(epsilon) * math.log(2.0 / beta)
