"""Write the page of ``dpcov plan --html``: what could be read from every column at many budgets.

Contract: never sees a sensitive row.  Every number is rehearsed at a budget of the grid, nothing is
interpolated.  Seeds are alike for all budgets, so that differences between them are not noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isnan

from dpcov.errors import BudgetError
from dpcov.markup import Html, el, join, name_of, table
from dpcov.pipeline.plan.rehearsal import Planned, Rehearsal, Tell
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget
from dpcov.privacy.guarantee import format_number
from dpcov.privacy.meaning import certainty_in_words
from dpcov.published.digits import plural
from dpcov.report import charts
from dpcov.report.html import Section, fill, json_block, page

# Budgets on the page, relative to the one that was asked for.
FACTORS = tuple(Fraction(tenths, 10) for tenths in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100))
SCRIPTS = ("theme.js", "tables.js", "plan.js")
# A correlation is no larger than 1, and more digits help nobody.
WORST_SHOWN, BEST_SHOWN = 1.0, 1e-3


@dataclass(frozen=True)
class Stop:
    """One budget, what could be read with it, what more with less, and what that rests on."""

    budget: Budget
    planned: Planned
    remarks: list[str]

    @property
    def amount(self) -> float:
        """Epsilon or rho."""
        return float(self.budget.epsilon or self.budget.rho or 0)

    @cached_property
    def words(self) -> dict[str, str]:
        """What is said of the budget."""
        return {
            "text": format_number(self.budget.epsilon or self.budget.rho or Fraction(0)),
            "promise": str(self.budget),
            "headline": self.planned.diagnosis.headline,
            "certainty": certainty_in_words(self.budget.promise),
        }


def sweep(rehearsal: Rehearsal, budget: Budget, progress: Tell | None = None) -> list[Stop]:
    """Rehearse a release at a grid of budgets around one, without those that no release can have.

    ``progress`` is told the number of rehearsals done, and that of all, to which those of what
    would help are added.  BudgetError if the budget asked for is none that a release can have.
    """
    stops, budgets = list[Stop](), list(_grid(budget))
    tell = progress or (lambda done, of: None)
    for done, each in enumerate(budgets, start=1):
        try:
            planned = rehearsal.at(each)
            stops.append(Stop(each, planned, rehearsal.assumptions(planned)))
        except BudgetError:
            # Smaller ones may need more noise than can be drawn.
            if each == budget:
                raise
        tell(done, len(budgets))
    asked = next(stop for stop in stops if stop.budget == budget)
    gains = rehearsal.gains(
        budget, asked.planned, lambda done, of: tell(len(budgets) + done, len(budgets) + of)
    )
    if gains:
        asked.remarks.insert(0, f"What would help at {budget}. {' '.join(gains)}")
    return stops


def _grid(budget: Budget) -> Iterator[Budget]:
    # Budgets around this one, those that are too large to mean anything left out.
    for factor in FACTORS:
        if budget.rho is not None:
            if budget.rho * factor <= LARGEST_RHO:
                yield Budget(rho=budget.rho * factor)
        elif budget.epsilon is not None and budget.epsilon * factor <= LARGEST_EPSILON:
            yield Budget(epsilon=budget.epsilon * factor, delta=budget.delta)


def render_plan(rehearsal: Rehearsal, budget: Budget, stops: Sequence[Stop]) -> bytes:
    """Write what :func:`sweep` found as an HTML document that needs nothing else."""
    asked = next(stop for stop in stops if stop.budget == budget)
    unit = "rho" if budget.rho else "epsilon"
    x = charts.horizontal(stops[0].amount, stops[-1].amount)
    shown = [{**stop.words, "x": x(stop.amount), "cells": stop.planned.cells} for stop in stops]
    delta = "" if budget.delta is None else f", delta {format_number(budget.delta)}"
    drawn = _chart(x, stops, asked, unit)
    reading = join(fill("plan.html"), (el("p", said) for said in asked.remarks))
    return page(
        rehearsal.schema.title or "Privacy budget plan",
        (
            Section("columns", "What could be read, column by column", "Columns", table_of(asked)),
            Section("chart", "How errors fall with the budget", "Budget", drawn),
            Section("reading", "How to read this", "How to read this", reading),
        ),
        SCRIPTS,
        subtitle=f"A plan for {plural(rehearsal.n_rows, 'row')}, {rehearsal.neighbors} neighbors"
        f"{delta}",
        top=slider_of(stops, asked),
        data=json_block("plan-data", {"stops": shown}),
        footer=el("p", "No sensitive row was read and no budget was spent to make this page."),
    )


def slider_of(stops: Sequence[Stop], asked: Stop) -> Html:
    """A slider over the budgets that were rehearsed."""
    return fill(
        "slider.html",
        **asked.words,
        symbol="ρ (rho)" if asked.budget.rho else "ε (epsilon)",
        start=str(stops.index(asked)),
        last=str(len(stops) - 1),
        least=stops[0].words["text"],
        most=stops[-1].words["text"],
    )


def table_of(asked: Stop) -> Html:
    """What could be read from every column, with cells that the slider changes."""
    head = ("Column", "Verdict", "Correlations ±", "Mean ±", "Smallest spread that shows")
    rows = [
        (
            name_of(column.in_unit),
            *(
                el("span", text, class_="light", data_cell=f"{k},{m}")
                for m, text in enumerate(cells)
            ),
        )
        for k, (column, cells) in enumerate(
            zip(asked.planned.diagnosis.columns, asked.planned.cells, strict=True)
        )
    ]
    caption = "In the unit of the column; of levels the rarest that shows, as a part of the rows"
    return el("div", table(head, rows, caption=caption, text=(1,)), class_="sortable")


def _chart(x: charts.Axis, stops: Sequence[Stop], asked: Stop, unit: str) -> Html:
    found = {
        kind: [
            (stop.amount, min(WORST_SHOWN, max(BEST_SHOWN, value)))
            for stop in stops
            if not isnan(value := getattr(stop.planned.diagnosis, kind))
        ]
        for kind in ("typical", "worst")
    }
    if len(asked.planned.diagnosis.columns) < 2:
        return el("p", "There is one column, so there are no correlations.")
    if not found["typical"]:
        return el("p", "With none of these budgets two columns can be used.")
    y = charts.vertical(min(value for _, value in found["typical"]) / 1.3, 1.1 * WORST_SHOWN)
    now, bottom = x(asked.amount), charts.HEIGHT - charts.BOTTOM
    return charts.chart(
        x,
        y,
        (
            charts.line(x, y, points, class_=f"curve c{place} dash{place}")
            for place, points in enumerate(found.values())
        ),
        # A line of one point is none.
        (
            el("circle", cx=x(amount), cy=y(width), r=2, class_=f"curve c{place}")
            for place, points in enumerate(found.values())
            for amount, width in points
        ),
        el("line", x1=now, x2=now, y1=charts.TOP, y2=bottom, class_="now"),
        label=f"Width ± of correlations against {unit}: typical, and dashed the worst",
        x_label=unit,
        y_label="correlations ± (dashed: worst)",
    )
