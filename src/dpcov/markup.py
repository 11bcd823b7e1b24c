"""Build HTML in which text is escaped unless it was built here.

Contract: a name or title ends up as visible text.  It becomes no tag, attribute or control code,
and changes no writing direction outside its own element.
"""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

VOID = frozenset({"meta", "link", "input", "br", "path", "line", "rect", "circle", "polyline"})
HIDDEN = frozenset({"Cc", "Cs", "Co", "Zl", "Zp"})
DIRECTION_CODES = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
LONGEST_NAME = 80


class Html(str):
    """Text that is markup already."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


Child = str | Iterable["Child"] | None


def visible(text: str) -> str:
    """Replace control codes, lone surrogates and marks that reorder text; keep emoji."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if letter in DIRECTION_CODES or unicodedata.category(letter) in HIDDEN
        else letter
        for letter in text
    )


def lines_visible(text: str) -> str:
    """The same line by line: line breaks are layout in code blocks."""
    return "\n".join(map(visible, text.split("\n")))


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Cut a name that would fill the page."""
    return cut(visible(name), longest)


def cut(text: str, longest: int) -> str:
    """Leave out the middle of what is too long: names often differ at their ends alone."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 3
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def el(tag: str, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Build an element: children that are not :class:`Html` are escaped, None is left out.

    >>> el("p", "1 < 2", class_='a"b', aria_label="x", hidden=True, title=None)
    '<p class="a&quot;b" aria-label="x" hidden>1 &lt; 2</p>'
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{written}/>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Join pieces, escaping those that are plain text."""
    return Html("".join(_text(child) for child in children))


def note(*children: Child) -> Html:
    """Build a paragraph in small print."""
    return el("p", *children, class_="note")


def name_of(name: str, longest: int = LONGEST_NAME) -> Html:
    """Isolate a name from the writing direction around it; a tooltip has all of a long one."""
    short = shorten(name, longest)
    # A narrow cell breaks it behind an underscore, or before a level.
    parts = Html(join(short).replace("_", "_<wbr/>").replace("=", "=<wbr/>", 1))
    return el("bdi", parts, title=None if short == visible(name) else visible(name))


def names_of(names: Iterable[str]) -> Html:
    """List names, with commas between them."""
    return Html(", ".join(map(name_of, names)))


def table(
    head: Iterable[Child],
    rows: Iterable[Iterable[Child]],
    *,
    caption: str,
    numeric: bool = True,
    text: Collection[int] = (),
    inline: bool = False,
) -> Html:
    """Build a table whose first cells are row headings; the others are numbers, or text.

    ``text`` are places of columns of text among numbers.  ``inline``: cells say themselves how they
    are aligned, for places that no style sheet reaches.
    """

    def looks(place: int) -> dict[str, str | None]:
        is_number = numeric and place > 0 and place not in text
        if inline:
            side = "right" if is_number else "left"
            return {"style": f"text-align: {side}; padding: 0.15em 0.7em"}
        return {"class_": "number" if is_number else None}

    def cells(row: Iterable[Child]) -> Html:
        first, *others = row
        made = (el("td", cell, **looks(place)) for place, cell in enumerate(others, start=1))
        return join(el("th", first, scope="row", **looks(0)), made)

    heading = [el("th", cell, scope="col", **looks(place)) for place, cell in enumerate(head)]
    body = el(
        "table",
        el("caption", caption, style="text-align: left; padding: 0.3em 0.7em" if inline else None),
        el("thead", el("tr", heading)),
        el("tbody", (el("tr", cells(row)) for row in rows)),
    )
    style = "overflow-x: auto" if inline else None
    label = {"tabindex": "0", "role": "region", "aria_label": caption}
    return el("div", body, class_="scroll", **label, style=style)


def details(summary: str, *children: Child) -> Html:
    """Build a part that opens on demand."""
    return el("details", el("summary", summary), *children)


# Rows that an object shows of a long table, and letters of a name in it.
MOST_SHOWN, CELL = 30, 44


def card(kind: str, title: str, *content: Child) -> str:
    """What an object is in a notebook: plain elements, which take its style, light or dark."""
    return el("div", el("p", el("strong", kind), " ", name_of(title)), *content)


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """A list of names with what each is; pairs of nothing are left out."""
    lines = (join(el("strong", f"{name}: "), value) for name, value in pairs if value)
    return el("p", [join(line, el("br")) for line in lines])


def listing(
    head: Sequence[Child], rows: Sequence[Sequence[Child]], caption: str, **more: Any
) -> Html:
    """A table for a notebook, no longer than can be read there."""
    left = len(rows) - MOST_SHOWN
    made = table(head, rows[:MOST_SHOWN], caption=caption, inline=True, **more)
    return join(made, el("p", f"… and {left:,} more") if left > 0 else None)


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{escape(visible(str(value)))}"'


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(lines_visible(child))
    return "".join(map(_text, child))
