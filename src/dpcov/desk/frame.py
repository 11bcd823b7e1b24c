"""The frame of every page of the desk, and forms that read well without sight.

Contract: every word is escaped where it is put in.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpcov.desk.work import STEPS, Work
from dpcov.report.html import Child, Html, el

TITLES = {
    "columns": "Columns",
    "people": "People",
    "budget": "Budget",
    "account": "Account",
    "release": "Release",
}
# Problems beyond these are counted.
SHOWN = 20


def frame(
    base: str, title: str, *content: Child, work: Work | None = None, step: str = ""
) -> bytes:
    """A whole page."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} – dpcov desk"),
        el("link", rel="stylesheet", href=f"{base}/style.css"),
        el("link", rel="icon", href="data:,"),
    )
    body = el(
        "body",
        el("a", "Skip to the content", href="#main", class_="skip"),
        el("header", el("div", el("h1", title), el("p", subtitle(work), class_="subtitle"))),
        el(
            "div",
            el("nav", _steps(base, work, step), aria_label="Steps"),
            el("main", *content, id="main", tabindex="-1"),
            class_="columns",
        ),
        el("footer", el("p", "This page is on your own machine. It shows no value of any row.")),
        el("script", src=f"{base}/desk.js"),
    )
    return f"<!doctype html>{el('html', head, body, lang='en')}\n".encode()


def subtitle(work: Work | None) -> str:
    """What the work is about."""
    if work is None:
        return "From a table to one file that may be published"
    return work.data if isinstance(work.data, str) else f"A query: {work.data.sql}"


def _steps(base: str, work: Work | None, step: str) -> Html:
    items = [el("li", el("a", "Table", href=f"{base}/", aria_current="step" if not step else None))]
    if work is not None:
        lacks = work.missing()
        for name in STEPS:
            mark = f" ({len(lacks[name])} to do)" if lacks[name] else ""
            link = el(
                "a",
                TITLES[name],
                mark,
                href=f"{base}/{work.name}/{name}",
                aria_current="step" if name == step else None,
            )
            items.append(el("li", link))
    return el("ul", *items)


def problems_box(problems: Sequence[str], heading: str = "Please correct") -> Html | None:
    """What is wrong, where a screen reader begins."""
    if not problems:
        return None
    shown = [el("li", problem) for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        shown.append(el("li", f"and {len(problems) - SHOWN} more"))
    return el(
        "div",
        el("h2", heading),
        el("ul", shown),
        role="alert",
        class_="warning",
        tabindex="-1",
        id="problems",
    )


def field(
    label: str,
    name: str,
    value: str = "",
    hint: str = "",
    typed: Mapping[str, str] | None = None,
    **attributes: Any,
) -> Html:
    """A text field with its label, and a hint that is read with it.

    What was ``typed`` and refused stays in the field.
    """
    value = (typed or {}).get(name, value)
    told = f"{name}-hint" if hint else None
    return el(
        "p",
        el("label", label, for_=name),
        el("input", id=name, name=name, value=value, aria_describedby=told, **attributes),
        el("span", hint, id=told, class_="note") if hint else None,
        class_="field",
    )


def choice(label: str, name: str, options: dict[str, str], chosen: str, **attributes: Any) -> Html:
    """A list to choose one of, with its label."""
    made = [el("option", text, value=key, selected=key == chosen) for key, text in options.items()]
    return el(
        "p",
        el("label", label, for_=name),
        el("select", made, id=name, name=name, **attributes),
        class_="field",
    )


def form(action: str, *content: Child, button: str, version: int | None = None) -> Html:
    """A form that is posted."""
    hidden = None
    if version is not None:
        hidden = el("input", type="hidden", name="version", value=version)
    return el(
        "form",
        hidden,
        *content,
        el("p", el("button", button, type="submit", class_="go")),
        method="post",
        action=action,
    )


def same_as(lines: Iterable[str]) -> Html:
    """The equivalent command lines."""
    return el(
        "section",
        el("h2", "The same on the command line"),
        el("pre", el("code", "\n".join(lines)), tabindex="0"),
        class_="same",
    )


def waiting(base: str, work: Work) -> Html:
    """Work that goes on; the page asks for news by itself."""
    job = work.job
    assert job is not None
    return el(
        "section",
        el("h2", job.what),
        el("p", job.told, id="progress", role="status"),
        Html('<progress aria-label="Progress"></progress>'),
        el(
            "p",
            "You may close this page. The work goes on, and this address shows what came of it.",
            class_="note",
        ),
        form(f"{base}/{work.name}/stop", button="Stop"),
        id="waiting",
        data_news=f"{base}/{work.name}/news",
    )
