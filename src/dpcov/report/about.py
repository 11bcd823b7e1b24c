"""The sections that explain: what was released, the guarantee, the budget, what to be careful about, how to load it.

Contract: says nothing that the manifest, and the balance of a ledger where one was given, does not say.
"""

import json
import shlex
from collections.abc import Iterator

from dpcov.privacy.convert import shorten_down
from dpcov.privacy.guarantee import costs_nothing, format_number
from dpcov.privacy.ledger.composition import unit_words
from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.columns import EncodedColumn
from dpcov.published.release import Release
from dpcov.published.words import (
    NUMERICS_WORDS,
    cautions,
    change_in_words,
    conversions,
    promise_in_words,
    rows_in_words,
)
from dpcov.report.charts import number
from dpcov.report.html import Child, Html, details, el, join, name_of, table
from dpcov.report.page import Section

COLUMNS_SHOWN = 12


def about(release: Release) -> Section:
    """What was released, and about whom."""
    kind = "means and covariances" if release.has_intercept else "second moments (not centered)"
    count = len(release.feature_names)
    said = join(
        f"This file holds the {kind} of {count} feature{'s' * (count != 1)}, measured with deliberate noise on ",
        el("strong", f"{rows_in_words(release)} rows"),
        " of ",
        el("bdi", release.manifest.title or "a table without a title"),
        ". It holds no row, and no single value of anybody.",
    )
    return Section(
        key="about",
        title="What was released, and about whom",
        short="What was released",
        content=join(el("p", said), _groups(release), _columns(release)),
    )


def _groups(release: Release) -> Html | None:
    if not release.group_names:
        return None
    names = join(
        *(
            join(", " if place else "", name_of(name))
            for place, name in enumerate(release.group_names)
        )
    )
    return el("p", "Every one of these public groups has a matrix of its own: ", names, ".")


def _columns(release: Release) -> Html:
    rows = list(_column_rows(release))
    made = table(
        ("Column", "Kind", "Public bounds or categories"),
        rows,
        caption="Columns of the table",
        numeric_from=3,
    )
    note = el(
        "p",
        f"A row counts with a length of at most {number(release.manifest.norm_bound)}, the public norm bound. "
        "Bounds and categories were written down by the publisher, not read from the rows.",
        class_="note",
    )
    if len(rows) > COLUMNS_SHOWN:
        return join(note, details(f"All {len(rows)} columns with their public bounds", made))
    return join(made, note)


def _column_rows(release: Release) -> Iterator[tuple[Child, ...]]:
    sources: dict[str, list[EncodedColumn]] = {}
    for column in release.manifest.columns:
        if column.kind != "intercept":
            sources.setdefault(column.source, []).append(column)
    for source, columns in sources.items():
        kinds = {column.kind for column in columns}
        missing = " (missing values are marked)" if "missing" in kinds else ""
        if "category" in kinds:
            labels = [
                column.name.removeprefix(f"{source}=")
                for column in columns
                if column.kind == "category"
            ]
            listed = join(
                *(join(", " if place else "", name_of(label)) for place, label in enumerate(labels))
            )
            yield name_of(source), f"categorical{missing}", listed
        elif "boolean" in kinds:
            yield name_of(source), f"true or false{missing}", "counted as 1 and 0"
        else:
            first = columns[0]
            bounds = f"{number(first.center - first.half_range)} to {number(first.center + first.half_range)}"
            yield name_of(source), f"numeric{missing}", bounds


def guarantee(release: Release) -> Section:
    """The guarantee in words, and in symbols."""
    made = release.guarantee
    formulas = table(
        ("In symbols", "Where it comes from"),
        ((el("code", formula), remark) for formula, remark in conversions(made.promise)),
        caption="The guarantee, and what follows from it",
        numeric_from=2,
    )
    return Section(
        key="guarantee",
        title="What is promised to each person",
        short="The guarantee",
        content=join(
            el("p", change_in_words(made), class_="lead"),
            el("p", promise_in_words(made.promise)),
            formulas,
            el(
                "p",
                f"Neighbors: {made.neighbors}. Unit: "
                f"{'one row' if made.rows_per_person == 1 else f'up to {made.rows_per_person} rows of one person'}. "
                f"Numerics: {made.numerics}. {NUMERICS_WORDS[made.numerics]} "
                f"Mechanism: {release.manifest.mechanism.name}.",
                class_="note",
            ),
            (
                el("p", f"{note[:1].upper()}{note[1:]}.", class_="note")
                for note in release.manifest.statistics.notes
            ),
        ),
    )


def budget(release: Release, balance: Balance | None) -> Section:
    """What was spent, and what is left where somebody who has the ledger said so."""
    promise, spent = release.guarantee.promise, release.manifest.spent
    if costs_nothing(promise):
        said = join("This release costs nothing.")
    elif spent is None:
        said = join("It cost ", el("code", str(promise)), ". No ledger was charged.")
    else:
        entry = f" as entry {spent.entry} of dataset "
        said = join(
            "It cost ",
            el("code", str(promise)),
            ", charged to a ledger",
            entry,
            name_of(spent.dataset),
            ".",
        )
    left: Child = el(
        "p",
        "What is left of the dataset’s total is written in the publisher’s ledger, not in this file "
        "(dpcov report --ledger FILE adds it to this page).",
        class_="note",
    )
    if balance is not None:
        left = _balance(balance)
    elif costs_nothing(promise):
        left = None
    return Section(
        key="budget", title="Privacy budget", short="Budget", content=join(el("p", said), left)
    )


def _balance(balance: Balance) -> Html:
    rows = [
        (
            unit_words(unit),
            format_number(total),
            format_number(balance.spent[unit]) if balance.spent[unit] else "0",
            format_number(shorten_down(balance.remaining[unit]))
            if balance.remaining[unit]
            else "0",
        )
        for unit, total in balance.total.items()
    ]
    caption = "The dataset’s ledger when this page was made"
    numbers = table(("Unit", "Total", "Spent by all releases", "Left"), rows, caption=caption)
    return join(el("p", balance.in_words), numbers)


def care(release: Release) -> Section:
    """What to be careful about."""
    items = (el("div", el("dt", head), el("dd", text)) for head, text in cautions(release))
    content = el("dl", items, class_="cautions")
    return Section(
        key="care", title="Before you use these numbers", short="Be careful", content=content
    )


def load(release: Release, file_name: str) -> Section:
    """How to read the file in Python and R."""
    written = json.dumps(file_name, ensure_ascii=True)
    group = (
        f"\nrelease = release.group({json.dumps(release.group_names[0])})"
        if release.group_names
        else ""
    )
    estimates = (
        "release.covariance()      # original units, names in release.feature_names\n"
        "release.correlation()\nrelease.mean()"
        if release.has_intercept
        else "release.second_moment()   # names in release.feature_names"
    )
    python = f"import dpcov\n\nrelease = dpcov.load({written}){group}\n{estimates}\nprint(release.summary())"
    what = "covariance" if release.has_intercept else "second-moment"
    chosen = f" --group {shlex.quote(release.group_names[0])}" if release.group_names else ""
    shell = f"dpcov export {shlex.quote(file_name)} --what {what}{chosen} -o {what}.csv"
    r = f'S <- as.matrix(read.csv("{what}.csv", row.names = 1, check.names = FALSE))\nround(cov2cor(S), 2)'
    return Section(
        key="load",
        title="Use this file",
        short="Use this file",
        content=join(
            _code("Python", python),
            _code("R: first write a table, in a shell", shell),
            _code("R: then read it", r),
            el(
                "p",
                "All of this is free: it spends no privacy budget, however often it is done.",
                class_="note",
            ),
        ),
    )


def _code(label: str, text: str) -> Html:
    button = el(
        "button", "Copy", type="button", class_="copy", aria_label=f"Copy: {label}", hidden=True
    )
    return el(
        "div",
        el("div", el("h3", label), button, class_="code-head"),
        el("pre", el("code", text)),
        class_="code",
    )
