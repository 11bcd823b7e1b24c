"""Release second moments clipped at a privately chosen norm, with the better of two mechanisms.

Privacy
-------
Guarantee : rho-zCDP, (epsilon, delta)-DP through it, or epsilon-DP.  Neighbors : replace-one (public n) or
    add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments of all norm shells, gathered in one pass.  Not protected : running time, memory.
Numerics : idealized.  Proof : adaptive.md.

Sensitivity
-----------
For k rows per person and rows clipped to r: number of rows longer than any radius k, trace r**2 k, bound on the
clipping bias r**2 k (monotone); matrix and eigenvalues as in separate.md, times r**2.

Utility
-------
Error of the order of the best over all dyadic clip norms of noise + bias (Dong, Theorem 3; adaptive.md, Theorem 2).

References
----------
Dong, Liang, Yi (2022), Algorithm 2 and Appendix I, with the queries of the search divided by the squared radius.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from dpcov.data.moments import DEFAULT_BITS, Bits, Moments, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.mechanisms import adaptive_rules
from dpcov.mechanisms.adaptive_rules import Constants
from dpcov.mechanisms.base import Calibration, Mechanism, Probability, Problem
from dpcov.mechanisms.blocks import sensitivity
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    additive_noise,
    affordable_epsilon,
    whole_cost,
)
from dpcov.mechanisms.blocks.clip_search import Choice, choose_clip
from dpcov.mechanisms.blocks.finished import (
    Cost,
    check_row_count,
    draw_row_count,
    finish,
    part_of,
    public_rows,
    row_count_share,
)
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise, Shape, matrix_noise
from dpcov.mechanisms.blocks.private_radius import private_radius
from dpcov.mechanisms.blocks.private_trace import private_trace
from dpcov.mechanisms.blocks.shells import clipped_sscp, clipped_trace, outlier_counts, shell_counts
from dpcov.mechanisms.blocks.spectrum import Rule
from dpcov.mechanisms.separate import SeparateNoise, separate_noise, separate_sscp
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise, PureDP
from dpcov.privacy.options import Between
from dpcov.published.linalg.project import clip_eigenvalues, project_psd_trace
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import NoisyStatistics


@dataclass(frozen=True, kw_only=True)
class AdaptiveCalibration(Calibration):
    """Parts of the budget, and the noise they buy for rows in the unit ball.

    Parameters
    ----------
    radius_epsilon : Fraction or None
        For the search of a radius, None without it.
    trace : AdditiveNoise
    search_epsilon : Fraction
        For the search of a clip norm.
    together, separately : MatrixNoise, SeparateNoise
        For the final matrix, one of which is drawn.
    row_count : PureDP, ZCDP or None
    """

    radius_epsilon: Fraction | None
    trace: AdditiveNoise
    search_epsilon: Fraction
    together: MatrixNoise
    separately: SeparateNoise
    row_count: Cost | None


@dataclass(frozen=True, kw_only=True)
class Adaptive(Mechanism[AdaptiveCalibration]):
    """Clip at a privately chosen norm, then add noise to the matrix or to eigenvalues and eigenvectors.

    Parameters
    ----------
    constants : {"theory", "tuned"}, default="theory"
        ``theory``: the paper's split of the budget, and proven bounds on the noise.  ``tuned``: three quarters of the
        budget for the matrix and typical instead of worst-case errors, in the spirit of the published code.
    radius : bool, default=True
        Whether to search for a radius that holds nearly all rows first; worth it where the norm bound may be far too
        large.
    shells : int, default=32
        Number of dyadic clip norms to choose from: 1, 1/2, ..., 2**-(shells - 1) of the norm bound.
    failure_probability : float, default=0.05
        Probability beta in the bounds that guide the choices; privacy does not depend on it.
    eigenvalues : {"monotone", "clip", "raw"}, default="monotone"
        Post-processing of the eigenvalues, with the private trace as bound; as in ``separate``.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
    bits : int, default=20
        Lattice resolution of an encoded row, relative to its shell.
    """

    name: ClassVar[str] = "adaptive"
    summary: ClassVar[str] = (
        "private choice of clip norm and of gaussian or separate; error follows the tail"
    )
    paper: ClassVar[str] = "Dong, Liang, Yi (2022), Algorithm 2"
    numerics: ClassVar[Numerics] = "idealized"
    promises: ClassVar[tuple[type[Promise], ...]] = (ZCDP, PureDP, ApproxDP)

    constants: Constants = "theory"
    radius: bool = True
    shells: Annotated[int, Between(1, 64)] = 32
    failure_probability: Probability = 0.05
    eigenvalues: Rule = "monotone"
    noise: Shape = "isotropic"
    bits: Bits = DEFAULT_BITS

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """All shells, with the moments of the rows divided by their norm."""
        return MomentsSpec(bits=self.bits, shells=self.shells, normalized=True)

    def calibrate(self, problem: Problem, budget: Budget) -> AdaptiveCalibration:
        """Split the budget (adaptive.md, Theorem 1)."""
        self.check(problem, budget)
        count, whole = row_count_share(problem), whole_cost(budget)
        rules = adaptive_rules.RULES[self.constants]
        split = rules.with_radius if self.radius else rules.without_radius

        def part(share: Fraction) -> Cost:
            return part_of(whole, share * (1 - count))

        return AdaptiveCalibration(
            promise=budget.promise,
            radius_epsilon=affordable_epsilon(part(split.radius)) if split.radius else None,
            trace=additive_noise(part(split.trace), sensitivity.scalar(problem)),
            search_epsilon=affordable_epsilon(part(split.search)),
            together=matrix_noise(part(split.matrix), problem, self.noise),
            separately=separate_noise(part(split.matrix), problem, self.noise, Fraction(1, 2)),
            row_count=check_row_count(problem, part_of(whole, count) if count else None),
        )

    def draw(
        self, ask: Ask, calibration: AdaptiveCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Find radius, trace and clip norm, each from what was drawn before; then release."""
        moments = ask(self.question(problem))
        row_count = draw_row_count(moments, problem, calibration.row_count, entropy)
        rows = public_rows(problem, row_count)
        first = self._first_shell(moments, calibration, problem, entropy)
        trace = private_trace(
            clipped_trace(moments, first),
            calibration.trace.scaled(4.0**-first),
            beta=self.failure_probability / 8,
            largest=rows * 4.0**-first,
            entropy=entropy,
        )
        rules = adaptive_rules.RULES[self.constants]
        choice = choose_clip(
            shell_counts(moments),
            rules.candidates(
                calibration.together,
                calibration.separately,
                trace=trace.upper,
                shells=range(first, self.shells),
                dimension=problem.n_features,
                beta=self.failure_probability / 2,
            ),
            search=rules.search,
            epsilon=calibration.search_epsilon,
            rows_per_person=problem.rows_per_person,
            entropy=entropy,
        )
        unit = 4.0**-choice.shell
        bound = min(trace.upper / unit, rows)
        sscp = self._final(clipped_sscp(moments, choice.shell), calibration, choice, bound, entropy)
        return finish(
            sscp * unit, problem, row_count, clip=1.0, post="psd", notes=_notes(choice, first)
        )

    def _first_shell(
        self, moments: Moments, calibration: AdaptiveCalibration, problem: Problem, entropy: Entropy
    ) -> int:
        """The shell whose radius holds nearly all rows."""
        if calibration.radius_epsilon is None:
            return 0
        outliers = outlier_counts(shell_counts(moments))[::-1]
        found = private_radius(
            outliers.tolist(),
            epsilon=calibration.radius_epsilon,
            beta=self.failure_probability / 8,
            rows_per_person=problem.rows_per_person,
            entropy=entropy,
        )
        return self.shells - 1 - found

    def _final(
        self,
        sscp: Array,
        calibration: AdaptiveCalibration,
        choice: Choice,
        bound: float,
        entropy: Entropy,
    ) -> Array:
        """Run the chosen mechanism on rows in the unit ball."""
        if choice.separately:
            return separate_sscp(
                sscp,
                calibration.separately,
                rule=self.eigenvalues,
                trace_bound=bound,
                entropy=entropy,
            )
        noisy = np.asarray(sscp + calibration.together.draw(len(sscp), entropy))
        if self.eigenvalues == "monotone":
            return project_psd_trace(noisy, bound)
        return noisy if self.eigenvalues == "raw" else clip_eigenvalues(noisy, 0.0, bound)


def _notes(choice: Choice, first: int) -> tuple[str, ...]:
    """What was chosen privately, in words."""
    kind = "eigenvalues and eigenvectors separately" if choice.separately else "the matrix"
    return (
        f"rows were first clipped to 2^-{first} of the norm bound",
        f"clip norm 2^-{choice.shell} of the norm bound",
        f"noise was added to {kind}",
    )
