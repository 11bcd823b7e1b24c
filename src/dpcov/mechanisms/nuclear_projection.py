"""Release second moments with nuclear-norm noise, projected on a ball of private radius.

Guarantee : epsilon-DP.  Numerics : idealized.  Proof : nuclear_projection.md.
Sensitivity : Nuclear norm of the sscp: 2k (replace-one), k (add-remove-one) for k rows per person.
    Trace: k under both.
Utility : Theorem 2: error at most min(||Z||_F, sqrt(||Z|| (radius + tr S))) on the sscp S.
References : d'Orsi, Novikov (2025), Algorithm 2.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpcov.data.exact.moments import Clip
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, scalar
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.nuclear import check_noise_shape, noisy_sscp, nuclear_scale
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate.nuclear_law import SymmetrizedShape
from dpcov.published.linalg.project import project_nuclear_ball

BudgetSplit = Literal["full", "paper"]

# Parts for the matrix and the trace.  Lap(10 / epsilon) on twice the trace costs epsilon / 5, so
# the paper leaves 3/10 unspent; ``full`` keeps its proportion and spends everything.
SPLITS: dict[BudgetSplit, tuple[Fraction, Fraction]] = {
    "full": (Fraction(5, 7), Fraction(2, 7)),
    "paper": (Fraction(1, 2), Fraction(1, 5)),
}

# The ball's radius is this often the private trace, so that it rarely cuts the truth.
RADIUS_FACTOR = 2.0


@dataclass(frozen=True, kw_only=True)
class ProjectionCalibration(counts.CountingCalibration):
    """Scale of the matrix' noise, and noise on the trace."""

    matrix_scale: float
    trace: AdditiveNoise


@dataclass(frozen=True, kw_only=True)
class NuclearProjection(Mechanism[ProjectionCalibration]):
    """Nuclear-norm noise and projection on a nuclear-norm ball.

    Parameters
    ----------
    noise : {"wishart", "nuclear", "gauge", "square"}, default="wishart"
        As in :class:`~dpcov.mechanisms.nuclear.Nuclear`; ``square`` is the paper's, and ``nuclear``
        a tenth smaller and slower than ``wishart``.
    budget_split : {"full", "paper"}, default="full"
        ``paper`` spends 7/10 of epsilon, and the release then promises 7/10 of epsilon.
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it.
    """

    name = "nuclear-projection"
    summary = "nuclear-norm noise, projected on a ball of private radius"
    paper = "d'Orsi, Novikov (2025), Algorithm 2"
    promises = (PureDP,)
    states_noise = False

    noise: SymmetrizedShape = "wishart"
    budget_split: BudgetSplit = "full"
    clip: Clip = 1.0

    def calibrate(self, problem: Problem, budget: Budget) -> ProjectionCalibration:
        """Split the budget: matrix, trace, row count (nuclear_projection.md, Theorem 1)."""
        self.check(problem, budget)
        check_noise_shape(self.noise, problem)
        rest, stated = counts.set_row_count_aside(budget, problem)
        for_matrix, for_trace = SPLITS[self.budget_split]
        unspent = (1 - counts.row_count_share(problem)) * (1 - for_matrix - for_trace)
        stated["promise"] = part_of(budget.promise, 1 - unspent)
        return ProjectionCalibration(
            **stated,
            matrix_scale=nuclear_scale(part_of(rest, for_matrix), problem),
            trace=additive_noise(part_of(rest, for_trace), scalar(problem)),
        )

    def draw(
        self, ask: Ask, calibration: ProjectionCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Add the noise, draw the radius, project."""
        moments = ask(self.question(problem))
        noisy = noisy_sscp(moments, calibration.matrix_scale, self.noise, entropy)
        noise = calibration.trace.draw(1, entropy)[0]
        trace = moments.strata[0].sscp.trace() / 4**moments.spec.bits + noise
        # Noise may leave a negative trace; the ball then holds zero only.
        projected = project_nuclear_ball(noisy, max(0.0, RADIUS_FACTOR * float(trace)))
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        return finished.finish(projected, problem, row_count, clip=self.clip, post="psd")
