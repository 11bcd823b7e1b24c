"""``dpcov audit``: whether the noise keeps what a mechanism claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.audit.suite import Budgets, Effort

EXAMPLE = "Example: dpcov audit gaussian laplace --out audit.json"

WITHOUT_POWER = 9


def audit(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(help="Mechanisms to audit; all by default.", metavar="[MECHANISM]..."),
    ] = None,
    module: Annotated[
        list[str] | None,
        typer.Option(
            "--module",
            metavar="PACKAGE.MODULE:CLASS",
            help="Audit a mechanism of another package; repeatable.",
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="8 times the releases, and random tables too; minutes a case."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=0.01, help="Longest time for each case, instead of 30 or 600."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, help="Cases audited at the same time; one per core by default."
        ),
    ] = None,
    neighbors: Annotated[
        str | None,
        typer.Option("--neighbors", help="Only this relation: replace-one or add-remove-one."),
    ] = None,
    columns: Annotated[
        int, typer.Option("--columns", min=2, help="Columns of the made-up tables.")
    ] = 2,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeat an audit's draws; none by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write the table to a .json or .csv file."),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Bound from below what an attacker learns from many releases of made-up tables.

    Reads no data and spends nothing.  Verdicts: ok (half the noise would have been caught), no power (it would not) and
    refuted.  Exit code: 1 if a claim is refuted, else 9 if an audit has no power, else 0.
    """
    from rich.console import Console

    from dpcov.audit import report, suite
    from dpcov.cli.progress import steps_progress
    from dpcov.data.engines.local import thread_count
    from dpcov.files import write_file
    from dpcov.mechanisms.registry import MECHANISMS, find_mechanism

    if out is not None:
        if out.suffix not in report.SUFFIXES:
            raise UsageError(f"--out must end in one of: {', '.join(report.SUFFIXES)}.")
        if out.exists() and not force:
            raise UsageError(f"{out} exists already. Choose another name, or add --force.")
    chosen = [find_mechanism(name)() for name in mechanisms or ()] + [
        suite.load_mechanism(at) for at in module or ()
    ]
    cases = suite.cases_of(
        chosen or [mechanism() for mechanism in MECHANISMS],
        neighbors=None if neighbors is None else options.neighbors_from(neighbors),
        budgets=_budgets(epsilon, delta, rho),
        n_features=columns,
    )
    if not cases:
        raise UsageError(
            "No claim to audit: the mechanism knows no such relation or kind of budget."
        )
    findings, together = [], min(thread_count(processes), len(cases))
    with steps_progress("Auditing", quiet=quiet) as tell:
        for finding in suite.audit(cases, _effort(deep, seconds), seed=seed, processes=together):
            findings.append(finding)
            if tell is not None:
                tell(len(findings), len(cases))
    Console(width=None if Console().is_terminal else 160).print(report.to_table(findings))
    if out is not None:
        write_file(out, report.to_text(findings, out.suffix).encode(), overwrite=force)
    verdicts = {finding.verdict for finding in findings}
    for verdict, meaning in report.MEANINGS.items():
        if verdict in verdicts:
            typer.echo(meaning, err=True)
            raise typer.Exit(1 if verdict == "refuted" else WITHOUT_POWER)


def _effort(deep: bool, seconds: float | None) -> "Effort":
    import dataclasses

    from dpcov.audit.suite import DEEP, QUICK

    effort = DEEP if deep else QUICK
    return effort if seconds is None else dataclasses.replace(effort, seconds=seconds)


def _budgets(epsilon: str | None, delta: str | None, rho: str | None) -> "Budgets":
    """One kind of claim if a budget was given, else one of every kind."""
    from dpcov.audit.suite import BUDGETS

    if epsilon is None and delta is None and rho is None:
        return BUDGETS
    budget = options.budget_from(epsilon, delta, rho)
    return {type(budget.promise): budget}
