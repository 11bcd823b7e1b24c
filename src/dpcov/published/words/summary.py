"""What a release says about itself, in words that a data-protection officer can check.

Contract: reads a release only, and claims no more than its guarantee.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from textwrap import fill

import numpy as np

from dpcov.errors import few_of, printable
from dpcov.markup import cut
from dpcov.privacy.guarantee import costs_nothing
from dpcov.published.digits import percent, plural, plus_minus, with_error
from dpcov.published.reading.base import BaseRelease
from dpcov.published.words.design import told_of
from dpcov.published.words.numbers import WITHIN
from dpcov.published.words.verdicts import ColumnVerdict, Diagnosis, Verdict
from dpcov.published.words.words import (
    NUMERICS_WORDS,
    bound_in_words,
    counted,
    own_rows,
    promise_in_words,
    rows_in_words,
)

_SHOWN_FEATURES, _SHOWN_NAMES = 12, 6
_NAME_WIDTH, _LABEL_WIDTH, _WIDTH = 34, 13, 104
# Of the cells of a table of columns, with the blanks before them.
_LEAST_WIDTHS = (12, 10, 12, 10, 16, 9, 7)

LIGHTS: dict[Verdict, str] = {
    "good": "● good",
    "weak": "◐ weak",
    "lost": "○ lost in the noise",
    "suspicious": "▲ suspicious",
    "unknown": "– unknown",
}
_LEGEND = """± holds 95 of 100 errors of noise and of scaling rows down, fewer where tails are long.
That rows are a sample comes on top. Correlations: with columns that can be used, at the median."""
# Where means are known, and where they are not.
SIZES = {
    True: "Spread: standard deviation",
    False: "Root mean square (rms): around the middle of the bounds, of levels and arrays around 0",
}

# Part of squared lengths from which it is told that scaling rows down took it.
_LOST = 0.005

_LEFT_OUT = "what finding centers and scales of its columns cost, if they were found in these rows"


def summarize(release: BaseRelease, found: Diagnosis, *, details: bool = False) -> str:
    """Plain-text account of a release, about one screen; ``details`` for statisticians."""
    headline = _table(("Can be read", found.headline))
    return _joined(
        [
            *(_title(release), _warnings(release), headline, _what(release), _guarantee(release)),
            _noise(release) if details else "",
            *(_provenance(release), _estimates(found)),
        ]
    )


def told_by_doctor(found: Diagnosis) -> str:
    """Plain-text verdict on every column, with causes and advice."""
    lines = []
    for names, column in found.by_finding():
        light, told = LIGHTS[column.verdict][0], f"{column.cause} {column.advice}"
        said = f"{light} {_first(names)}: {told}"
        lines.append(fill(said.rstrip(), _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    remarks = "\n".join(fill(remark, _WIDTH) for remark in found.remarks)
    legend = f"{_LEGEND}\n{SIZES[found.knows_means]}."
    return _joined([found.headline, remarks, _columns(found), "\n".join(lines), legend])


def _joined(parts: Iterable[str]) -> str:
    return printable("\n\n".join(text for text in parts if text) + "\n")


def _table(*rows: tuple[str, str]) -> str:
    indent, told = " " * _LABEL_WIDTH, [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in rows]
    return "\n".join(
        fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False) for text in told
    )


def short_name(name: str) -> str:
    """A name cut to a cell of a table, on one line: a break would look like a line of ours."""
    return cut(" ".join(name.splitlines()), _NAME_WIDTH)


def _first(names: Sequence[str]) -> str:
    return few_of(list(map(short_name, names)), _SHOWN_NAMES)


def _title(release: BaseRelease) -> str:
    title = " ".join(release.manifest.title.splitlines()) or "untitled table"
    return f"Private covariance release: {title}\nFingerprint  {release.fingerprint}"


def _warnings(release: BaseRelease) -> str:
    return "\n".join(f"WARNING      {warning}" for warning in release.manifest.warnings)


def _what(release: BaseRelease) -> str:
    how = "with noise; no row and no single value"
    if costs_nothing(release.guarantee.promise):
        how = "in which nothing depends on the table"
    kind = "means and covariance" if release.has_intercept else "second moments (not centered)"
    features = plural(len(release.feature_names), "feature")
    groups = f"the same for each of {_first(release.group_names)}"
    functions = [x.name for x in release.features if x.kind == "numeric" and x.name != x.source]
    told = f"{_first(functions)}: estimates are of the function's value"
    bound = f"{release.manifest.norm_bound:.6g}, {bound_in_words(release)}"
    sampling = told_of(release)
    remark = "published exactly: this number is not protected"
    if release.manifest.n_rows is None:
        remark = "the exact number is protected"
    return _table(
        ("Published", f"{kind} of {features}, {how}"),
        ("Features", _first(release.feature_names)),
        *([("Functions", told)] if functions else []),
        *([("Groups", groups)] if release.group_names else []),
        ("Rows", f"{rows_in_words(release)} ({remark})"),
        *([("Sampling", " ".join(sampling))] if sampling else []),
        ("Norm bound", bound),
    )


def _guarantee(release: BaseRelease) -> str:
    guarantee = release.guarantee
    say = "says" if guarantee.rows_per_person == 1 else "say"
    protected = f"what one person's {own_rows(guarantee)} {say}"
    public = guarantee.neighbors == "replace-one"
    of_table = f"; not how many rows {counted(release)} has"
    protected += of_table if public else ", and who is in the table at all"
    return _table(
        ("Guarantee", f"{guarantee.promise}, {guarantee.neighbors} neighbors"),
        ("Protects", protected),
        *([("Left out", _LEFT_OUT)] if release.manifest.geometry_was_given else []),
        ("Numerics", f"{guarantee.numerics}. {NUMERICS_WORDS[guarantee.numerics]}"),
        ("Mechanism", release.manifest.mechanisms),
        ("In words", promise_in_words(guarantee.promise).replace("’", "'")),
    )


def expected_error(release: BaseRelease) -> str | None:
    """How far the second moments are from the truth, as read by default; None if not known."""
    known = (release.expected_error(post) for post in (release.statistics.post, "none"))
    error = next((error for error in known if error is not None), None)
    if error is None:
        return None
    moment, length = release.second_moment(), f"{error:.3g} (Frobenius norm)"
    # A public number of rows is no estimate.
    if np.count_nonzero(moment) > (release.public_intercept is not None):
        size, lost = float(np.linalg.norm(moment)), release.statistics.lost
        told = f"about {length}, of noise alone, in a second moment matrix of size {size:.3g}"
        # With long tails that may be many times as large as the noise.
        shortened = f"; scaling rows down, which took {percent(lost)} of squared lengths, is on top"
        return told + shortened * (lost >= _LOST)
    return f"Noise exceeds signal. The estimate is zero, the truth probably at most {length}"


def _noise(release: BaseRelease) -> str:
    statistics, error = release.manifest.statistics, expected_error(release)
    rows = [("Note", note) for note in statistics.notes]
    rows += [("Noise", family) for family in {law.family: None for law in release.manifest.laws}]
    return _table(*rows, *([("Error", error)] if error is not None else []))


def _estimates(found: Diagnosis) -> str:
    more = len(found.columns) - _SHOWN_FEATURES
    lines = [_columns(replace(found, columns=found.columns[:_SHOWN_FEATURES]))]
    if more > 0:
        lines.append(f"... and {more} more")
    lines.append("Causes and advice: dpcov doctor RELEASE")
    return "\n".join(lines)


def _columns(found: Diagnosis) -> str:
    head, rows = told_columns(found)
    head = tuple(map(str.lower, head))
    # As wide as the longest cell and a blank.
    widths = [
        max(least, *(len(cell) + 1 for cell in cells))
        for least, cells in zip(_LEAST_WIDTHS, zip(head, *rows, strict=True), strict=False)
    ]
    names = ["Column", *(short_name(c.in_unit) for c in found.columns)]
    lights = [" ", *(LIGHTS[c.verdict] for c in found.columns)]
    name_width, lines = max(map(len, names)), list[str]()
    for light, name, cells in zip(lights, names, (head, *rows), strict=True):
        sign, _, word = light.partition(" ")
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{sign or ' '}  {name:<{name_width}}{line}  {word}".rstrip())
    return "\n".join(lines)


def told_columns(found: Diagnosis) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads of the numbers that are told of columns, and those of every column."""
    size, missing = "Spread" if found.knows_means else "RMS", _told_missing(found.columns)
    head = ("Mean", "±", size, "±", "Correlations ±", *("Missing", "±") * any(missing))
    each = zip(found.columns, missing, strict=True)
    return head, [(*told_numbers(column), *parts) for column, parts in each]


def _told_missing(columns: Sequence[ColumnVerdict]) -> list[tuple[str, ...]]:
    # What part of every column is missing, and ±; nothing where no column's schema marks it.
    if not any(isfinite(column.missing) for column in columns):
        return [()] * len(columns)
    pairs = [(column.missing, WITHIN * column.missing_noise) for column in columns]
    # A part of which nothing is known is none.
    return [(percent(part), percent(doubt)) if doubt < 1 else ("–", "–") for part, doubt in pairs]


def told_numbers(column: ColumnVerdict) -> tuple[str, ...]:
    """Mean and spread, each with what 95 of 100 errors stay within, and that of correlations."""
    mean = with_error(column.mean, WITHIN * column.mean_noise)
    spread = with_error(column.spread, WITHIN * column.spread_noise)
    return *mean, *spread, plus_minus(column.within)


def _provenance(release: BaseRelease) -> str:
    manifest = release.manifest
    if manifest.is_charged:
        spent = manifest.paid()
    elif costs_nothing(release.guarantee.promise):
        spent = "nobody: this release costs nothing"
    else:
        spent = "no ledger: somebody must keep account of all releases about these people"
    software = ", ".join(map(" ".join, manifest.software.items()))
    made_of = [("Made of", note) for note in manifest.statistics.notes if manifest.combined]
    return _table(
        *made_of, ("Charged to", spent), ("Created", manifest.created), ("Made with", software)
    )
