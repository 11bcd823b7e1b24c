"""Draw from the Bingham law, density proportional to exp(u' A u) on the unit sphere, by rejection.

Contract: in real arithmetic the accepted draws follow the law exactly, whatever the spectrum; the envelope's
tuning decides only how many proposals are needed.  Knows nothing of rows, budgets or releases.
Derivation: ``docs/bingham.md``.
"""

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, UsageError
from dpcov.noise.continuous import normals, uniforms
from dpcov.noise.entropy import Entropy

PROPOSALS_PER_DRAW = 8
"""How many proposals a batch holds for each draw still missing; about twice the usual need."""

MAX_BATCHES = 10_000
"""A tuned envelope needs a handful; reaching this many means the numbers are broken."""


def sample_bingham(matrix: NDArray[np.float64], entropy: Entropy) -> NDArray[np.float64]:
    """Draw one unit vector u with density proportional to exp(u' matrix u)."""
    return np.asarray(sample_binghams(matrix, 1, entropy)[0])


def sample_binghams(
    matrix: NDArray[np.float64], size: int, entropy: Entropy
) -> NDArray[np.float64]:
    """Draw independent unit vectors with density proportional to exp(u' matrix u).

    Parameters
    ----------
    matrix : array of shape (n_features, n_features)
        Symmetric; adding a multiple of the identity changes nothing.
    size : int
        Number of draws.
    entropy : Entropy
        Source of random words.

    Returns
    -------
    array of shape (size, n_features)

    Raises
    ------
    UsageError
        The matrix is not symmetric and finite, or the size is negative.
    NumericError
        The envelope accepts nothing, which a finite matrix cannot cause.

    References
    ----------
    Kent, Ganeiber, Mardia (2018), section 3; Amin et al. (2019), Algorithm 2.
    """
    check_symmetric(matrix)
    if size < 0:
        raise UsageError("The number of draws cannot be negative.")
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    gaps = eigenvalues[-1] - eigenvalues
    return np.asarray(_draw(0.5 * envelope_width(gaps) + gaps, size, entropy) @ eigenvectors.T)


def envelope_width(gaps: NDArray[np.float64]) -> float:
    """Return the root b in [1, d] of sum_i 1/(b + 2 gap_i) = 1, where the envelope accepts most.

    1/sum_i 1/(b + 2 gap_i) is concave and increasing in b, so Newton's iteration from the left
    climbs to the root without passing it.
    """
    width = 1.0
    for _ in range(100):
        inverses = 1.0 / (width + 2.0 * gaps)
        total = float(inverses.sum())
        step = (1.0 - 1.0 / total) * total**2 / float(np.square(inverses).sum())
        width += step
        if step <= 1e-12 * width:
            break
    return min(max(width, 1.0), float(gaps.size))


def acceptance(ratio: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return the probability of keeping a proposal u, with ratio = (2/d) u' Omega u.

    Target over envelope is exp(-y) y**(d/2) at y = u' Omega u, largest at y = d/2 whatever the spectrum.
    """
    return np.exp(0.5 * dimension * (1.0 - ratio + np.log(ratio)))


def check_symmetric(matrix: NDArray[np.float64]) -> None:
    """Refuse anything but a finite symmetric matrix with at least one row."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise UsageError("The matrix must be square with at least one row.")
    if not np.isfinite(matrix).all():
        raise UsageError("The matrix must be finite. Check the moments for overflow.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-10 * float(np.abs(matrix).max())):
        raise UsageError("The matrix must be symmetric. Average it with its transpose first.")


def _draw(precision: NDArray[np.float64], size: int, entropy: Entropy) -> NDArray[np.float64]:
    """Draw with density proportional to exp(-u' diag(precision) u), proposing from (u' diag(precision) u)**(-d/2)."""
    dimension = precision.size
    drawn = np.empty((0, dimension))
    for _ in range(MAX_BATCHES):
        missing = size - len(drawn)
        if missing == 0:
            return drawn
        shape = (missing * PROPOSALS_PER_DRAW, dimension)
        points = normals(shape, entropy) / np.sqrt(precision)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        kept = uniforms(shape[0], entropy) < acceptance(
            2.0 / dimension * (points**2 @ precision), dimension
        )
        drawn = np.concatenate([drawn, points[kept][:missing]])
    raise NumericError(
        "The Bingham sampler accepted no proposal; nothing was released. Check the matrix's scale."
    )
