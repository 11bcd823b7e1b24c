"""Optimal shrinkage: a better estimate of a positive semidefinite matrix observed under symmetric Gaussian noise.

Contract: deterministic, never touches anything but its public arguments, keeps the noisy eigenvectors,
returns a positive semidefinite matrix and an unbiased estimate of its own squared error.  Knows nothing of
rows or privacy: everything here is post-processing.

Notes
-----
Four estimators compete, each with its Stein risk: the curve of least estimated risk at two resolutions, the projection
on {positive semidefinite, trace ≤ t}, and zero.  They are averaged with weights ∝ exp(−risk/(4·noise variance)), where
2v is the noise variance of a unit direction: at that temperature, for linear projections, the averaged risk is itself
an unbiased estimate of the average's risk and within 8v·log 4 of the best (Leung, Barron 2006).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpcov.errors import NumericError, UsageError
from dpcov.published.estimate.curve import least_risk_curve
from dpcov.published.estimate.risk import NoisySpectrum, SpectralEstimate, stein_risk
from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array, EigenSystem, compose, eigh

DIMENSION_PER_PIECE = 16.0
"""The noise bulk gets cbrt(d / 16) knot intervals on each side, at least one: the resolution of d eigenvalues."""

SMALLEST_SHARE = 1e-6
"""Keeps the temperature positive when the trace is known exactly and d = 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShrinkResult:
    """Estimate of S: eigenvalues ascending, shape (d,), eigenvectors as columns, shape (d, d).

    ``expected_squared_error`` estimates E‖matrix − S‖²_F without bias, so it can fall below 0 when the error is small;
    ``weights`` are the shares of the averaged estimators.
    """

    eigenvalues: Array
    eigenvectors: Array
    expected_squared_error: float
    weights: Mapping[str, float]

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
        Variance v of every off-diagonal entry of W.  Diagonal entries have variance 2v, which is the variance of W
        along every unit direction: isotropic noise of a given ``noise_std`` has v = noise_std**2 / 2.
    trace, trace_variance : float, optional
        An estimate of tr S with independent Gaussian noise, and its variance.  Give both or neither.

    Returns
    -------
    ShrinkResult

    Raises
    ------
    UsageError, NumericError
        Variances that are negative or not finite; entries that are not finite.

    Examples
    --------
    >>> shrink([[9.0, 0.5], [0.5, -1.0]], off_diagonal_variance=0.0).eigenvalues.round(2)
    array([0.  , 9.02])
    """
    return shrink_system(
        eigh(noisy),
        off_diagonal_variance=off_diagonal_variance,
        trace=trace,
        trace_variance=trace_variance,
    )


def shrink_system(
    system: EigenSystem,
    *,
    off_diagonal_variance: float,
    trace: float | None = None,
    trace_variance: float | None = None,
) -> ShrinkResult:
    """Do what :func:`shrink` does, for a noisy matrix that is decomposed already."""
    v = _variance(off_diagonal_variance)
    if v == 0.0:
        clipped = EigenSystem(np.maximum(system.values, 0.0), system.vectors)
        return _result(clipped, risk=0.0, weights={})
    return shrink_spectrum(_with_trace(system.values, v, trace, trace_variance), system.vectors)


def expected_squared_error(
    values: Array,
    *,
    off_diagonal_variance: float,
    trace: float | None = None,
    trace_variance: float | None = None,
) -> float:
    """Return what :func:`shrink` expects of a noisy matrix with these ascending eigenvalues."""
    v = _variance(off_diagonal_variance)
    return 0.0 if v == 0.0 else _shrunk_values(_with_trace(values, v, trace, trace_variance)).risk


def shrink_spectrum(spectrum: NoisySpectrum, vectors: Array) -> ShrinkResult:
    """Shrink an eigendecomposition whose noise law is known."""
    averaged = _shrunk_values(spectrum)
    return _result(
        EigenSystem(averaged.values, vectors), risk=averaged.risk, weights=averaged.weights
    )


class _Averaged(NamedTuple):
    values: Array
    risk: float
    weights: Mapping[str, float]


def _shrunk_values(spectrum: NoisySpectrum) -> _Averaged:
    estimates = candidates(spectrum)
    risks = {name: stein_risk(estimate, spectrum) for name, estimate in estimates.items()}
    weights = _average_weights(risks, spectrum)
    values = np.zeros(spectrum.dimension)
    for name, weight in weights.items():
        values += weight * estimates[name].values
    risk = sum(weight * risks[name] for name, weight in weights.items())
    if not (np.isfinite(values).all() and np.isfinite(risk)):
        raise NumericError(
            "The shrunk eigenvalues overflowed. Rescale the matrix and its variance and retry."
        )
    return _Averaged(values, risk, weights)


def candidates(spectrum: NoisySpectrum) -> dict[str, SpectralEstimate]:
    """Return the competing estimates by name; ``fine`` has more knots the larger the dimension.

    A single number is only cut at zero: whatever is better near zero is worse where it is about as large as its noise.
    """
    if spectrum.dimension == 1:
        return {"projected": _projected(spectrum.separated)}
    pieces = max(1, round(float(np.cbrt(spectrum.dimension / DIMENSION_PER_PIECE))))
    zero = SpectralEstimate(values=np.zeros(spectrum.dimension), own_slopes=0.0, shift_slope=0.0)
    return {
        "coarse": least_risk_curve(spectrum, 0),
        "fine": least_risk_curve(spectrum, pieces),
        "projected": _projected(spectrum.separated),
        "zero": zero,
    }


def _projected(values: Array) -> SpectralEstimate:
    """Project on {λ ≥ 0, Σλ at most what it is}: the positive ones give up what the negative ones lack."""
    projected = capped_simplex_projection(values, max(float(values.sum()), 0.0))
    kept = int(np.count_nonzero(projected))
    return SpectralEstimate(values=projected, own_slopes=float(kept), shift_slope=float(kept > 0))


def _average_weights(risks: Mapping[str, float], spectrum: NoisySpectrum) -> dict[str, float]:
    least = min(risks.values())
    temperature = 4.0 * max(
        spectrum.largest_variance, SMALLEST_SHARE * spectrum.off_diagonal_variance
    )
    shares = {name: float(np.exp((least - risk) / temperature)) for name, risk in risks.items()}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items() if share > 0.0}


def _with_trace(
    values: Array, v: float, trace: float | None, trace_variance: float | None
) -> NoisySpectrum:
    """Move the eigenvalues along I so that their sum is the best combination of tr(noisy) and ``trace``."""
    d = values.size
    own_variance = 2.0 * v * d
    if trace is None and trace_variance is None:
        return NoisySpectrum(values=values, off_diagonal_variance=v, mean_variance=own_variance / d)
    if trace is None or trace_variance is None:
        raise UsageError("Give both trace and trace_variance, or neither.")
    if not np.isfinite(trace):
        raise UsageError("The trace estimate must be a finite number.")
    share = own_variance / (own_variance + _variance(trace_variance))
    return NoisySpectrum(
        values=values + share * (trace - values.sum()) / d,
        off_diagonal_variance=v,
        mean_variance=(1.0 - share) * own_variance / d,
    )


def _variance(value: float) -> float:
    if not 0.0 <= value < np.inf:
        raise UsageError("A noise variance must be a finite number that is not negative.")
    return float(value)


def _result(system: EigenSystem, *, risk: float, weights: Mapping[str, float]) -> ShrinkResult:
    return ShrinkResult(
        eigenvalues=system.values,
        eigenvectors=system.vectors,
        expected_squared_error=risk,
        weights=weights,
    )
