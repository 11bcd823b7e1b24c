"""Optimal shrinkage of a positive semidefinite matrix under symmetric Gaussian noise.

Contract: deterministic post-processing that keeps the noisy eigenvectors and returns a positive
semidefinite matrix with an unbiased estimate of its own squared error.  Curves of least estimated
risk, the projection and zero are averaged by their risks (docs/shrinkage.md).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpcov.errors import NumericError, UsageError
from dpcov.published.estimate.curve import least_risk_curve
from dpcov.published.estimate.risk import NoisySpectrum, SpectralEstimate, stein_risk
from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array, compose, eigh

# The noise bulk gets cbrt(d / 16) knot intervals on each side: the resolution of d eigenvalues.
DIMENSION_PER_PIECE = 16.0

# Keeps the temperature positive when the trace is known exactly and d = 1.
SMALLEST_SHARE = 1e-6


class ShrinkResult(NamedTuple):
    """Estimate of S: ascending eigenvalues, (d,), eigenvectors as columns, (d, d), and its error.

    ``expected_squared_error`` estimates E‖matrix − S‖²_F without bias, so that it can fall below 0.
    """

    eigenvalues: Array
    eigenvectors: Array
    expected_squared_error: float

    @property
    def matrix(self) -> Array:
        """The estimate as a symmetric matrix of shape (d, d)."""
        return compose(self.eigenvalues, self.eigenvectors)


def shrink(
    noisy: ArrayLike,
    *,
    off_diagonal_variance: float,
    trace: float | None = None,
    trace_variance: float | None = None,
) -> ShrinkResult:
    """Estimate the positive semidefinite S from ``noisy`` = S + W.

    Parameters
    ----------
    noisy : array_like of shape (d, d)
    off_diagonal_variance : float
        Variance v of every off-diagonal entry of W; diagonal entries have 2v, the variance of W
        along every unit direction.
    trace, trace_variance : float, optional
        An estimate of tr S with independent Gaussian noise, and its variance; both or neither.

    Raises
    ------
    UsageError, NumericError
        Variances that are negative or not finite; entries that are not finite.

    Examples
    --------
    >>> shrink([[9.0, 0.5], [0.5, -1.0]], off_diagonal_variance=0.0).eigenvalues.round(2)
    array([0.  , 9.02])
    """
    values, vectors = eigh(noisy)
    shrunk, risk = shrink_values(values, off_diagonal_variance, trace, trace_variance)
    return ShrinkResult(shrunk, vectors, risk)


def shrink_values(
    values: Array, off_diagonal_variance: float, trace: float | None, trace_variance: float | None
) -> tuple[Array, float]:
    """Shrink the ascending eigenvalues of a noisy matrix; return them and their estimated risk."""
    v = _variance(off_diagonal_variance)
    if v == 0.0:
        return np.maximum(values, 0.0), 0.0
    return shrink_spectrum(_with_trace(values, v, trace, trace_variance))


def shrink_spectrum(spectrum: NoisySpectrum) -> tuple[Array, float]:
    """Shrink eigenvalues whose noise law is known; return them and their estimated risk."""
    estimates = candidates(spectrum)
    risks = {name: stein_risk(estimate, spectrum) for name, estimate in estimates.items()}
    values, risk = np.zeros(spectrum.dimension), 0.0
    for name, weight in _average_weights(risks, spectrum).items():
        values += weight * estimates[name].values
        risk += weight * risks[name]
    if not (np.isfinite(values).all() and np.isfinite(risk)):
        raise NumericError(
            "The shrunk eigenvalues overflowed. Rescale the matrix and its variance and retry."
        )
    return values, risk


def candidates(spectrum: NoisySpectrum) -> dict[str, SpectralEstimate]:
    """Return the competing estimates by name; ``fine`` has more knots the larger the dimension."""
    projected = _projected(spectrum.separated)
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


def _projected(values: Array) -> SpectralEstimate:
    # {λ ≥ 0, Σλ at most what it is}: positive eigenvalues give up what negative ones lack.
    projected = capped_simplex_projection(values, max(float(values.sum()), 0.0))
    kept = int(np.count_nonzero(projected))
    return SpectralEstimate(projected, float(kept), float(kept > 0))


def _average_weights(risks: Mapping[str, float], spectrum: NoisySpectrum) -> dict[str, float]:
    # At this temperature the averaged risk of linear projections is an unbiased estimate of the
    # average's risk, and within 8v·log 4 of the best (Leung, Barron 2006).
    v, least = spectrum.off_diagonal_variance, min(risks.values())
    # Along the noisiest unit direction; with d = 1 there is none but I/√d.
    largest = spectrum.mean_variance if spectrum.dimension == 1 else 2.0 * v
    temperature = 4.0 * max(largest, SMALLEST_SHARE * v)
    shares = {name: float(np.exp((least - risk) / temperature)) for name, risk in risks.items()}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items() if share > 0.0}


def _with_trace(
    values: Array, v: float, trace: float | None, trace_variance: float | None
) -> NoisySpectrum:
    # Noise along I/√d is all that the trace knows of: its sum moves, by precision.
    d, shift, share = values.size, 0.0, 0.0
    if (trace is None) != (trace_variance is None):
        raise UsageError("Give both trace and trace_variance, or neither.")
    if trace is not None and trace_variance is not None:
        if not np.isfinite(trace):
            raise UsageError("The trace estimate must be a finite number.")
        own_variance = 2.0 * v * d
        share = own_variance / (own_variance + _variance(trace_variance))
        shift = share * (trace - values.sum()) / d
    return NoisySpectrum(
        values=values + shift, off_diagonal_variance=v, mean_variance=(1.0 - share) * 2.0 * v
    )


def _variance(value: float) -> float:
    if not 0.0 <= value < np.inf:
        raise UsageError("A noise variance must be a finite number that is not negative.")
    return float(value)
