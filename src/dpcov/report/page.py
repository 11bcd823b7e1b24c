"""The frame of every page: style, scripts, theme switch and a policy that forbids everything else.

Contract: one file.  The content security policy allows the page's own style and scripts, by their hashes, and
nothing from anywhere; so even markup that slipped through the escaping could not run or load anything.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from dpcov.report.html import Child, Html, el, join


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with its content and the word for it in the list of contents."""

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
    """Assemble a page.

    Parameters
    ----------
    title, subtitle, top, footer
        What stands above and below the sections.
    sections : sequence of Section
    data
        Blocks of data for the scripts.
    scripts : iterable of str
        Names of scripts in ``assets``.

    Returns
    -------
    bytes
        A complete HTML document in UTF-8.
    """
    style = asset("style.css")
    code = "\n".join(asset(name) for name in scripts)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, code)}"/>'),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        Html(f"<style>{style}</style>"),
    )
    body = el(
        "body",
        el("a", "Skip to the content", href="#main", class_="skip"),
        _header(title, subtitle),
        el(
            "div",
            el("nav", _contents(sections), aria_label="Contents"),
            el("main", top, map(_section, sections), id="main", tabindex="-1"),
            class_="columns",
        ),
        el("footer", footer),
        data,
        Html(f"<script>{code}</script>"),
    )
    return join(Html('<!doctype html><html lang="en">'), head, body, Html("</html>\n")).encode()


def asset(name: str) -> str:
    """Text of a file in ``assets``."""
    return resources.files("dpcov.report").joinpath("assets", name).read_text(encoding="utf-8")


def _header(title: str, subtitle: Child) -> Html:
    button = el("button", "Dark", type="button", id="theme", aria_pressed="false", hidden=True)
    words = el("div", el("h1", el("bdi", title)), el("p", subtitle, class_="subtitle"))
    return el("header", words, button)


def _contents(sections: Sequence[Section]) -> Html:
    return el("ul", (el("li", el("a", part.short, href=f"#{part.key}")) for part in sections))


def _section(part: Section) -> Html:
    heading = f"{part.key}-title"
    return el(
        "section",
        el("h2", part.title, id=heading),
        part.content,
        id=part.key,
        aria_labelledby=heading,
    )


def _policy(style: str, code: str) -> str:
    rules = (
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(code)}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
