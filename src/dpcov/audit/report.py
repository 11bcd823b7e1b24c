"""The table of an audit: on the screen and as JSON."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpcov.audit.limits import ALPHA
from dpcov.audit.suite import Finding, Verdict
from dpcov.privacy.guarantee import ZCDP

if TYPE_CHECKING:
    from rich.table import Table

# What to say of the worst verdict, worst first.
MEANINGS: dict[Verdict, str] = {
    "refuted": "A claim is refuted: the noise, the sensitivity or the claim is wrong.",
    "no power": "No claim is refuted, but some audits have no power: "
    "half the noise would have gone unnoticed.",
}


def record(finding: Finding) -> dict[str, Any]:
    """One line of the table."""
    how = ("mechanism", "neighbors", "numerics")
    what = ("verdict", "score", "pair", "draws")
    return {
        **{name: getattr(finding, name) for name in how},
        "promise": str(finding.promise),
        "number": "rho" if isinstance(finding.promise, ZCDP) else "epsilon",
        "claim": finding.claim,
        "bound": round(finding.bound, 6),
        "half noise": None if finding.control is None else round(finding.control, 6),
        **{name: getattr(finding, name) for name in what},
        "seconds": round(finding.seconds, 3),
    }


def to_json(findings: Sequence[Finding]) -> str:
    """The findings as JSON text."""
    records = [record(finding) for finding in findings]
    return json.dumps({"alpha": ALPHA, "findings": records}, indent=1) + "\n"


def to_table(findings: Sequence[Finding]) -> "Table":
    """The findings, one or more, for a terminal."""
    from rich.table import Table

    table = Table(title=f"Lower bounds, each wrong with probability {ALPHA:g} at most")
    for finding in findings:
        cells = record(finding)
        # The promise says both.
        del cells["number"], cells["claim"]
        share = f" ({finding.bound / finding.claim:.0%})" if finding.claim else ""
        cells["bound"] = f"{finding.bound:.3g}{share}"
        if not table.columns:
            for title in cells:
                table.add_column(title)
        numbers = (f"{cell:.3g}" if isinstance(cell, float) else cell for cell in cells.values())
        table.add_row(*("" if cell is None else str(cell) for cell in numbers))
    return table
