"""Release second moments with Gaussian noise, read with small off-diagonal entries set to zero.

Guarantee : rho-zCDP or (epsilon, delta)-DP, that of the Gaussian noise; thresholding is
    post-processing.  Proof : thresholding.md.  Numerics : exact, because the release holds the
    noisy integers.
Sensitivity : As in gaussian.md: sqrt(2) k on the sscp under replace-one, where the paper has 1.
Utility : With gamma >= 0 and threshold T, every off-diagonal entry of S / n is off by at most min(3
    |truth|, 7 T / 4) before the projection on positive semidefinite matrices (thresholding.md,
    Theorem 2).
References : Wang, Xu, Yang (2019), Algorithm 1; Bickel, Levina (2008); Stein (1981); Donoho,
    Johnstone (1995).
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from dpcov.mechanisms.base import Ask, Entropy, Problem
from dpcov.mechanisms.gaussian import Gaussian, GaussianCalibration
from dpcov.privacy.options import Between
from dpcov.published.file.statistics import NoisyStatistics, PostOptions, ThresholdRule


@dataclass(frozen=True, kw_only=True)
class Thresholding(Gaussian):
    """Gaussian noise, then a threshold on the off-diagonal entries, for sparse covariance matrices.

    Parameters
    ----------
    rule : {"best", "hard", "soft"}, default="best"
        ``hard`` keeps or kills an entry, as in the paper; ``soft`` moves it toward zero; ``best``
        takes the one with the lower estimated risk.
    gamma : float or None, default=None
        Sets the paper's threshold, gamma sqrt(log d / n) + 4 sqrt(log d) noise_std, in units of the
        squared norm bound; then ``rule="best"`` means ``hard``.  By default the threshold has the
        lowest estimated risk.
    noise, bits, clip
        As in :class:`~dpcov.mechanisms.gaussian.Gaussian`.
    """

    name = "thresholding"
    summary = "Gaussian noise, small off-diagonal entries set to zero; for sparse matrices"
    paper = "Wang, Xu, Yang (2019), Algorithm 1"

    rule: ThresholdRule = "best"
    gamma: Annotated[float, Between(0)] | None = None

    def draw(
        self, ask: Ask, calibration: GaussianCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the noise; the threshold is applied when the release is read."""
        noisy = super().draw(ask, calibration, problem, entropy)
        options = PostOptions(rule=self.rule, gamma=self.gamma)
        return msgspec.structs.replace(noisy, post="threshold", post_options=options)
