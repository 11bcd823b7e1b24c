"""Build HTML in which text is escaped unless it was built here, and the frame of every page.

Contract: a name or title ends up as visible text.  It becomes no tag, attribute, end of a script or
control code, and changes no writing direction outside its own element.  A page is one file.  Its
content security policy allows its own style and scripts by their hashes, and nothing else: markup
that slipped through the escaping could not run or load anything.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined, select_autoescape

from dpcov import markup
from dpcov.markup import Child, Html, join, lines_visible


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


def environment(loader: BaseLoader) -> Environment:
    """Templates in which all values are escaped, if they are put in a file of HTML."""
    made = Environment(
        loader=loader,
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    helpers = ("details", "name_of", "names_of", "note", "shorten", "table")
    made.globals |= {name: getattr(markup, name) for name in helpers}
    return made


def _shown(value: object) -> object:
    if value is None or hasattr(value, "__html__"):
        return "" if value is None else value
    return lines_visible(str(value))


def _source(name: str) -> str:
    # Line breaks in a page's templates are for those who read them.
    text = asset(name)
    return "".join(map(str.strip, text.splitlines())) if name.endswith(".html") else text


_TEMPLATES = environment(FunctionLoader(_source))


def filled(name: str, **values: Any) -> str:
    """Text of a template in ``assets``."""
    return _TEMPLATES.get_template(name).render(values)


def fill(name: str, **values: Any) -> Html:
    """Markup of a template in ``assets``."""
    return Html(filled(name, **values))


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
    # Style and script are not escaped: the policy's hashes are those of these very characters.
    style, code = Html(asset("style.css")), Html("\n".join(map(asset, scripts)))
    digests = (hashlib.sha256(text.encode()).digest() for text in (style, code))
    ours, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # Not even a plugin, a form or another base for links is allowed.
    policy = f"default-src 'none'; style-src {ours}; script-src {script}; "
    policy = Html(f"{policy}base-uri 'none'; form-action 'none'")
    about = {key: join(value) for key, value in frame.items()}
    own = {"title": title, "sections": sections, "style": style, "code": code, "policy": policy}
    return f"{fill('page.html', **own, **about)}\n".encode()
