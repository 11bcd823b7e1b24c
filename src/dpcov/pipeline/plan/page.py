"""Write the page of ``dpcov plan --html``: predicted errors of every mechanism over many budgets.

Contract: never sees a row.  Every number is predicted at a budget of the grid, nothing is
interpolated.  Seeds are alike for all budgets, so that differences between them are not noise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcov.mechanisms.auto import Choice, choose
from dpcov.pipeline.plan.predict import Assumption, Prediction, predict
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget
from dpcov.privacy.guarantee import format_number
from dpcov.report import charts
from dpcov.report.charts import number
from dpcov.report.html import Child, Html, Section, el, fill, join, json_block, page, table

# Budgets on the page, relative to the one that was asked for.
FACTORS = tuple(Fraction(tenths, 10) for tenths in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100))
SCRIPTS = ("theme.js", "plan.js")
WORST_SHOWN = 3.0
BEST_SHOWN = 1e-4
_GEOMETRIES = {"schema": "bounds as typed", "private": "private geometry"}


@dataclass(frozen=True)
class Stop:
    """One budget: what ``auto`` chooses there, and predictions by mechanism for every trace."""

    budget: Budget
    choice: Choice
    found: Sequence[dict[str, Prediction]]

    @property
    def amount(self) -> float:
        """Epsilon or rho."""
        return float(self.budget.epsilon or self.budget.rho or 0)

    @property
    def words(self) -> dict[str, str]:
        """What is said of the budget."""
        return {
            "text": format_number(self.budget.epsilon or self.budget.rho or Fraction(0)),
            "promise": str(self.budget),
            "choice": self.choice.mechanism,
            "reason": self.choice.reason or "",
        }


def sweep(
    assumptions: Sequence[Assumption], progress: Callable[[int, int], None] | None = None
) -> list[Stop]:
    """Predict every mechanism at a grid of budgets around the one of the assumptions.

    The assumptions differ in the trace only.  ``progress`` is told the number of budgets done, and
    that of all.
    """
    first, stops = assumptions[0], list[Stop]()
    budgets = list(_grid(first.budget))
    for budget in budgets:
        made = (predict(replace(assumed, budget=budget)) for assumed in assumptions)
        found = [{prediction.mechanism: prediction for prediction in row} for row in made]
        stops.append(Stop(budget, choose(first.problem, budget), found))
        if progress is not None:
            progress(len(stops), len(budgets))
    return stops


def _grid(budget: Budget) -> Iterator[Budget]:
    # Budgets around this one, those that are too large to mean anything left out.
    for factor in FACTORS:
        if budget.rho is not None:
            if budget.rho * factor <= LARGEST_RHO:
                yield Budget(rho=budget.rho * factor)
        elif budget.epsilon is not None and budget.epsilon * factor <= LARGEST_EPSILON:
            yield Budget(epsilon=budget.epsilon * factor, delta=budget.delta)


def render_plan(assumptions: Sequence[Assumption], stops: Sequence[Stop]) -> bytes:
    """Write what :func:`sweep` found as an HTML document that needs nothing else."""
    first = assumptions[0]
    asked = next(stop for stop in stops if stop.budget == first.budget)
    # That of the budget asked for comes first: where no survey is made less is predicted.
    rows = (row for stop in (asked, *stops) for row in stop.found)
    mechanisms = list(dict.fromkeys(name for row in rows for name in row))
    traces = [number(assumed.trace) for assumed in assumptions]
    unit, symbol = ("rho", "ρ (rho)") if first.budget.rho else ("epsilon", "ε (epsilon)")
    x = charts.horizontal(stops[0].amount, stops[-1].amount)

    def cells(stop: Stop) -> list[list[str]]:
        return [[_cell(row.get(name)) for name in mechanisms] for row in stop.found]

    def chart(place: int) -> Html:
        lines = [
            [
                (stop.amount, stop.found[place][name].relative_error)
                for stop in stops
                if name in stop.found[place]
            ]
            for name in mechanisms
        ]
        label = f"Expected relative error against {unit} at trace {traces[place]}, as in the table"
        return _chart(x, lines, x(asked.amount), label, unit)

    slider = fill(
        "slider.html",
        **asked.words,
        symbol=symbol,
        start=str(stops.index(asked)),
        last=str(len(stops) - 1),
        least=stops[0].words["text"],
        most=stops[-1].words["text"],
    )
    shown = [{**stop.words, "x": x(stop.amount), "cells": cells(stop)} for stop in stops]
    delta = "" if first.budget.delta is None else f", delta {format_number(first.budget.delta)}"
    error = "Expected error of every mechanism"
    falls = "How the error falls with the budget"
    return page(
        "Privacy budget plan",
        (
            Section("error", error, "Expected error", _numbers(traces, mechanisms, cells(asked))),
            Section("chart", falls, "Error and budget", _charts(traces, mechanisms, chart)),
            Section("reading", "How to read this", "How to read this", fill("plan.html")),
        ),
        SCRIPTS,
        subtitle=f"{first.n_rows:,} rows, {first.n_features:,} features, "
        f"{first.neighbors} neighbors, {_GEOMETRIES[first.geometry]}{delta}",
        top=slider,
        data=json_block("plan-data", {"stops": shown}),
        footer=el("p", "No data were read and no budget was spent to make this page."),
    )


def _cell(found: Prediction | None) -> str:
    return "–" if found is None else "<" * (found.kind == "bound") + number(found.relative_error)


def _numbers(traces: list[str], mechanisms: list[str], cells: list[list[str]]) -> Html:
    head: list[Child] = ["Mechanism", f"trace {traces[0]}", *traces[1:]]
    rows = [
        (
            join(_swatch(m), name),
            *(el("span", row[m], data_cell=f"{t},{m}") for t, row in enumerate(cells)),
        )
        for m, name in enumerate(mechanisms)
    ]
    scale = "1 is the error of publishing zeros, 0.1 is a good release"
    return table(head, rows, caption=f"Expected relative error (Frobenius norm): {scale}")


def _swatch(place: int) -> Html:
    sample = el("line", x1=0, x2=24, y1=5, y2=5, class_=_style(place), stroke_width=2)
    return el("svg", sample, viewBox="0 0 24 10", class_="swatch", aria_hidden="true")


def _style(place: int) -> str:
    return f"curve c{place % 10} dash{place // 5 % 3}" + (" chosen" if place == 0 else "")


def _charts(traces: list[str], mechanisms: list[str], chart: Callable[[int], Html]) -> Html:
    # No trace is known to be right: the middle one is shown first.
    middle = len(traces) // 2
    options = (
        el("option", trace, value=place, selected=place == middle)
        for place, trace in enumerate(traces)
    )
    select = el("p", el("label", "Assumed trace ", el("select", options, id="trace")))
    figures = (
        el("figure", chart(place), data_trace=place, hidden=place != middle)
        for place in range(len(traces))
    )
    names = (el("span", _swatch(place), name, " ") for place, name in enumerate(mechanisms))
    return join(select if len(traces) > 1 else None, figures, el("p", names, class_="key-line"))


def _chart(
    x: charts.Axis, lines: list[list[tuple[float, float]]], now: float, label: str, unit: str
) -> Html:
    sizes = [error for line in lines for _, error in line if error > 0]
    # An error of zero has no logarithm; beyond WORST_SHOWN a release is useless anyway.
    low, high = max(BEST_SHOWN, min(sizes) / 1.3), max(1.3, min(WORST_SHOWN, 1.1 * max(sizes)))
    y, bottom = charts.vertical(low, high), charts.HEIGHT - charts.BOTTOM
    curves = [
        charts.line(x, y, line, class_=_style(place))
        for place, line in enumerate(lines)
        if len(line) > 1
    ]
    return charts.chart(
        x,
        y,
        # The curve of auto lies on top of the mechanism it chose.
        reversed(curves),
        el("line", x1=now, x2=now, y1=charts.TOP, y2=bottom, class_="now"),
        label=label,
        x_label=unit,
        y_label="expected relative error",
    )
