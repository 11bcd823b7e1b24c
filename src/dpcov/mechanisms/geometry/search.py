"""Look for a geometry: a survey, first matrices and lengths of rows, one after the other.

Guarantee : every step costs what it is given.  Numerics : those of the first matrices; the rest is
    exact.  Proof : surveyed.md.  Private input : histograms of all columns, a first matrix and
    perhaps three more, and histograms of lengths.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite, sqrt
from typing import NamedTuple

import msgspec
import numpy as np

from dpcov.data.geometry import Geometry
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.budget_split import LENGTHS, SurveyedCalibration, first_mechanism
from dpcov.mechanisms.geometry.lengths import (
    Shortening,
    Stakes,
    entry_std,
    error_in_bounds,
    find_lengths,
)
from dpcov.mechanisms.geometry.losses import spread_out
from dpcov.mechanisms.geometry.survey import about_bounds, summed_energy, survey
from dpcov.mechanisms.geometry.table_facts import ANY_BOUND, TableFacts
from dpcov.mechanisms.geometry.whitening import Whitening, whitening_map
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.file.columns import half_ranges_of, of_kind
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
_FAR_LESS = 1 / 2


class Found(NamedTuple):
    """A geometry, or None where bounds are kept; its lengths, what is left, how it was found."""

    geometry: Geometry | None
    lengths: Shortening
    rest: Calibration
    notes: list[str]


class _Mapped(NamedTuple):
    """Geometries under the map of every matrix, what is left, and how they were found.

    And deviations of values in units of their bounds, where a map was, and their mean variance in
    those of the survey.
    """

    maps: list[Geometry]
    rest: Calibration
    how: str
    deviations: Array | None
    variance: float = 0.0


@dataclass(frozen=True)
class Search:
    """Public facts of a table, whom to ask of it, and randomness: a method is a step."""

    table: TableFacts
    ask: Ask
    problem: Problem
    entropy: Entropy

    def find(self, calibration: SurveyedCalibration, *, centers_levels: bool = True) -> Found:
        """Survey columns, map, and find lengths; ``centers_levels`` around their shares."""
        of_lengths, losses = part_of(calibration.survey, LENGTHS), calibration.losses
        full, energy = self.survey(calibration, centers_levels=centers_levels)
        paid = calibration.with_part(calibration.survey)
        notes = [f"centers and scales of the columns were found with {paid}"]
        found = _Mapped([full], calibration.inner, "", None)
        if calibration.first is not None:
            if energy is not None:
                # Of longer rows the map need not know all.
                usual = Shortening(_FIRST_LENGTH * energy / self.table.n_features, 0.0)
            else:
                look, of_lengths = (part_of(of_lengths, x) for x in (FIRST_LOOK, 1 - FIRST_LOOK))
                usual = self.lengths(full, look, calibration.first, None)
            found = self._mapped(calibration, full, usual)
            notes.append(f"a linear map that takes correlations out {found.how}")
        full, lengths = self._shortest(found, of_lengths, losses)
        if full is not found.maps[-1]:
            notes.append("rows are far shorter under the first of these maps, which is kept")
        if self._fits_in_bounds(found, lengths):
            notes.append("the bounds fit better, and are kept")
            return Found(None, lengths, found.rest, notes)
        # In squared units of what is encoded, whatever the map does to it.
        factor = 1 / self.table.unit**2
        if full.linear is not None:
            factor = spread_out(full.linear.matrix, in_l2=isinstance(losses, ZCDP))
        lengths = replace(lengths, limit=lengths.limit * factor)
        made = self._shortened(full, lengths).in_units(self.table.unit)
        return Found(self.table.stated(made), lengths, found.rest, notes)

    def survey(
        self, calibration: SurveyedCalibration, *, centers_levels: bool
    ) -> tuple[Geometry, float | None]:
        """Centers and scales, and the mean squared length of rows in them, if enough showed."""
        table, cost = self.table, part_of(calibration.survey, 1 - LENGTHS)
        spreads = survey(self.ask, table.columns, cost, self.problem, self.entropy)
        if not table.has_intercept:
            spreads = list(map(about_bounds, table.columns, spreads))
        full = table.surveyed(spreads, centers_levels=centers_levels)
        is_centered = full.linear is not None
        return full, summed_energy(table.columns, spreads, is_centered=is_centered)

    def lengths(
        self,
        geometry: Geometry,
        cost: Cost,
        rest: Calibration,
        losses: Cost | None,
        energy: float | None = None,
        variance: float = 0.0,
    ) -> Shortening:
        """The length of rows that serves what is left, or what a given ``energy`` takes.

        ``variance`` is the mean one of values, as far as it is known.
        """
        loss_std = 0.0 if losses is None else CountNoise(losses, self.problem).std(disjoint=True)
        stakes = Stakes(
            entry_std=entry_std(rest, self.problem),
            n_values=self.table.n_features,
            # Each group has a part of the rows, and all of the noise.
            loss_std=loss_std * self.problem.n_groups,
            variance=variance,
        )
        return find_lengths(self.ask, geometry, cost, self.problem, self.entropy, stakes, energy)

    def whitened(
        self,
        calibration: Calibration,
        geometry: Geometry,
        usual: Shortening,
        spreads: Array | None = None,
    ) -> Whitening | None:
        """The map that a matrix of all groups together points to; of the earlier map's spreads."""
        shortened, drawn_by = self._shortened(geometry, usual), first_mechanism(calibration.promise)
        asked = self.ask.under(shortened)
        first = drawn_by.draw(asked, calibration, self.problem, self.entropy)
        columns = shortened.apply(self.table.declared)
        return whitening_map(
            first,
            columns,
            shortened.bound(columns),
            self.problem.n_rows,
            self.table.keeps_intercept,
            shortened.linear,
            spreads,
        )

    def _mapped(
        self, calibration: SurveyedCalibration, geometry: Geometry, usual: Shortening
    ) -> _Mapped:
        first, again, rest = calibration.first, calibration.again, calibration.inner
        assert first is not None
        how = f"found with {calibration.with_part(first.promise)}"
        made = self.whitened(first, geometry, usual)
        if made is None:
            return _Mapped([geometry], rest, f"could not be {how}", None)
        # No row is scaled down before lengths are measured.
        maps = [Geometry(columns=geometry.columns, linear=made.linear, norm_bound=ANY_BOUND)]
        for left in calibration.rests:
            if again is None or not made.goes_on:
                break
            rest, how = left, f"{how}, then {calibration.with_part(again.promise)}"
            more = self.whitened(again, maps[-1], usual, made.spreads)
            made = more or made._replace(goes_on=False)
            maps.append(msgspec.structs.replace(maps[-1], linear=made.linear))
        declared = self.table.declared
        units = half_ranges_of(geometry.apply(declared)) / half_ranges_of(declared)
        units = units[~of_kind(declared, "intercept", "missing")]
        # That of columns whose scales are far too small would drown the others.
        variance = min(1.0, float(np.mean(made.spreads**2)))
        return _Mapped(maps, rest, f"was {how}", made.spreads * units, variance)

    def _shortest(
        self, found: _Mapped, cost: Cost, losses: Cost | None
    ) -> tuple[Geometry, Shortening]:
        """The last geometry and its lengths, or the first, where it serves far better."""

        def look(geometry: Geometry, cost: Cost) -> Shortening:
            return self.lengths(geometry, cost, found.rest, losses, variance=found.variance)

        first, last = found.maps[0], found.maps[-1]
        if first is last:
            return first, look(first, cost)
        lengths = look(last, part_of(cost, 1 - SECOND_LOOK))
        if lengths.lost > _MUCH_LOST:
            # A direction in which few rows are long seems to have no spread where these are scaled
            # down, and every further map stretches it.
            earlier = look(first, part_of(cost, SECOND_LOOK))
            if earlier.error < _FAR_BETTER * lengths.error:
                return first, earlier
        return last, lengths

    def _fits_in_bounds(self, found: _Mapped, lengths: Shortening) -> bool:
        """Whether correlations err far less in the bounds; only of rows with a whole intercept."""
        # Without lengths there is no number of rows either.
        is_told = self.table.keeps_intercept and isfinite(lengths.error)
        if found.deviations is None or not is_told:
            return False
        std = entry_std(found.rest, self.problem)
        error = error_in_bounds(self.table.declared, found.deviations, lengths.rows, std)
        return error < _FAR_LESS * lengths.error

    def _shortened(self, geometry: Geometry, lengths: Shortening) -> Geometry:
        # Rows of this mean squared feature, beside their intercept.
        bound = sqrt(max(1.0, lengths.energy * self.table.n_features) + 1)
        return msgspec.structs.replace(geometry, norm_bound=bound, lost=lengths.lost)
