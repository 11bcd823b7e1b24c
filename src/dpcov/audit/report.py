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
    "no power": "No claim is refuted, but some audits have no power: half the noise would have gone unnoticed.",
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
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, records[0].keys() if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()
    raise UsageError(f"An audit is written as one of: {', '.join(SUFFIXES)}.")


def to_table(findings: Sequence[Finding]) -> "Table":
    """The findings for a terminal."""
    from rich.table import Table

    table = Table(title=f"Lower bounds, each wrong with probability {ALPHA:g} at most")
    for title in ("mechanism", "neighbors", "numerics", "claim"):
        table.add_column(title)
    for title in ("bound", "of the claim", "half noise", "releases", "s"):
        table.add_column(title, justify="right")
    for title in ("from", "tables", "verdict"):
        table.add_column(title)
    for finding in findings:
        table.add_row(
            finding.mechanism,
            finding.neighbors,
            finding.numerics,
            str(finding.promise),
            f"{finding.bound:.3g}",
            "" if finding.claim == 0 else f"{finding.bound / finding.claim:.0%}",
            "" if finding.control is None else f"{finding.control:.3g}",
            str(finding.draws),
            f"{finding.seconds:.1f}",
            finding.score,
            finding.pair,
            finding.verdict,
        )
    return table
