"""Fill the templates of the desk's pages.

Contract: every word is escaped where it is put in.  Pages show names, types and public decisions,
and how the rows fit, where that was asked for, as counts that are marked as not private.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import PackageLoader

from dpcov.data.schema.declared import Weights
from dpcov.data.schema.mistakes import STRUCTS
from dpcov.data.sources import is_table
from dpcov.data.sources.statistical import ENDINGS
from dpcov.data.sources.streams import is_litter
from dpcov.desk.columns import is_unfilled, shown, written
from dpcov.desk.commands import commands_of
from dpcov.desk.work import Work
from dpcov.errors import DpcovError, few_of
from dpcov.pipeline.plan.page import slider_of, table_of
from dpcov.privacy.meaning import certainty_in_words
from dpcov.published.digits import plural
from dpcov.report.html import environment, fill, json_block
from dpcov.report.results import verdicts

CODEBOOKS = (".toml", ".json", ".jsonld", ".json-ld", ".xml", *ENDINGS)
_LAYOUT = "How the file is laid out, where it is unusual"
# Fields of a layout, as problems call them, with their labels on the page.
_LAYOUT_FIELDS = {
    "delimiter": "Delimiter",
    "decimal": "Decimal sign",
    "encoding": "Encoding",
    "header": "Line of names",
    "part": "Sheet, or file within a zip",
}
_SAME_PEOPLE = (
    "Accounts there: {there}. If the table is of the same people, such as another year, write the "
    "name of theirs under Dataset: a new account does not count their earlier releases."
)
# Names that are shown before the rest is counted.
_NAMED = 8


_TEMPLATES = environment(PackageLoader("dpcov.desk"))
_HELPERS = (
    certainty_in_words,
    few_of,
    fill,
    is_unfilled,
    json_block,
    plural,
    slider_of,
    table_of,
    verdicts,
    written,
)
_TEMPLATES.globals |= {each.__name__: each for each in _HELPERS}


def start(
    base: str,
    folder: Path,
    problems: Sequence[str] = (),
    works: Collection[Work] = (),
    typed: Mapping[str, str] | None = None,
) -> bytes:
    """Choose a table."""
    told = " ".join(problems)
    fields = _LAYOUT_FIELDS.items()
    meant = [f"“{label}”" for name, label in fields if re.search(rf"\b{name}\b", told)]
    if meant:
        problems = [*problems, f"Here it is said in {' and '.join(meant)} under: {_LAYOUT}."]
    tables = (path.name for path in folder.iterdir() if is_table(path))
    files = sorted(name for name in tables if not is_litter(name))
    return _filled(
        "start",
        base=base,
        title="Choose a table",
        problems=problems,
        works=works,
        typed=typed or {},
        folder=folder,
        files=files,
        there=f"Tables there: {few_of(files, _NAMED)}." if files else "No table is in this folder.",
        schemas=sorted(path.name for path in folder.iterdir() if path.suffix.lower() in CODEBOOKS),
        layout=_LAYOUT,
        labels=_LAYOUT_FIELDS,
    )


def show(
    step: str,
    base: str,
    work: Work,
    problems: Sequence[str] = (),
    typed: Mapping[str, str] | None = None,
) -> bytes:
    """One of the steps; what was typed and refused stays in its fields."""
    typed, job, left = typed or {}, work.jobs.get(step), ""
    stops = work.jobs["budget"].made or [] if "budget" in work.jobs else []
    try:
        if step == "account":
            left = _left(work) or _not_yet(work)
        elif step == "release" and job and job.made:
            left = _left(work.begun)
    except DpcovError as error:
        problems = problems or str(error).splitlines()
    return _filled(
        step,
        base=base,
        title=step.capitalize(),
        step=step,
        work=work,
        version=next(work.pages),
        typed=typed,
        problems=problems,
        commands=commands_of(work.begun if step == "release" else work, step),
        job=job,
        left=left,
        columns=_columns(work, typed) if step == "columns" else (),
        kinds=[(kind, kind) for kind in STRUCTS],
        groupings=[("", "one matrix for everybody"), *((n, n) for n in work.schema.groupings)],
        weightings=[("", "none: every row counts the same"), *((n, n) for n in work.weightings)],
        weights=work.schema.weights or Weights(column=""),
        stops=stops,
        asked=min(
            stops, key=lambda s: abs(s.amount - float(work.budget.epsilon or 0)), default=None
        ),
        shown=[{**stop.words, "cells": stop.planned.cells} for stop in stops],
    )


def _left(work: Work) -> str:
    left = work.left()
    return "" if left is None else f"Account {work.account}: {left}"


def _not_yet(work: Work) -> str:
    there = few_of(work.accounts(), _NAMED)
    told = f"There is no account {work.account} in {work.ledger} yet. Releasing opens it."
    return f"{told} {_SAME_PEOPLE.format(there=there)}" if there else told


def message(base: str, title: str, text: str, link: str, href: str) -> bytes:
    """A sentence, and where to go on."""
    return _filled("message", base=base, title=title, text=text, link=link, href=href)


def _filled(template: str, **facts: Any) -> bytes:
    plain = {"step": "", "work": None}
    return _TEMPLATES.get_template(f"{template}.html").render(plain | facts).encode()


class _Column(NamedTuple):
    """One line of the table of columns: as declared, or as typed and refused."""

    place: int
    name: str
    declared: Any
    typed: Mapping[str, str]
    why: str

    @property
    def kind(self) -> str:
        typed = self.typed.get(f"{self.place}.type")
        return typed if typed in STRUCTS else str(self.declared.__struct_config__.tag)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(STRUCTS[self.kind].__struct_fields__)

    @property
    def said(self) -> list[str]:
        own = (getattr(self.declared, what, "") for what in ("description", "note"))
        return [text for text in (*own, self.why) if text]

    def written(self, what: str) -> str:
        return self.typed.get(f"{self.place}.{what}", shown(self.declared, what))


def _columns(work: Work, typed: Mapping[str, str]) -> Iterator[_Column]:
    above = ""
    for place, (name, each) in enumerate(work.schema.columns.items()):
        why = work.notes.get(name, "")
        # Columns that are alike have one reason.
        yield _Column(place, name, each, typed, "" if why == above else why)
        above = why
