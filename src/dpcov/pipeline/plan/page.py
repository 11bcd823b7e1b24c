"""Write the page of a plan: predicted errors of every mechanism, with a slider for the budget.

Contract: shows numbers predicted beforehand, at the budgets they were predicted for.  Nothing is
interpolated, and nothing about a table is in it.
"""

from dataclasses import dataclass

from dpcov.report import charts
from dpcov.report.charts import number
from dpcov.report.html import Child, Html, Section, el, fill, join, json_block, page, table

SCRIPTS = ("theme.js", "plan.js")
WORST_SHOWN = 3.0
BEST_SHOWN = 1e-4


@dataclass(frozen=True, kw_only=True)
class PlanStop:
    """One budget: what ``auto`` chooses there, why, and relative errors by trace and mechanism.

    ``errors[t][m]`` belongs to trace t and mechanism m, and is None where a mechanism cannot be
    predicted; ``bounds`` says in the same shape which of them are upper bounds.
    """

    amount: float
    text: str
    promise: str
    choice: str
    reason: str
    errors: tuple[tuple[float | None, ...], ...]
    bounds: tuple[tuple[bool, ...], ...]

    @property
    def cells(self) -> list[list[str]]:
        """Errors as they are written in the table."""
        return [
            ["–" if e is None else "<" * b + number(e) for e, b in zip(*row, strict=True)]
            for row in zip(self.errors, self.bounds, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class PlanSweep:
    """Predictions over a grid of budgets (epsilon or rho); ``stops[start]`` was asked for."""

    n_rows: int
    n_features: int
    neighbors: str
    spectrum: str
    unit: str
    fixed: str
    traces: tuple[float, ...]
    mechanisms: tuple[str, ...]
    stops: tuple[PlanStop, ...]
    start: int


def render_plan(sweep: PlanSweep) -> bytes:
    """Write the page: an HTML document that needs nothing else."""
    error = "Expected error of every mechanism"
    falls = "How the error falls with the budget"
    reading = fill("plan.html", spectrum=sweep.spectrum)
    return page(
        "Privacy budget plan",
        (
            Section("error", error, "Expected error", _numbers(sweep)),
            Section("chart", falls, "Error and budget", _charts(sweep)),
            Section("reading", "How to read this", "How to read this", reading),
        ),
        SCRIPTS,
        subtitle=f"{sweep.n_rows:,} rows, {sweep.n_features:,} features, "
        f"{sweep.neighbors} neighbors{sweep.fixed}",
        top=_slider(sweep),
        data=json_block("plan-data", {"stops": _data(sweep)}),
        footer=el("p", "No data were read and no budget was spent to make this page."),
    )


def _slider(sweep: PlanSweep) -> Html:
    stop = sweep.stops[sweep.start]
    return fill(
        "slider.html",
        symbol={"epsilon": "ε (epsilon)", "rho": "ρ (rho)"}[sweep.unit],
        amount=stop.text,
        start=str(sweep.start),
        last=str(len(sweep.stops) - 1),
        least=sweep.stops[0].text,
        most=sweep.stops[-1].text,
        promise=stop.promise,
        choice=stop.choice,
        reason=stop.reason,
    )


def _numbers(sweep: PlanSweep) -> Html:
    cells = sweep.stops[sweep.start].cells
    traces = [number(trace) for trace in sweep.traces]
    head: list[Child] = ["Mechanism", f"trace {traces[0]}", *traces[1:]]
    rows = [
        (
            join(_swatch(m), name),
            *(el("span", row[m], data_cell=f"{t},{m}") for t, row in enumerate(cells)),
        )
        for m, name in enumerate(sweep.mechanisms)
    ]
    caption = (
        "Expected relative error (Frobenius norm): 1 is the error of publishing zeros, "
        "0.1 is a good release"
    )
    return table(head, rows, caption=caption)


def _swatch(place: int) -> Html:
    sample = el("line", x1=0, x2=24, y1=5, y2=5, class_=_style(place), stroke_width=2)
    return el("svg", sample, viewBox="0 0 24 10", class_="swatch", aria_hidden="true")


def _style(place: int) -> str:
    return f"curve c{place % 10} dash{place // 5 % 3}" + (" chosen" if place == 0 else "")


def _charts(sweep: PlanSweep) -> Html:
    # No trace is known to be right: the middle one is shown first.
    middle = len(sweep.traces) // 2
    options = (
        el("option", number(trace), value=place, selected=place == middle)
        for place, trace in enumerate(sweep.traces)
    )
    select = el("p", el("label", "Assumed trace ", el("select", options, id="trace")))
    figures = (
        el("figure", _chart(sweep, place), data_trace=place, hidden=place != middle)
        for place in range(len(sweep.traces))
    )
    names = (el("span", _swatch(place), name, " ") for place, name in enumerate(sweep.mechanisms))
    key = el("p", names, class_="key-line")
    return join(select if len(sweep.traces) > 1 else None, figures, key)


def _chart(sweep: PlanSweep, trace: int) -> Html:
    lines: list[list[tuple[float, float]]] = [[] for _ in sweep.mechanisms]
    for stop in sweep.stops:
        for line, error in zip(lines, stop.errors[trace], strict=True):
            if error is not None:
                line.append((stop.amount, error))
    sizes = [error for line in lines for _, error in line if error > 0]
    # An error of zero has no logarithm; beyond WORST_SHOWN a release is useless anyway.
    low, high = max(BEST_SHOWN, min(sizes) / 1.3), max(1.3, min(WORST_SHOWN, 1.1 * max(sizes)))
    x, y = _across(sweep), charts.vertical(low, high)
    curves = [
        charts.line(x, y, line, class_=_style(place))
        for place, line in enumerate(lines)
        if len(line) > 1
    ]
    now, bottom = x(sweep.stops[sweep.start].amount), charts.HEIGHT - charts.BOTTOM
    label = f"Expected relative error against {sweep.unit} at trace {number(sweep.traces[trace])}"
    return charts.chart(
        x,
        y,
        # The curve of auto lies on top of the mechanism it chose.
        reversed(curves),
        el("line", x1=now, x2=now, y1=charts.TOP, y2=bottom, class_="now"),
        label=f"{label}, as in the table",
        x_label=sweep.unit,
        y_label="expected relative error",
    )


def _across(sweep: PlanSweep) -> charts.Axis:
    return charts.horizontal(sweep.stops[0].amount, sweep.stops[-1].amount)


def _data(sweep: PlanSweep) -> list[dict[str, object]]:
    # What the page's script shows at every stop of the slider.
    x, told = _across(sweep), ("text", "promise", "choice", "reason")
    return [
        {name: getattr(stop, name) for name in told} | {"x": x(stop.amount), "cells": stop.cells}
        for stop in sweep.stops
    ]
