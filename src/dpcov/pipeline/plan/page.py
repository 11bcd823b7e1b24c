"""The page of a plan: predicted errors of every mechanism, with a slider for the budget.

Contract: shows numbers that were predicted beforehand, at the budgets they were predicted for; nothing is
interpolated, and nothing about a table is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpcov.report import charts
from dpcov.report.charts import number
from dpcov.report.html import Child, Html, el, join, json_block, table
from dpcov.report.page import Section, page

SCRIPTS = ("theme.js", "plan.js")
WORST_SHOWN = 3.0
BEST_SHOWN = 1e-4
AUTO = "auto"
ZERO = "zero"


@dataclass(frozen=True, kw_only=True)
class PlanStop:
    """One budget: what ``auto`` chooses there, why, and relative errors by trace and mechanism.

    ``errors[t][m]`` belongs to trace t and mechanism m, and is None where a mechanism cannot be predicted;
    ``bounds`` says in the same shape which of them are upper bounds.
    """

    amount: float
    text: str
    promise: str
    choice: str
    reason: str
    errors: tuple[tuple[float | None, ...], ...]
    bounds: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PlanSweep:
    """Predictions over a grid of budgets in units of epsilon or rho; ``start`` is the place of the one asked for."""

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
    notes: tuple[str, ...] = field(default=())


def render_plan(sweep: PlanSweep) -> bytes:
    """Write the page of a plan.

    Parameters
    ----------
    sweep : PlanSweep

    Returns
    -------
    bytes
        An HTML document that needs nothing else.
    """
    sections = (
        Section(
            key="error",
            title="Expected error of every mechanism",
            short="Expected error",
            content=_numbers(sweep),
        ),
        Section(
            key="chart",
            title="How the error falls with the budget",
            short="Error and budget",
            content=_charts(sweep),
        ),
        Section(
            key="reading",
            title="How to read this",
            short="How to read this",
            content=_reading(sweep),
        ),
    )
    return page(
        title="Privacy budget plan",
        subtitle=f"{sweep.n_rows:,} rows, {sweep.n_features:,} features, {sweep.neighbors} neighbors{sweep.fixed}",
        top=_slider(sweep),
        sections=sections,
        data=json_block("plan-data", _data(sweep)),
        scripts=SCRIPTS,
        footer=el("p", "No data were read and no budget was spent to make this page."),
    )


def _slider(sweep: PlanSweep) -> Html:
    stop = sweep.stops[sweep.start]
    symbol = {"epsilon": "ε (epsilon)", "rho": "ρ (rho)"}[sweep.unit]
    label = el(
        "label", f"Privacy budget {symbol}", el("output", stop.text, id="amount"), for_="budget"
    )
    slider = el(
        "input",
        type="range",
        id="budget",
        min=0,
        max=len(sweep.stops) - 1,
        step=1,
        value=sweep.start,
        aria_valuetext=stop.text,
    )
    ends = el(
        "div", el("span", sweep.stops[0].text), el("span", sweep.stops[-1].text), class_="ends"
    )
    said = el("p", _auto(sweep, stop), id="auto", aria_live="polite")
    return el("div", label, slider, ends, said, class_="slider")


def _auto(sweep: PlanSweep, stop: PlanStop) -> Html:
    return join(
        "With ",
        el("code", stop.promise),
        " auto chooses ",
        el("strong", stop.choice),
        f": {stop.reason}.",
    )


def _numbers(sweep: PlanSweep) -> Html:
    stop = sweep.stops[sweep.start]
    traces = [number(trace) for trace in sweep.traces]
    head: list[Child] = ["Mechanism", f"trace {traces[0]}", *traces[1:]]
    rows = [
        (
            join(_swatch(place), name),
            *(
                el("span", cell_text(stop, t, place), data_cell=f"{t},{place}")
                for t in range(len(sweep.traces))
            ),
        )
        for place, name in enumerate(sweep.mechanisms)
    ]
    caption = "Expected relative error (Frobenius norm): 1 is the error of publishing zeros, 0.1 is a good release"
    return table(head, rows, caption=caption)


def cell_text(stop: PlanStop, trace: int, mechanism: int) -> str:
    """One relative error as it is written in the table."""
    error = stop.errors[trace][mechanism]
    if error is None:
        return "–"
    return ("<" if stop.bounds[trace][mechanism] else "") + number(error)


def _swatch(place: int) -> Html:
    sample = el("line", x1=0, x2=24, y1=5, y2=5, class_=_style(place), stroke_width=2)
    return el("svg", sample, viewBox="0 0 24 10", class_="swatch", aria_hidden="true")


def _style(place: int) -> str:
    return f"curve c{place % 10} dash{place // 5 % 3}" + (" chosen" if place == 0 else "")


def _charts(sweep: PlanSweep) -> Html:
    options = (
        el("option", number(trace), value=place, selected=place == _middle(sweep))
        for place, trace in enumerate(sweep.traces)
    )
    choice = el("p", el("label", "Assumed trace ", el("select", options, id="trace")))
    made = (
        el("figure", _chart(sweep, place), data_trace=place, hidden=place != _middle(sweep))
        for place in range(len(sweep.traces))
    )
    return join(choice if len(sweep.traces) > 1 else None, made, _key(sweep))


def _middle(sweep: PlanSweep) -> int:
    return len(sweep.traces) // 2


def _chart(sweep: PlanSweep, trace: int) -> Html:
    amounts = [stop.amount for stop in sweep.stops]
    lines = [
        [
            (stop.amount, error)
            for stop in sweep.stops
            if (error := stop.errors[trace][place]) is not None
        ]
        for place in range(len(sweep.mechanisms))
    ]
    sizes = [error for drawn in lines for _, error in drawn if error > 0]
    x = axis_of(amounts)
    y = charts.vertical(
        max(BEST_SHOWN, min(sizes) / 1.3), max(1.3, min(WORST_SHOWN, 1.1 * max(sizes)))
    )
    curves = [
        charts.line(x, y, drawn, class_=_style(place))
        for place, drawn in enumerate(lines)
        if len(drawn) > 1
    ]
    now = x(amounts[sweep.start])
    marker = el(
        "line", x1=now, x2=now, y1=charts.TOP, y2=charts.HEIGHT - charts.BOTTOM, class_="now"
    )
    label = f"Expected relative error against {sweep.unit} at trace {number(sweep.traces[trace])}, as in the table"
    # The choice of auto lies on top of the mechanism it chose.
    return charts.chart(
        x,
        y,
        reversed(curves),
        marker,
        label=label,
        x_label=sweep.unit,
        y_label="expected relative error",
    )


def axis_of(amounts: Sequence[float]) -> charts.Axis:
    """Horizontal axis of the charts."""
    return charts.horizontal(amounts[0], amounts[-1])


def _key(sweep: PlanSweep) -> Html:
    items = (el("span", _swatch(place), name, " ") for place, name in enumerate(sweep.mechanisms))
    return el("p", items, class_="key-line")


def _reading(sweep: PlanSweep) -> Html:
    texts = (
        "The numbers are mean errors of simulated releases of made-up tables, all of whose rows are equally "
        "long. They say which "
        "mechanism suits a table of this shape, and roughly how large the error will be; a real table will "
        "differ.",
        "Trace: mean squared length of a row over the squared norm bound, so 1 if the norm bound is tight "
        "and 0.01 if rows are "
        "typically a tenth as long as they are allowed to be. It is about the table, so do not compute it "
        "from the rows; assume "
        "several.",
        f"Assumed eigenvalues: {sweep.spectrum}. A “<” marks an upper bound. “–” means that a mechanism "
        "needs the rows, "
        "cannot keep this budget, or is too slow to simulate at this width.",
        *sweep.notes,
    )
    return join(*(el("p", text) for text in texts))


def _data(sweep: PlanSweep) -> dict[str, object]:
    x = axis_of([stop.amount for stop in sweep.stops])
    return {
        "stops": [
            {
                "text": stop.text,
                "promise": stop.promise,
                "choice": stop.choice,
                "reason": stop.reason,
                "x": x(stop.amount),
                "cells": [
                    [cell_text(stop, t, place) for place in range(len(sweep.mechanisms))]
                    for t in range(len(sweep.traces))
                ],
            }
            for stop in sweep.stops
        ]
    }
