"""Put the page of a release together: the sections that explain, and those with numbers.

Contract: reads a release only, and the balance of a ledger if the publisher gives it.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import isfinite

from dpcov.privacy.convert import shorten_down
from dpcov.privacy.guarantee import costs_nothing, format_number
from dpcov.privacy.ledger.composition import unit_words
from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.base import on_one_thread
from dpcov.published.design import told_of
from dpcov.published.diagnosis import plus_minus
from dpcov.published.estimate.post import POSTS
from dpcov.published.numbers import GroupNumbers, numbers_by_group
from dpcov.published.release import Release
from dpcov.published.words import (
    NUMERICS_WORDS,
    change_in_words,
    conversions,
    promise_in_words,
    rows_in_words,
)
from dpcov.report import heatmap, html, results
from dpcov.report.charts import number
from dpcov.report.groups import side_by_side
from dpcov.report.html import Child, Html, Section, el, fill, join, name_of, names_of, note, table

SCRIPTS = ("theme.js", "tables.js", "heatmap.js", "parts.js")
LONGEST_DESCRIPTION = 200
COLUMNS_SHOWN = 12
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
    bold, warned = el("strong", "Warning: "), release.manifest.warnings
    warnings = [el("p", bold, text, class_="warning") for text in warned]
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
        top=(warnings, _facts(release, groups[0]), _selector(groups)),
        data=data,
        footer=fill(
            "footer.html",
            fingerprint=release.fingerprint,
            created=release.manifest.created,
            software=", ".join(map(" ".join, release.manifest.software.items())),
        ),
    )


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
    names = [html.shorten(name) for name in groups[0].release.feature_names]
    return set(maps), html.json_block("map-data", {"names": names, "maps": maps})


def _facts(release: Release, group: GroupNumbers) -> Html:
    # What a reader looks for first.
    public = release.manifest.n_rows is not None
    groups = len(release.group_names)
    found = release.diagnose()
    usable = sum(column.usable for column in found.columns)
    facts = [
        ("Rows", rows_in_words(release), "exact, public" if public else "noisy, protected"),
        (
            "Columns that can be used",
            f"{usable:,} of {len(found.columns):,}",
            f"in {groups} groups" if groups else "of every row",
        ),
        ("Guarantee", str(release.guarantee.promise), f"{release.guarantee.neighbors} neighbors"),
    ]
    if isfinite(found.typical):
        worst = f"typical; ±{plus_minus(found.worst)} the worst"
        facts.append(("Correlations within", f"±{plus_minus(found.typical)}", worst))
    spectrum = None if group.estimates is None else group.estimates.spectrum
    if spectrum is not None and spectrum.n_above is not None and spectrum.noisy.size > 1:
        above = f"{spectrum.n_above} of {spectrum.noisy.size}"
        facts.append(("Above the noise", above, "components"))
    items = (el("div", el("dt", x), el("dd", value, el("small", said))) for x, value, said in facts)
    return el("dl", items, class_="facts")


def _selector(groups: Sequence[GroupNumbers]) -> Child:
    # The parts' script shows one at a time.
    if len(groups) == 1:
        return None
    options = (el("option", html.shorten(group.name), value=group.index) for group in groups)
    return el("div", el("label", "Numbers of ", el("select", options, id="part")), class_="parts")


def _about(release: Release) -> Html:
    count = len(release.feature_names)
    each = "Every one of these public groups has a matrix of its own: "
    groups = el("p", each, names_of(release.group_names), ".")
    said = fill(
        "about.html",
        kind="means and covariances" if release.has_intercept else "second moments (not centered)",
        count=f"{count} feature{'s' * (count != 1)}",
        rows=rows_in_words(release),
        title=release.manifest.title or "a table without a title",
        groups=groups if release.group_names else None,
    )
    sampling = el("p", " ".join(told)) if (told := told_of(release)) else None
    return join(said, sampling, _columns(release))


def _columns(release: Release) -> Html:
    rows = list(_column_rows(release))
    head: tuple[str, ...] = ("Column", "Kind", "Public bounds or categories", "Description")
    if not any(column.description for column in release.features):
        head, rows = head[:-1], [row[:-1] for row in rows]
    made = table(head, rows, caption="Columns of the table", numeric=False)
    bound = fill("columns.html", bound=number(release.manifest.norm_bound))
    if len(rows) > COLUMNS_SHOWN:
        return join(bound, html.details(f"All {len(rows)} columns with their public bounds", made))
    return join(made, bound)


def _column_rows(release: Release) -> Iterator[tuple[Child, ...]]:
    # Categories of one column stand together.
    for source, members in groupby(release.features, key=lambda column: column.source):
        columns = list(members)
        about = el("bdi", html.shorten(columns[0].description, LONGEST_DESCRIPTION))
        kinds = {column.kind for column in columns}
        missing = " (missing values are marked)" if "missing" in kinds else ""
        if "category" in kinds:
            names = (column.name for column in columns if column.kind == "category")
            labels = names_of(name.removeprefix(f"{source}=") for name in names)
            yield name_of(source), f"categorical{missing}", labels, about
        elif "boolean" in kinds:
            yield name_of(source), f"true or false{missing}", "counted as 1 and 0", about
        else:
            lower, upper = columns[0].bounds
            unit = el("bdi", " ", html.shorten(columns[0].unit)) if columns[0].unit else None
            bounds = (f"{number(lower)} to {number(upper)}", unit)
            kind = "numeric" if columns[0].name == source else "value of a function"
            yield name_of(columns[0].name), f"{kind}{missing}", bounds, about


def _guarantee(release: Release) -> Html:
    made, rows = release.guarantee, release.guarantee.rows_per_person
    formulas = table(
        ("In symbols", "Where it comes from"),
        ((el("code", formula), remark) for formula, remark in conversions(made.promise)),
        caption="The guarantee, and what follows from it",
        numeric=False,
    )
    return fill(
        "guarantee.html",
        change=change_in_words(made),
        promise=promise_in_words(made.promise),
        formulas=formulas,
        neighbors=made.neighbors,
        unit="one row" if rows == 1 else f"up to {rows} rows of one person",
        numerics=made.numerics,
        covered=NUMERICS_WORDS[made.numerics],
        mechanism=release.manifest.mechanism.name,
        notes=[note(f"{x[:1].upper()}{x[1:]}.") for x in release.manifest.statistics.notes],
    )


def _budget(release: Release, balance: Balance | None) -> Html:
    promise, charges = release.guarantee.promise, release.manifest.charges
    charged: Child = ". No ledger was charged."
    if charges:
        entries = " and ".join(str(spent.entry) for spent in charges)
        entry = f", charged to a ledger as entry {entries} of dataset "
        charged = (entry, name_of(charges[0].dataset), ".")
    free, said = costs_nothing(promise), ("It cost ", el("code", str(promise)), charged)
    left = note(
        "What is left of the dataset’s total is written in the publisher’s ledger, not in this "
        "file (dpcov report --ledger FILE adds it to this page)."
    )
    told = (None if free else left) if balance is None else _balance(balance)
    return join(el("p", "This release costs nothing." if free else said), told)


def _balance(balance: Balance) -> Html:
    rows = []
    for unit, total in balance.total.items():
        spent, left = balance.spent[unit], balance.remaining[unit]
        # Rounded down: a page never promises more than is left.
        rest = format_number(shorten_down(left)) if left > total / 10**12 else "0"
        rows.append((unit_words(unit), format_number(total), format_number(spent), rest))
    caption = "The dataset’s ledger when this page was made"
    numbers = table(("Unit", "Total", "Spent by all releases", "Left"), rows, caption=caption)
    return join(el("p", balance.in_words), numbers)


def _care(release: Release) -> Html:
    made, post = release.guarantee, release.statistics.post
    rows, free = made.rows_per_person, costs_nothing(made.promise)
    return fill(
        "cautions.html",
        seeded=None if release.is_private else "",
        post=post,
        words=POSTS[post].words,
        counted="" if made.neighbors == "replace-one" else None,
        owned="one row" if rows == 1 else f"{rows} rows",
        uncharged="" if not release.manifest.is_charged and not free else None,
        idealized=NUMERICS_WORDS["idealized"] if made.numerics == "idealized" else None,
    )


def _load(release: Release, file_name: str) -> Html:
    # As JSON in Python and quoted in the shell: a file's name cannot become code.
    group = release.group_names[0] if release.group_names else None
    return fill(
        "load.html",
        file=json.dumps(file_name),
        quoted=shlex.quote(file_name),
        group=None if group is None else json.dumps(group),
        of_group="" if group is None else f" --group {shlex.quote(group)}",
        what="covariance" if release.has_intercept else "second-moment",
        centered="" if release.has_intercept else None,
        uncentered=None if release.has_intercept else "",
    )
