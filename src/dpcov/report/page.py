"""The frame of every page: style, scripts, theme switch and a policy that forbids everything else.

Contract: one file.  The content security policy allows the page's own style and scripts by their
hashes, and nothing else.  Markup that slipped through the escaping could not run or load anything.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpcov.report.html import Child, Html, asset, el, fill


@dataclass(frozen=True)
class Section:
    """A heading with its content, and the words for it in the list of contents."""

    key: str
    title: str
    short: str
    content: Html


def page(
    *,
    title: str,
    subtitle: Child,
    top: Child,
    sections: Sequence[Section],
    data: Child,
    scripts: Iterable[str],
    footer: Child,
) -> bytes:
    """Assemble a complete HTML document in UTF-8.

    Parameters
    ----------
    title, subtitle, top, footer
        What stands above and below the sections.
    sections : sequence of Section
    data
        Blocks of data for the scripts.
    scripts : iterable of str
        Names of scripts in ``assets``.
    """
    style, code = asset("style.css"), "\n".join(map(asset, scripts))
    links = (el("li", el("a", part.short, href=f"#{part.key}")) for part in sections)
    made = fill(
        "page.html",
        policy=_policy(style, code),
        title=title,
        # Style and script are not escaped: the policy's hashes are those of these very characters.
        style=Html(style),
        code=Html(code),
        subtitle=subtitle,
        contents=el("ul", links),
        top=top,
        sections=map(_section, sections),
        footer=footer,
        data=data,
    )
    return f"{made}\n".encode()


def _section(part: Section) -> Html:
    heading = f"{part.key}-title"
    title = el("h2", part.title, id=heading)
    return el("section", title, part.content, id=part.key, aria_labelledby=heading)


def _policy(style: str, code: str) -> Html:
    return Html(
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
