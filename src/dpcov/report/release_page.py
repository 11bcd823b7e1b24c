"""Put the page of a release together: the sections that explain, and those with numbers.

Contract: reads a release only, and the balance of a ledger if the publisher gives it.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import isfinite

from dpcov.markup import Child, Html, el, join, name_of, names_of, shorten, table
from dpcov.privacy.guarantee import costs_nothing
from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.digits import plus_minus
from dpcov.published.estimate.post import POSTS
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.release import Release
from dpcov.published.words.design import told_of
from dpcov.published.words.numbers import GroupNumbers
from dpcov.published.words.words import (
    NUMERICS_WORDS,
    bound_in_words,
    change_in_words,
    conversions,
    promise_in_words,
    rows_in_words,
)
from dpcov.report import heatmap, html, results
from dpcov.report.charts import number
from dpcov.report.groups import side_by_side
from dpcov.report.html import Section, fill

SCRIPTS = ("theme.js", "tables.js", "heatmap.js", "parts.js")
LONGEST_DESCRIPTION = 200
# Anchor, heading and entry in the list of contents.
SECTIONS = (
    ("about", "What was released, and about whom", "What was released"),
    ("features", "What can be read, column by column", "Columns"),
    ("guarantee", "What is promised to each person", "The guarantee"),
    ("budget", "Privacy budget", "Budget"),
    ("correlations", "Correlations", "Correlations"),
    ("groups", "Groups side by side", "Groups"),
    ("spectrum", "Components above the noise", "Spectrum"),
    ("care", "Before you use these numbers", "Be careful"),
    ("load", "Use this file", "Use this file"),
)


@on_one_thread
def render_release(
    release: Release, *, file_name: str = "release.dpcov", balance: Balance | None = None
) -> bytes:
    """Write the page of a release: an HTML document that needs nothing else.

    ``file_name`` stands in its examples; ``balance`` is what the dataset's ledger says, if shown.

    >>> import numpy as np, dpcov
    >>> made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=dpcov.Budget(rho=1))
    >>> render_release(made).startswith(b"<!doctype html>")
    True
    """
    # Computed once: sections and maps show the same numbers.
    groups = list(numbers_by_group(release))
    drawn, data = _maps(groups)
    contents = (
        _about(release),
        _each(groups, results.features),
        _guarantee(release),
        _budget(release, balance),
        _each(groups, lambda group: results.correlations(group, group.index in drawn)),
        side_by_side(release, groups[0]),
        _each(groups, results.spectrum),
        _care(release),
        _load(release, file_name),
    )
    return html.page(
        release.manifest.title or "Untitled table",
        [Section(*words, each) for words, each in zip(SECTIONS, contents, strict=True) if each],
        SCRIPTS,
        subtitle="A covariance matrix released under differential privacy",
        top=_top(release, groups),
        data=data,
        footer=fill(
            "footer.html",
            fingerprint=release.fingerprint,
            created=release.manifest.created,
            software=", ".join(map(" ".join, release.manifest.software.items())),
        ),
    )


def numbers_by_group(release: Release) -> Iterator[GroupNumbers]:
    """Numbers of all rows, then those of every group."""
    yield release.numbers
    for place, name in enumerate(release.group_names, start=1):
        yield replace(release.group(name).numbers, index=place, name=name)


def _each(groups: Sequence[GroupNumbers], content: Callable[[GroupNumbers], Html]) -> Html:
    # All rows and every group, of which the page shows one at a time.
    if len(groups) == 1:
        return content(groups[0])

    def block(group: GroupNumbers) -> Html:
        rows = el("p", "Rows: ", name_of(group.name), class_="of-part")
        return el("div", rows, content(group), data_part=group.index)

    return join(map(block, groups))


def _maps(groups: Sequence[GroupNumbers]) -> tuple[set[int], Html]:
    # Which groups have a heat map, and the data of all of them.
    size = len(groups[0].release.feature_names)
    made = [(group.index, group.estimates) for group in groups if group.estimates is not None]
    # All rows come first, so that they have a map wherever one fits.
    kept = made[: heatmap.most_maps(size)]
    maps = {index: heatmap.pack(x.correlation, x.correlation_noise, x.clear) for index, x in kept}
    names = [shorten(name) for name in groups[0].release.feature_names]
    return set(maps), html.json_block("map-data", {"names": names, "maps": maps})


def _top(release: Release, groups: Sequence[GroupNumbers]) -> Html:
    # What a reader looks for first, and the list to choose a group from.
    found, estimates = release.diagnose(), groups[0].estimates
    return fill(
        "top.html",
        release=release,
        groups=groups,
        rows=rows_in_words(release),
        found=found,
        usable=sum(column.usable for column in found.columns),
        typical=plus_minus(found.typical) if isfinite(found.typical) else None,
        worst=plus_minus(found.worst),
        spectrum=None if estimates is None else estimates.spectrum,
    )


def _about(release: Release) -> Html:
    rows = list(_column_rows(release))
    head: tuple[str, ...] = ("Column", "Kind", "Public bounds or categories", "Description")
    if not any(column.description for column in release.features):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return fill(
        "about.html",
        release=release,
        count=len(release.feature_names),
        free=costs_nothing(release.guarantee.promise),
        rows=rows_in_words(release),
        sampling=told_of(release),
        columns=rows,
        made=table(head, rows, caption="Columns of the table", numeric=False),
        norm_bound=f"{number(release.manifest.norm_bound)}, {bound_in_words(release)}",
    )


def _column_rows(release: Release) -> Iterator[tuple[Child, ...]]:
    # Categories of one column stand together.
    for source, members in groupby(release.features, key=lambda column: column.source):
        columns = list(members)
        about = el("bdi", shorten(columns[0].description, LONGEST_DESCRIPTION))
        kinds = {column.kind for column in columns}
        missing = " (missing values are marked)" if source in release.marked_sources else ""
        if "category" in kinds:
            labels = names_of(column.level for column in columns if column.kind == "category")
            yield name_of(source), f"categorical{missing}", labels, about
        elif "boolean" in kinds:
            yield name_of(source), f"true or false{missing}", "counted as 1 and 0", about
        else:
            lower, upper = columns[0].bounds
            unit = el("bdi", " ", shorten(columns[0].unit)) if columns[0].unit else None
            bounds = (f"{number(lower)} to {number(upper)}", unit)
            bounds = ("none", unit) if release.is_array else bounds
            kind = "numeric" if columns[0].name == source else "value of a function"
            yield name_of(columns[0].name), f"{kind}{missing}", bounds, about


def _guarantee(release: Release) -> Html:
    made = release.guarantee
    formulas = table(
        ("In symbols", "Where it comes from"),
        ((el("code", formula), remark) for formula, remark in conversions(made.promise)),
        caption="The guarantee, and what follows from it",
        numeric=False,
    )
    return fill(
        "guarantee.html",
        guarantee=made,
        manifest=release.manifest,
        change=change_in_words(release),
        promise=promise_in_words(made.promise),
        formulas=formulas,
        covered=NUMERICS_WORDS[made.numerics],
    )


def _budget(release: Release, balance: Balance | None) -> Html:
    promise = release.guarantee.promise
    return fill(
        "budget.html",
        free=costs_nothing(promise),
        promise=promise,
        charges=release.manifest.charges,
        balance=balance,
    )


def _care(release: Release) -> Html:
    post, free = release.statistics.post, costs_nothing(release.guarantee.promise)
    return fill(
        "cautions.html",
        free=free,
        release=release,
        guarantee=release.guarantee,
        post=post,
        words=POSTS[post].words,
        charged=release.manifest.is_charged or free,
        idealized=NUMERICS_WORDS["idealized"],
    )


def _load(release: Release, file_name: str) -> Html:
    # As Python and the shell write texts: a file's name cannot become code.
    group = release.group_names[0] if release.group_names else None
    return fill(
        "load.html",
        release=release,
        file=repr(file_name),
        quoted=shlex.quote(file_name),
        group=None if group is None else repr(group),
        quoted_group=None if group is None else shlex.quote(group),
        what="covariance" if release.has_intercept else "second-moment",
    )
