"""Repairs of the reference, whose parser knows neither Sphinx roles nor choices with hyphens."""

import re
from typing import Any

CHOICE = re.compile(r"<code>\([a-z, -]+\)</code>")
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):<code>(~?)([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Take blanks out of choices; make links of roles whose target has a page in the site."""
    html = CHOICE.sub(lambda found: found[0].replace(" - ", "-"), html)
    return ROLE.sub(_link, html)


def _link(found: re.Match[str]) -> str:
    path = found[2]
    shown = path.rpartition(".")[2] if found[1] else path
    return f'<autoref identifier="{path}" optional><code>{shown}</code></autoref>'
