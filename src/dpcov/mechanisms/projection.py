"""Release second moments with additive noise, read as the nearest matrix that a table can have.

Privacy
-------
Guarantee : that of the noise, Gaussian (rho-zCDP, (epsilon, delta)-DP) or Laplace (epsilon-DP); the projection is
    post-processing.  Neighbors : replace-one (public n) or add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments.  Not protected : running time, memory.
Numerics : exact, because the release holds the noisy integers.  Proof : projection.md.

Sensitivity
-----------
As in gaussian.md and laplace.md.

Utility
-------
||error||_F <= sqrt(2 t ||W||) with the trace bound t and the spectral norm of the noise W on S / n (projection.md,
Theorem 2): of order d**0.25 n**-0.5 for Gaussian noise, below the noise itself when d is large and n small.

References
----------
Dong, Liang, Yi (2022), appendix E; Nikolov, Talwar, Zhang (2013).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from dpcov.data.moments import DEFAULT_BITS, Bits, Clip, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.gaussian import Gaussian, GaussianCalibration
from dpcov.mechanisms.laplace import Laplace, LaplaceCalibration
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise, PureDP
from dpcov.published.statistics import NoisyStatistics, PostOptions, TraceBound


@dataclass(frozen=True, kw_only=True)
class Projection(Mechanism[GaussianCalibration | LaplaceCalibration]):
    """Additive noise, then the exact projection on the positive semidefinite matrices of bounded trace.

    Parameters
    ----------
    trace : {"noisy", "public"}, default="noisy"
        Bound on the trace.  ``public``: that of the unit ball alone, as in the paper.  ``noisy``: the private trace
        where it is smaller, which costs nothing more.
    bits, clip
        As in :class:`~dpcov.mechanisms.gaussian.Gaussian`.
    """

    name: ClassVar[str] = "projection"
    summary: ClassVar[str] = "Gaussian or Laplace noise, projected on {PSD, trace bounded}"
    paper: ClassVar[str] = "Dong, Liang, Yi (2022), E"
    numerics: ClassVar[Numerics] = "exact"
    promises: ClassVar[tuple[type[Promise], ...]] = (PureDP, ZCDP, ApproxDP)

    trace: TraceBound = "noisy"
    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum."""
        return MomentsSpec(bits=self.bits, clip=self.clip)

    def _gaussian(self) -> Gaussian:
        return Gaussian(bits=self.bits, clip=self.clip)

    def _laplace(self) -> Laplace:
        return Laplace(bits=self.bits, clip=self.clip)

    def calibrate(
        self, problem: Problem, budget: Budget
    ) -> GaussianCalibration | LaplaceCalibration:
        """Laplace noise for a pure budget, Gaussian noise for every other."""
        self.check(problem, budget)
        if isinstance(budget.promise, PureDP):
            return self._laplace().calibrate(problem, budget)
        return self._gaussian().calibrate(problem, budget)

    def draw(
        self,
        ask: Ask,
        calibration: GaussianCalibration | LaplaceCalibration,
        problem: Problem,
        entropy: Entropy,
    ) -> NoisyStatistics:
        """Draw the noise; the projection happens when the release is read."""
        if isinstance(calibration, LaplaceCalibration):
            noisy = self._laplace().draw(ask, calibration, problem, entropy)
        else:
            noisy = self._gaussian().draw(ask, calibration, problem, entropy)
        return replace(noisy, post="projection", post_options=PostOptions(trace=self.trace))
