"""Draw noise matrices shaped like the nuclear norm, for second moments under pure DP.

Contract: in real arithmetic every law below is drawn exactly (:data:`SAMPLER_DELTA`).  With
``scale = sensitivity / epsilon`` it makes a statistic epsilon-DP whose change has nuclear norm
``sensitivity`` at most.  Numerics are idealized.  Proofs: ``docs/nuclear-noise.md``.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from dpcov.errors import UsageError
from dpcov.noise import log_gas
from dpcov.noise.continuous import Floats, exponentials, haar_orthogonal, normals
from dpcov.noise.entropy import Entropy

# ``nuclear``: density proportional to exp(-||Z||_* / scale). ``gauge``: exp(-2 max(tr Z+, tr Z-) /
# scale), for statistics of which both parts of a change have trace at most sensitivity / 2.
# ``wishart``: difference of two positive semidefinite matrices of density exp(-tr A / scale).
SymmetricLaw = Literal["nuclear", "gauge", "wishart"]

SYMMETRIC_LAWS: tuple[SymmetricLaw, ...] = get_args(SymmetricLaw)

# Total variation distance, in real arithmetic, between what is drawn and the stated laws.
SAMPLER_DELTA = Fraction(0)

# A gauge draw costs more than d draws of the nuclear law, from which it hardly differs at large d.
LARGEST_GAUGE_DIMENSION = 200


def symmetric_nuclear_noise(
    dimension: int, scale: float, entropy: Entropy, law: SymmetricLaw = "nuclear"
) -> Floats:
    """Draw a symmetric noise matrix.

    The scale is the sensitivity in nuclear norm over epsilon: for the sscp of rows in the unit ball
    2 / epsilon (replace-one) or 1 / epsilon (add-remove-one).  ``gauge`` is smaller at small d, but
    only for replace-one on a single stratum; ``wishart`` is simplest and 10 % larger.
    Eigenvectors are uniform and independent of the eigenvalues.
    """
    if _check(dimension, scale, law) == "wishart":
        return _wishart_difference(dimension, scale, entropy)
    spectrum = symmetric_nuclear_spectrum(dimension, scale, entropy, law)
    basis = haar_orthogonal(dimension, entropy)
    noise = (basis * spectrum) @ basis.T
    return 0.5 * (noise + noise.T)


def symmetric_nuclear_spectrum(
    dimension: int, scale: float, entropy: Entropy, law: SymmetricLaw = "nuclear"
) -> Floats:
    """Draw the increasing eigenvalues of :func:`symmetric_nuclear_noise`, without eigenvectors."""
    if _check(dimension, scale, law) == "wishart":
        difference = _wishart_difference(dimension, scale, entropy)
        return np.linalg.eigvalsh(difference).astype(np.float64)
    gas = log_gas.prepare(dimension, half_line=False)
    if law == "nuclear":
        return scale * log_gas.sample(gas, entropy)
    return scale * _tilted(lambda: log_gas.sample(gas, entropy), entropy)


def nuclear_noise(dimension: int, scale: float, entropy: Entropy) -> Floats:
    """Draw a (d, d) matrix, not symmetric, of density proportional to exp(-||Z||_* / scale).

    This is the noise of d'Orsi and Novikov (2025), Algorithm 1, with scale = 2 / epsilon.
    """
    singular_values = nuclear_singular_values(dimension, scale, entropy)
    left, right = haar_orthogonal(dimension, entropy), haar_orthogonal(dimension, entropy)
    noise: Floats = (left * singular_values) @ right.T
    return noise


def nuclear_singular_values(dimension: int, scale: float, entropy: Entropy) -> Floats:
    """Draw the increasing singular values of :func:`nuclear_noise`, without singular vectors."""
    _check(dimension, scale, "nuclear")
    return scale * log_gas.sample(log_gas.prepare(dimension, half_line=True), entropy)


def _check(dimension: int, scale: float, law: str) -> str:
    if law not in SYMMETRIC_LAWS:
        raise UsageError(f"Unknown noise law. Use one of: {', '.join(SYMMETRIC_LAWS)}.")
    if dimension < 1:
        raise UsageError("The noise matrix needs at least one row; give dimension >= 1.")
    if not (math.isfinite(scale) and scale > 0.0):
        raise UsageError("The noise scale must be positive and finite: sensitivity / epsilon.")
    if law == "gauge" and dimension > LARGEST_GAUGE_DIMENSION:
        raise UsageError(
            f"law='gauge' is for up to {LARGEST_GAUGE_DIMENSION} features; use law='nuclear'."
        )
    return law


def _tilted(draw: Callable[[], Floats], entropy: Entropy) -> Floats:
    # Accept with probability exp(-|trace|), since 2 max(t+, t-) = (t+ + t-) + |t+ - t-|.
    while True:
        spectrum = draw()
        if exponentials(1, entropy).item() > abs(float(spectrum.sum())):
            return spectrum


def _wishart_difference(dimension: int, scale: float, entropy: Entropy) -> Floats:
    # With d + 1 degrees of freedom a Wishart matrix has the density exp(-tr A / scale).
    plus, minus = normals((2, dimension, dimension + 1), entropy)
    difference = plus @ plus.T - minus @ minus.T
    noise: Floats = 0.25 * scale * (difference + difference.T)
    return noise
