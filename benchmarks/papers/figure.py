"""What a figure is: panels of points, contenders at every point, bounds as curves, claims to check.

Contract: frozen values only. A declaration says what to measure; it does not run anything and reads
no data.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov import Budget

Value = str | int | float | bool | None
Effort = Literal["full", "quick", "test"]
"""``full``: the papers' grids and repetitions.  ``quick``: every figure in minutes.  ``test``: what
CI checks."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A data set by name and parameters.

    Parameters
    ----------
    kind : str
        A name from :data:`benchmarks.papers.tables.LOADERS`.
    parameters : tuple of pairs
        Arguments of the loader.
    redrawn : bool
        Whether every repetition has rows of its own (synthetic tables only).
    draw : int
        Which draw of the rows.
    """

    kind: str
    parameters: tuple[tuple[str, Value], ...] = ()
    redrawn: bool = False
    draw: int = 0

    def __getitem__(self, name: str) -> Value:
        return dict(self.parameters)[name]

    def __str__(self) -> str:
        named = " ".join([self.kind, *(f"{name}={value}" for name, value in self.parameters)])
        return f"{named} draw={self.draw}" if self.redrawn else named


def table(kind: str, *, redrawn: bool = False, **parameters: Value) -> Table:
    """Name a data set."""
    return Table(kind=kind, parameters=tuple(parameters.items()), redrawn=redrawn)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A mechanism as one curve of a panel.

    Parameters
    ----------
    label : str
        What the legend says.
    mechanism : str
        A name in the registry, ``auto``, or a name from
        :data:`benchmarks.papers.baselines.BASELINES`.
    options : tuple of pairs
        Options of the mechanism.
    post : str or None
        How its release is read; by default as the mechanism is meant to be read.
    delta : float or None
        Allow this delta beside the point's epsilon.
    largest_d : int or None
        Above this number of columns the mechanism takes too long here.
    """

    label: str
    mechanism: str
    options: tuple[tuple[str, Value], ...] = ()
    post: str | None = None
    delta: float | None = None
    largest_d: int | None = None

    def budget(self, budget: Budget) -> Budget:
        """The point's budget with this contender's delta."""
        return budget if self.delta is None else Budget(epsilon=budget.epsilon, delta=self.delta)


def contender(
    label: str,
    mechanism: str,
    *,
    post: str | None = None,
    delta: float | None = None,
    largest_d: int | None = None,
    **options: Value,
) -> Contender:
    """Name a curve."""
    return Contender(
        label=label,
        mechanism=mechanism,
        options=tuple(options.items()),
        post=post,
        delta=delta,
        largest_d=largest_d,
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One position on the horizontal axis: data, budget and perhaps a metric of its own."""

    x: float
    table: Table
    budget: Budget
    metric: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A curve from a theorem."""

    label: str
    value: Callable[[Point], float]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A measured curve.

    Parameters
    ----------
    label : str
        What the legend and the claims call it.
    contender : Contender
    points : tuple of Point
    metric : str
        Unless a point has its own.
    ours : bool
        Drawn bold: not a curve of the paper.
    """

    label: str
    contender: Contender
    points: tuple[Point, ...]
    metric: str = "frobenius"
    ours: bool = False


def lines(
    contenders: Iterable[Contender], points: tuple[Point, ...], *, metric: str = "frobenius"
) -> tuple[Line, ...]:
    """One line per contender over common points; ``auto`` is ours."""
    return tuple(
        Line(label=c.label, contender=c, points=points, metric=metric, ours=c.mechanism == "auto")
        for c in contenders
    )


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes; ``points`` is where bounds are drawn."""

    key: str
    title: str
    x_label: str
    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    bounds: tuple[Bound, ...] = ()
    y_label: str = "Frobenius error"
    log_x: bool = True


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a paper, with what the paper claims about it."""

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]
    claims: tuple["Claim", ...] = ()
    repetitions: int = 50
    notes: tuple[str, ...] = ()


Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Means over repetitions, by increasing x.

    Parameters
    ----------
    x, mean, error : (m,) float64
        ``error`` is the standard error of the mean (zero for a bound).
    values : tuple of (r,) float64
        All repetitions.
    """

    x: Array
    mean: Array
    error: Array
    values: tuple[Array, ...] = ()

    def at(self, x: float) -> float:
        return float(self.mean[np.flatnonzero(self.x == x)[0]])

    def where(self, keep: NDArray[np.bool_]) -> "Curve":
        kept = tuple(value for value, wanted in zip(self.values, keep, strict=False) if wanted)
        return Curve(x=self.x[keep], mean=self.mean[keep], error=self.error[keep], values=kept)


@dataclass(frozen=True, kw_only=True)
class PanelResult:
    """Curves of a panel by label: contenders, further metrics, bounds."""

    panel: Panel
    curves: Mapping[str, Curve]
    bounds: Mapping[str, Curve]


@dataclass(frozen=True, kw_only=True)
class FigureResult:
    """All panels by key, and the lines that say what is missing."""

    figure: Figure
    panels: Mapping[str, PanelResult]
    skipped: tuple[str, ...] = ()


Status = Literal["confirmed", "failed", "not checked"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of a check; ``reason`` quotes the numbers."""

    status: Status
    reason: str


Check = Callable[[FigureResult], Verdict]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement and how it is checked.

    Parameters
    ----------
    text : str
        What is claimed, in our words.
    source : str
        Where: the paper's section, or ``this project`` for what is claimed of our own mechanisms.
    why : str
        Why it does not hold here, where that is understood; shown when the check fails.
    """

    text: str
    check: Check
    source: str
    why: str = ""

    def verdict(self, result: FigureResult) -> Verdict:
        verdict = or_absent(self.check, result)
        if verdict.status == "failed" and self.why:
            return Verdict(status="failed", reason=f"{verdict.reason}. {self.why}")
        return verdict


class Absent(Exception):  # noqa: N818
    """A curve that the check needs was not measured."""


def or_absent(check: Check, result: FigureResult) -> Verdict:
    try:
        return check(result)
    except Absent as absent:
        return Verdict(status="not checked", reason=str(absent))
