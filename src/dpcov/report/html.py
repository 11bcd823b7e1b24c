"""Build HTML in which text is escaped unless it was built here, and the frame of every page.

Contract: a name or title ends up as visible text.  It becomes no tag, attribute, end of a script or
control code, and changes no writing direction outside its own element.  A page is one file.  Its
content security policy allows its own style and scripts by their hashes, and nothing else: markup
that slipped through the escaping could not run or load anything.
"""

import base64
import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any, NamedTuple

VOID = frozenset({"meta", "link", "input", "br", "path", "line", "rect", "circle", "polyline"})
HIDDEN = frozenset({"Cc", "Cs", "Co", "Zl", "Zp"})
DIRECTION_CODES = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
LONGEST_NAME = 80


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


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


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Cut a name that would fill the page."""
    shown = visible(name)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


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
    return el("bdi", short, title=None if short == visible(name) else visible(name))


def names_of(names: Iterable[str]) -> Html:
    """List names, with commas between them."""
    return Html(", ".join(map(name_of, names)))


def json_block(identifier: str, content: Any) -> Html:
    """Embed data for a script; no character in it can end the element."""
    # NaN is no JSON: a script would stop at it.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


def table(
    head: Iterable[Child],
    rows: Iterable[Iterable[Child]],
    *,
    caption: str,
    numeric: bool = True,
    text: Collection[int] = (),
) -> Html:
    """Build a table whose first cells are row headings; the others are numbers, or text.

    ``text`` are places of columns of text among numbers.
    """

    def kind(place: int) -> str | None:
        return "number" if numeric and place not in text else None

    def cells(row: Iterable[Child]) -> Html:
        first, *others = row
        made = (el("td", cell, class_=kind(place)) for place, cell in enumerate(others, start=1))
        return join(el("th", first, scope="row"), made)

    first, *others = head
    heading = [
        el("th", cell, scope="col", class_=kind(place)) for place, cell in enumerate(others, 1)
    ]
    body = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", el("th", first, scope="col"), heading)),
        el("tbody", (el("tr", cells(row)) for row in rows)),
    )
    return el("div", body, class_="scroll", tabindex="0", role="region", aria_label=caption)


def details(summary: str, *children: Child) -> Html:
    """Build a part that opens on demand."""
    return el("details", el("summary", summary), *children)


def asset(name: str) -> str:
    """Text of a file in ``assets``."""
    return resources.files("dpcov.report").joinpath("assets", name).read_text(encoding="utf-8")


def lines(name: str, values: Mapping[str, object]) -> Iterator[str]:
    """Lines of a file in ``assets``, filled; one that a value of None belongs to is left out."""
    for line in asset(name).splitlines():
        template = Template(line.strip())
        if all(values[gap] is not None for gap in template.get_identifiers()):
            yield template.substitute(values)


def fill(name: str, **values: Child) -> Html:
    """Fill an HTML file in ``assets``, as :func:`lines` does."""
    # Values are escaped here, so that no template can forget it.
    safe = {key: None if value is None else join(value) for key, value in values.items()}
    return Html("".join(lines(name, safe)))


class Section(NamedTuple):
    """A heading with its content, and the words for it in the list of contents."""

    key: str
    title: str
    short: str
    content: Html


def page(title: str, sections: Sequence[Section], scripts: Iterable[str], **frame: Child) -> bytes:
    """Assemble an HTML document in UTF-8: scripts in ``assets``, and what frames the sections.

    ``frame`` is the subtitle, top, footer, and blocks of data for the scripts.
    """
    style, code = asset("style.css"), "\n".join(map(asset, scripts))
    links = (el("li", el("a", part.short, href=f"#{part.key}")) for part in sections)
    # Style and script are not escaped: the policy's hashes are those of these very characters.
    frame |= {"title": title, "style": Html(style), "code": Html(code)}
    frame |= {"contents": el("ul", links), "sections": map(_section, sections)}
    digests = (hashlib.sha256(text.encode()).digest() for text in (style, code))
    ours, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # Not even a plugin, a form or another base for links is allowed.
    policy = f"default-src 'none'; style-src {ours}; script-src {script}; "
    frame |= {"policy": Html(f"{policy}base-uri 'none'; form-action 'none'")}
    return f"{fill('page.html', **frame)}\n".encode()


def _section(part: Section) -> Html:
    heading = f"{part.key}-title"
    title = el("h2", part.title, id=heading)
    return el("section", title, part.content, id=part.key, aria_labelledby=heading)


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
        # Line breaks are layout in code blocks; everything else that cannot be seen is replaced.
        return "\n".join(escape(visible(line)) for line in child.split("\n"))
    return "".join(map(_text, child))
