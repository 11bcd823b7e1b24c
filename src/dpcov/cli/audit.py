"""``dpcov audit``: whether the noise keeps what a mechanism claims."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError
from dpcov.files import write_file
from dpcov.privacy.guarantee import Neighbors

WITHOUT_POWER = 9
_MECHANISMS = Argument(help="Mechanisms to audit; all by default.", metavar="[MECHANISM]...")
_MODULE = option("audit module", metavar="PACKAGE.MODULE:CLASS")


def audit(
    mechanisms: Annotated[list[str] | None, _MECHANISMS] = None,
    module: Annotated[list[str] | None, _MODULE] = None,
    deep: Annotated[bool, option("audit deep")] = False,
    seconds: Annotated[float | None, option("audit seconds", min=0.01)] = None,
    processes: Annotated[int | None, option("audit processes", min=1)] = None,
    neighbors: Annotated[Neighbors | None, option("audit neighbors")] = None,
    columns: Annotated[int, option("audit columns", min=2)] = 2,
    private_geometry: Annotated[bool, option("audit private-geometry")] = False,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    seed: Annotated[int | None, option("audit seed", min=0)] = None,
    out: Annotated[Path | None, option("audit out", "-o")] = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Bound from below what an attacker learns from many releases of made-up tables.

    Reads no data and spends nothing.  Verdicts: ok (half the noise would have been caught), no
    power (it would not) and refuted.  Exit code: 1 if a claim is refuted, else 9 if an audit has
    no power, else 0.
    """
    from rich.console import Console

    from dpcov.audit import report, suite
    from dpcov.data.engines.local import thread_count
    from dpcov.mechanisms.registry import MECHANISMS, find_mechanism

    if out is not None and out.suffix != ".json":
        raise UsageError("--out must end in .json.")
    options.check_free(out, overwrite)
    effort, budgets = suite.DEEP if deep else suite.QUICK, suite.BUDGETS
    if seconds is not None:
        effort = replace(effort, seconds=seconds)
    if (epsilon, delta, rho) != (None, None, None):
        # One kind of claim if a budget was given, else one of every kind.
        budget = options.budget_from(epsilon, delta, rho)
        budgets = {type(budget.promise): budget}
    chosen = [find_mechanism(name)() for name in mechanisms or ()]
    chosen += [suite.load_mechanism(place) for place in module or ()]
    cases = suite.cases_of(
        chosen or [mechanism() for mechanism in MECHANISMS],
        neighbors=neighbors,
        budgets=budgets,
        n_features=columns,
        private_geometry=private_geometry,
    )
    if not cases:
        raise UsageError(
            "None of these mechanisms claims this relation and budget. Leave one of them out."
        )
    together = min(thread_count(processes), len(cases))
    with options.steps_progress("Auditing", quiet=quiet) as tell:
        tell(0, len(cases))
        findings = list(
            suite.audit(
                cases,
                effort,
                seed=seed,
                processes=together,
                tell=lambda done: tell(done, len(cases)),
            )
        )
    # In a file or pipe no column is cut.
    Console(width=None if Console().is_terminal else 160).print(report.to_table(findings))
    if out is not None:
        write_file(out, report.to_json(findings).encode(), overwrite=overwrite)
    verdicts = {finding.verdict for finding in findings}
    # The worst verdict comes first and decides the exit code.
    for verdict, meaning in report.MEANINGS.items():
        if verdict in verdicts:
            typer.echo(meaning, err=True)
            raise typer.Exit(1 if verdict == "refuted" else WITHOUT_POWER)
