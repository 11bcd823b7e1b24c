"""Dong, Liang, Yi (2022), figure 1: known worst-case bounds, without constants and logarithms."""

import numpy as np

from benchmarks.papers.claims import EVERYWHERE, Check, Claim, Verdict, grows
from benchmarks.papers.figure import Bound, Effort, Figure, Panel, Point, table
from benchmarks.papers.results import FigureResult
from dpcov import Budget

N_ROWS = 10_000
NEW, GAUSSIAN, ITERATIVE, LOWER = "SeparateCov", "GaussCov", "Amin et al.", "lower bound"


def new_bound(d: float, n: float = N_ROWS) -> float:
    return min(1.0, d**0.25 / n**0.5)


def gaussian_bound(d: float, n: float = N_ROWS) -> float:
    return min(1.0, d / n)


def iterative_bound(d: float, n: float = N_ROWS) -> float:
    return min(1.0, d**0.75 / n**0.5)


def lower_bound(d: float, n: float = N_ROWS) -> float:
    """d/n up to d = sqrt(n), which remains a bound for larger d, and sqrt(d)/n from mean estimation."""
    return min(1.0, max(min(d, n**0.5) / n, d**0.5 / n))


def dong1(effort: Effort) -> Figure:
    """Four curves that can be drawn without any data."""
    grid = np.geomspace(1, N_ROWS**2, 49 if effort == "full" else 25)
    nothing, budget = table("none"), Budget(rho=1)
    points = tuple(Point(x=float(d), table=nothing, budget=budget) for d in grid)
    bounds = (
        Bound(label=GAUSSIAN, value=lambda point: gaussian_bound(point.x)),
        Bound(label=ITERATIVE, value=lambda point: iterative_bound(point.x)),
        Bound(label=NEW, value=lambda point: new_bound(point.x)),
        Bound(label=LOWER, value=lambda point: lower_bound(point.x)),
    )
    panel = Panel(
        key="bounds",
        title=f"n = {N_ROWS}",
        x_label="d",
        y_label="bound, constants omitted",
        points=points,
        bounds=bounds,
    )
    small, large = (1.0, N_ROWS**0.5), (N_ROWS ** (2 / 3), EVERYWHERE[1])
    return Figure(
        name="dong1",
        title="Known worst-case bounds on the Frobenius error under zCDP",
        source="Dong, Liang, Yi (2022), figure 1",
        panels=(panel,),
        repetitions=0,
        notes=("Theory only: errors above 1 are cut, because the zero matrix has error at most 1.",),
        claims=(
            Claim(
                text="SeparateCov improves on the Gaussian mechanism for d above n**(2/3)",
                source="abstract",
                check=_crossing_at(N_ROWS ** (2 / 3)),
            ),
            Claim(
                text="Its error grows like d**(1/4) there",
                source="1.1",
                check=grows("bounds", NEW, 0.25, 0.001, within=(large[0], N_ROWS**2 / 10)),
            ),
            Claim(
                text="The Gaussian mechanism is optimal for d below sqrt(n)",
                source="1.1",
                check=grows("bounds", LOWER, 1.0, 0.001, within=small),
            ),
            Claim(
                text="There is utility for d up to n**2, where even mean estimation loses it",
                source="1.1",
                check=_utility_until(N_ROWS**2),
            ),
        ),
    )


def _crossing_at(expected: float) -> Check:
    """The curves of the new and of the Gaussian bound cross within one grid step of the expected d."""

    def check(result: FigureResult) -> Verdict:
        bounds = result.panels["bounds"].bounds
        x, gap = bounds[NEW].x, bounds[NEW].mean - bounds[GAUSSIAN].mean
        after = int(np.flatnonzero(gap < 0)[0])
        holds = x[after - 1] <= expected <= x[after]
        return Verdict(
            status="confirmed" if holds else "failed",
            reason=f"the curves cross between {x[after - 1]:.3g} and {x[after]:.3g}; n**(2/3) is {expected:.3g}",
        )

    return check


def _utility_until(largest: float) -> Check:
    """Both the new upper and the lower bound reach 1 at the largest d and not before."""

    def check(result: FigureResult) -> Verdict:
        bounds = result.panels["bounds"].bounds
        reached = {name: float(bounds[name].x[bounds[name].mean >= 1 - 1e-9].min()) for name in (NEW, LOWER)}
        holds = all(np.isclose(x, largest) for x in reached.values())
        return Verdict(
            status="confirmed" if holds else "failed",
            reason=", ".join(f"{name} reaches 1 at d = {x:.3g}" for name, x in reached.items()),
        )

    return check
