"""Build HTML in which text is escaped unless it was built here, and the frame of every page.

Contract: a name or title ends up as visible text.  It becomes no tag, attribute, end of a script or
control code, and changes no writing direction outside its own element.  A page is one file.  Its
content security policy allows its own style and scripts by their hashes, and nothing else: markup
that slipped through the escaping could not run or load anything.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from dpcov.markup import (
    Child,
    Html,
    details,
    el,
    join,
    name_of,
    names_of,
    note,
    shorten,
    table,
    visible,
)

# With the builder itself, all that a page is made of.
__all__ = [
    "Child",
    "Html",
    "Section",
    "asset",
    "details",
    "el",
    "fill",
    "join",
    "json_block",
    "lines",
    "name_of",
    "names_of",
    "note",
    "page",
    "shorten",
    "table",
    "visible",
]


def json_block(identifier: str, content: Any) -> Html:
    """Embed data for a script; no character in it can end the element."""
    # NaN is no JSON: a script would stop at it.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


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
