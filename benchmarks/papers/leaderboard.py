"""Every registered mechanism on every table under every kind of budget, with its defaults.

A mechanism joins by being registered; where it cannot honor a budget it has no entry.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.figure import (
    Effort,
    Figure,
    FigureResult,
    Panel,
    Point,
    Table,
    contender,
    lines,
    table,
)
from dpcov import Budget
from dpcov.mechanisms.registry import names

BUDGETS = {
    "rho = 0.1": Budget(rho="0.1"),
    "epsilon = 1": Budget(epsilon=1),
    "epsilon = 1, delta = 1e-6": Budget(epsilon=1, delta="1e-6"),
}

SMALL = {
    "wine": table("bounded wine"),
    "digits": table("bounded digits"),
    "breast cancer": table("bounded breast cancer"),
    "unit rows, d = 50": table("zipf", n=20_000, d=50, N=1),
    "Zipf norms, d = 50": table("zipf", n=20_000, d=50, N=4),
    "airfoil": table("bounded airfoil"),
    "NHANES": table("bounded nhanes"),
    "credit default": table("bounded credit default"),
    "communities": table("bounded communities"),
    "adult": table("bounded adult"),
}
LARGE = {
    "Reuters, d = 128": table("news", corpus="reuters21578", d=128, scaling="largest norm"),
    "Newsgroups, d = 128": table("news", corpus="20newsgroups", d=128, scaling="largest norm"),
    "MNIST": table("mnist", n=60_000),
}

SLOW = {"eigenvectors": 128, "kapralov-talwar": 128, "nuclear": 128, "stratified-nuclear": 128}
"""Mechanisms that are left out above this many columns, unless the run is full."""


def leaderboard(effort: Effort) -> Figure:
    """One panel per budget; tables are the positions on the axis."""
    boards = {"full": SMALL | LARGE, "quick": SMALL | LARGE, "test": dict(list(SMALL.items())[:3])}[
        effort
    ]
    slow = {} if effort == "full" else SLOW
    contenders = [contender(name, name, largest_d=slow.get(name)) for name in (*names(), "auto")]
    panels = tuple(
        Panel(
            key=name,
            title=name,
            x_label="table",
            lines=lines(contenders, _points(boards, budget), metric="frobenius"),
        )
        for name, budget in BUDGETS.items()
    )
    return Figure(
        name="leaderboard",
        title="Leaderboard",
        source="every registered mechanism with its defaults",
        panels=panels,
        repetitions={"full": 20, "quick": 2, "test": 2}[effort],
    )


def _points(boards: dict[str, Table], budget: Budget) -> tuple[Point, ...]:
    return tuple(
        Point(x=index, table=rows, budget=budget) for index, rows in enumerate(boards.values())
    )


@dataclass(frozen=True, kw_only=True)
class Board:
    """Errors relative to the best mechanism, one row per mechanism, by increasing geometric mean.

    Parameters
    ----------
    tables : tuple of str
    mechanisms : tuple of str
    relative : (mechanisms, tables) float64
        NaN where there is no entry.
    score : (mechanisms,) float64
        Geometric mean over the tables that a mechanism has entries for.
    best : (tables,) float64
        Frobenius error of the best mechanism.
    """

    tables: tuple[str, ...]
    mechanisms: tuple[str, ...]
    relative: np.ndarray
    score: np.ndarray
    best: np.ndarray


def boards(result: FigureResult) -> dict[str, Board]:
    """A board per budget; a mechanism's score is the geometric mean over the tables it has entries
    for."""
    return {key: _board(held.curves) for key, held in result.panels.items() if held.curves}


def _board(curves) -> Board:
    known = list(SMALL | LARGE)
    positions = sorted({int(x) for curve in curves.values() for x in curve.x})
    errors = np.full((len(curves), len(positions)), np.nan)
    for row, curve in enumerate(curves.values()):
        errors[row, np.searchsorted(positions, curve.x)] = curve.mean
    best = np.nanmin(errors, axis=0)
    relative = errors / best
    score = np.exp(np.nanmean(np.log(relative), axis=1))
    order = np.argsort(score, kind="stable")
    return Board(
        tables=tuple(known[position] for position in positions),
        mechanisms=tuple(np.array(list(curves))[order]),
        relative=relative[order],
        score=score[order],
        best=best,
    )
