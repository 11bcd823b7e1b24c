"""The page on which a person says what is public about every column.

Contract: it shows names, types and what was typed; and how the rows fit, where that was asked for,
as counts that are marked as not private.
"""

from collections.abc import Sequence
from typing import Any

from dpcov.desk.frame import choice, field, form, frame, problems_box, same_as, waiting
from dpcov.desk.work import KINDS, Work, is_unfilled
from dpcov.report.html import Child, Html, details, el, name_of, note

HEADS = (
    "Column",
    "Type",
    "Lower",
    "Upper",
    "Unit",
    "Categories, one a line",
    "Missing codes",
    "State",
)


def columns(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """What is public about every column."""
    lacks = work.schema.problems()
    told = (
        f"{len(lacks)} things are still to be filled in." if lacks else "Every column is declared."
    )
    rows, above = list[Html](), ""
    for place, (name, each) in enumerate(work.schema.columns.items()):
        why = work.notes.get(name, "")
        # Columns that are alike have one reason.
        rows.append(_column(work, place, name, each, "" if why == above else why))
        above = why
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
        el("thead", el("tr", [el("th", head, scope="col") for head in HEADS])),
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
        None if lacks else _fit(base, work),
        same_as(work.commands("columns")),
        work=work,
        step="columns",
    )


def _fit(base: str, work: Work) -> Html:
    """Whether the rows fit what is declared."""
    job = work.job if work.step == "columns" else None
    shown: list[Child] = []
    if job is not None and job.running:
        shown = [waiting(base, work)]
    elif job is not None and job.problem:
        shown = [problems_box(job.problem.splitlines(), "The table could not be read")]
    elif work.fitted is not None:
        shown = [
            el("p", work.fitted.note, class_="warning", id="fit-note"),
            el("pre", el("code", work.fitted.summary()), tabindex="0", id="fit"),
        ]
    return el(
        "section",
        el("h2", "Do the rows fit?"),
        el(
            "p",
            "The table is read once, and columns are named that do not fit what is declared. "
            "This is for you alone: it counts rows and shows no value, but it is not private.",
        ),
        shown,
        form(f"{base}/{work.name}/check", button="Read the table", version=work.version),
    )


def _column(work: Work, place: int, name: str, column: Any, why: str) -> Html:
    typed = work.typed
    kind = typed.get(f"{place}.type", str(column.__struct_config__.tag))
    has, unfilled = KINDS[kind].__struct_fields__, is_unfilled(column)

    def cell(what: str, label: str, value: object, *, number: bool = False) -> Html:
        written = typed.get(f"{place}.{what}", _written(value))
        attributes = {"name": f"{place}.{what}", "aria_label": f"{label} of {name}"}
        return el(
            "td",
            el(
                "input",
                **attributes,
                value=written,
                inputmode="decimal" if number else None,
                size="8",
                hidden=what not in has,
                data_field=what,
            ),
        )

    listed = typed.get(f"{place}.categories", "\n".join(getattr(column, "categories", ())))
    options = [el("option", each, value=each, selected=each == kind) for each in KINDS]
    said = [getattr(column, "description", ""), getattr(column, "note", ""), why]
    state = ("todo", "fill in") if unfilled else ("ready", "ready")
    return el(
        "tr",
        el("th", name_of(name), [note(text) for text in said if text], scope="row"),
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
        cell("lower", "Lower bound", getattr(column, "lower", None), number=True),
        cell("upper", "Upper bound", getattr(column, "upper", None), number=True),
        cell("unit", "Unit", getattr(column, "unit", "")),
        el(
            "td",
            el(
                "textarea",
                "\n" + listed,
                name=f"{place}.categories",
                aria_label=f"Categories of {name}",
                rows=min(6, max(2, listed.count("\n") + 1)),
                hidden="categories" not in has,
                data_field="categories",
            ),
        ),
        cell("missing_codes", "Missing codes", getattr(column, "missing_codes", None)),
        el("td", el("span", state[1], class_=state[0])),
        data_name=name,
        data_kind=kind,
    )


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(_written, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)
