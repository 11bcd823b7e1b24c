"""Find centers and scales of all columns privately, so that typed bounds may be far too wide.

Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Numerics : exact.  Proof : survey.md.
    Public inputs : cost, columns, relation, n under replace-one.  Private input : histograms of all
    columns.
Sensitivity : Of k rows per person: a count of the values below an edge moves by at most k, a
    histogram of disjoint cells by sqrt(2) k (replace-one) or k (add-remove-one) in the l2 norm, by
    2 k or k in the l1 norm.  Every column has its own part of the cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from statistics import NormalDist

import numpy as np

from dpcov.data.geometry import Scale
from dpcov.data.histograms import (
    MISSING,
    UNIT,
    Counts,
    FineWindow,
    HistogramQuestion,
    Shared,
    Window,
)
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.survey_at_once import PARTS_OF, look_at_once, rows_off
from dpcov.mechanisms.geometry.survey_counts import FALSE_SHELLS, Alone, Cells, Seen, Spread
from dpcov.mechanisms.geometry.survey_rings import look_around
from dpcov.mechanisms.geometry.survey_shells import SHARES, look_in_shells
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.estimate.entry_noise import DEVIATIONS
from dpcov.published.file.columns import EncodedColumn

_PAYS, _CLEAR = 1 / 10, 1 / 24
"""Part of the public number of rows that noise may hide where a survey is made, and where more of
the budget would not show more."""

_PAYS_PURE, _CLEAR_PURE = 0.4, 1 / 9
"""In pure epsilon the same two for how many of the rows a middle is away."""

_FIRST, _SECOND = Fraction(4, 5), Fraction(1, 5)
"""Parts of the cost for a look at every column, and at those of which not all showed."""

_LEAST_LEVELS = 4
"""A table of columns of levels alone has so many at least; bounds of levels fit."""

_LEVELS = Fraction(1, 16)
"""Part of a column of levels over that of one of numbers: equal shares are a good guess."""

_FITS = 1 / 16
"""A scale, relative to bounds, from which these were typed to fit: people type them alike."""

_TYPICAL = 3
"""So many scales that showed say what is usual."""

_INDICATOR = 0.7
"""The unit of an indicator of missing values: a smaller one would make rows longer, and a larger
one would leave more noise on how many values are missing (measured in docs/measured/missing.md)."""

_SEEN = 1 / 2
"""Part of the columns that the survey saw, from which it says how long rows are."""

_FINER = Fraction(1, 2)
"""Part of that for finer windows where one is needed; the rest is for the rings of all together."""


@dataclass(frozen=True)
class SurveyColumn:
    """What the survey must know of a column.

    ``categories`` is 0 for a number, and ``anchor`` where its values may lie close together: zero,
    or the bound nearest to it.
    """

    name: str
    categories: int = 0
    boolean: bool = False
    anchor: float = 0.0

    @property
    def has_levels(self) -> bool:
        """Whether every value is one of few that are public."""
        return self.boolean or self.categories > 0


def survey(
    ask: Ask, columns: Sequence[SurveyColumn], cost: Cost, problem: Problem, entropy: Entropy
) -> list[list[Spread]]:
    """Centers and scales; one for a number, one for each level of a column of categories.

    ``columns`` are in the order of the encoding's ``column_values``; all of ``cost`` is charged.
    """
    whole, size = weight(columns), len(columns)
    wide = ask(question(columns))
    found, alone = _first_looks(wide.counts, columns, cost, problem, entropy)
    # Noise alone rarely makes a second look at tails.
    most = NormalDist().inv_cdf(1 - FALSE_SHELLS / size)
    if all(each.is_tail and each.others <= most * each.unsure for each in alone.values()):
        return found
    windows = {place: each.window for place, each in alone.items() if each.window is not None}
    rings = [(place, each.weight, each.rings) for place, each in alone.items()]
    again = ask(
        HistogramQuestion(
            windows=tuple(windows.get(place, Window(cells=1)) for place in range(size)),
            shared=Shared(tuple(rings), in_l2=isinstance(cost, ZCDP)),
        )
    )
    numbers = sum(not column.has_levels for column in columns)
    second = part_of(cost, _SECOND * numbers / whole)
    finer = part_of(second, _FINER / max(1, len(windows)))
    for place, window in windows.items():
        cells = Cells.zoomed(wide.counts[place], again.counts[place], window)
        seen = _look(cells, finer, problem, size, entropy)
        alone[place] = _closer(alone[place], seen)
    together = part_of(second, 1 - _FINER) if windows else second
    usual = _usual_scale(columns, found, alone)
    seen_alone = [
        each.as_one_value() if each.is_too_narrow(usual) else each for each in alone.values()
    ]
    around = look_around(
        seen_alone, again.counts[size:], together, problem, size, entropy, fits=usual > _FITS
    )
    for place, spread in zip(alone, around, strict=True):
        found[place] = [spread]
    return found


def _first_looks(
    counts: Sequence[Counts],
    columns: Sequence[SurveyColumn],
    cost: Cost,
    problem: Problem,
    entropy: Entropy,
) -> tuple[list[list[Spread]], dict[int, Alone]]:
    """What each column shows by itself; by its place, where that is one value or not all of it."""
    whole, size = weight(columns), len(columns)
    found: list[list[Spread]] = []
    alone: dict[int, Alone] = {}
    scales: list[float] = []
    for place, (column, own) in enumerate(zip(columns, counts, strict=True)):
        if column.has_levels:
            part = part_of(cost, _LEVELS / whole)
            # A missing value is in no level; a missing yes or no is put at the center.
            n_rows = problem.n_rows if column.categories else None
            found.append(_levels(own, CountNoise(part, problem), size, n_rows, entropy))
            continue
        cells, part = Cells.whole(own, column.anchor), part_of(cost, _FIRST / whole)
        typical = float(np.median(scales)) if len(scales) >= _TYPICAL else None
        seen = _look(cells, part, problem, size, entropy, typical)
        shown = seen.spread if seen.alone is None else seen.alone.finer
        scales += [shown.scale] if shown is not None else []
        found.append([seen.spread or Spread(0.0, 1.0)])
        if seen.alone is not None:
            alone[place] = seen.alone
    return found, alone


def _closer(alone: Alone, seen: Seen) -> Alone:
    """What finer cells tell of a value; the first look had more budget for what lies far away."""
    first = alone.finer
    # Finer cells have less of the budget: what the first look excludes is noise.
    if seen.spread is None or (
        first is not None
        and (
            seen.spread.scale > first.scale or abs(seen.spread.center - first.center) > alone.radius
        )
    ):
        return alone
    if seen.alone is None or seen.alone.is_tail:
        return replace(alone, finer=seen.spread, is_spread=True)
    if first is None or seen.alone.others <= 0:
        return alone
    # One value after all, beside the middle that was drawn first.
    if seen.spread.scale < first.scale:
        return replace(alone, finer=seen.spread)
    return replace(alone, others=seen.alone.others, unsure=seen.alone.unsure)


def _usual_scale(
    columns: Sequence[SurveyColumn], found: Sequence[Sequence[Spread]], alone: Mapping[int, Alone]
) -> float:
    """Median scale of the numbers in which values showed; 0 if there are none."""
    numbers = [place for place, column in enumerate(columns) if not column.has_levels]
    shown = (alone[place].finer if place in alone else found[place][0] for place in numbers)
    scales = [spread.scale for spread in shown if spread is not None]
    return float(np.median(scales)) if scales else 0.0


def check_cost(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> None:
    """Refuse now a cost whose smallest part needs more noise than can be drawn."""
    whole = max(Fraction(1), weight(columns))
    CountNoise(part_of(cost, _LEVELS / whole), problem).std(disjoint=True)
    second = part_of(cost, _SECOND / whole)
    CountNoise(part_of(second, _FINER / 2 * min(SHARES)), problem).std(disjoint=True)
    CountNoise(part_of(second, 1 - _FINER), problem, UNIT).std(disjoint=True)


def weight(columns: Sequence[SurveyColumn]) -> Fraction:
    """How many columns of numbers would take as much of the cost."""
    return sum((_LEVELS if column.has_levels else Fraction(1) for column in columns), Fraction(0))


def doubt(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> float:
    """Noise over that with which columns show clearly; 0 where the number of rows is private."""
    hidden, _, clear = _hidden(cost, columns, problem)
    return hidden / clear


def pays(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> bool:
    """Whether columns show, by the public number of rows, or that is private."""
    if all_levels(columns):
        return isinstance(cost, ZCDP) and len(columns) >= _LEAST_LEVELS
    hidden, most, _ = _hidden(cost, columns, problem)
    return hidden <= most


def all_levels(columns: Sequence[SurveyColumn]) -> bool:
    """Whether there is no column of numbers."""
    return all(column.has_levels for column in columns)


def _hidden(
    cost: Cost, columns: Sequence[SurveyColumn], problem: Problem
) -> tuple[float, float, float]:
    """Part of the rows that noise may hide; with which of it a survey pays, and shows clearly."""
    if problem.n_rows is None or all_levels(columns):
        return 0.0, _PAYS, _CLEAR
    look = part_of(cost, _FIRST / weight(columns))
    if isinstance(look, PureDP):
        choosing = part_of(look, PARTS_OF[problem.neighbors].middle)
        return rows_off(choosing, problem) / problem.n_rows, _PAYS_PURE, _CLEAR_PURE
    shells = CountNoise(part_of(look, Fraction(1, 2)), problem)
    return sqrt(2) * shells.std(disjoint=True) / problem.n_rows, _PAYS, _CLEAR


def question(columns: Sequence[SurveyColumn]) -> HistogramQuestion:
    """The first question of a survey."""
    return HistogramQuestion(windows=tuple(map(_window, columns)))


def _window(column: SurveyColumn) -> Window | FineWindow:
    if column.boolean:
        # No is -1 and yes is 1.
        return Window(-2.0, 2.0, 2)
    if column.categories:
        return Window(-0.5, column.categories - 0.5, column.categories)
    return FineWindow(column.anchor)


def _look(
    cells: Cells,
    cost: Cost,
    problem: Problem,
    size: int,
    entropy: Entropy,
    typical: float | None = None,
) -> Seen:
    """Find the middle, then the spread around it."""
    if isinstance(cost, ZCDP):
        return look_in_shells(cells, part_of(cost, Fraction(1, 2)), problem, size, entropy)
    return look_at_once(cells, cost, problem, entropy, typical)


def _levels(
    counts: Counts, noise: CountNoise, size: int, n_rows: int | None, entropy: Entropy
) -> list[Spread]:
    """Share of every level; rare ones count for what noise may hide, or what rows can bear.

    Spreads are those of the rows with a level, and centers are shares of all ``n_rows``, if given.
    """
    levels = counts[MISSING + 1 :]
    seen = levels + noise.draw(len(levels), entropy, disjoint=True)
    rows = max(1.0, float(seen.sum()))
    std, equal = noise.std(disjoint=True) / rows, 1 / max(2, len(levels))
    # Shares differ by about as much as they are: what noise hides is taken for equal.
    known = equal**2 / (equal**2 + std**2)
    plain = np.clip(known * seen / rows + (1 - known) * equal, 0.0, 1.0)
    # That rows lack a level must stand out of the noise on the sum.
    hidden = DEVIATIONS * noise.std(disjoint=True) * sqrt(len(levels))
    with_level = rows / n_rows if n_rows is not None and n_rows - rows > hidden else 1.0
    shares = np.clip(plain, min(max(std, 1 / (size + 1)), equal), 0.5)
    return [
        Spread(
            float(one) * with_level, sqrt(share * (1 - share)), float(one) / (share * (1 - share))
        )
        for one, share in zip(plain, shares, strict=True)
    ]


def about_bounds(column: SurveyColumn, spreads: list[Spread]) -> list[Spread]:
    """Around the middle of the bounds: without an intercept nothing tells of another center."""
    if column.boolean:
        return [Spread(0.5, 0.5, 1.0)] * len(spreads)
    return spreads if column.categories else [each.around(0.0) for each in spreads]


def summed_energy(
    columns: Sequence[SurveyColumn], spreads: Sequence[Sequence[Spread]], *, is_centered: bool
) -> float | None:
    """Mean squared length of rows in these spreads; None where too few columns were seen.

    ``is_centered``: levels are around their shares.
    """
    energies: list[float] = []
    for column, of_levels in zip(columns, spreads, strict=True):
        # Yes or no is one feature around its mean, and so are levels.
        around = column.categories > 0 and is_centered
        energies += (
            [1.0]
            if column.boolean
            else [each.energy * (1 - around * each.center) for each in of_levels]
        )
    seen = sum(energy > 0 for energy in energies)
    return sum(energies) if seen >= _SEEN * len(energies) else None


def scales_of(
    declared: Sequence[EncodedColumn], found: Mapping[str, Sequence[Spread]]
) -> dict[str, Scale]:
    """Centers and scales of encoded columns, by the spreads of their columns of the table."""
    scales: dict[str, Scale] = {}
    for name, spreads in found.items():
        encoded = [each for each in declared if each.source == name]
        for place, each in enumerate(encoded):
            if each.kind == "missing":
                scales[each.name] = Scale(center=0.0, scale=_INDICATOR)
            elif each.kind == "boolean":
                scales[each.name] = Scale(center=spreads[1].center, scale=spreads[1].scale)
            elif each.kind == "category":
                scales[each.name] = Scale(center=0.0, scale=spreads[place].scale)
            else:
                scales[each.name] = _in_units(each, spreads[0])
    return scales


def _in_units(column: EncodedColumn, spread: Spread) -> Scale:
    lower, upper = column.bounds
    center = column.center + column.half_range * spread.center
    # A geometry that would be refused is clamped: the budget is charged by now.
    return Scale.nearest(min(max(center, lower), upper), column.half_range * spread.scale)
