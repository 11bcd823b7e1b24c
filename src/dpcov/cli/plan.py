"""``dpcov plan``: the errors to expect, before any budget is spent."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.pipeline.plan.predict import Assumption, Prediction

TRACES = (1.0, 0.3, 0.1, 0.03, 0.01)
LEGEND = """
1 is the error of publishing zeros, 0.1 a good release.  trace: mean squared row length over the
squared norm bound, if all rows are equally long; assumed eigenvalues: {}.  These are
simulations of made-up tables, no data were read; < marks bounds."""


def plan(
    rows: Annotated[int, option("plan rows")],
    features: Annotated[int, option("plan features")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Relation = "replace-one",
    rows_per_person: Annotated[int, option("plan rows-per-person")] = 1,
    trace: Annotated[list[float] | None, option("plan trace")] = None,
    spectrum: Annotated[str, option("plan spectrum")] = "power",
    plot: Annotated[Path | None, option("plan plot")] = None,
    html: Annotated[Path | None, option("plan html")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Print the relative error to expect of every mechanism; reads no data and spends nothing."""
    from dpcov.files import write_file
    from dpcov.mechanisms.auto import choose
    from dpcov.pipeline.plan.figure import draw_plan
    from dpcov.pipeline.plan.predict import Assumption, check_spectrum, predict
    from dpcov.privacy.guarantee import check_neighbors
    from dpcov.privacy.meaning import warn_of_large_epsilon

    budget = options.budget_from(epsilon, delta, rho)
    # Refused now, not after minutes of predictions.
    _check_plot(plot)
    options.check_free(plot, overwrite)
    options.check_free(html, overwrite)
    assumptions = [
        Assumption(
            n_rows=rows,
            n_features=features,
            budget=budget,
            trace=value,
            spectrum=check_spectrum(spectrum),
            neighbors=check_neighbors(neighbors),
            rows_per_person=rows_per_person,
        )
        for value in trace or TRACES
    ]
    warn_of_large_epsilon(budget.promise, stacklevel=2)
    found = [predict(assumed) for assumed in assumptions]
    notes = choose(assumptions[0].problem, budget).notes
    typer.echo("\n".join([*_table(assumptions, found), LEGEND.format(spectrum), *notes]))
    if plot is not None:
        drawn = draw_plan(assumptions, found, plot.suffix.removeprefix("."))
        write_file(plot, drawn, overwrite=overwrite)
        typer.echo(f"Drew {plot}.")
    if html is not None:
        _write_page(html, assumptions, overwrite)


def _write_page(html: Path, assumptions: "Sequence[Assumption]", overwrite: bool) -> None:
    from dpcov.cli.progress import steps_progress
    from dpcov.files import write_file
    from dpcov.pipeline.plan.page import render_plan
    from dpcov.pipeline.plan.sweep import sweep

    told = "Predicting the same for smaller and larger budgets; this may take a few minutes."
    typer.echo(told, err=True)
    with steps_progress("Predicting") as progress:
        made = sweep(assumptions, progress)
    write_file(html, render_plan(made), overwrite=overwrite)
    typer.echo(f"Wrote {html}: one page, open it in a browser.")


def _check_plot(plot: Path | None) -> None:
    # Refuse before the work what would fail after it.
    if plot is None:
        return
    from dpcov.pipeline.plan.figure import FORMATS, empty_figure

    endings = [f".{kind}" for kind in FORMATS]
    if plot.suffix not in endings:
        raise UsageError(f"Name the figure with one of the endings {', '.join(endings)}.")
    empty_figure()


def _table(
    assumptions: "Sequence[Assumption]", found: "Sequence[Sequence[Prediction]]"
) -> list[str]:
    # A row for every mechanism and a column for every trace.
    first = assumptions[0]
    cells = [{prediction.mechanism: _cell(prediction) for prediction in row} for row in found]
    names = list(dict.fromkeys(name for row in cells for name in row))
    width = max(len("mechanism"), *map(len, names))
    rows = [("trace", [f"{assumed.trace:g}" for assumed in assumptions])]
    rows += [(name, [row.get(name, "-") for row in cells]) for name in names]
    head = (
        f"Expected relative error (Frobenius norm): {first.n_rows:,} rows, "
        f"{first.n_features} features, {first.budget}, {first.neighbors} neighbors"
    )
    lines = [f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in row) for name, row in rows]
    return [head, "", *lines]


def _cell(prediction: "Prediction") -> str:
    return f"{'<' if prediction.kind == 'bound' else ''}{prediction.relative_error:.3g}"
