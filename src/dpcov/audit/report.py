"""The table of an audit: on the screen, as JSON and as CSV."""

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpcov.audit.limits import ALPHA
from dpcov.audit.suite import Finding, Verdict
from dpcov.errors import UsageError
from dpcov.privacy.guarantee import ZCDP

if TYPE_CHECKING:
    from rich.table import Table

SUFFIXES = (".json", ".csv")

MEANINGS: dict[Verdict, str] = {
    "refuted": "A claim is refuted: the noise, the sensitivity or the claim is wrong.",
    "no power": "No claim is refuted, but some audits have no power: "
    "half the noise would have gone unnoticed.",
}
"""What to say of the worst verdict, worst first."""


def record(finding: Finding) -> dict[str, Any]:
    """One line of the table."""
    return {
        "mechanism": finding.mechanism,
        "neighbors": finding.neighbors,
        "numerics": finding.numerics,
        "promise": str(finding.promise),
        "number": "rho" if isinstance(finding.promise, ZCDP) else "epsilon",
        "claim": finding.claim,
        "bound": round(finding.bound, 6),
        "half noise": finding.control if finding.control is None else round(finding.control, 6),
        "verdict": finding.verdict,
        "score": finding.score,
        "pair": finding.pair,
        "draws": finding.draws,
        "seconds": round(finding.seconds, 3),
    }


def to_text(findings: Sequence[Finding], suffix: str) -> str:
    """The findings as JSON or CSV text."""
    records = [record(finding) for finding in findings]
    if suffix == ".json":
        return json.dumps({"alpha": ALPHA, "findings": records}, indent=1) + "\n"
    if suffix != ".csv":
        raise UsageError(f"An audit is written as one of: {', '.join(SUFFIXES)}.")
    text = io.StringIO()
    writer = csv.DictWriter(text, records[0].keys() if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


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
