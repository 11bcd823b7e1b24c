"""``dpcov plan`` and ``dpcov mechanisms``: what to expect of which noise, before any is drawn."""

import dataclasses
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError, printable
from dpcov.files import check_output, write_file
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors, PureDP
from dpcov.published.digits import plural

if TYPE_CHECKING:
    from dpcov.data.schema.schema import Schema
    from dpcov.pipeline.plan.rehearsal import Planned, Rehearsal

Geometry = Literal["schema", "private"]
# What a good correlation is within.
TARGET = 0.05
_WIDTH = 100
_GUARANTEES = {"PureDP": "epsilon", "ZCDP": "rho", "ApproxDP": "epsilon,delta"}
_NAME = typer.Argument(help="Describe this mechanism and its options.")
TRACES = (1.0, 0.3, 0.1, 0.03, 0.01)
LEGEND = """
1 is the error of publishing zeros, 0.1 a good release. trace: mean squared row length over the
squared norm bound, if all rows are equally long; assumed eigenvalues fall
like 1/k. These are simulations of made-up tables, no data were read; < marks bounds."""
PRIVATE = """A private geometry is assumed, as release finds one: a survey takes its part of the
budget, every column has unit spread, and rows are scaled down to the usual length. What that takes
from long tails comes on top. --geometry schema predicts for bounds as typed."""
BOUNDS = (
    "So few rows get no survey with this budget: bounds as typed are assumed (--geometry schema)."
)


def plan(
    rows: Annotated[int | None, option("plan rows")] = None,
    schema: Annotated[Path | None, option("plan schema")] = None,
    features: Annotated[int | None, option("plan features")] = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Relation = "replace-one",
    rows_per_person: Annotated[int | None, option("plan rows-per-person", min=1)] = None,
    geometry: Annotated[Geometry, option("plan geometry")] = "private",
    by: options.By = None,
    table: Annotated[Path | None, option("plan table")] = None,
    spread: Annotated[float | None, option("plan spread")] = None,
    mean_weight: Annotated[float | None, option("plan mean-weight")] = None,
    html: Annotated[Path | None, option("plan html")] = None,
    mechanisms: Annotated[bool, option("plan mechanisms")] = False,
    trace: Annotated[list[float] | None, option("plan trace")] = None,
    releases: Annotated[int | None, option("plan releases", min=2, max=100)] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Say what could be read from every column, before anything is spent; reads no rows."""
    from dpcov.privacy.meaning import warn_of_large_delta, warn_of_large_epsilon

    budget = options.budget_from(epsilon, delta, rho)
    if releases is not None:
        others = (rows, schema, features, rows_per_person, by, table, spread, mean_weight, html)
        plain = (neighbors, geometry, overwrite) == ("replace-one", "private", False)
        if mechanisms or trace or others != (None,) * len(others) or not plain:
            raise UsageError("--releases divides the budget alone. Leave other options out.")
        tell_releases(budget, releases)
        return
    if html is not None:
        check_output(html, schema, table)
    options.check_free(html, overwrite)
    if trace and not (mechanisms and geometry == "schema"):
        raise UsageError("A trace is assumed for bounds. Add --mechanisms --geometry schema.")
    declared = _schema(schema, features, rows_per_person, table)
    warn_of_large_epsilon(budget.promise)
    if mechanisms:
        if rows is None or (html, by, table, spread, mean_weight) != (None,) * 5:
            raise UsageError(
                "Mechanisms are compared for --rows NUMBER alone, without --html, --by, --table, "
                "--spread or --mean-weight."
            )
        compare(declared, rows, budget, neighbors, geometry, trace)
        return
    rehearsal = _rehearsal(declared, rows, table, spread, mean_weight, neighbors, geometry, by)
    warn_of_large_delta(budget.promise, neighbors, rehearsal.n_rows)
    tell(rehearsal, budget)
    if html is not None:
        _write_page(rehearsal, budget, html, overwrite)


def _rehearsal(
    schema: "Schema",
    rows: int | None,
    table: Path | None,
    spread: float | None,
    mean_weight: float | None,
    neighbors: Neighbors,
    geometry: Geometry,
    by: str | None,
) -> "Rehearsal":
    """What is rehearsed: so many rows, spread as in a public table or as much as all others."""
    from dpcov.pipeline.plan.rehearsal import SPREAD, WEIGHT_SHARE, Rehearsal, count_rows

    if table is not None and (spread, mean_weight) != (None, None):
        raise UsageError("Columns are spread as in --table. Leave --spread and --mean-weight out.")
    if mean_weight is not None and (schema.weights is None or not schema.weights.upper):
        raise UsageError("A mean weight is for a schema with [weights].")
    upper = (schema.weights and schema.weights.upper) or 1.0
    n_public = 0 if table is None else count_rows(table, schema)
    if rows is None and table is None:
        raise UsageError("Say how many rows the table has, at least roughly: --rows NUMBER.")
    return Rehearsal(
        schema=schema,
        n_rows=n_public if rows is None else rows,
        public=table,
        n_public=n_public,
        spread=SPREAD if spread is None else spread,
        weight_share=WEIGHT_SHARE if mean_weight is None else mean_weight / upper,
        neighbors=neighbors,
        geometry=geometry,
        options={} if by is None else {"by": by},
    )


def _write_page(rehearsal: "Rehearsal", budget: Budget, html: Path, overwrite: bool) -> None:
    from dpcov.pipeline.plan.page import render_plan, sweep

    with options.steps_progress("Rehearsing") as progress:
        stops = sweep(rehearsal, budget, progress)
    write_file(html, render_plan(rehearsal, budget, stops), overwrite=overwrite)
    typer.echo(f"Wrote {html}: one page, open it in a browser.")


def tell_releases(budget: Budget, count: int) -> None:
    """Print budgets of several releases about the same people that keep a total together."""
    told = [f"{plural(count, 'release')} about the same people, {budget} in all."]
    told.append("Noise is that of one release with the whole budget, times the number beside it.")
    for name, weights in ("equal", [1] * count), ("growing", list(range(1, count + 1))):
        told += ["", f"{name}:", *_divided(budget, weights)]
    told += [
        "",
        "Alone: a table of its own each time, such as one a year. Combined: the same table again",
        "(dpcov combine). One survey for all of them (dpcov survey) is part of the total, too.",
        "Choose the total before the first release, and let a ledger keep it.",
    ]
    typer.echo("\n".join(told))


def _divided(budget: Budget, weights: Sequence[int]) -> list[str]:
    """A line for every release: its budget, and its noise alone and with all before it."""
    from dpcov.privacy.together import divided

    rows, total = list[list[str]](), sum(weights)
    power = 1.0 if isinstance(budget.promise, PureDP) else 0.5
    for place, promise in enumerate(divided(budget.promise, weights), start=1):
        alone = (total / weights[place - 1]) ** power
        upto = sum((weight / total) ** (2 * power) for weight in weights[:place]) ** -0.5
        number = [f"release {place}", str(promise), f"alone {alone:.2f}"]
        rows.append([*number, f"combined so far {upto:.2f}"])
    return _aligned(rows)


def tell(rehearsal: "Rehearsal", budget: Budget) -> None:
    """Print what could be read, what would be needed, and what was assumed."""
    with options.steps_progress("Rehearsing") as progress:
        planned = rehearsal.at(budget)
        progress(1, 2)
        factor = rehearsal.needed(budget, TARGET, planned)
        progress(2, 2)
        gains = rehearsal.gains(budget, planned, lambda done, of: progress(2 + done, 2 + of))
    rows = plural(rehearsal.n_rows, "row")
    told = [f"With {budget} and {rows}, {rehearsal.neighbors} neighbors:"]
    told += [planned.diagnosis.headline, "", *_columns(planned), ""]
    told += _needed(rehearsal, budget, factor)
    told += gains
    told += ["", *(line for said in rehearsal.assumptions(planned) for line in wrap(said, _WIDTH))]
    typer.echo(printable("\n".join(told)))


def _columns(planned: "Planned") -> list[str]:
    """What could be read from every column."""
    from dpcov.published.words.summary import short_name

    lines = [["", "column", "correlations ±", "mean ±", "smallest spread", ""]]
    for column, (verdict, *numbers) in zip(planned.diagnosis.columns, planned.cells, strict=True):
        light, _, word = verdict.partition(" ")
        lines.append([light, short_name(column.in_unit), *numbers, word])
    return _aligned(lines)


def _needed(rehearsal: "Rehearsal", budget: Budget, factor: float) -> list[str]:
    """What good correlations would take, if that can be had."""
    from dpcov.pipeline.plan.rehearsal import needed_epsilon

    if not isfinite(factor):
        return []
    needed = needed_epsilon(budget, factor)
    unit = "rho" if budget.rho else "epsilon"
    amount = "" if needed is None else f"{unit} {float(needed):.2g}, or "
    # Roughly: two digits, as of the budget.
    rows = float(f"{rehearsal.n_rows * factor:.2g}")
    return [f"±{TARGET:g} takes {amount}{rows:,.0f} rows."]


def _schema(
    path: Path | None, features: int | None, rows_per_person: int | None, table: Path | None
) -> "Schema":
    from dpcov.data.gather import Gathering
    from dpcov.data.schema.declared import Numeric
    from dpcov.data.schema.schema import Schema

    if (path is None) == (features is None):
        raise UsageError("Name the table's schema (--schema FILE), or say --features NUMBER.")
    if path is not None:
        if rows_per_person is not None:
            raise UsageError("The schema says how many rows a person has: rows_per_person.")
        read = Schema.from_toml(path, complete=True)
        return read if table is None else Gathering().resolve(read, table)[0]
    if features is None or features < 2:
        raise UsageError("--features counts the intercept and at least one column.")
    unit = Numeric(lower=-1.0, upper=1.0)
    columns: Any = {f"column {place}": unit for place in range(1, features)}
    return Schema(columns=columns, rows_per_person=rows_per_person or 1, missing="never")


def compare(
    schema: "Schema",
    rows: int,
    budget: Budget,
    neighbors: Neighbors,
    geometry: Geometry,
    trace: list[float] | None,
) -> None:
    """Print the relative error to expect of every mechanism."""
    from dpcov.mechanisms.auto import choose
    from dpcov.pipeline.plan.predict import Assumption, left_for, predict

    features = len(schema.encoded_columns)
    assumed = Assumption(
        n_rows=rows,
        geometry=geometry,
        n_features=features,
        budget=budget,
        neighbors=neighbors,
        rows_per_person=schema.rows_per_person,
    )
    choice, assumptions = choose(assumed.problem, budget), [assumed]
    notes = [PRIVATE] if geometry == "private" else []
    if left_for(assumed, choice.make()) is None:
        assumed, notes = dataclasses.replace(assumed, geometry="schema"), [BOUNDS]
    if assumed.geometry == "schema":
        assumptions = [dataclasses.replace(assumed, trace=value) for value in trace or TRACES]
    found = [{each.mechanism: each for each in predict(assumed)} for assumed in assumptions]
    told = f"{plural(rows, 'row')}, {plural(features, 'feature')}, {budget}, {neighbors} neighbors"
    typer.echo(f"Expected relative error (Frobenius norm): {told}\n")
    names = dict.fromkeys(name for column in found for name in column)
    lines = [[name, *(_cell(column.get(name)) for column in found)] for name in names]
    head = ["trace", *(f"{each.trace:.3g}" for each in assumptions)]
    typer.echo("\n".join([*_aligned([head, *lines]), LEGEND, *notes, *choice.notes]))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    # As wide as the widest cell, so that grep and cut can read the lines.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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
    typer.echo("\n".join(_aligned([list(facts[0]), *(list(row.values()) for row in facts)])))
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
