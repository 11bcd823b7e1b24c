"""Draw orthonormal directions in turn, each by the exponential mechanism on what is left.

Contract: in real arithmetic direction i has, given those before it, exactly the density
proportional to exp(exponent_i u' S u) on the unit sphere of their orthogonal complement: a Bingham
law, whatever the spectrum.  An envelope's tuning decides only how many proposals are needed.
Algorithm and proof: ``docs/bingham.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dpcov.errors import NumericError, UsageError
from dpcov.noise.continuous import Floats, normals, uniforms
from dpcov.noise.entropy import Entropy
from dpcov.published.linalg.one_thread import one_thread

# Proposals drawn together for each draw still missing; about twice the usual need.
BATCH = 8
# Retune the envelope once it would need about exp(0.1) times the proposals of the best one.
TOLERATED_EXCESS = 0.1
# Retune it also once its square trace fell to this fraction: rounding may rule what is left.
CANCELLATION = 1e-3
# Below this the squares of the envelope's numbers leave the range of double precision.
SMALLEST_EXPONENT = 1e-100
# A tuned envelope needs a handful of batches; this many mean that the numbers are broken.
MAX_BATCHES = 10_000
NONE_ACCEPTED = "No direction was accepted; nothing was released. Check the scale of the matrix."


@dataclass(frozen=True, kw_only=True)
class _Envelope:
    """Proposals u = factor g / |factor g|, g standard normal, on the sphere of the complement.

    ``factor @ factor.T`` is the inverse of t I - M, M being S compressed to the complement and t
    above its spectrum.  ``trace`` and ``square_trace`` are the traces of that inverse and of its
    square, the latter also as it was when t was chosen.
    """

    factor: Floats
    trace: float
    square_trace: float
    tuned_square_trace: float

    def suits(self, exponent: float) -> bool:
        """Say whether no other t would save many proposals; the law does not depend on it."""
        if self.square_trace < CANCELLATION * self.tuned_square_trace:
            return False
        # docs/bingham.md, equation 5.
        excess = (exponent - 0.5 * self.trace) ** 2 / self.square_trace
        return excess <= TOLERATED_EXCESS


@dataclass(frozen=True, kw_only=True)
class _Reflection:
    """H = I - scale vector vector', which takes a unit vector to the first axis, up to sign."""

    vector: Floats
    scale: float
    sign: float


def sample_eigenvectors(sscp: Floats, exponents: Sequence[float], entropy: Entropy) -> Floats:
    """Draw directions, u_i with density exp(exponents[i] u' sscp u) given the earlier ones.

    Returns an orthonormal column for each positive exponent, in the order drawn; d - 1 of them give
    all d, since the last direction is determined.  Raises a NumericError if the symmetric sscp
    times an exponent is too large for double precision.
    Source: Amin et al. (2019), Algorithm 1.
    """
    check_finite(sscp)
    if not all(SMALLEST_EXPONENT <= exponent < np.inf for exponent in exponents):
        raise UsageError("Every exponent, a share of the budget, must be positive and finite.")
    # Many short steps: at 1000 features two threads take 12 times the processor time.
    with one_thread():
        reflections = _draw_reflections(np.array(sscp, dtype=np.float64), exponents, entropy)
        return _assemble(reflections, len(sscp))


def _draw_reflections(
    compressed: Floats, exponents: Sequence[float], entropy: Entropy
) -> list[_Reflection]:
    """Draw each direction in the coordinates of the complement, then reflect it away."""
    reflections: list[_Reflection] = []
    envelope: _Envelope | None = None
    for exponent in exponents:
        if envelope is None or not envelope.suits(exponent):
            envelope = _tuned_envelope(compressed, exponent)
        direction = _draw(envelope.factor, exponent, entropy)
        reflection = _reflection(direction)
        compressed = _compress(compressed, reflection)
        envelope = _condition(envelope, direction, reflection)
        reflections.append(reflection)
    return reflections


def _tuned_envelope(compressed: Floats, exponent: float) -> _Envelope:
    """Factor the inverse of t I - M at the t that accepts most."""
    eigenvalues = np.linalg.eigvalsh(compressed)
    gaps = eigenvalues[-1] - eigenvalues
    margin = 0.5 * envelope_width(exponent * gaps) / exponent
    shifted = -compressed
    shifted.flat[:: len(compressed) + 1] += eigenvalues[-1] + margin
    lower, failure = lapack.dpotrf(shifted, lower=1, clean=1)
    inverse, singular = lapack.dtrtri(lower, lower=1)
    if failure or singular:
        raise NumericError(
            "A matrix times its exponent is too large for double precision; nothing was released. "
            "Lower the budget or the scale of the rows."
        )
    variances = 1.0 / (margin + gaps)
    square_trace = float(np.square(variances).sum())
    return _Envelope(
        factor=np.ascontiguousarray(inverse.T),
        trace=float(variances.sum()),
        square_trace=square_trace,
        tuned_square_trace=square_trace,
    )


def _draw(factor: Floats, exponent: float, entropy: Entropy) -> Floats:
    """Draw u with density exp(exponent u' M u) by rejection (docs/bingham.md, equation 4)."""
    dimension = len(factor)
    for _ in range(MAX_BATCHES):
        seeds = normals((dimension, BATCH), entropy)
        points = factor @ seeds
        lengths = np.linalg.norm(points, axis=0)
        # u' (t I - M) u = |g|**2 / |factor g|**2 for u = factor g / |factor g|: no need of M.
        forms = np.square(np.linalg.norm(seeds, axis=0) / lengths)
        kept = uniforms(BATCH, entropy) < acceptance(2.0 * exponent / dimension * forms, dimension)
        if kept.any():
            first = int(kept.argmax())
            return np.asarray(points[:, first] / lengths[first])
    raise NumericError(NONE_ACCEPTED)


def _reflection(unit: Floats) -> _Reflection:
    """Build the Householder reflection with H unit = -sign(unit[0]) e_1."""
    # This sign adds two numbers of one sign, so no digits cancel.
    sign = 1.0 if unit[0] >= 0.0 else -1.0
    vector = unit.copy()
    vector[0] += sign
    return _Reflection(vector=vector, scale=1.0 / abs(vector[0]), sign=sign)


def _compress(matrix: Floats, reflection: _Reflection) -> Floats:
    """Return H matrix H without its first row and column, by a symmetric rank-two update."""
    vector = reflection.vector
    image = reflection.scale * (matrix @ vector)
    image -= 0.5 * reflection.scale * float(image @ vector) * vector
    return matrix[1:, 1:] - _outer_sum(vector, image, image, vector)


def _condition(envelope: _Envelope, direction: Floats, reflection: _Reflection) -> _Envelope:
    """Restrict the envelope to the complement of the direction at the same t, in O(d**2)."""
    factor = envelope.factor
    weights = direction @ factor
    length = float(np.linalg.norm(weights))
    image = factor @ weights / length
    # G takes F' u to the first axis, so u' F G is zero but for its first entry, and H F G without
    # its first row and column is a square factor of the conditioned covariance.
    right = _reflection(weights / length)
    left_image = right.scale * (image + right.sign * factor[:, 0])
    row = reflection.vector @ factor - float(reflection.vector @ left_image) * right.vector
    conditioned = factor[1:, 1:] - _outer_sum(
        left_image, right.vector, reflection.vector, reflection.scale * row
    )
    trace = float(np.square(conditioned).sum())
    passed = float(np.square(image @ factor).sum())
    square_trace = envelope.square_trace - 2.0 * passed + float(image @ image) ** 2
    return _Envelope(
        factor=conditioned,
        trace=trace,
        # The difference may be mostly rounding; the trace is fresh, its square an upper bound.
        square_trace=min(square_trace, trace**2),
        tuned_square_trace=envelope.tuned_square_trace,
    )


def _outer_sum(a: Floats, b: Floats, c: Floats, e: Floats) -> Floats:
    """Return a b' + c e' without its first row and column."""
    return np.column_stack([a[1:], c[1:]]) @ np.stack([b[1:], e[1:]])


def _assemble(reflections: list[_Reflection], dimension: int) -> Floats:
    """Multiply the reflections out and undo their signs: column i is the i-th direction."""
    rank = len(reflections) + (len(reflections) == dimension - 1)
    packed = np.zeros((dimension, rank), order="F")
    scales, signs = np.zeros(rank), np.ones(rank)
    for index, reflection in enumerate(reflections):
        leading = reflection.vector[0]
        packed[index + 1 :, index] = reflection.vector[1:] / leading
        scales[index] = reflection.scale * leading**2
        signs[index] = -reflection.sign
    basis, _, _ = lapack.dorgqr(packed, scales)
    return np.ascontiguousarray(basis * signs)


def sample_binghams(matrix: Floats, size: int, entropy: Entropy) -> Floats:
    """Draw independent unit vectors with density proportional to exp(u' matrix u).

    The matrix (d, d) is symmetric, and finite or a UsageError is raised; the draws have shape
    (size, d).  Source: Kent, Ganeiber, Mardia (2018), section 3; Amin et al. (2019), Algorithm 2.
    """
    check_finite(matrix)
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    gaps = eigenvalues[-1] - eigenvalues
    return np.asarray(_draw_all(0.5 * envelope_width(gaps) + gaps, size, entropy) @ eigenvectors.T)


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


def _draw_all(precision: Floats, size: int, entropy: Entropy) -> Floats:
    """Draw with density exp(-u' P u), P = diag(precision), proposing from (u' P u)**(-d/2)."""
    dimension = precision.size
    drawn = np.empty((0, dimension))
    for _ in range(MAX_BATCHES):
        missing = size - len(drawn)
        if missing == 0:
            return drawn
        points = normals((missing * BATCH, dimension), entropy) / np.sqrt(precision)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        ratio = 2.0 / dimension * (points**2 @ precision)
        kept = uniforms(len(points), entropy) < acceptance(ratio, dimension)
        drawn = np.concatenate([drawn, points[kept][:missing]])
    raise NumericError(NONE_ACCEPTED)
