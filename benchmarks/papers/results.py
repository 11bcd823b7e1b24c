"""Measured curves with error bars, gathered from a store.

Contract: what a claim or a plot sees is a mean over repetitions with its standard error; curves
without any value are absent.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.papers.figure import Array, Curve, Figure, FigureResult, Panel, PanelResult
from benchmarks.papers.store import Store
from benchmarks.papers.trials import Wanted, exact


def gather(
    figure: Figure, values: Iterable[Wanted], store: Store, skipped: Iterable[str] = ()
) -> FigureResult:
    """Read a figure's curves from the store."""
    found: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for value in values:
        number = store.find(value.trial, value.metric)
        if number is not None:
            found[value.panel, value.curve][value.x].append(number)
    panels = {}
    for panel in figure.panels:
        curves = {label: _curve(by_x) for (key, label), by_x in found.items() if key == panel.key}
        panels[panel.key] = PanelResult(panel=panel, curves=curves, bounds=_bounds(panel))
    return FigureResult(figure=figure, panels=panels, skipped=tuple(skipped))


def _curve(by_x: dict[float, list[float]]) -> Curve:
    xs = sorted(by_x)
    values = tuple(np.array(by_x[x]) for x in xs)
    return Curve(
        x=np.array(xs, dtype=float),
        mean=np.array([value.mean() for value in values]),
        error=np.array([standard_error(value) for value in values]),
        values=values,
    )


def rows(values: Iterable[Wanted], store: Store) -> Iterator[dict[str, object]]:
    """The long table of all results, one row per repetition."""
    for value in values:
        number, trial = store.find(value.trial, value.metric), value.trial
        if number is not None:
            yield {
                "figure": value.figure,
                "panel": value.panel,
                "curve": value.curve,
                "x": value.x,
                "repetition": trial.repetition,
                "metric": value.metric,
                "value": number,
                "seconds": store.seconds(trial),
                "mechanism": trial.contender.mechanism,
                "options": str(dict(trial.contender.options)),
                "data": str(trial.table),
                "budget": exact(trial.budget),
                "seed": trial.seed,
            }


def _bounds(panel: Panel) -> dict[str, Curve]:
    points = sorted(panel.points, key=lambda point: point.x)
    x = np.array([point.x for point in points], dtype=float)
    return {
        bound.label: Curve(
            x=x, mean=np.array([bound.value(p) for p in points]), error=np.zeros(len(x))
        )
        for bound in panel.bounds
    }


def standard_error(values: Array) -> float:
    """Standard error of the mean; zero for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
