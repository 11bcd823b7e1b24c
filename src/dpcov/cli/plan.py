"""``dpcov plan``: the errors to expect, before any budget is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.mechanisms.auto import Choice
    from dpcov.pipeline.plan.predict import Assumption, Prediction

EXAMPLE = "Example: dpcov plan --rows 20000 --features 30 --epsilon 1 --delta 1e-6"
TRACES = (1.0, 0.3, 0.1, 0.03, 0.01)


def plan(
    rows: Annotated[int, typer.Option("--rows", help="Number of rows, at least roughly.")],
    features: Annotated[
        int, typer.Option("--features", help="Number of encoded columns, intercept included.")
    ],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.NeighborsOption = "replace-one",
    rows_per_person: Annotated[
        int, typer.Option("--rows-per-person", help="How many rows one person may own.")
    ] = 1,
    trace: Annotated[
        list[float] | None,
        typer.Option(
            "--trace",
            help="Mean squared row length over the squared norm bound, in (0, 1]; repeatable.",
        ),
    ] = None,
    spectrum: Annotated[
        str,
        typer.Option("--spectrum", help="Assumed eigenvalues: flat, power (1/k) or steep (1/k^2)."),
    ] = "power",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw the table into a .png or .svg.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with a slider for the budget.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Print the relative error to expect of every mechanism; reads no data and spends nothing."""
    from dpcov.mechanisms.auto import choose
    from dpcov.pipeline.plan.predict import Assumption, check_spectrum, predict
    from dpcov.privacy.guarantee import check_neighbors

    budget = options.budget_from(epsilon, delta, rho)
    _check_plot(plot, force)
    _check_free(html, force)
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
    found = [predict(assumed) for assumed in assumptions]
    typer.echo(_report(assumptions, found, choose(assumptions[0].problem, budget)))
    if plot is not None:
        _draw(plot, assumptions, found, force)
    if html is not None:
        _write_page(html, assumptions, force)


def _write_page(html: Path, assumptions: "Sequence[Assumption]", force: bool) -> None:
    from dpcov.cli.progress import steps_progress
    from dpcov.files import write_file
    from dpcov.pipeline.plan.page import render_plan
    from dpcov.pipeline.plan.sweep import sweep

    typer.echo(
        "Predicting the same for smaller and larger budgets; this may take a few minutes.", err=True
    )
    with steps_progress("Predicting") as progress:
        made = sweep(assumptions, progress)
    write_file(html, render_plan(made), overwrite=force)
    typer.echo(f"Wrote {html}: one page, open it in a browser.")


def _draw(
    plot: Path,
    assumptions: "Sequence[Assumption]",
    found: "Sequence[tuple[Prediction, ...]]",
    force: bool,
) -> None:
    from dpcov.files import write_file
    from dpcov.pipeline.plan.figure import draw_plan

    write_file(plot, draw_plan(assumptions, found, plot.suffix.removeprefix(".")), overwrite=force)
    typer.echo(f"Drew {plot}.")


def _check_plot(plot: Path | None, force: bool) -> None:
    """Refuse before the work what would fail after it."""
    from dpcov.pipeline.plan.figure import FORMATS, empty_figure

    if plot is None:
        return
    if plot.suffix.removeprefix(".") not in FORMATS:
        raise UsageError(
            f"Name the figure with one of the endings {', '.join('.' + kind for kind in FORMATS)}."
        )
    _check_free(plot, force)
    empty_figure()


def _check_free(path: Path | None, force: bool) -> None:
    if path is not None and path.exists() and not force:
        raise UsageError(f"{path} exists already. Choose another name, or add --force.")


def _report(
    assumptions: "Sequence[Assumption]", found: "Sequence[tuple[Prediction, ...]]", choice: "Choice"
) -> str:
    """The table in plain text, a row per mechanism, and what it assumes."""
    first = assumptions[0]
    names = list(dict.fromkeys(prediction.mechanism for row in found for prediction in row))
    width = max(len("mechanism"), *map(len, names))
    lines = [
        f"Expected relative error (Frobenius norm): {first.n_rows:,} rows, {first.n_features} features, "
        f"{first.budget}, {first.neighbors} neighbors",
        "",
        f"{'trace':<{width}}" + "".join(f"{assumed.trace:>12g}" for assumed in assumptions),
    ]
    for name in names:
        cells = ({p.mechanism: p for p in row}.get(name) for row in found)
        lines.append(f"{name:<{width}}" + "".join(f"{_cell(cell):>12}" for cell in cells))
    return "\n".join([*lines, "", *_legend(first, choice)])


def _cell(prediction: "Prediction | None") -> str:
    if prediction is None:
        return "-"
    return f"{'<' if prediction.kind == 'bound' else ''}{prediction.relative_error:.3g}"


def _legend(first: "Assumption", choice: "Choice") -> list[str]:
    return [
        "1 is the error of publishing zeros, 0.1 a good release.  trace: mean squared row length over the",
        f"squared norm bound, if all rows are equally long; assumed eigenvalues: {first.spectrum}.  These are",
        "simulations of made-up tables, no data were read; < marks bounds.",
        *choice.notes,
    ]
