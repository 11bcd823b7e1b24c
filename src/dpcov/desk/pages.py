"""The pages on which a person decides: table, columns, people, budget, account.

Contract: they show names and public decisions, never a value of a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpcov.desk.frame import choice, field, form, frame, problems_box, same_as, subtitle, waiting
from dpcov.desk.work import KINDS, Work, is_unfilled
from dpcov.pipeline.plan.page import slider_of, table_of
from dpcov.privacy.meaning import certainty_in_words
from dpcov.report.html import Child, Html, details, el, json_block, name_of, note

SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".gz", ".zst")


def start(
    base: str, folder: Path, problems: Sequence[str] = (), works: Iterable[Work] = ()
) -> bytes:
    """Choose a table."""
    files = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    schemas = sorted(path.name for path in folder.glob("*.toml"))
    listed = el("datalist", [el("option", value=name) for name in files], id="files")
    books = el("datalist", [el("option", value=name) for name in schemas], id="schemas")
    from_file = form(
        f"{base}/open",
        field(
            "File",
            "data",
            hint=f"In {folder}, or the whole path. {len(files)} tables are in this folder.",
            list="files",
            required=True,
            autocomplete="off",
        ),
        listed,
        field(
            "Schema, if there is one",
            "schema",
            hint="A schema file that was written before.",
            list="schemas",
            autocomplete="off",
        ),
        books,
        button="Open the file",
    )
    from_base = el(
        "details",
        el("summary", "From a database"),
        form(
            f"{base}/query",
            field(
                "Database",
                "db",
                hint="sqlite:///FILE, duckdb:///FILE, postgresql://USER@HOST/NAME; no password.",
            ),
            field(
                "Statement",
                "sql",
                hint="SELECT … FROM …: one row of its result for one row of the table.",
            ),
            button="Open the database",
        ),
    )
    going = [
        el("li", el("a", name_of(subtitle(work)), href=f"{base}/{work.name}/columns"))
        for work in works
    ]
    return frame(
        base,
        "Choose a table",
        problems_box(problems),
        el(
            "p",
            "Names and types of the columns are read now. Rows are read when you release.",
            class_="lead",
        ),
        from_file,
        from_base,
        el("section", el("h2", "Tables that are open"), el("ul", going)) if going else None,
    )


def columns(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """What is public about every column."""
    lacks = work.schema.problems()
    told = (
        f"{len(lacks)} things are still to be filled in." if lacks else "Every column is declared."
    )
    rows = [
        _column(place, name, each, work.typed)
        for place, (name, each) in enumerate(work.schema.columns.items())
    ]
    bulk = el(
        "fieldset",
        el("legend", "Fill in many at once"),
        field(
            "Names",
            "bulk-names",
            hint="A name with * for any letters, such as BILL_AMT*",
            placeholder="*",
        ),
        choice("Type", "bulk-type", {"": "as it is"} | {kind: kind for kind in KINDS}, ""),
        field("Lower", "bulk-lower", inputmode="decimal"),
        field("Upper", "bulk-upper", inputmode="decimal"),
        el("p", el("button", "Fill in", type="button", id="bulk")),
        class_="bulk",
        id="bulk-fields",
        hidden=True,
    )
    grid = el(
        "table",
        el(
            "caption",
            "Bounds and categories come from public knowledge (a questionnaire, a law, physics), "
            "never from the rows.",
        ),
        el(
            "thead",
            el(
                "tr",
                [
                    el("th", head, scope="col")
                    for head in (
                        "Column",
                        "Type",
                        "Lower",
                        "Upper",
                        "Categories, one a line",
                        "State",
                    )
                ],
            ),
        ),
        el("tbody", rows),
        class_="form-table",
        id="columns-table",
    )
    search = el(
        "p",
        el("label", "Show columns whose name has", for_="search"),
        el("input", id="search", type="search"),
        class_="field",
        id="search-field",
        hidden=True,
    )
    text = el(
        "details",
        el("summary", "The schema as text"),
        form(
            f"{base}/{work.name}/text",
            el(
                "p",
                el("label", "Schema (TOML)", for_="toml"),
                el(
                    "textarea",
                    "\n" + work.typed.get("toml", work.schema.dumps()),
                    id="toml",
                    name="toml",
                    rows=24,
                    spellcheck="false",
                ),
                class_="field",
            ),
            button="Take this text",
            version=work.version,
        ),
    )
    return frame(
        base,
        "Columns",
        problems_box(problems),
        el("p", told, class_="lead", id="told"),
        details(
            "What bounds and categories do",
            el(
                "p",
                "A value beyond a bound is moved to it, so bounds that are too narrow make means "
                "and correlations wrong, and nobody can see by how much. Bounds that are too wide "
                "cost little: the release finds the scale by itself. A text that is not among the "
                "categories counts as none of them.",
            ),
        ),
        bulk,
        search,
        form(
            f"{base}/{work.name}/columns",
            el("div", grid, class_="scroll", tabindex="0", role="region", aria_label="Columns"),
            button="Save and go on",
            version=work.version,
        ),
        text,
        same_as(work.commands("columns")),
        work=work,
        step="columns",
    )


def _column(place: int, name: str, column: Any, typed: Mapping[str, str]) -> Html:
    kind = typed.get(f"{place}.type", str(column.__struct_config__.tag))
    unfilled = is_unfilled(column)
    options = [el("option", each, value=each, selected=each == kind) for each in KINDS]

    def cell(what: str, label: str, value: Any) -> Html:
        written = (
            "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
        )
        written = typed.get(f"{place}.{what}", written)
        shown = what in KINDS[kind].__struct_fields__
        return el(
            "td",
            el(
                "input",
                name=f"{place}.{what}",
                value=written,
                aria_label=f"{label} of {name}",
                inputmode="decimal",
                size="8",
                hidden=not shown,
                data_field=what,
            ),
        )

    listed = typed.get(f"{place}.categories", "\n".join(getattr(column, "categories", ())))
    why = getattr(column, "note", "") or getattr(column, "description", "")
    return el(
        "tr",
        el("th", name_of(name), note(why) if why else None, scope="row"),
        el(
            "td",
            el(
                "select",
                options,
                name=f"{place}.type",
                aria_label=f"Type of {name}",
                data_field="type",
            ),
        ),
        cell("lower", "Lower bound", getattr(column, "lower", None)),
        cell("upper", "Upper bound", getattr(column, "upper", None)),
        el(
            "td",
            el(
                "textarea",
                "\n" + listed,
                name=f"{place}.categories",
                aria_label=f"Categories of {name}",
                rows=min(6, max(2, listed.count("\n") + 1)),
                hidden=kind != "categorical",
                data_field="categories",
            ),
        ),
        el(
            "td",
            el("span", "fill in" if unfilled else "ready", class_="todo" if unfilled else "ready"),
        ),
        data_name=name,
        data_unfilled=unfilled,
    )


def people(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """Who is protected."""
    ask = partial(field, typed=work.typed)
    relations = {
        "replace-one": "What a person's rows say. The number of rows is published exactly.",
        "add-remove-one": "Also whether a person is in the table. "
        "The number of rows is released with noise.",
    }
    radios = [
        el(
            "p",
            el(
                "input",
                type="radio",
                name="neighbors",
                id=key,
                value=key,
                checked=key == work.neighbors,
            ),
            el("label", text, for_=key),
            class_="radio",
        )
        for key, text in relations.items()
    ]
    listed = {"": "one matrix for everybody"} | {name: name for name in work.groupings}
    groups = (
        choice("A matrix for every category of", "by", listed, work.by) if work.groupings else None
    )
    return frame(
        base,
        "People",
        problems_box(problems),
        form(
            f"{base}/{work.name}/people",
            el("fieldset", el("legend", "What is hidden"), radios),
            ask(
                "Rows per person, at most",
                "rows_per_person",
                str(work.schema.rows_per_person),
                "All rows of one person are protected together. The noise grows with this number.",
                inputmode="numeric",
                required=True,
            ),
            ask(
                "Number of rows, if it is public",
                "rows",
                str(work.rows or ""),
                "A table that has another number is refused. Leave it out where it is private.",
                inputmode="numeric",
            ),
            ask("Title", "title", work.schema.title, "It stands in the file that is published."),
            groups,
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("people")),
        work=work,
        step="people",
    )


def budget(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """What it may cost, and what could be read then."""
    ask = partial(field, typed=work.typed)
    shown: list[Child] = []
    job = work.job if work.step == "budget" else None
    if job is not None and job.running:
        shown = [waiting(base, work)]
    elif job is not None and job.problem:
        shown = [problems_box(job.problem.splitlines(), "It could not be rehearsed")]
    elif work.stops:
        asked = min(work.stops, key=lambda stop: abs(stop.amount - float(work.budget.epsilon or 0)))
        shown = [
            el(
                "section",
                el("h2", "What will be readable"),
                slider_of(work.stops, asked),
                el("div", table_of(asked), class_="sortable"),
            ),
            json_block(
                "plan-data", {"stops": [{**stop.words, "cells": stop.cells} for stop in work.stops]}
            ),
        ]
    expected = str(work.rows or work.expected_rows or "")
    return frame(
        base,
        "Budget",
        problems_box(problems),
        el(
            "p",
            "Small ε protects more. Begin with 1, and see what can be read then.",
            class_="lead",
        ),
        note(certainty_in_words(work.budget.promise)),
        form(
            f"{base}/{work.name}/rehearse",
            ask(
                "Rows, roughly",
                "expected_rows",
                expected,
                "For the rehearsal on made-up rows. It is not published.",
                inputmode="numeric",
                required=True,
            ),
            ask(
                "ε around which to look",
                "epsilon",
                work.epsilon,
                inputmode="decimal",
                required=True,
                id_="around",
            ),
            ask(
                "Public rows like these, if there are any",
                "public",
                work.public,
                "A file with the same columns that is not sensitive, such as an older one.",
            ),
            el("input", type="hidden", name="delta", value=work.delta),
            button="Rehearse",
            version=work.version,
        ),
        shown,
        form(
            f"{base}/{work.name}/budget",
            ask(
                "Epsilon (ε)",
                "chosen",
                work.epsilon,
                "What this release costs.",
                inputmode="decimal",
                required=True,
            ),
            ask(
                "Delta (δ)",
                "delta",
                work.delta,
                "Far below one over the number of people; empty for a pure guarantee.",
                inputmode="decimal",
            ),
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("budget")),
        work=work,
        step="budget",
    )


def account(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """Where the budget is charged."""
    ask = partial(field, typed=work.typed)
    left = work.left()
    told = (
        [el("p", f"Account {work.account}: ", left, class_="lead", id="left")]
        if left is not None
        else [
            el(
                "p",
                f"There is no account {work.account} in {work.ledger} yet. Releasing opens it.",
                class_="lead",
                id="left",
            )
        ]
    )
    return frame(
        base,
        "Account",
        problems_box(problems),
        told,
        form(
            f"{base}/{work.name}/account",
            ask(
                "Ledger",
                "ledger",
                work.ledger,
                "An SQLite file, or postgresql://USER@HOST/NAME.",
                required=True,
            ),
            ask(
                "Dataset",
                "dataset",
                work.account,
                "One name for one group of people.",
                required=True,
            ),
            ask(
                "Total ε, for a new account",
                "total_epsilon",
                work.total_epsilon,
                "What all releases about these people together may cost.",
                inputmode="decimal",
            ),
            ask("Total δ, for a new account", "total_delta", work.total_delta, inputmode="decimal"),
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("account")),
        work=work,
        step="account",
    )
