"""Draw noise matrices shaped like the nuclear norm, for second moments under pure DP.

Contract: in real arithmetic every law below is drawn exactly, so no delta enters.  With
``scale = sensitivity / epsilon`` it makes a statistic epsilon-DP whose change has nuclear norm
``sensitivity`` at most.  Numerics are idealized.  Proofs: ``docs/nuclear-noise.md``.
"""

from typing import Literal

import numpy as np

from dpcov.noise import log_gas
from dpcov.noise.continuous import Floats, exponentials, haar_orthogonal, normals
from dpcov.noise.entropy import Entropy

# ``nuclear``: density proportional to exp(-||Z||_* / scale). ``gauge``: exp(-2 max(tr Z+, tr Z-) /
# scale), for statistics of which both parts of a change have trace at most sensitivity / 2.
# ``wishart``: difference of two positive semidefinite matrices of density exp(-tr A / scale).
SymmetricLaw = Literal["nuclear", "gauge", "wishart"]

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
    if law == "wishart":
        # With d + 1 degrees of freedom a Wishart matrix has the density exp(-tr A / scale).
        plus, minus = normals((2, dimension, dimension + 1), entropy)
        difference = plus @ plus.T - minus @ minus.T
        return np.asarray(0.25 * scale * (difference + difference.T))
    spectrum = symmetric_nuclear_spectrum(dimension, scale, entropy, law)
    basis = haar_orthogonal(dimension, entropy)
    noise = (basis * spectrum) @ basis.T
    return 0.5 * (noise + noise.T)


def symmetric_nuclear_spectrum(
    dimension: int, scale: float, entropy: Entropy, law: Literal["nuclear", "gauge"] = "nuclear"
) -> Floats:
    """Draw the increasing eigenvalues of :func:`symmetric_nuclear_noise`, without eigenvectors."""
    gas = log_gas.prepare(dimension, half_line=False)
    while True:
        spectrum = log_gas.sample(gas, entropy)
        # The gauge law: keep with probability exp(-|trace|), since
        # 2 max(t+, t-) = (t+ + t-) + |t+ - t-|.
        if law == "nuclear" or exponentials(1, entropy).item() > abs(float(spectrum.sum())):
            return scale * spectrum


def nuclear_noise(dimension: int, scale: float, entropy: Entropy) -> Floats:
    """Draw a (d, d) matrix, not symmetric, of density proportional to exp(-||Z||_* / scale).

    This is the noise of d'Orsi and Novikov (2025), Algorithm 1, with scale = 2 / epsilon.
    """
    singular_values = nuclear_singular_values(dimension, scale, entropy)
    left, right = haar_orthogonal(dimension, entropy), haar_orthogonal(dimension, entropy)
    return np.asarray((left * singular_values) @ right.T)


def nuclear_singular_values(dimension: int, scale: float, entropy: Entropy) -> Floats:
    """Draw the increasing singular values of :func:`nuclear_noise`, without singular vectors."""
    return scale * log_gas.sample(log_gas.prepare(dimension, half_line=True), entropy)
