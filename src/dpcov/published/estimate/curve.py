"""The shrinkage curve of least estimated risk: one small convex program (docs/shrinkage.md).

Contract: the curve is increasing and not negative, hence its matrix is positive semidefinite, and
among the curves of its spline family it minimizes Stein's unbiased risk: for f = Σ_k c_k φ_k, with
κ = 2v/w − 1, up to a constant

    ‖Φc − λ‖² + κ (Σf − Σλ)²/d + 4v Σ_k c_k (Σ_i φ_k'(λ_i) + Σ_i φ_k(λ_i) m_i),   c ≥ 0.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import nnls

from dpcov.errors import NumericError
from dpcov.published.estimate.risk import NoisySpectrum, SpectralEstimate, squared_chord_slopes
from dpcov.published.linalg.symmetric import Array

# Bounds κ where the trace is known almost exactly.
LARGEST_TRACE_WEIGHT = 1e4
# With fewer eigenvalues than curves A is singular; this keeps its factor without moving the fit.
RIDGE = 1e-10
# Relative size below which a curve vanishes at all eigenvalues.
NEGLIGIBLE = 1e-12
# Ratio of neighboring knots beyond the noise bulk: few curves, yet any spectrum is covered.
OUTER_GROWTH = 2.0


class CurveBasis(NamedTuple):
    """Basis curves at k points, with two derivatives, each of shape (k, number of curves)."""

    heights: Array
    slopes: Array
    curvatures: Array


def noise_knots(radius: float, largest: float, pieces: int) -> Array:
    """Return knots on [−radius, radius], ``pieces`` intervals on each side of 0 or a single one."""
    knots = list(np.linspace(-radius, radius, 2 * pieces + 1 if pieces else 2))
    step = knots[1] - knots[0]
    # A curve spans three knots, so two of them must lie past the largest value.
    while len(knots) < 3 or knots[-3] < largest:
        step = max(step, (OUTER_GROWTH - 1.0) * knots[-1])
        knots.append(knots[-1] + step)
    return np.array(knots)


def increasing_basis(points: Array, knots: Array) -> CurveBasis:
    """Return the constant 1 and the integrals of the hat functions over three neighboring knots.

    Their nonnegative sums are the increasing, nonnegative quadratic splines (Ramsay's I-splines).
    """
    left, peak, right = knots[:-2], knots[1:-1], knots[2:]
    x = points[:, np.newaxis]
    risen = np.clip(x, left, peak) - left
    passed = np.clip(x, peak, right) - peak
    width = right - left
    # Products of nonnegative factors: rounding cannot turn a height negative.
    heights = risen**2 / (width * (peak - left)) + passed * (2.0 - passed / (right - peak)) / width
    slopes = 2.0 / width * np.where(x < peak, risen / (peak - left), 1.0 - passed / (right - peak))
    rising, falling = (left < x) & (x < peak), (peak <= x) & (x < right)
    curvatures = 2.0 / width * (rising / (peak - left) - falling / (right - peak))
    zero = np.zeros((points.size, 1))
    return CurveBasis(
        np.hstack([zero + 1.0, heights]), np.hstack([zero, slopes]), np.hstack([zero, curvatures])
    )


def least_risk_curve(spectrum: NoisySpectrum, pieces: int) -> SpectralEstimate:
    """Fit the curve to the eigenvalues, with the freedom of the fit counted in its slopes.

    ``pieces`` is the number of knot intervals between 0 and the edge 2√(dv) of the noise.
    """
    v, d, values = spectrum.off_diagonal_variance, spectrum.dimension, spectrum.separated
    basis = increasing_basis(values, noise_knots(2.0 * np.sqrt(d * v), float(values.max()), pieces))
    heights, totals = basis.heights, basis.heights.sum(axis=0)
    divergence = basis.slopes.sum(axis=0) + spectrum.pair_sums @ heights
    # κ/d: the sharper the trace is known, the more strictly it is met.
    weight = (2.0 * v / max(spectrum.mean_variance, 2.0 * v / LARGEST_TRACE_WEIGHT) - 1.0) / d
    quadratic = heights.T @ heights + weight * np.outer(totals, totals)
    linear = spectrum.target @ heights - 2.0 * v * divergence + weight * values.sum() * totals
    coefficients = nonnegative_minimizer(quadratic, linear)
    used = coefficients > 0.0
    in_use = CurveBasis(*(curves[:, used] for curves in basis))
    return _differentiated(spectrum, in_use, coefficients[used], weight)


def _differentiated(
    spectrum: NoisySpectrum, basis: CurveBasis, coefficients: Array, weight: float
) -> SpectralEstimate:
    # ``basis`` holds the curves in use only: the others do not move with λ.
    v, values = spectrum.off_diagonal_variance, spectrum.separated
    heights, totals = basis.heights, basis.heights.sum(axis=0)
    fitted, slopes = heights @ coefficients, basis.slopes @ coefficients
    if not coefficients.size:
        return SpectralEstimate(fitted, 0.0, 0.0)
    # A c = b gives A dc = db − dA c over the curves in use; summed over λ, with L = chol(A),
    # Σ φᵀA⁻¹∂(Σ φm) = Σ φᵀA⁻¹φ'm − Σ_{i<j} ‖L⁻¹(φ(λ_i) − φ(λ_j))‖²/(λ_i − λ_j)².
    missing = spectrum.target - 2.0 * v * spectrum.pair_sums - fitted
    missing += weight * (values.sum() - fitted.sum())
    changes = basis.slopes * missing[:, np.newaxis] - 2.0 * v * basis.curvatures
    changes += (heights + weight * totals) * (1.0 - slopes)[:, np.newaxis]
    quadratic = heights.T @ heights + weight * np.outer(totals, totals)
    scale = np.sqrt(np.diag(quadratic))
    factor = scale[:, np.newaxis] * _factor(quadratic, scale)
    whitened = scipy.linalg.solve_triangular(factor, np.vstack([heights, changes]).T, lower=True).T
    white, white_changes = np.split(whitened, 2)
    refitted = float(np.vdot(white, white_changes)) + 2.0 * v * squared_chord_slopes(white, values)
    shifted = float(white.sum(axis=0) @ white_changes.sum(axis=0))
    total = float(slopes.sum())
    return SpectralEstimate(fitted, total + refitted, (total + shifted) / values.size)


def _factor(quadratic: Array, scale: Array) -> Array:
    # With the diagonal brought to 1, one ridge fits all sizes.
    unit = quadratic / np.outer(scale, scale)
    return np.asarray(np.linalg.cholesky(unit + RIDGE * np.eye(scale.size)))


def nonnegative_minimizer(quadratic: Array, linear: Array) -> Array:
    """Minimize cᵀAc − 2bᵀc over c ≥ 0; curves that vanish at all eigenvalues get weight 0."""
    # scipy's nnls does not check its input, and writes out of bounds if it is empty or not finite.
    if not (np.isfinite(quadratic).all() and np.isfinite(linear).all()):
        raise NumericError("The shrinkage curve has no finite fit. Read with another post.")
    norms = np.sqrt(np.diag(quadratic))
    solution, used = np.zeros(norms.size), norms > NEGLIGIBLE * norms.max(initial=0.0)
    if not used.any():
        return solution
    scale = norms[used]
    factor = _factor(quadratic[np.ix_(used, used)], scale)
    target = np.linalg.solve(factor, linear[used] / scale)
    try:
        weights, _ = nnls(factor.T, target, maxiter=50 * scale.size)
    except RuntimeError as error:
        raise NumericError("The curve did not converge. Read with another post.") from error
    solution[used] = weights / scale
    return solution
