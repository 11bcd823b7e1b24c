"""Estimate the sum of several positive semidefinite matrices, each observed under symmetric nuclear-norm noise.

Contract: deterministic, positive semidefinite, never touches anything but its public arguments.  Knows
nothing of rows or privacy: everything here is post-processing.

Notes
-----
Strata are taken from the clearest to the noisiest.  Two estimates of each one compete by their estimated risk: its own
spectrum, shrunk; and the best nonnegative combination of I with the *shape*, the estimate of everything clearer.  The
shape is independent of the stratum's noise, so the combination has two degrees of freedom instead of d(d+1)/2: where
strata resemble each other the noise of the outer ones nearly vanishes, and where they do not the risk shows it.

A stratum is estimated as zero unless its trace, its largest eigenvalue or its component along the shape stands out
from the noise, and could do so at its largest possible trace.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.curve import nonnegative_minimizer
from dpcov.published.estimate.risk import NoisySpectrum
from dpcov.published.estimate.shrink import shrink_spectrum
from dpcov.published.linalg.symmetric import Array, eigh

SIGNIFICANT_TRACE = 4.5
"""Standard deviations of its trace from which a stratum counts as present; the trace's noise has a heavy tail."""

SIGNIFICANT_SHAPE = 3.5
"""The most that is asked for along the shape, whose noise is nearly normal."""

SIGNIFICANT_AT_LOW_COST = 2.0
"""The least that is ever asked for along the shape, where that noise is below twice the error already expected."""

VISIBLE = 1.5
"""A stratum is shrunk by itself if its trace exceeds this many times what the faintest visible direction needs."""

VISIBLE_WITH_TRACE = 0.75
"""The same for one whose trace is known: it bounds the eigenvalues, and a wrong direction costs little then."""

PRECISE_TRACE = 0.5
"""A trace counts as known if its variance is below this part of the variance along a unit direction."""

BENEFIT_OF_DOUBT = 1.0
"""The shape is preferred unless its risk is higher by this many standard deviations of the difference."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NuclearStratum:
    """A noisy (d, d) matrix whose noise W has density proportional to exp(-||W||_*/scale), and a noisy trace.

    ``largest_trace`` bounds what the trace can be without noise.
    """

    noisy: Array
    scale: float
    trace: float
    trace_variance: float
    largest_trace: float = math.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class NuclearEstimate:
    """Estimate of a sum of strata and, roughly, of its expected squared Frobenius error."""

    matrix: Array
    expected_squared_error: float


def shrink_nuclear_strata(strata: Iterable[NuclearStratum]) -> NuclearEstimate:
    """Estimate the sum of the strata, at least one, all in the same units.

    Examples
    --------
    >>> noisy = np.array([[90.0, 0.5], [0.5, -1.0]])
    >>> stratum = NuclearStratum(noisy=noisy, scale=1.0, trace=90.0, trace_variance=8.0)
    >>> bool(np.all(np.linalg.eigvalsh(shrink_nuclear_strata([stratum]).matrix) >= 0))
    True
    """
    ordered = sorted(strata, key=lambda stratum: -stratum.trace / stratum.scale)
    total = np.zeros_like(ordered[0].noisy)
    squared_error = 0.0
    for stratum in ordered:
        part = _estimate(_Observation(stratum), total, math.sqrt(squared_error))
        total = total + part.matrix
        squared_error += part.expected_squared_error
    return NuclearEstimate(matrix=total, expected_squared_error=squared_error)


class _Observation:
    """A stratum's matrix after its diagonal was combined with the noisy trace by precision."""

    def __init__(self, stratum: NuclearStratum) -> None:
        d, squared_scale = len(stratum.noisy), stratum.scale**2
        own_variance = ullman.trace_variance(d) * squared_scale
        share = own_variance / (own_variance + stratum.trace_variance)
        shift = share * (stratum.trace - float(np.trace(stratum.noisy))) / d
        self.scale, self.largest_trace = stratum.scale, stratum.largest_trace
        self.matrix: Array = stratum.noisy + shift * np.eye(d)
        self.trace = float(np.trace(self.matrix))
        self.trace_variance = (1.0 - share) * own_variance
        self.off_diagonal_variance = ullman.off_diagonal_variance(d) * squared_scale
        self.system = eigh(self.matrix)

    @property
    def unit_variance(self) -> float:
        """Noise variance along a unit direction."""
        return 2.0 * self.off_diagonal_variance

    @property
    def total_variance(self) -> float:
        """Mean squared Frobenius norm of the noise."""
        d = len(self.matrix)
        return self.unit_variance * (d * (d + 1) / 2 - 1) + self.trace_variance / d

    @property
    def knows_its_trace(self) -> bool:
        """Whether the trace is clearer than a single direction."""
        return self.trace_variance < PRECISE_TRACE * self.unit_variance

    def is_present(self, shape: Array, known_error: float) -> bool:
        """Whether the trace, the largest eigenvalue or the component along the shape stands out."""
        bound, unit_std = self.largest_trace, math.sqrt(self.unit_variance)
        if min(self.trace, bound) > SIGNIFICANT_TRACE * math.sqrt(self.trace_variance):
            return True
        if min(self.system.values[-1], bound) > self.scale * ullman.largest_plausible(len(shape)):
            return True
        size = float(np.linalg.norm(shape))
        along = float(np.vdot(self.matrix, shape)) / size if size > 0.0 else 0.0
        needed = _needed(unit_std / known_error) if known_error > 0.0 else SIGNIFICANT_SHAPE
        return min(along, bound) > needed * unit_std


def _needed(cost: float) -> float:
    """Return how many standard deviations a component along the shape must have.

    A false alarm costs about ``cost`` times the error already expected and has probability exp(-x**2/2) at x standard
    deviations, so x grows with the root of log(cost): from 2 at a cost of 2 up to 3.5, reached at 120.
    """
    least, most = SIGNIFICANT_AT_LOW_COST, SIGNIFICANT_SHAPE
    return min(math.sqrt(least**2 + 2.0 * math.log(max(cost / 2.0, 1.0))), most)


def _estimate(observation: _Observation, shape: Array, known_error: float) -> NuclearEstimate:
    """Choose between zero, the shape and the shrunk spectrum; average the last two where their risks are close."""
    if not observation.is_present(shape, known_error):
        squared_trace = observation.trace**2 - observation.trace_variance
        return NuclearEstimate(
            matrix=np.zeros_like(shape), expected_squared_error=max(squared_trace, 0.0)
        )
    shaped = _shaped(observation, shape)
    needed = VISIBLE_WITH_TRACE if observation.knows_its_trace else VISIBLE
    if observation.trace < needed * ullman.weakest_visible(len(shape)) * observation.scale:
        return _plausible(shaped, observation)
    own = _shrunk(observation)
    distance = float(np.linalg.norm(own.matrix - shaped.matrix))
    doubt = BENEFIT_OF_DOUBT * 2.0 * math.sqrt(observation.unit_variance) * distance
    advantage = own.expected_squared_error + doubt - shaped.expected_squared_error
    weight = 0.5 * (1.0 + math.tanh(advantage / (8.0 * observation.unit_variance)))
    averaged = NuclearEstimate(
        matrix=weight * shaped.matrix + (1.0 - weight) * own.matrix,
        expected_squared_error=weight * shaped.expected_squared_error
        + (1.0 - weight) * own.expected_squared_error,
    )
    return _plausible(averaged, observation)


def _plausible(estimate: NuclearEstimate, observation: _Observation) -> NuclearEstimate:
    """Risk estimates are unbiased, not positive: keep them between one direction's noise and the error of zero."""
    largest = max(observation.trace, 0.0) ** 2
    risk = min(max(estimate.expected_squared_error, observation.unit_variance), largest)
    return NuclearEstimate(matrix=estimate.matrix, expected_squared_error=risk)


def _shaped(observation: _Observation, shape: Array) -> NuclearEstimate:
    """Project on nonnegative combinations of I and the shape; each one in use costs one direction's noise twice."""
    d, size = len(shape), float(np.linalg.norm(shape))
    directions = [np.eye(d) / math.sqrt(d)]
    if size > 0.0:
        directions.append(shape / size)
    products = np.array([[float(np.vdot(a, b)) for a in directions] for b in directions])
    components = np.array([float(np.vdot(a, observation.matrix)) for a in directions])
    weights = nonnegative_minimizer(products, components)
    matrix = sum(
        (w * a for w, a in zip(weights, directions, strict=True)), start=np.zeros_like(shape)
    )
    residual = float(np.sum((matrix - observation.matrix) ** 2))
    freedom = 2.0 * observation.unit_variance * int(np.count_nonzero(weights))
    return NuclearEstimate(
        matrix=matrix, expected_squared_error=residual - observation.total_variance + freedom
    )


def _shrunk(observation: _Observation) -> NuclearEstimate:
    """Shrink the spectrum under Stein's risk, corrected for the shape of the noise's own spectrum."""
    values, vectors = observation.system
    spectrum = NoisySpectrum(
        values=values,
        off_diagonal_variance=observation.off_diagonal_variance,
        mean_variance=observation.trace_variance / values.size,
        excess=ullman.excess(values, observation.scale),
    )
    result = shrink_spectrum(spectrum, vectors)
    return NuclearEstimate(
        matrix=result.matrix, expected_squared_error=result.expected_squared_error
    )
