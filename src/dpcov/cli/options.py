"""Options that several commands share, declared once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.privacy.budget import Budget

Epsilon = Annotated[str | None, typer.Option("--epsilon", help="Privacy budget epsilon, a decimal number.")]
Delta = Annotated[str | None, typer.Option("--delta", help="Privacy budget delta, for example 1e-6.")]
Rho = Annotated[
    str | None, typer.Option("--rho", help="Privacy budget rho of zCDP, instead of epsilon and delta.")
]
NeighborsOption = Annotated[
    str,
    typer.Option(
        "--neighbors",
        help="replace-one: the number of rows is public. add-remove-one: it is private, and estimated.",
    ),
]
Post = Annotated[
    str | None,
    typer.Option(
        "--post",
        help="Post-processing: none (unbiased), psd, clip, projection, shrink, threshold; free. "
        "Default: the mechanism's.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]
ReleaseFile = Annotated[Path, typer.Argument(help="A release file (.dpcov).", metavar="RELEASE")]
LedgerFile = Annotated[Path, typer.Argument(help="The ledger, an SQLite file.", metavar="LEDGER")]


def budget_from(epsilon: str | None, delta: str | None, rho: str | None) -> "Budget":
    """Build a budget from the three options, all decimal strings."""
    from dpcov.privacy.budget import Budget

    if epsilon is None and delta is None and rho is None:
        raise UsageError("State the privacy budget: --epsilon E --delta D, --epsilon E, or --rho R.")
    return Budget(epsilon=epsilon, delta=delta, rho=rho)
