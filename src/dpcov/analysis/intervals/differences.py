"""Compare releases of different people: differences, and trends over time, with intervals.

Every release has noise of its own, and its rows are a sample of their own, so errors are
independent.  Limits of a sum follow from the limits of its parts (Zou and Donner 2008), which keeps
what those know of bounds and of noise in denominators (docs/several.md).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain
from math import inf, isfinite, nan, sqrt
from typing import Any, Literal

import msgspec
import numpy as np

from dpcov.analysis.features import find_features, require_release
from dpcov.analysis.intervals.inference import (
    Names,
    correlation_intervals,
    mean_intervals,
    variance_intervals,
)
from dpcov.analysis.intervals.table import Interval, IntervalTable
from dpcov.analysis.problems import InputError, checked
from dpcov.errors import few_of
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.file.stated import learned, stated
from dpcov.published.release import Release
from dpcov.published.words.design import weights_column
from dpcov.published.words.numbers import complete_columns

Quantity = Literal["means", "variances", "correlations"]

_TABLES: Mapping[Quantity, Callable[..., IntervalTable]] = {
    "means": mean_intervals,
    "variances": variance_intervals,
    "correlations": correlation_intervals,
}
# Names that a note gives, and lines on a screen.
_SHOWN, _LINES = 8, 100


def difference_intervals(
    first: Release,
    second: Release,
    features: Names = None,
    *,
    what: Quantity = "correlations",
    level: float = 0.95,
    sampling: bool = True,
) -> IntervalTable:
    """Intervals for the second release's means, variances or correlations less the first's.

    Both are of different people: two sites, two years, or two groups of one release.  Where some
    people are in both, sampling errors go along with each other and the intervals are too wide.
    Parameters and errors are as in :func:`mean_intervals`; InputError where no feature is in both,
    or the units of one differ.  Notes say what is declared differently or left out: by default the
    first of two levels that hold all rows, which says what the second does.
    """
    tables, notes = _tables({"First": first, "Second": second}, features, what, level, sampling)
    signs = [np.array([-1.0, 1.0])] * len(tables[0].rows)
    return _combined(f"differences of {what} (second less first)", tables, signs, notes)


def clearest_first(table: IntervalTable) -> IntervalTable:
    """The same differences, the largest beside their standard errors first."""
    return replace(table, rows=tuple(sorted(table, key=_doubt)))


def told_of(table: IntervalTable) -> str:
    """How many differences exclude zero, and the clearest of them first."""
    clear = sum(row.lower > 0 or row.upper < 0 for row in table)
    notes, left = table.notes, len(table.rows) - _LINES
    if left > 0:
        notes += (f"The clearest {_LINES} are shown, and {left:,} are not: --json prints all.",)
    shown = replace(table, rows=clearest_first(table).rows[:_LINES], notes=notes)
    return (
        f"Intervals that exclude zero: {clear:,} of {len(table.rows):,}. If nothing differed, at "
        f"most about {100 * (1 - table.level):g} of 100 would.\n\n{shown}"
    )


def _doubt(row: Interval) -> float:
    """How small a difference is beside its standard error; what is unknown comes last."""
    return -abs(row.estimate) / row.std_error if row.std_error > 0 else inf


def trend_intervals(
    releases: Mapping[float, Release],
    features: Names = None,
    *,
    what: Quantity = "correlations",
    level: float = 0.95,
    sampling: bool = True,
) -> IntervalTable:
    """Intervals for the change of means, variances or correlations per unit of time.

    Weighted least squares: a line through the estimates, each weighted by its own standard error.

    Parameters
    ----------
    releases : mapping of float to Release
        By time, such as the year; three or more, of different people.
    features, what, level, sampling
        As in :func:`difference_intervals`.
    """
    if not isinstance(releases, Mapping) or not all(
        isinstance(time, int | float | np.integer | np.floating) and isfinite(time)
        for time in releases
    ):
        raise InputError("Give releases by time, such as {2024: one, 2025: two, 2026: three}.")
    if len(releases) < 3:
        raise InputError("A trend needs three releases or more; use difference_intervals for two.")
    times = np.array(sorted(releases), dtype=np.float64)
    ordered = {str(time): releases[time] for time in sorted(releases)}
    tables, notes = _tables(ordered, features, what, level, sampling)
    errors = np.array([table.std_error for table in tables])
    slopes = [_slope(times, own) for own in errors.T]
    return _combined(f"trends of {what} (per unit of time)", tables, slopes, notes)


def _slope(times: np.ndarray[Any, Any], errors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Coefficients of the estimates in a weighted slope; an unknown one has no weight."""
    known = np.isfinite(errors) & (errors > 0)
    weight = np.where(known, 1 / np.where(known, errors, 1.0) ** 2, 0.0)
    if known.sum() < 2:
        return np.full(len(times), nan)
    apart = times - weight @ times / weight.sum()
    return np.asarray(weight * apart / (weight @ apart**2))


def _tables(
    named: Mapping[str, Release], features: Names, what: Quantity, level: float, sampling: bool
) -> tuple[list[IntervalTable], list[str]]:
    """The table of each, and the notes, with the name of the release that one is about."""
    checked("what", what, Quantity)
    releases = list(named.values())
    for release in releases:
        require_release(release)
    prints = [set(_prints(release)) for release in releases]
    if len(set().union(*prints)) < sum(map(len, prints)):
        raise InputError(
            "A release, or one and a group or release that is part of it, is among them twice. "
            "Compare releases of different people, such as two groups."
        )
    # As in the tables of each, not the weights.
    weights = {weights_column(release) for release in releases}
    names = [[x for x in release.feature_names if x not in weights] for release in releases]
    shared = [name for name in names[0] if all(name in own for own in names)]
    if not shared:
        raise InputError(
            "These releases have no feature in common. Give those of tables with like columns."
        )
    repeated = set.intersection(*map(_repeated, releases)) if features is None else set()
    chosen = [x for x in shared if x not in repeated] if features is None else features
    asked = find_features(releases[0].restored_features, chosen)
    used = [releases[0].restored_features[place].name for place in asked]
    known = [name for name in used if name in shared]
    # Correlations have no unit.
    if what != "correlations":
        _require_one_unit(releases, known)
    make = _TABLES[what]
    tables = [make(release, chosen, level=level, sampling=sampling) for release in releases]
    notes = _told(dict(zip(named, tables, strict=True)))
    notes += _meaning_notes(releases, known)
    left_out = [repr(name) for name in dict.fromkeys(chain(*names)) if name not in shared]
    if features is None and left_out:
        told = few_of(left_out, _SHOWN)
        notes.append(f"Left out, since only some of the releases have it: {told}.")
    if repeated:
        told = few_of(sorted(map(repr, repeated)), _SHOWN)
        notes.append(f"Left out, since the column's other level says the same: {told}.")
    return tables, notes


def _repeated(release: Release) -> set[str]:
    """First of two levels that hold all rows, by name, of every column that has them."""
    levels: dict[str, list[str]] = {}
    for column in release.features:
        if column.kind == "category":
            levels.setdefault(column.source, []).append(column.name)
    complete = complete_columns(release)
    return {own[0] for source, own in levels.items() if len(own) == 2 and source in complete}


def _prints(release: Release) -> Iterator[str]:
    # Groups and combined releases are in what they are part of, and so is their noise.
    yield release.fingerprint
    yield from (release.group(name).fingerprint for name in release.group_names)
    for member in release.members:
        yield from _prints(member)


def _told(tables: Mapping[str, IntervalTable]) -> list[str]:
    """What all tables note, then what some do, with their names."""
    every = [set(table.notes) for table in tables.values()]
    shared = [note for note in next(iter(tables.values())).notes if all(note in x for x in every)]
    own = ((name, note) for name, table in tables.items() for note in table.notes)
    return shared + [f"{name}: {note}" for name, note in own if note not in shared]


def _combined(
    what: str,
    tables: Sequence[IntervalTable],
    coefficients: Sequence[np.ndarray[Any, Any]],
    notes: Sequence[str],
) -> IntervalTable:
    if len({table.names for table in tables}) > 1:
        raise InputError("The columns stand for different features. Name features that both have.")
    rows = zip(*(table.rows for table in tables), strict=True)
    lines = [_line(parts, own) for parts, own in zip(rows, coefficients, strict=True)]
    return IntervalTable(what=what, level=tables[0].level, rows=tuple(lines), notes=tuple(notes))


def _line(parts: Sequence[Interval], coefficients: np.ndarray[Any, Any]) -> Interval:
    used = [(c, part) for c, part in zip(coefficients.tolist(), parts, strict=True) if c != 0]
    if not all(isfinite(c) and isfinite(part.estimate) for c, part in used):
        return Interval(parts[0].name, -inf, inf)
    scaled = [(c * x.estimate, *sorted((c * x.lower, c * x.upper))) for c, x in used]
    estimate = sum(middle for middle, _, _ in scaled)
    below = sqrt(sum((middle - low) ** 2 for middle, low, _ in scaled))
    above = sqrt(sum((high - middle) ** 2 for middle, _, high in scaled))
    stds = (
        sqrt(sum((c * getattr(part, name)) ** 2 for c, part in used))
        for name in ("sampling_std", "privacy_std")
    )
    return Interval(parts[0].name, estimate - below, estimate + above, estimate, *stds)


class _Declared(msgspec.Struct, frozen=True):
    type: str = ""
    as_: str = msgspec.field(default="", name="as")
    reference: date | None = None
    transform: str = ""
    categories: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    other: str = ""


@learned
class _Stated(msgspec.Struct, frozen=True):
    columns: dict[str, _Declared] = msgspec.field(default_factory=dict)


def _require_one_unit(releases: Sequence[Release], names: Iterable[str]) -> None:
    """Refuse features whose numbers are in different units, where both are known."""
    for name in names:
        units = sorted({column.unit for column in _columns(name, releases) if column.unit})
        if len(units) > 1:
            raise InputError(
                f"{name!r} is in {units[0]} in one release and in {units[1]} in another. Leave it "
                "out of features, or release the tables again in one unit."
            )


def _meaning_notes(releases: Sequence[Release], names: Sequence[str]) -> list[str]:
    """Say which features are declared differently, by unit, function, date or grouping."""
    schemas = [stated(release.manifest.schema_toml or "", _Stated) for release in releases]
    differ = [repr(name) for name in names if _differ(name, releases, schemas)]
    if not differ:
        return []
    verb = "is" if len(differ) == 1 else "are"
    return [f"{few_of(differ, _SHOWN)} {verb} declared differently in these releases."]


def _columns(name: str, releases: Sequence[Release]) -> list[EncodedColumn]:
    columns = [release.restored_features for release in releases]
    return [next(each for each in own if each.name == name) for own in columns]


def _differ(name: str, releases: Sequence[Release], schemas: Sequence[_Stated]) -> bool:
    columns = _columns(name, releases)
    units = {column.unit for column in columns if column.unit}
    # A release of arrays says nothing.
    said = [
        _meaning(column, schema.columns[column.source])
        for column, schema in zip(columns, schemas, strict=True)
        if column.source in schema.columns
    ]
    return len(units) > 1 or len(set(said)) > 1


def _meaning(column: EncodedColumn, declared: _Declared) -> tuple[Any, ...]:
    """What a number is, or which cells a level counts; neither bounds nor how cells are written."""
    if column.kind != "category":
        return declared.type, declared.as_, declared.reference, declared.transform
    listed = {*declared.categories, *chain(*declared.groups.values())}
    called = (*declared.categories, *declared.groups, declared.other)
    own = [each for each in called if declared.labels.get(each, each) == column.level]
    counted = {each for each in own if each in declared.categories}
    counted |= {cell for each in own for cell in declared.groups.get(each, ())}
    # All that is not listed is one level.
    others = frozenset(listed) if declared.other in own else None
    return declared.type, frozenset(counted), others
