"""Find a geometry alone, for a budget of its own; later releases share it.

Guarantee : the budget.  Private input, numerics, sensitivity : as in the survey of a release.
    Proof : surveyed.md, Theorem 5.
"""

from typing import Any

from dpcov.data.geometry import Geometry
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.geometry.budget_split import LENGTHS, SurveyedCalibration, one_gaussian
from dpcov.mechanisms.geometry.lengths import IN_BOUNDS
from dpcov.mechanisms.geometry.survey import all_levels, check_cost, pays
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.convert import sqrt_down
from dpcov.privacy.guarantee import ZCDP


class SurveyAlone(Surveyed):
    """The survey without the mechanism, for a geometry that later releases share.

    ``coming`` is a public assumption: what the releases may cost, whose noise the lengths are
    chosen for.
    """

    def __init__(self, surveyed: Surveyed, coming: Budget) -> None:
        super().__init__(surveyed.inner, surveyed.table)
        self.name, self.numerics, self.coming = "survey", "exact", coming  # type: ignore[misc]

    def largest_questions(self, problem: Problem) -> tuple[Any, ...]:
        """How long rows are: no moments are asked."""
        return (IN_BOUNDS,)

    def calibrate(self, problem: Problem, budget: Budget) -> SurveyedCalibration:
        """The whole budget is the survey's (surveyed.md, Theorem 5)."""
        check_budget(budget)
        survey = one_gaussian(budget.promise)
        of_columns, columns = part_of(survey, 1 - LENGTHS), self.table.columns
        check_cost(of_columns, columns, problem)
        if not pays(of_columns, columns, problem):
            if all_levels(columns):
                raise BudgetError(
                    "All columns have levels, whose bounds fit: a survey would gain nothing. "
                    "Leave it out; a release keeps these bounds by itself."
                )
            raise BudgetError(
                "With this budget a survey shows nothing of so few rows. Use a larger budget, or "
                "release without a survey (geometry='schema', --geometry schema)."
            )
        inner = self.inner.calibrate(problem, self.coming)
        return SurveyedCalibration(
            promise=budget.promise,
            # Counts with Gaussian noise compose to one Gaussian mechanism of this multiplier.
            noise_multiplier=sqrt_down(1 / (2 * survey.rho)) if isinstance(survey, ZCDP) else None,
            whole=survey,
            survey=survey,
            inner=inner,
        )

    def draw(  # type: ignore[override]
        self, ask: Ask, calibration: SurveyedCalibration, problem: Problem, entropy: Entropy
    ) -> Geometry:
        """Survey, and draw no matrix."""
        search = self.search(self.table, ask, problem, entropy)
        # A file of centers and scales is for people, too.
        geometry = search.find(calibration, centers_levels=False).geometry
        # Bounds are kept beside a first matrix alone.
        assert geometry is not None
        return geometry
