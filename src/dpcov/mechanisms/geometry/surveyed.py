"""Survey centers and scales first, then draw any mechanism in the geometry that they give.

Guarantee : the budget, split between the survey and the mechanism.  Proof : surveyed.md.
    Private input : what a search asks, then the mechanism's moments in the geometry, and what
    scaling rows down takes of every column.  Numerics : the mechanism's; the survey is exact.
Sensitivity : Those of the survey, of the first matrices and of the mechanism, one after the other.
"""

from typing import Any, ClassVar

import msgspec

from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.geometry import Geometry
from dpcov.data.histograms import HistogramQuestion
from dpcov.data.questions import Ask
from dpcov.data.schema.schema import Schema
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.geometry.budget_split import LENGTHS, BudgetSplit, SurveyedCalibration
from dpcov.mechanisms.geometry.lengths import IN_BOUNDS
from dpcov.mechanisms.geometry.losses import loss_noise, loss_question, with_losses
from dpcov.mechanisms.geometry.search import Found, Search
from dpcov.mechanisms.geometry.survey import check_cost, pays, question
from dpcov.mechanisms.geometry.table_facts import TableFacts
from dpcov.mechanisms.geometry.whitening import with_map
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import costs_nothing
from dpcov.published.file.statistics import NoisyStatistics


class Surveyed(Mechanism[Calibration]):
    """A mechanism in a geometry of the ``table`` that is found privately first."""

    search: ClassVar[type[Search]] = Search

    def __init__(self, inner: Mechanism[Any], table: TableFacts) -> None:
        self.inner, self.table = inner, table
        # Class variables of a mechanism, here of the one inside.
        self.name, self.numerics = inner.name, inner.numerics  # type: ignore[misc]
        self.relations, self.promises = inner.relations, inner.promises  # type: ignore[misc]

    @classmethod
    def of(cls, inner: Mechanism[Any], schema: Schema, encoder: Encoder) -> "Surveyed":
        """For a table that an encoder of the schema encodes."""
        return cls(inner, TableFacts.of(schema, encoder))

    @property
    def asks_again(self) -> bool:
        """Histograms first, moments afterwards."""
        return True

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """What the mechanism wants."""
        return self.inner.moments_spec(problem)

    def question(self, problem: Problem) -> HistogramQuestion:  # type: ignore[override]
        """Histograms of all columns."""
        return question(self.table.columns)

    def largest_questions(self, problem: Problem) -> tuple[Any, ...]:
        """The moments, and how long rows are."""
        return (*super().largest_questions(problem), IN_BOUNDS)

    @property
    def parts(self) -> BudgetSplit:
        """How a budget is divided."""
        return BudgetSplit(inner=self.inner, table=self.table)

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Split the budget (surveyed.md, Theorem 2)."""
        whole: Calibration = self.inner.calibrate(problem, budget)
        columns = self.table.columns
        if columns and not costs_nothing(whole.promise):
            share = self.parts.share(problem, budget)
            made = self.parts.with_first(problem, budget, share)
            made = made or self.parts.split(problem, budget, share)
            of_columns = part_of(made.survey, 1 - LENGTHS)
            check_cost(of_columns, columns, problem)
            if made.losses is not None:
                loss_noise(made.losses, problem)
            if pays(of_columns, columns, problem):
                return made
        return whole

    def draw(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Survey, then ask and draw in the geometry that it gives."""
        if not isinstance(calibration, SurveyedCalibration):
            return self.unsurveyed(ask, calibration, problem, entropy)
        found = self.find(self.search(self.table, ask, problem, entropy), calibration)
        geometry, lengths, rest, notes = found
        if geometry is None:
            made = self.unsurveyed(ask, rest, problem, entropy)
            return msgspec.structs.replace(made, notes=(*made.notes, *notes))
        columns, losses = geometry.apply(self.table.declared), None
        cost = self.losses_cost(calibration, geometry)
        if cost is not None:
            losses = loss_question(geometry, self.table.declared, cost, lengths.limit)
        asked = ask.under(geometry, losses)
        made = with_map(self.inner.draw(asked, rest, problem, entropy), geometry.linear)
        if cost is not None:
            # The inner mechanism has asked this, and its first answer is kept.
            exact = asked(self.inner.question(problem)).losses
            assert exact is not None
            made = with_losses(made, exact, loss_noise(cost, problem), lengths.counted, entropy)
            notes.append(f"what columns lost was found with {calibration.with_part(cost)}")
        return msgspec.structs.replace(
            made,
            columns=columns,
            norm_bound=geometry.bound(columns),
            lost=geometry.lost,
            notes=(*made.notes, *notes),
        )

    def losses_cost(self, calibration: SurveyedCalibration, geometry: Geometry) -> Cost | None:
        """What is paid for losses in a geometry; None where they are not asked, or nothing is."""
        return calibration.losses if self.table.scales_down(geometry) else None

    def unsurveyed(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw in the geometry of the bounds."""
        made: NoisyStatistics = self.inner.draw(ask.under(None), calibration, problem, entropy)
        return made

    def find(self, search: Search, calibration: SurveyedCalibration) -> Found:
        """What a search finds."""
        return search.find(calibration)
