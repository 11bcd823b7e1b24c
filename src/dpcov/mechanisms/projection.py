"""Release second moments with additive noise, read as the nearest matrix that a table can have.

Guarantee : that of the noise, Gaussian (rho-zCDP, (epsilon, delta)-DP) or Laplace (epsilon-DP); the
    projection is post-processing.  Proof : projection.md.  Numerics : exact, because the release
    holds the noisy integers.
Sensitivity : As in gaussian.md and laplace.md.
Utility : ||error||_F <= sqrt(2 t ||W||) with the trace bound t and the spectral norm of the noise W
    on S / n (Theorem 2): for Gaussian noise below the noise itself when d is large and n small.
References : Dong, Liang, Yi (2022), appendix E; Nikolov, Talwar, Zhang (2013).
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from dpcov.data.exact.moments import DEFAULT_BITS, Bits, Clip
from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.laplace import Laplace
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.published.file.statistics import NoisyStatistics, PostOptions, TraceBound


@dataclass(frozen=True, kw_only=True)
class Projection(Mechanism[Calibration]):
    """Additive noise, then the projection on the positive semidefinite matrices of bounded trace.

    Parameters
    ----------
    trace : {"noisy", "public"}, default="noisy"
        Bound on the trace.  ``public``: that of the unit ball alone, as in the paper.  ``noisy``:
        the private trace where it is smaller, which costs nothing more.
    bits, clip
        As in :class:`~dpcov.mechanisms.gaussian.Gaussian`.
    """

    name = "projection"
    summary = "Gaussian or Laplace noise, projected on {PSD, trace bounded}"
    paper = "Dong, Liang, Yi (2022), E"
    numerics = "exact"
    promises = (PureDP, ZCDP, ApproxDP)

    trace: TraceBound = "noisy"
    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0

    def noise(self, promise: Promise) -> Mechanism[Any]:
        """Return the mechanism that draws the noise: Laplace for a pure promise, else Gaussian."""
        kind = Laplace if isinstance(promise, PureDP) else Gaussian
        return kind(bits=self.bits, clip=self.clip)

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Calibrate the noise."""
        self.check(problem, budget)
        found: Calibration = self.noise(budget.promise).calibrate(problem, budget)
        return found

    def draw(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the noise; the projection happens when the release is read."""
        noisy = self.noise(calibration.promise).draw(ask, calibration, problem, entropy)
        return msgspec.structs.replace(
            noisy, post="projection", post_options=PostOptions(trace=self.trace)
        )
