"""Optimal shrinkage of a positive semidefinite matrix under symmetric Gaussian noise.

Contract: deterministic post-processing of eigenvalues that keeps the noisy eigenvectors, gives no
negative ones, and has an unbiased estimate of its own squared error.  Curves of least estimated
risk, the projection and zero are averaged by their risks (docs/shrinkage.md).
"""

import numpy as np

from dpcov.errors import NumericError
from dpcov.published.estimate.curve import least_risk_curve
from dpcov.published.estimate.risk import NoisySpectrum, SpectralEstimate, risk_weights, stein_risk
from dpcov.published.estimate.unit import by_precision
from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array

# The noise bulk gets cbrt(d / 16) knot intervals on each side: the resolution of d eigenvalues.
DIMENSION_PER_PIECE = 16.0
# Keeps the temperature positive when the trace is known exactly and d = 1.
SMALLEST_SHARE = 1e-6


def shrink_values(
    values: Array, v: float, trace: float | None = None, trace_variance: float | None = None
) -> tuple[Array, float]:
    """Shrink the ascending eigenvalues, (d,), of S + W; return them and their estimated risk.

    ``v`` is the variance of every off-diagonal entry of W; diagonal entries have 2v.  ``trace``
    estimates tr S with independent Gaussian noise.  The risk, of the squared Frobenius error, is
    unbiased, so that it can fall below 0.

    >>> shrink_values(np.array([-1.0, 9.0]), 0.0)
    (array([0., 9.]), 0.0)
    """
    if v == 0.0:
        return np.maximum(values, 0.0), 0.0
    d, own = values.size, float(values.sum())
    found, variance = own, 2.0 * v * d
    if trace is not None and trace_variance is not None:
        # Noise along I/√d is all that the trace knows of.
        found, variance = by_precision(own, variance, trace, trace_variance)
    moved = values + (found - own) / d
    law = NoisySpectrum(values=moved, off_diagonal_variance=v, mean_variance=variance / d)
    return shrink_spectrum(law)


def shrink_spectrum(spectrum: NoisySpectrum) -> tuple[Array, float]:
    """Shrink eigenvalues whose noise law is known; return them and their estimated risk."""
    estimates = candidates(spectrum).values()
    risks = np.array([stein_risk(estimate, spectrum) for estimate in estimates])
    v = spectrum.off_diagonal_variance
    # Along the noisiest unit direction; with d = 1 there is none but I/√d.
    largest = spectrum.mean_variance if spectrum.dimension == 1 else 2.0 * v
    weights = risk_weights(risks, 4.0 * max(largest, SMALLEST_SHARE * v))
    values = weights @ np.array([estimate.values for estimate in estimates])
    risk = float(weights @ risks)
    if not (np.isfinite(values).all() and np.isfinite(risk)):
        raise NumericError("The shrunk eigenvalues overflowed. Rescale matrix and variance.")
    return values, risk


def candidates(spectrum: NoisySpectrum) -> dict[str, SpectralEstimate]:
    """Return the competing estimates by name; ``fine`` has more knots the larger the dimension."""
    # {λ ≥ 0, Σλ at most what it is}: positive eigenvalues give up what negative ones lack.
    values = spectrum.separated
    shortened = capped_simplex_projection(values, max(float(values.sum()), 0.0))
    kept = int(np.count_nonzero(shortened))
    projected = SpectralEstimate(shortened, float(kept), float(kept > 0))
    # A single number is only cut at zero: what is better near zero is worse at its noise's size.
    if spectrum.dimension == 1:
        return {"projected": projected}
    pieces = max(1, round(float(np.cbrt(spectrum.dimension / DIMENSION_PER_PIECE))))
    return {
        "coarse": least_risk_curve(spectrum, 0),
        "fine": least_risk_curve(spectrum, pieces),
        "projected": projected,
        "zero": SpectralEstimate(np.zeros(spectrum.dimension), 0.0, 0.0),
    }
