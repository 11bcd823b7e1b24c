"""Release second moments as a sum of rank-one matrices, each found in what the earlier ones leave.

Guarantee : epsilon-DP.  Not protected : running time (proposals depend on the matrix), memory.
    Numerics : idealized.  Proof : kapralov_talwar.md.
Sensitivity : For k rows per person.  The score u' S u moves within an interval of length 2k
    (replace-one) or k (add-remove-one); its value at a given u changes by k at most, under both.
Utility : A baseline.  Deflation by a noisy eigenvalue leaves a residue along every direction, which
    the next ones pay for; ``eigenvectors`` projects instead and is better throughout.
References : Kapralov, Talwar (2013), as described by Amin et al. (2019), sections 3 and 4.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcov.data.exact.moments import Clip
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, scalar
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.eigenvectors import Exponent, direction_exponent
from dpcov.noise.eigenvectors import sample_binghams
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP


@dataclass(frozen=True, kw_only=True)
class KapralovTalwarCalibration(counts.CountingCalibration):
    """Part of the budget for one direction; noise on one value."""

    direction: Cost
    value: AdditiveNoise


@dataclass(frozen=True, kw_only=True)
class KapralovTalwar(Mechanism[KapralovTalwarCalibration]):
    """Rank-one deflation with the exponential mechanism.

    Parameters
    ----------
    exponent : {"tight", "paper"}, default="tight"
        ``paper``: the exponent epsilon_i / 4 of Amin et al., which costs twice what it needs to.
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it.
    """

    name = "kapralov-talwar"
    summary = "rank-one deflation by the exponential mechanism (a baseline)"
    paper = "Kapralov, Talwar (2013); Amin et al. (2019), 4"
    promises = (PureDP,)
    states_noise = False

    exponent: Exponent = "tight"
    clip: Clip = 1.0

    def calibrate(self, problem: Problem, budget: Budget) -> KapralovTalwarCalibration:
        """Give every round the same part of the budget (kapralov_talwar.md)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        # Rounds compose: each is private given the directions and values before it.
        part = part_of(rest, Fraction(1, 2 * problem.n_features))
        value = additive_noise(part, scalar(problem))
        return KapralovTalwarCalibration(**stated, direction=part, value=value)

    def draw(
        self, ask: Ask, calibration: KapralovTalwarCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Find a direction, measure it, subtract it; repeat."""
        moments = ask(self.question(problem))
        residue = finished.sscp_of(moments)
        found = np.zeros_like(residue)
        exponent = direction_exponent(calibration.direction, problem, self.exponent)
        for _ in range(len(residue)):
            direction = sample_binghams(exponent * residue, 1, entropy)[0]
            value = direction @ residue @ direction + calibration.value.draw(1, entropy)[0]
            # Deflation uses released numbers only, so it is free.
            component = value * np.outer(direction, direction)
            found += component
            residue -= component
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        return finished.finish(found, problem, row_count, clip=self.clip, post="clip")
