"""Estimate the sum of positive semidefinite matrices, each under symmetric nuclear-norm noise.

Contract: deterministic, positive semidefinite post-processing of public numbers (docs/pure.md).
"""

import math
from collections.abc import Iterable

import numpy as np

from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.curve import nonnegative_minimizer
from dpcov.published.estimate.risk import NoisySpectrum, risk_weights
from dpcov.published.estimate.shrink import shrink_spectrum
from dpcov.published.estimate.unit import Estimate, Part, by_precision
from dpcov.published.linalg.symmetric import Array, compose, eigh

# Standard deviations of its trace from which a stratum counts as present: the tail is heavy.
SIGNIFICANT_TRACE = 4.5
# The most that is asked for along the shape, whose noise is nearly normal; and the least, where
# that noise is below twice the error already expected.
SIGNIFICANT_SHAPE, SIGNIFICANT_AT_LOW_COST = 3.5, 2.0
# The shape is preferred unless its risk is higher by this many deviations of the difference.
BENEFIT_OF_DOUBT = 1.0


def shrink_nuclear_strata(strata: Iterable[Part]) -> Estimate:
    """Estimate the sum of the strata: at least one, each with a trace and a nuclear scale."""
    ordered = sorted(strata, key=lambda part: -(part.trace or 0.0) / (part.nuclear_scale or 1.0))
    total, squared_error = np.zeros_like(ordered[0].matrix), 0.0
    for part in ordered:
        estimate = _estimate(_Observation(part), total, math.sqrt(squared_error))
        total = total + estimate.matrix
        squared_error += estimate.risk
    return Estimate(total, squared_error)


class _Observation:
    """A stratum's matrix after its diagonal was combined with the noisy trace by precision."""

    def __init__(self, part: Part) -> None:
        assert part.trace is not None and part.trace_variance is not None and part.nuclear_scale
        d, self.scale = len(part.matrix), part.nuclear_scale
        own, own_variance = float(np.trace(part.matrix)), ullman.trace_variance(d) * self.scale**2
        self.trace, self.trace_variance = by_precision(
            own, own_variance, part.trace, part.trace_variance
        )
        self.largest_trace = part.largest_trace
        self.matrix: Array = part.matrix + (self.trace - own) / d * np.eye(d)
        self.off_diagonal_variance = ullman.off_diagonal_variance(d) * self.scale**2
        self.dimensions = d * (d + 1) / 2
        # Along a unit direction, and along all of them.
        self.unit_variance = 2.0 * self.off_diagonal_variance
        self.total_variance = self.unit_variance * (self.dimensions - 1) + self.trace_variance / d
        self.system = eigh(self.matrix)

    def is_present(self, shape: Array, known_error: float) -> bool:
        """Whether the trace, the largest eigenvalue or the component along the shape stands out."""
        bound, unit_std = self.largest_trace, math.sqrt(self.unit_variance)
        plausible = self.scale * ullman.largest_plausible(len(shape))
        if min(self.trace, bound) > SIGNIFICANT_TRACE * math.sqrt(self.trace_variance) or (
            min(self.system.values[-1], bound) > plausible
        ):
            return True
        size, needed = float(np.linalg.norm(shape)), SIGNIFICANT_SHAPE
        along = float(np.vdot(self.matrix, shape)) / size if size > 0.0 else 0.0
        if known_error > 0.0:
            # A false alarm costs about `cost` times the error already expected and has the
            # probability exp(-x²/2) at x deviations, so x grows with √log(cost): from 2 at 2 up to
            # 3.5 at 120.
            cost = max(unit_std / known_error / 2.0, 1.0)
            needed = min(math.sqrt(SIGNIFICANT_AT_LOW_COST**2 + 2.0 * math.log(cost)), needed)
        return min(along, bound) > needed * unit_std


def _estimate(seen: _Observation, shape: Array, known_error: float) -> Estimate:
    # Choose zero, the shape or the shrunk spectrum; average the last two if they are close.
    if not seen.is_present(shape, known_error):
        return Estimate(np.zeros_like(shape), max(seen.trace**2 - seen.trace_variance, 0.0))
    shaped, own = _shaped(seen, shape), _shrunk(seen)
    distance = float(np.linalg.norm(own.matrix - shaped.matrix))
    doubt = BENEFIT_OF_DOUBT * 2.0 * math.sqrt(seen.unit_variance) * distance
    risks = np.array([shaped.risk, own.risk])
    weights = risk_weights(risks - [doubt, 0.0], 4.0 * seen.unit_variance)
    matrix = weights[0] * shaped.matrix + weights[1] * own.matrix
    risk = float(weights @ risks)
    # Unbiased risks can be negative: keep them between their own deviation, nearly that of the
    # noise's squared norm, and zero's error.
    least = seen.total_variance * min(1.0, math.sqrt(2.0 / seen.dimensions))
    return Estimate(matrix, min(max(risk, least), max(seen.trace, 0.0) ** 2))


def _shaped(seen: _Observation, shape: Array) -> Estimate:
    # The shape's noise is independent of the stratum's: two degrees of freedom, not d(d+1)/2.
    d, size = len(shape), float(np.linalg.norm(shape))
    directions = [np.eye(d) / math.sqrt(d), *([shape / size] if size > 0.0 else [])]
    products = np.array([[float(np.vdot(a, b)) for a in directions] for b in directions])
    components = np.array([float(np.vdot(a, seen.matrix)) for a in directions])
    weights = nonnegative_minimizer(products, components)
    matrix: Array = np.tensordot(weights, directions, axes=1)
    residual = float(np.sum((matrix - seen.matrix) ** 2))
    # Each direction in use costs its noise twice.
    freedom = 2.0 * seen.unit_variance * int(np.count_nonzero(weights))
    return Estimate(matrix, residual - seen.total_variance + freedom)


def _shrunk(seen: _Observation) -> Estimate:
    # The excess corrects Stein's risk for the noise's own spectrum, which is no semicircle.
    values, vectors = seen.system
    spectrum = NoisySpectrum(
        values=values,
        off_diagonal_variance=seen.off_diagonal_variance,
        mean_variance=seen.trace_variance / values.size,
        excess=ullman.excess(values, seen.scale),
    )
    shrunk, risk = shrink_spectrum(spectrum)
    return Estimate(compose(shrunk, vectors), risk)
