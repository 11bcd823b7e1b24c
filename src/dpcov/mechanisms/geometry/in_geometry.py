"""Draw a mechanism in a geometry that is public already, and measure how long rows are in it.

A table may differ from the one that the geometry was found in: other rows are longer, and scaling
them down takes more.  How much is asked of the rows themselves.

Guarantee : the budget, split between one histogram, the losses and the mechanism.  Numerics : as in
    a survey.  Proof : surveyed.md, Theorem 7.  Private input : a histogram of the lengths of rows,
    the mechanism's moments in the geometry, and what scaling rows down takes of every column.
Sensitivity : Those of the lengths, of the losses and of the mechanism, one after the other.
"""

from dataclasses import replace
from math import sqrt

import msgspec

from dpcov.data.geometry import Geometry
from dpcov.data.histograms import HistogramQuestion
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry import lengths
from dpcov.mechanisms.geometry.budget_split import LENGTHS, SurveyedCalibration
from dpcov.mechanisms.geometry.losses import loss_noise, spread_out
from dpcov.mechanisms.geometry.search import Found, Search
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.table_facts import ANY_BOUND
from dpcov.mechanisms.geometry.whitening import with_map
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, costs_nothing
from dpcov.published.file.statistics import NoisyStatistics


class InGeometry(Surveyed):
    """A mechanism in a public geometry, instead of the one that it would find as ``surveyed``.

    The norm bound of the ``known`` one, if it has one, is kept; what it takes of these rows is
    measured, and is stated as no less than it took where the geometry was found.
    """

    def __init__(self, surveyed: Surveyed, known: Geometry) -> None:
        super().__init__(surveyed.inner, surveyed.table)
        # Refused now if it is not one of these columns.
        self.known, self._columns = known, known.apply(self.table.declared)
        bound = None if known.linear is None else ANY_BOUND
        self._unbounded = msgspec.structs.replace(known, norm_bound=bound)

    def question(self, problem: Problem) -> HistogramQuestion:  # type: ignore[override]
        """Lengths of rows."""
        return lengths.question(self._unbounded)

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Split the budget (surveyed.md, Theorem 7)."""
        whole: Calibration = self.inner.calibrate(problem, budget)
        known, parts = self.known, self.parts
        asks = self.table.columns and (known.norm_bound is None or self.table.scales_down(known))
        if asks and not costs_nothing(whole.promise):
            try:
                made = parts.split(problem, budget, LENGTHS * parts.share(problem, budget))
                CountNoise(made.survey, problem).std(disjoint=True)
                if made.losses is not None:
                    loss_noise(made.losses, problem)
                return made
            except BudgetError:
                # So small a part cannot be drawn; the whole budget may be.
                pass
        return whole

    def unsurveyed(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw in the geometry as it is; what it took elsewhere is taken for what it takes here."""
        known = self.table.stated(self.known)
        made = self.inner.draw(ask.under(known), calibration, problem, entropy)
        made = with_map(made, known.linear)
        bound = known.bound(self._columns)
        return msgspec.structs.replace(
            made, columns=self._columns, norm_bound=bound, lost=known.lost
        )

    def find(self, search: Search, calibration: SurveyedCalibration) -> Found:
        """The geometry with its norm bound, or one that fits, and what this takes of the rows."""
        losses, bound, linear = calibration.losses, self.known.norm_bound, self.known.linear
        energy = None if bound is None else (bound**2 - 1) / self.table.n_features
        given = self._unbounded, calibration.survey, calibration.inner, losses, energy
        found = search.lengths(*given)
        if linear is not None:
            # Mapped features were divided by the unit, losses are of encoded ones.
            whole = linear.matrix * self.table.unit
            factor = self.table.unit**2 * spread_out(whole, in_l2=isinstance(losses, ZCDP))
            found = replace(found, limit=found.limit * factor)
        bound = sqrt(found.energy * self.table.n_features + 1) if bound is None else bound
        # Few rows that hold much may not show for so little: of the same table more is known.
        lost = max(self.known.lost, found.lost)
        geometry = msgspec.structs.replace(self.known, norm_bound=bound, lost=lost)
        notes = [f"lengths of rows were found with {calibration.with_part(calibration.survey)}"]
        return Found(self.table.stated(geometry), found, calibration.inner, notes)
