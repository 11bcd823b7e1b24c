"""``dpcov plan`` and ``dpcov mechanisms``: what to expect of which noise, before any is drawn."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError

_GUARANTEES = {"PureDP": "epsilon", "ZCDP": "rho", "ApproxDP": "epsilon,delta"}
_NAME = typer.Argument(help="Describe this mechanism and its options.")
TRACES = (1.0, 0.3, 0.1, 0.03, 0.01)
LEGEND = """
1 is the error of publishing zeros, 0.1 a good release.  trace: mean squared row length over the
squared norm bound, if all rows are equally long; assumed eigenvalues fall
like 1/k.  These are simulations of made-up tables, no data were read; < marks bounds."""
PRIVATE = """A private geometry is assumed, as release finds one: a survey takes its part of the
budget, every column has unit spread, and rows are scaled down to the usual length.  What that takes
from long tails comes on top.  --geometry schema predicts for bounds as typed."""
BOUNDS = (
    "So few rows get no survey with this budget: bounds as typed are assumed (--geometry schema)."
)


def plan(
    rows: Annotated[int, option("plan rows")],
    features: Annotated[int, option("plan features")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Relation = "replace-one",
    rows_per_person: Annotated[int, option("plan rows-per-person")] = 1,
    geometry: Annotated[str, option("plan geometry")] = "private",
    trace: Annotated[list[float] | None, option("plan trace")] = None,
    html: Annotated[Path | None, option("plan html")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Print the relative error to expect of every mechanism; reads no data and spends nothing."""
    from dpcov.mechanisms.auto import choose
    from dpcov.pipeline.plan.predict import Assumption, left_for, predict
    from dpcov.privacy.guarantee import check_neighbors
    from dpcov.privacy.meaning import warn_of_large_epsilon

    budget = options.budget_from(epsilon, delta, rho)
    # Refused now, not after minutes of predictions.
    options.check_free(html, overwrite)
    if trace and geometry != "schema":
        raise UsageError("A trace is assumed for bounds. Add --geometry schema.")
    assumed = Assumption(
        n_rows=rows,
        geometry=geometry,  # type: ignore[arg-type]
        n_features=features,
        budget=budget,
        neighbors=check_neighbors(neighbors),
        rows_per_person=rows_per_person,
    )
    choice, assumptions = choose(assumed.problem, budget), [assumed]
    notes = [PRIVATE] if geometry == "private" else []
    if left_for(assumed, choice.make()) is None:
        assumed, notes = dataclasses.replace(assumed, geometry="schema"), [BOUNDS]
    if assumed.geometry == "schema":
        assumptions = [dataclasses.replace(assumed, trace=value) for value in trace or TRACES]
    warn_of_large_epsilon(budget.promise, stacklevel=2)
    found = [{each.mechanism: each for each in predict(assumed)} for assumed in assumptions]
    told = f"{rows:,} rows, {features} features, {budget}, {neighbors} neighbors"
    typer.echo(f"Expected relative error (Frobenius norm): {told}\n")
    names = dict.fromkeys(name for column in found for name in column)
    lines = [[name, *(_cell(column.get(name)) for column in found)] for name in names]
    _echo_table([["trace", *(f"{each.trace:.3g}" for each in assumptions)], *lines])
    typer.echo("\n".join([LEGEND, *notes, *choice.notes]))
    if html is None:
        return
    from dpcov.files import write_file
    from dpcov.pipeline.plan.page import render_plan, sweep

    told = "Predicting the same for smaller and larger budgets; this may take a few minutes."
    typer.echo(told, err=True)
    with options.steps_progress("Predicting") as progress:
        stops = sweep(assumptions, progress)
    write_file(html, render_plan(assumptions, stops), overwrite=overwrite)
    typer.echo(f"Wrote {html}: one page, open it in a browser.")


def _echo_table(rows: Sequence[Sequence[str]]) -> None:
    # As wide as the widest cell, so that grep and cut can read the lines.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _cell(found: Any) -> str:
    return "-" if found is None else "<" * (found.kind == "bound") + f"{found.relative_error:.3g}"


def mechanisms(name: Annotated[str | None, _NAME] = None) -> None:
    """List the mechanisms, or describe one with its options (dpcov release --option NAME=VALUE)."""
    import inspect

    from dpcov.mechanisms.registry import MECHANISMS, find_mechanism

    if name is not None:
        found: Any = find_mechanism(name)
        fields = (f"{field.name}={field.default}" for field in dataclasses.fields(found))
        told = {**_facts(found), "Options": ", ".join(fields) or "none"}
        lines = [f"{title.capitalize():<10} {text}" for title, text in told.items()]
        typer.echo("\n".join([*lines, "", inspect.getdoc(found) or ""]))
        return
    facts = [_facts(mechanism) for mechanism in MECHANISMS]
    _echo_table([list(facts[0]), *(list(row.values()) for row in facts)])
    typer.echo("\nHow to choose: docs/mechanisms.md   ·   options: dpcov mechanisms NAME")


def _facts(mechanism: Any) -> dict[str, str]:
    # One row of the table.
    relations = mechanism.relations
    return {
        "NAME": mechanism.name,
        "GUARANTEE": " | ".join(_GUARANTEES[kind.__name__] for kind in mechanism.promises),
        "RELATION": "both" if len(relations) == 2 else " | ".join(relations),
        "NUMERICS": mechanism.numerics,
        "PAPER": mechanism.paper,
        "SUMMARY": mechanism.summary,
    }
