"""Release second moments with Gaussian noise, read with small off-diagonal entries set to zero.

Privacy
-------
Guarantee : rho-zCDP or (epsilon, delta)-DP, that of the Gaussian noise; thresholding is post-processing.
    Neighbors : replace-one (public n) or add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments.  Not protected : running time, memory.
Numerics : exact, because the release holds the noisy integers.  Proof : thresholding.md.

Sensitivity
-----------
As in gaussian.md: sqrt(2) k on the sscp under replace-one, where the paper has 1.

Utility
-------
With gamma >= 0 and threshold T, every off-diagonal entry of S / n is off by at most min(3 |truth|, 7 T / 4) before
the projection on positive semidefinite matrices (thresholding.md, Theorem 2).

References
----------
Wang, Xu, Yang (2019), Algorithm 1; Bickel, Levina (2008); Stein (1981); Donoho, Johnstone (1995).
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from dpcov.data.moments import DEFAULT_BITS, Bits, Clip, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.blocks.gaussian_scale import Formula
from dpcov.mechanisms.gaussian import Gaussian, GaussianCalibration, NoiseShape
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise
from dpcov.privacy.options import Between
from dpcov.published.statistics import NoisyStatistics, PostOptions, ThresholdRule


@dataclass(frozen=True, kw_only=True)
class Thresholding(Mechanism[GaussianCalibration]):
    """Gaussian noise, then a threshold on the off-diagonal entries, for sparse covariance matrices.

    Parameters
    ----------
    rule : {"best", "hard", "soft"}, default="best"
        ``hard`` keeps or kills an entry, as in the paper; ``soft`` moves it toward zero; ``best`` takes the one with
        the lower estimated risk.
    gamma : float or None, default=None
        Sets the paper's threshold, gamma sqrt(log d / n) + 4 sqrt(log d) noise_std, in units of the squared norm bound;
        then ``rule="best"`` means ``hard``.  By default the threshold has the lowest estimated risk.
    noise, calibration, bits, clip
        As in :class:`~dpcov.mechanisms.gaussian.Gaussian`.
    """

    name: ClassVar[str] = "thresholding"
    summary: ClassVar[str] = (
        "Gaussian noise, small off-diagonal entries set to zero; for sparse matrices"
    )
    paper: ClassVar[str] = "Wang, Xu, Yang (2019), Algorithm 1"
    numerics: ClassVar[Numerics] = "exact"
    promises: ClassVar[tuple[type[Promise], ...]] = (ZCDP, ApproxDP)

    rule: ThresholdRule = "best"
    gamma: Annotated[float, Between(0)] | None = None
    noise: NoiseShape = "isotropic"
    calibration: Formula = "analytic"
    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0

    def _gaussian(self) -> Gaussian:
        """The mechanism that draws the noise."""
        return Gaussian(
            bits=self.bits, clip=self.clip, noise=self.noise, calibration=self.calibration
        )

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum."""
        return self._gaussian().moments_spec(problem)

    def calibrate(self, problem: Problem, budget: Budget) -> GaussianCalibration:
        """The noise of the gaussian mechanism."""
        self.check(problem, budget)
        return self._gaussian().calibrate(problem, budget)

    def draw(
        self, ask: Ask, calibration: GaussianCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the noise; the threshold is applied when the release is read."""
        noisy = self._gaussian().draw(ask, calibration, problem, entropy)
        return replace(
            noisy, post="threshold", post_options=PostOptions(rule=self.rule, gamma=self.gamma)
        )
