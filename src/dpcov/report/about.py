"""Write the sections that explain: the release, the guarantee, the budget, cautions, loading.

Contract: says only what the manifest says, and the balance of a ledger where one was given.
"""

import json
import shlex
from collections.abc import Iterator

from dpcov.privacy.convert import shorten_down
from dpcov.privacy.guarantee import costs_nothing, format_number
from dpcov.privacy.ledger.composition import unit_words
from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.post import POSTS
from dpcov.published.release import Release
from dpcov.published.words import (
    NUMERICS_WORDS,
    change_in_words,
    conversions,
    promise_in_words,
    rows_in_words,
)
from dpcov.report.charts import number
from dpcov.report.html import (
    Child,
    Html,
    Section,
    details,
    el,
    fill,
    join,
    name_of,
    names_of,
    note,
    table,
)

COLUMNS_SHOWN = 12


def about(release: Release) -> Section:
    """What was released, and about whom."""
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
    content = join(said, _columns(release))
    return Section("about", "What was released, and about whom", "What was released", content)


def _columns(release: Release) -> Html:
    rows = list(_column_rows(release))
    head = ("Column", "Kind", "Public bounds or categories")
    made = table(head, rows, caption="Columns of the table", numeric=False)
    bound = fill("columns.html", bound=number(release.manifest.norm_bound))
    if len(rows) > COLUMNS_SHOWN:
        return join(bound, details(f"All {len(rows)} columns with their public bounds", made))
    return join(made, bound)


def _column_rows(release: Release) -> Iterator[tuple[Child, ...]]:
    sources: dict[str, list[EncodedColumn]] = {}
    # The intercept is no column of the table; categories of one column stand together.
    for column in release.manifest.columns:
        if column.kind != "intercept":
            sources.setdefault(column.source, []).append(column)
    for source, columns in sources.items():
        kinds = {column.kind for column in columns}
        missing = " (missing values are marked)" if "missing" in kinds else ""
        labels = [
            column.name.removeprefix(f"{source}=")
            for column in columns
            if column.kind == "category"
        ]
        if labels:
            yield name_of(source), f"categorical{missing}", names_of(labels)
        elif "boolean" in kinds:
            yield name_of(source), f"true or false{missing}", "counted as 1 and 0"
        else:
            lower, upper = columns[0].bounds
            yield name_of(source), f"numeric{missing}", f"{number(lower)} to {number(upper)}"


def guarantee(release: Release) -> Section:
    """The guarantee in words, and in symbols."""
    made, rows = release.guarantee, release.guarantee.rows_per_person
    formulas = table(
        ("In symbols", "Where it comes from"),
        ((el("code", formula), remark) for formula, remark in conversions(made.promise)),
        caption="The guarantee, and what follows from it",
        numeric=False,
    )
    content = fill(
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
    return Section("guarantee", "What is promised to each person", "The guarantee", content)


def budget(release: Release, balance: Balance | None) -> Section:
    """What was spent, and what is left where somebody who has the ledger said so."""
    promise, spent = release.guarantee.promise, release.manifest.spent
    free = costs_nothing(promise)
    said: Child = ("It cost ", el("code", str(promise)), ". No ledger was charged.")
    if free:
        said = "This release costs nothing."
    elif spent is not None:
        entry = f", charged to a ledger as entry {spent.entry} of dataset "
        said = ("It cost ", el("code", str(promise)), entry, name_of(spent.dataset), ".")
    left = note(
        "What is left of the dataset’s total is written in the publisher’s ledger, not in this "
        "file (dpcov report --ledger FILE adds it to this page)."
    )
    if balance is not None:
        left = _balance(balance)
    content = join(el("p", said), None if free and balance is None else left)
    return Section("budget", "Privacy budget", "Budget", content)


def _balance(balance: Balance) -> Html:
    rows = []
    for unit, total in balance.total.items():
        spent, left = balance.spent[unit], balance.remaining[unit]
        # Rounded down: a page never promises more than is left.
        rest = format_number(shorten_down(left)) if left else "0"
        rows.append((unit_words(unit), format_number(total), format_number(spent), rest))
    caption = "The dataset’s ledger when this page was made"
    numbers = table(("Unit", "Total", "Spent by all releases", "Left"), rows, caption=caption)
    return join(el("p", balance.in_words), numbers)


def care(release: Release) -> Section:
    """What to be careful about."""
    made, post = release.guarantee, release.statistics.post
    rows, free = made.rows_per_person, costs_nothing(made.promise)
    content = fill(
        "cautions.html",
        seeded=None if release.is_private else "",
        post=post,
        words=POSTS[post].words,
        counted="" if made.neighbors == "replace-one" else None,
        owned="one row" if rows == 1 else f"{rows} rows",
        uncharged="" if release.manifest.spent is None and not free else None,
        idealized=NUMERICS_WORDS["idealized"] if made.numerics == "idealized" else None,
    )
    return Section("care", "Before you use these numbers", "Be careful", content)


def load(release: Release, file_name: str) -> Section:
    """How to read the file in Python and R."""
    # As JSON in Python and quoted in the shell: a file's name cannot become code.
    python = f"import dpcov\n\nrelease = dpcov.load({json.dumps(file_name)})\n"
    what = "covariance" if release.has_intercept else "second-moment"
    shell = f"dpcov export {shlex.quote(file_name)} --what {what}"
    if release.group_names:
        python += f"release = release.group({json.dumps(release.group_names[0])})\n"
        shell += f" --group {shlex.quote(release.group_names[0])}"
    python += (
        "release.covariance()      # original units, names in release.feature_names\n"
        "release.correlation()\nrelease.mean()"
        if release.has_intercept
        else "release.second_moment()   # names in release.feature_names"
    )
    shell += f" -o {what}.csv"
    python += "\nprint(release.summary())"
    content = fill("load.html", python=python, shell=shell, what=what)
    return Section("load", "Use this file", "Use this file", content)
