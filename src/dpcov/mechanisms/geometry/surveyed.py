"""Survey centers and scales first, then draw any mechanism in the geometry that they give.

Guarantee : the budget, split between the survey and the mechanism.  Proof : surveyed.md.
    Private input : histograms of all columns, a first matrix and perhaps three more, a histogram of
    lengths, then the mechanism's moments in the geometry, and what scaling rows down takes of
    every column.  Numerics : the mechanism's; the survey is exact.
Sensitivity : Those of the survey, of the first matrices and of the mechanism, one after the other.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite, sqrt
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.geometry import Geometry, longest_row
from dpcov.data.histograms import HistogramQuestion
from dpcov.data.questions import Ask
from dpcov.data.schema.declared import Boolean, Categorical
from dpcov.data.schema.schema import Schema
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.budget_split import (
    LENGTHS,
    BudgetSplit,
    SurveyedCalibration,
    first_mechanism,
)
from dpcov.mechanisms.geometry.lengths import (
    IN_BOUNDS,
    Shortening,
    Stakes,
    entry_std,
    error_in_bounds,
    find_lengths,
)
from dpcov.mechanisms.geometry.losses import loss_noise, loss_question, spread_out, with_losses
from dpcov.mechanisms.geometry.survey import (
    SurveyColumn,
    about_bounds,
    check_cost,
    pays,
    question,
    scales_of,
    summed_energy,
    survey,
)
from dpcov.mechanisms.geometry.survey_counts import Spread
from dpcov.mechanisms.geometry.whitening import Whitening, centering_map, whitening_map, with_map
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, costs_nothing
from dpcov.published.file.columns import (
    EncodedColumn,
    count_values,
    half_ranges_of,
    numbers,
    of_kind,
)
from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array

# Part of that for the lengths of rows in the first matrix, which need not be known as well as those
# in the last: with half of it intervals of a release with little noise covered too seldom.
FIRST_LOOK = Fraction(1, 5)

# And for a look at those under the map of the first matrix, where others followed and rows lose so
# much; that map is kept where the squared error that is expected is so much smaller (lengths.md).
SECOND_LOOK, _MUCH_LOST, _FAR_BETTER = Fraction(1, 8), 0.1, 1 / 20

# Mean squared length of rows in the first matrix at most, over what the survey saw on average.
_FIRST_LENGTH = 2.0

# The bounds are kept where the squared error that is expected in them is at most this part.
_FAR_LESS, _BOUNDS = 1 / 2, Geometry(columns={})

# Given where no row is scaled down.
ANY_BOUND = 2.0

# What every level adds to the squared intercept, in units of features: what is read of levels, and
# all means, follow from its products (surveyed.md).
_PER_LEVEL = 1 / 16

# And every feature of rows with weights, which are mostly far below their upper bound: all that is
# read is divided by what the intercept says of their sum (surveyed.md).
_PER_WEIGHTED = 1 / 8


class Drawing(NamedTuple):
    """Whom a draw asks, the public facts of the table, and its randomness."""

    ask: Ask
    problem: Problem
    entropy: Entropy


class Surveyed(Mechanism[Calibration]):
    """A mechanism in a geometry that is found privately first.

    ``columns`` are in the order of the encoding's ``column_values``, ``declared`` in the geometry
    of their bounds; ``keeps_intercept``: rows of any geometry carry their intercept whole.
    """

    def __init__(
        self,
        inner: Mechanism[Any],
        columns: Sequence[SurveyColumn],
        declared: Sequence[EncodedColumn],
        keeps_intercept: bool = False,
    ) -> None:
        self.inner, self.columns, self.declared = inner, tuple(columns), tuple(declared)
        self.keeps_intercept = keeps_intercept
        # Class variables of a mechanism, here of the one inside.
        self.name, self.numerics = inner.name, inner.numerics  # type: ignore[misc]
        self.relations, self.promises = inner.relations, inner.promises  # type: ignore[misc]

    @classmethod
    def of(cls, inner: Mechanism[Any], schema: Schema, encoder: Encoder) -> "Surveyed":
        """For a table that an encoder of the schema encodes."""
        columns = []
        # Zero in the unit of the bounds, where it lies within them.
        anchors = {
            each.source: max(-1.0, min(1.0, -each.center / each.half_range))
            for each in encoder.columns
            if each.kind == "numeric"
        }
        for name in encoder.value_columns:
            kind = schema.columns[name]
            levels = len(kind.levels) if isinstance(kind, Categorical) else 0
            anchor = anchors.get(name, 0.0)
            columns.append(SurveyColumn(name, levels, isinstance(kind, Boolean), anchor))
        keeps_intercept = schema.intercept and schema.weights is None
        return cls(inner, columns, encoder.columns, keeps_intercept)

    @property
    def asks_again(self) -> bool:
        """Histograms first, moments afterwards."""
        return True

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """What the mechanism wants."""
        return self.inner.moments_spec(problem)

    def question(self, problem: Problem) -> HistogramQuestion:  # type: ignore[override]
        """Histograms of all columns."""
        return question(self.columns)

    def largest_questions(self, problem: Problem) -> tuple[Any, ...]:
        """The moments, and how long rows are."""
        return (*super().largest_questions(problem), IN_BOUNDS)

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Split the budget (surveyed.md, Theorem 2)."""
        whole: Calibration = self.inner.calibrate(problem, budget)
        if self.columns and not costs_nothing(whole.promise):
            parts = self._parts
            share = parts.share(problem, budget)
            made = parts.with_first(problem, budget, share) or parts.split(problem, budget, share)
            of_columns = part_of(made.survey, 1 - LENGTHS)
            check_cost(of_columns, self.columns, problem)
            if made.losses is not None:
                loss_noise(made.losses, problem)
            if pays(of_columns, self.columns, problem):
                return made
        return whole

    @property
    def _n_features(self) -> int:
        return count_values(self.declared)

    @property
    def _n_levels(self) -> int:
        return sum(column.kind == "category" for column in self.declared)

    @property
    def _parts(self) -> BudgetSplit:
        # What columns of numbers lose is asked, beside an intercept: levels tell by themselves.
        return BudgetSplit(
            inner=self.inner,
            columns=self.columns,
            n_features=self._n_features,
            n_levels=self._n_levels,
            asks_losses=bool(numbers(self.declared)) and self.declared[0].kind == "intercept",
        )

    @property
    def _unit(self) -> float:
        """What features are divided by at last, beside their intercept."""
        if self.declared[0].kind != "intercept":
            return 1.0
        if self.keeps_intercept:
            return sqrt(1 + _PER_LEVEL * self._n_levels)
        return sqrt(1 + _PER_WEIGHTED * self._n_features)

    def draw(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Survey, then ask and draw in the geometry that it gives."""
        if not isinstance(calibration, SurveyedCalibration):
            return self.unsurveyed(ask, calibration, problem, entropy)
        drawing = Drawing(ask, problem, entropy)
        geometry, lengths, rest, notes = self.find(drawing, calibration)
        if geometry == _BOUNDS:
            made = self.unsurveyed(ask, rest, problem, entropy)
            return msgspec.structs.replace(made, notes=(*made.notes, *notes))
        columns, losses = geometry.apply(self.declared), None
        cost = self.losses_cost(calibration, geometry)
        if cost is not None:
            losses = loss_question(geometry, self.declared, cost, lengths.limit)
        asked = ask.under(geometry, losses)
        made = with_map(self.inner.draw(asked, rest, problem, entropy), geometry.linear)
        if cost is not None:
            # The inner mechanism has asked this, and its first answer is kept.
            exact = asked(self.inner.question(problem)).losses
            assert exact is not None
            made = with_losses(made, exact, loss_noise(cost, problem), lengths.counted, entropy)
            notes.append(f"what columns lost was found with {cost}")
        return msgspec.structs.replace(
            made,
            columns=columns,
            norm_bound=geometry.bound(columns),
            lost=geometry.lost,
            notes=(*made.notes, *notes),
        )

    def losses_cost(self, calibration: SurveyedCalibration, geometry: Geometry) -> Cost | None:
        """What is paid for losses in a geometry; None where they are not asked, or nothing is."""
        return calibration.losses if self._scales_down(geometry) else None

    def _scales_down(self, geometry: Geometry) -> bool:
        # Whether any row can be longer than the norm bound: public, by the bounds of the columns.
        columns = geometry.apply(self.declared)
        # It is rounded up.
        longest = longest_row(columns) * (1 - 1e-9)
        return geometry.linear is not None or geometry.bound(columns) < longest

    def _stated(self, geometry: Geometry) -> Geometry:
        """The geometry, of which nothing is lost where no row is scaled down."""
        if self._scales_down(geometry):
            return geometry
        return msgspec.structs.replace(geometry, lost=0.0)

    def unsurveyed(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw in the geometry of the bounds."""
        made: NoisyStatistics = self.inner.draw(ask.under(None), calibration, problem, entropy)
        return made

    def find(
        self, drawing: Drawing, calibration: SurveyedCalibration
    ) -> tuple[Geometry, Shortening, Calibration, list[str]]:
        """The geometry of a survey, its lengths of rows, what is left, and how it was found."""
        ask, problem, entropy = drawing
        of_columns = part_of(calibration.survey, 1 - LENGTHS)
        of_lengths = part_of(calibration.survey, LENGTHS)
        spreads = survey(ask, self.columns, of_columns, problem, entropy)
        if self.declared[0].kind != "intercept":
            spreads = list(map(about_bounds, self.columns, spreads))
        by_name = {column.name: each for column, each in zip(self.columns, spreads, strict=True)}
        notes = [f"centers and scales of the columns were found with {calibration.survey}"]
        full = self._centered(Geometry(columns=scales_of(self.declared, by_name)), by_name)
        rest, maps, deviations = calibration.inner, [full], None
        if calibration.first is not None:
            energy = summed_energy(self.columns, spreads, is_centered=full.linear is not None)
            if energy is not None:
                # Of longer rows the map need not know all.
                usual = Shortening(_FIRST_LENGTH * energy / self._n_features, 0.0)
            else:
                look, of_lengths = (part_of(of_lengths, x) for x in (FIRST_LOOK, 1 - FIRST_LOOK))
                usual = self._lengths(drawing, full, look, calibration.first, None)
            maps, rest, how, deviations = self._mapped(drawing, calibration, full, usual)
            notes.append(f"a linear map that takes correlations out {how}")
        losses = calibration.losses
        full, lengths = self._shortest(drawing, maps, of_lengths, rest, losses)
        if full is not maps[-1]:
            notes.append("rows are far shorter under the first of these maps, which is kept")
        if deviations is not None and self._keeps_bounds(
            deviations, lengths, entry_std(rest, problem)
        ):
            notes.append("the bounds fit better, and are kept")
            return _BOUNDS, lengths, rest, notes
        # In squared units of what is encoded, whatever the map does to it.
        factor = 1 / self._unit**2
        if full.linear is not None:
            factor = spread_out(full.linear.matrix, in_l2=isinstance(losses, ZCDP))
        lengths = replace(lengths, limit=lengths.limit * factor)
        made = self._shortened(full, lengths).in_units(self._unit)
        return self._stated(made), lengths, rest, notes

    def _mapped(
        self,
        drawing: Drawing,
        calibration: SurveyedCalibration,
        geometry: Geometry,
        usual: Shortening,
    ) -> tuple[list[Geometry], Calibration, str, Array | None]:
        """Geometries under the map of every matrix, what is left, and how they were found.

        And deviations of values in units of their bounds, where a map was.
        """
        first, again, rest = calibration.first, calibration.again, calibration.inner
        assert first is not None
        how = f"found with {first.promise}"
        made = self._whitened(drawing, first, geometry, usual)
        if made is None:
            return [geometry], rest, f"could not be {how}", None
        # No row is scaled down before lengths are measured.
        maps = [Geometry(columns=geometry.columns, linear=made.linear, norm_bound=ANY_BOUND)]
        for left in calibration.rests:
            if again is None or not made.goes_on:
                break
            rest, how = left, f"{how}, then {again.promise}"
            more = self._whitened(drawing, again, maps[-1], usual, made.spreads)
            made = more or made._replace(goes_on=False)
            maps.append(msgspec.structs.replace(maps[-1], linear=made.linear))
        units = half_ranges_of(geometry.apply(self.declared)) / half_ranges_of(self.declared)
        units = units[~of_kind(self.declared, "intercept", "missing")]
        return maps, rest, f"was {how}", made.spreads * units

    def _shortest(
        self,
        drawing: Drawing,
        maps: Sequence[Geometry],
        cost: Cost,
        rest: Calibration,
        losses: Cost | None,
    ) -> tuple[Geometry, Shortening]:
        """The last geometry and its lengths, or the first, where it serves far better."""
        if len(maps) == 1:
            return maps[0], self._lengths(drawing, maps[0], cost, rest, losses)
        look, second = part_of(cost, 1 - SECOND_LOOK), part_of(cost, SECOND_LOOK)
        found = self._lengths(drawing, maps[-1], look, rest, losses)
        if found.lost > _MUCH_LOST:
            # A direction in which few rows are long seems to have no spread where these are scaled
            # down, and every further map stretches it.
            earlier = self._lengths(drawing, maps[0], second, rest, losses)
            if earlier.error < _FAR_BETTER * found.error:
                return maps[0], earlier
        return maps[-1], found

    def _lengths(
        self,
        drawing: Drawing,
        geometry: Geometry,
        cost: Cost,
        rest: Calibration,
        losses: Cost | None,
        energy: float | None = None,
    ) -> Shortening:
        ask, problem, entropy = drawing
        loss_std = 0.0 if losses is None else CountNoise(losses, problem).std(disjoint=True)
        stakes = Stakes(
            entry_std=entry_std(rest, problem),
            n_values=self._n_features,
            n_levels=self._n_levels,
            # Each group has a part of the rows, and all of the noise.
            loss_std=loss_std * problem.n_groups,
        )
        return find_lengths(ask, geometry, cost, problem, entropy, stakes, energy)

    def _keeps_bounds(self, deviations: Array, lengths: Shortening, entry_std: float) -> bool:
        """Whether correlations err far less in the bounds; only of rows with a whole intercept."""
        if not (self.keeps_intercept and isfinite(lengths.error)):
            return False
        error = error_in_bounds(self.declared, deviations, lengths.rows, entry_std)
        return error < _FAR_LESS * lengths.error

    def _shortened(self, geometry: Geometry, lengths: Shortening) -> Geometry:
        # Rows of this mean squared feature, beside their intercept.
        bound = sqrt(max(1.0, lengths.energy * self._n_features) + 1)
        return msgspec.structs.replace(geometry, norm_bound=bound, lost=lengths.lost)

    def _whitened(
        self,
        drawing: Drawing,
        calibration: Calibration,
        geometry: Geometry,
        usual: Shortening,
        spreads: Array | None = None,
    ) -> Whitening | None:
        """The map that a matrix of all groups together points to; of the earlier map's spreads."""
        ask, problem, entropy = drawing
        shortened, drawn_by = self._shortened(geometry, usual), first_mechanism(calibration.promise)
        first = drawn_by.draw(ask.under(shortened), calibration, problem, entropy)
        columns = shortened.apply(self.declared)
        bound, n_rows, linear = shortened.bound(columns), problem.n_rows, shortened.linear
        return whitening_map(first, columns, bound, n_rows, self.keeps_intercept, linear, spreads)

    def _centered(self, geometry: Geometry, found: dict[str, list[Spread]]) -> Geometry:
        """With levels around their shares, as numbers are around their centers."""
        if not (self.keeps_intercept and self._n_levels):
            return geometry
        levels = {name: iter(spreads) for name, spreads in found.items()}
        middles = [
            next(levels[each.source]).center / each.half_range if each.kind == "category" else 0.0
            for each in geometry.apply(self.declared)
            if each.kind != "intercept"
        ]
        linear = centering_map(np.array(middles))
        return msgspec.structs.replace(geometry, linear=linear, norm_bound=ANY_BOUND)
