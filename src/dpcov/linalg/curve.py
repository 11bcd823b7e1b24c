"""The shrinkage curve of least estimated risk: one small convex program.

Promise: the curve is increasing and not negative, hence its matrix is positive semidefinite, and among the curves of
its spline family it minimizes Stein's unbiased risk estimate.  Knows nothing of eigenvectors, rows or privacy.

Notes
-----
For f = Σ_k c_k φ_k the risk estimate is quadratic in c.  In the Mahalanobis norm of the noise (variance 2v in every
direction but I/√d, there w) it is, up to a constant and with κ = 2v/w − 1,

    ‖Φc − λ‖² + κ (Σf − Σλ)²/d + 4v Σ_k c_k (Σ_i φ_k'(λ_i) + Σ_i φ_k(λ_i) m_i),

to be minimized over c ≥ 0: a nonnegative least-squares problem in a dozen unknowns, whatever d.
"""

import numpy as np
from scipy.optimize import nnls

from dpcov.errors import NumericError
from dpcov.linalg.risk import NoisySpectrum, SpectralEstimator, pair_sums
from dpcov.linalg.splines import increasing_basis, noise_knots
from dpcov.linalg.symmetric import Array

LARGEST_TRACE_WEIGHT = 1e4
RIDGE = 1e-10
NEGLIGIBLE = 1e-12


def least_risk_curve(spectrum: NoisySpectrum, pieces: int) -> SpectralEstimator:
    """Return the estimator that fits the curve to the eigenvalues it is given, under the noise of ``spectrum``.

    ``pieces`` is the number of knot intervals between 0 and the edge 2√(dv) of the noise's semicircle.
    """

    def estimator(values: Array) -> Array:
        return _fit(values, spectrum, pieces)

    return estimator


def _fit(values: Array, spectrum: NoisySpectrum, pieces: int) -> Array:
    v, d = spectrum.off_diagonal_variance, spectrum.dimension
    basis = increasing_basis(values, noise_knots(2.0 * np.sqrt(d * v), float(values.max()), pieces))
    heights, totals = basis.heights, basis.heights.sum(axis=0)
    trace_weight = 2.0 * v / max(spectrum.mean_variance, 2.0 * v / LARGEST_TRACE_WEIGHT) - 1.0
    divergence = basis.slopes.sum(axis=0) + pair_sums(values) @ heights
    quadratic = heights.T @ heights + (trace_weight / d) * np.outer(totals, totals)
    target = values if spectrum.excess is None else values - spectrum.excess
    linear = target @ heights - 2.0 * v * divergence + (trace_weight / d) * values.sum() * totals
    return np.asarray(heights @ nonnegative_minimizer(quadratic, linear))


def nonnegative_minimizer(quadratic: Array, linear: Array) -> Array:
    """Minimize cᵀAc − 2bᵀc over c ≥ 0; curves that vanish at all eigenvalues get weight 0."""
    # scipy's nnls does not check its input, and writes out of bounds where it is empty or not finite.
    if not (np.isfinite(quadratic).all() and np.isfinite(linear).all()):
        raise NumericError("The shrinkage curve has no finite fit. Read the release with another post.")
    norms = np.sqrt(np.diag(quadratic))
    if not norms.any():
        return np.zeros(norms.size)
    used = norms > NEGLIGIBLE * norms.max()
    scale = norms[used]
    correlation = quadratic[np.ix_(used, used)] / np.outer(scale, scale)
    # With fewer eigenvalues than curves A is singular; the ridge keeps the factor without moving the fit.
    factor = np.linalg.cholesky(correlation + RIDGE * np.eye(scale.size))
    target = np.linalg.solve(factor, linear[used] / scale)
    try:
        weights, _ = nnls(factor.T, target, maxiter=50 * scale.size)
    except RuntimeError as error:
        raise NumericError("The shrinkage curve did not converge. Use project_psd_trace instead.") from error
    solution = np.zeros(norms.size)
    solution[used] = weights / scale
    return solution
