"""A noisy matrix that is one of several, and the evidence that it is more than noise.

Contract: for Gaussian noise the evidence is exact: a stratum of noise alone passes a test of c
standard deviations no more often than a normal number exceeds c.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import sqrt

import numpy as np
import scipy.linalg

from dpcov.errors import UsageError
from dpcov.published.estimate.shrink import shrink_values
from dpcov.published.estimate.unit import Estimate, Part
from dpcov.published.linalg import symmetric
from dpcov.published.linalg.symmetric import Array, EigenSystem, compose, eigenvalues, eigh


class Stratum(Part):
    """The sum of some parts: a symmetric matrix with Gaussian noise and perhaps a noisy trace."""

    @classmethod
    def of(cls, part: Part) -> "Stratum":
        """One part as a stratum of its own."""
        known = [part.diagonal_variance, part.trace or 0.0, part.trace_variance or 0.0]
        if not np.isfinite(known).all():
            raise UsageError("Variances and traces of strata must be finite numbers.")
        return cls(**vars(part) | {"matrix": symmetric.symmetrize(part.matrix)})

    @cached_property
    def system(self) -> EigenSystem:
        """Eigenvalues and eigenvectors: computed once, and never for a stratum that is dropped."""
        return eigh(self.matrix)

    @property
    def variance(self) -> float:
        """That of an off-diagonal entry, v."""
        return self.diagonal_variance / 2

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise along a unit direction."""
        return sqrt(self.diagonal_variance)

    @cached_property
    def shrunk(self) -> Estimate:
        """The estimate that uses nothing but the stratum itself."""
        values, vectors = self.system
        shrunk, risk = shrink_values(values, self.variance, self.trace, self.trace_variance)
        return Estimate(compose(shrunk, vectors), risk)

    def shrunk_risk(self) -> float:
        """The risk of :meth:`shrunk`, without eigenvectors."""
        is_known = "system" in self.__dict__
        values = self.system.values if is_known else eigenvalues(self.matrix)
        return shrink_values(values, self.variance, self.trace, self.trace_variance)[1]

    def stands_out(self, deviations: float, guide: Callable[[], Array]) -> bool:
        """Whether trace, component along the guide (zero: no guide) or largest eigenvalue do."""
        if self.variance == 0.0:
            return bool(np.any(self.matrix))
        # In the order of their cost; the guide is not made where the trace is enough.
        trace, trace_std = self.best_trace()
        if trace > deviations * trace_std:
            return True
        size = float(np.linalg.norm(known := guide()))
        if size > 0 and np.vdot(self.matrix, known) / size > deviations * self.noise_std:
            return True
        # A convex 1-Lipschitz function of the noise with mean at most 2√(dv) (Sudakov, Fernique),
        # so its median is not larger (Kwapień) and its tail normal (Gaussian isoperimetry).
        d = len(self.matrix)
        largest = scipy.linalg.eigvalsh(self.matrix, subset_by_index=[d - 1, d - 1])[0]
        return bool(largest > 2.0 * sqrt(d * self.variance) + deviations * self.noise_std)

    def best_trace(self) -> tuple[float, float]:
        """The two traces averaged by precision, and the standard deviation of that."""
        own, own_variance = float(np.trace(self.matrix)), self.noise_std**2 * len(self.matrix)
        if self.trace is None or self.trace_variance is None:
            return own, sqrt(own_variance)
        share = own_variance / (own_variance + self.trace_variance)
        return own + share * (self.trace - own), sqrt(share * self.trace_variance)


def with_joint_trace(strata: Sequence[Stratum], joint_trace: float) -> list[Stratum]:
    """Sharpen the traces of strata by ``joint_trace``, Σ tr S_s / noise_std_s + N(0, 1)."""
    known = [s.trace is not None and s.variance and s.trace_variance for s in strata]
    if not known or not all(known):
        return list(strata)
    stds = np.array([stratum.noise_std for stratum in strata])
    own = np.array([np.trace(stratum.matrix) for stratum in strata]) / stds
    given = np.array([stratum.trace for stratum in strata], dtype=float) / stds
    precision = stds**2 / np.array([stratum.trace_variance for stratum in strata], dtype=float)
    own_precision = 1.0 / len(strata[0].matrix)
    # The scaled traces have precision diag(p) + 11ᵀ, p counting both traces of a stratum.  What
    # the matrix itself knows is taken out of the marginals again, because shrinking puts it in.
    covariance = np.linalg.inv(np.diag(precision + own_precision) + 1.0)
    mean = covariance @ (own * own_precision + given * precision + joint_trace)
    marginal = 1.0 / np.diag(covariance)
    sharper = marginal - own_precision
    traces = (mean * marginal - own * own_precision) / sharper * stds
    found = zip(strata, traces.tolist(), (stds**2 / sharper).tolist(), strict=True)
    return [replace(stratum, trace=t, trace_variance=variance) for stratum, t, variance in found]
