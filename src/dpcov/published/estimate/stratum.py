"""A noisy matrix that is one of several: its noise law, and the evidence that there is anything but noise in it.

Contract: the evidence is exact for Gaussian noise: a stratum of noise alone passes a test of c standard
deviations with the probability that a normal number exceeds c, or less.  Knows nothing of rows or privacy.

Notes
-----
Three statistics of Y = S + W are compared with what noise alone does, W having variance 2v along every unit direction:
the trace; the component along an independent guide, which is N(0, 2v); and the largest eigenvalue.  That is a convex
1-Lipschitz function of W with mean at most 2√(dv) (Sudakov and Fernique), so its median is not larger (Kwapień) and it
exceeds 2√(dv) + c√(2v) no more often than a normal number exceeds c (Gaussian isoperimetry).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np
import scipy.linalg

from dpcov.published.estimate.shrink import ShrinkResult, expected_squared_error, shrink_system
from dpcov.published.linalg.symmetric import Array, EigenSystem, eigenvalues, eigh


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMatrix:
    """A finite symmetric matrix whose eigensystem is computed once, and not at all for one that is dropped."""

    entries: Array

    @cached_property
    def system(self) -> EigenSystem:
        """All eigenvalues and eigenvectors."""
        return eigh(self.entries)

    @cached_property
    def eigenvalues(self) -> Array:
        """All eigenvalues; those of the system, once that is known."""
        return self.system.values if "system" in self.__dict__ else eigenvalues(self.entries)

    def largest_eigenvalue(self) -> float:
        """The largest eigenvalue, at a fraction of the cost of the system."""
        last = len(self.entries) - 1
        return float(scipy.linalg.eigvalsh(self.entries, subset_by_index=[last, last])[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Stratum:
    """The sum of some observations, by index, with their noise law.

    ``variance`` is that of an off-diagonal entry, v; ``trace`` is an independent noisy trace, if there is one.
    """

    members: tuple[int, ...]
    observed: NoisyMatrix
    variance: float
    trace: float | None
    trace_variance: float | None

    @property
    def noisy(self) -> Array:
        """S + W."""
        return self.observed.entries

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise along a unit direction."""
        return sqrt(2.0 * self.variance)

    def shrunk(self) -> ShrinkResult:
        """The estimate that uses nothing but the stratum itself."""
        return shrink_system(
            self.observed.system,
            off_diagonal_variance=self.variance,
            trace=self.trace,
            trace_variance=self.trace_variance,
        )

    def shrunk_risk(self) -> float:
        """The expected squared error of :meth:`shrunk`, without eigenvectors."""
        return expected_squared_error(
            self.observed.eigenvalues,
            off_diagonal_variance=self.variance,
            trace=self.trace,
            trace_variance=self.trace_variance,
        )

    def stands_out(self, deviations: float, guide: Callable[[], Array]) -> bool:
        """Whether trace, component along the guide (the zero matrix if there is none) or largest eigenvalue do.

        They are asked in the order of their cost; the guide is not made where the trace is enough.
        """
        if self.variance == 0.0:
            return bool(np.any(self.noisy))
        trace, trace_std = self.best_trace()
        if trace > deviations * trace_std:
            return True
        known = guide()
        if np.any(known):
            along = float(np.vdot(self.noisy, known)) / float(np.linalg.norm(known))
            if along > deviations * self.noise_std:
                return True
        edge = 2.0 * sqrt(len(self.noisy) * self.variance)
        return self.observed.largest_eigenvalue() > edge + deviations * self.noise_std

    def best_trace(self) -> tuple[float, float]:
        """The two traces averaged by precision, and the standard deviation of that."""
        own, own_variance = float(np.trace(self.noisy)), self.noise_std**2 * len(self.noisy)
        if self.trace is None or self.trace_variance is None:
            return own, sqrt(own_variance)
        share = own_variance / (own_variance + self.trace_variance)
        return own + share * (self.trace - own), sqrt(share * self.trace_variance)


def pool(strata: Sequence[Stratum]) -> Stratum:
    """Add strata up."""
    noisy = np.sum([stratum.noisy for stratum in strata], axis=0)
    return Stratum(
        members=tuple(index for stratum in strata for index in stratum.members),
        observed=NoisyMatrix(entries=noisy),
        variance=sum(stratum.variance for stratum in strata),
        trace=_total([stratum.trace for stratum in strata]),
        trace_variance=_total([stratum.trace_variance for stratum in strata]),
    )


def with_joint_trace(strata: Sequence[Stratum], joint_trace: float) -> list[Stratum]:
    """Sharpen the traces of strata by a noisy sum of them, each in units of its own noise.

    ``joint_trace`` is Σ tr S_s / noise_std_s + N(0, 1).  With precision matrix diag(p) + 11ᵀ of the scaled traces,
    p_s counting both traces of a stratum, each one gets its marginal mean and variance; what the matrix itself knows
    is taken out again, because shrinking puts it in.
    """
    known = [
        (s.noise_std, s.trace, s.trace_variance)
        for s in strata
        if s.trace is not None and s.variance
    ]
    if not known or len(known) < len(strata) or any(not variance for _, _, variance in known):
        return list(strata)
    own_precision = 1.0 / len(strata[0].noisy)
    own = np.array([np.trace(stratum.noisy) / stratum.noise_std for stratum in strata])
    given = np.array([float(trace or 0.0) / std for std, trace, _ in known])
    precision = np.array([std**2 / float(variance or 0.0) for std, _, variance in known])
    covariance = np.linalg.inv(np.diag(precision + own_precision) + 1.0)
    mean = covariance @ (own * own_precision + given * precision + joint_trace)
    marginal = 1.0 / np.diag(covariance)
    sharper = marginal - own_precision
    traces = (mean * marginal - own * own_precision) / sharper
    return [
        replace(
            stratum,
            trace=float(t) * stratum.noise_std,
            trace_variance=stratum.noise_std**2 / float(weight),
        )
        for stratum, t, weight in zip(strata, traces, sharper, strict=True)
    ]


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
