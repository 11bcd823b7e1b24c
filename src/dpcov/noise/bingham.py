"""Draw from the Bingham law, density proportional to exp(u' A u) on the unit sphere, by rejection.

Contract: in real arithmetic the accepted draws follow the law exactly, whatever the spectrum; the
envelope's tuning decides only how many proposals are needed.  Derivation: ``docs/bingham.md``.
"""

import numpy as np

from dpcov.errors import NumericError, UsageError
from dpcov.noise.continuous import Floats, normals, uniforms
from dpcov.noise.entropy import Entropy

# Proposals in a batch for each draw still missing; about twice the usual need.
PROPOSALS_PER_DRAW = 8
# A tuned envelope needs a handful of batches; this many mean that the numbers are broken.
MAX_BATCHES = 10_000


def sample_binghams(matrix: Floats, size: int, entropy: Entropy) -> Floats:
    """Draw independent unit vectors with density proportional to exp(u' matrix u).

    The matrix (d, d) is symmetric, and finite or a UsageError is raised; the draws have shape
    (size, d).  Source: Kent, Ganeiber, Mardia (2018), section 3; Amin et al. (2019), Algorithm 2.
    """
    check_finite(matrix)
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    gaps = eigenvalues[-1] - eigenvalues
    return np.asarray(_draw(0.5 * envelope_width(gaps) + gaps, size, entropy) @ eigenvectors.T)


def envelope_width(gaps: Floats) -> float:
    """Return the root b in [1, d] of sum_i 1/(b + 2 gap_i) = 1, where the envelope accepts most."""
    width = 1.0
    # 1 / sum_i 1/(b + 2 gap_i) is concave and increasing: Newton's steps from the left never pass.
    for _ in range(100):
        inverses = 1.0 / (width + 2.0 * gaps)
        total = float(inverses.sum())
        step = (1.0 - 1.0 / total) * total**2 / float(np.square(inverses).sum())
        width += step
        if step <= 1e-12 * width:
            break
    return min(max(width, 1.0), float(gaps.size))


def acceptance(ratio: Floats, dimension: int) -> Floats:
    """Return the probability of keeping a proposal u, with ratio = (2/d) u' Omega u."""
    # Target over envelope is exp(-y) y**(d/2) at y = u' Omega u; largest at y = d/2.
    return np.exp(0.5 * dimension * (1.0 - ratio + np.log(ratio)))


def check_finite(matrix: Floats) -> None:
    """Refuse a matrix that overflowed."""
    if not np.isfinite(matrix).all():
        raise UsageError("The matrix must be finite. Check the moments for overflow.")


def _draw(precision: Floats, size: int, entropy: Entropy) -> Floats:
    """Draw with density exp(-u' P u), P = diag(precision), proposing from (u' P u)**(-d/2)."""
    dimension = precision.size
    drawn = np.empty((0, dimension))
    for _ in range(MAX_BATCHES):
        missing = size - len(drawn)
        if missing == 0:
            return drawn
        points = normals((missing * PROPOSALS_PER_DRAW, dimension), entropy) / np.sqrt(precision)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        ratio = 2.0 / dimension * (points**2 @ precision)
        kept = uniforms(len(points), entropy) < acceptance(ratio, dimension)
        drawn = np.concatenate([drawn, points[kept][:missing]])
    raise NumericError(
        "The Bingham sampler accepted no proposal; nothing was released. Check the matrix's scale."
    )
