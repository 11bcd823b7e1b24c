"""Dong, Liang, Yi (2022), figure 1: worst-case bounds from their formulas, and errors from
draws."""

from benchmarks.papers.claims import all_of, below_bound, crossing_grows
from benchmarks.papers.figure import (
    Bound,
    Claim,
    Effort,
    Figure,
    Panel,
    Point,
    contender,
    lines,
    table,
)
from benchmarks.papers.figures.dong_shared import (
    RHO,
    SAME_AS_PAPER,
    SEPARATE,
    SOURCE,
    unit_points,
    zcdp_contenders,
)
from benchmarks.papers.figures.dong_text import Shells, gauss_noise, separate_noise
from dpcov import Budget

BETA = 1e-6
"""Failure probability of the bounds: so small that no draw should exceed one."""
METHODS = ("GaussCov", "SeparateCov")
WIDER = (1000, 2000, 4000, 8000)
"""Numbers of columns where bounds are computed beside those where draws are made."""


def gaussian_bound(point: Point) -> float:
    """Lemma 7: omega(d, beta) / (sqrt(rho) n)."""
    return gauss_noise(*_setting(point))


def separate_bound(point: Point) -> float:
    """Theorem 1 for rows of norm 1, whose trace is 1."""
    return separate_noise(*_setting(point))


def _setting(point: Point) -> tuple[Shells, float, float, float, float]:
    """Rows of norm 1, columns, no clip, and the budget."""
    n, d = float(point.table["n"] or 0), float(point.table["d"] or 0)
    return ((n, 1.0),), d, 1.0, float(point.budget.rho or 0), BETA


def dong1(effort: Effort) -> Figure:
    """The draws of figure 2 against the bounds; then few rows, where the zero matrix is as good."""
    sizes = {"full": (1000, 4000, 16000), "quick": (1000, 4000, 16000), "test": (1000, 16000)}[
        effort
    ]
    few = {"full": (32, 64, 128), "quick": (32, 64), "test": (32, 64)}[effort]
    return Figure(
        name="dong1",
        title="Worst-case bounds on the Frobenius error under zCDP, and measured errors",
        source=f"{SOURCE}, figure 1",
        panels=(*(_bounds(n, effort) for n in sizes), *(_few_rows(n) for n in few)),
        repetitions={"full": 50, "quick": 6, "test": 3}[effort],
        notes=(
            f"Rows of norm 1; rho = {RHO:g} (1 in the last panels); beta = {BETA:g} in the "
            f"bounds; {SAME_AS_PAPER}.",
            "The bound of Amin et al. and the lower bound are known up to constants only and are "
            "not drawn.",
        ),
        claims=(
            Claim(
                text="No draw exceeds its bound (Lemma 7 for GaussCov, Theorem 1 for SeparateCov)",
                source="3.1 and Theorem 1",
                check=all_of(
                    below_bound(f"n{n}", m, f"bound, {m}") for n in sizes for m in METHODS
                ),
            ),
            Claim(
                text="The two bounds cross at a number of columns that grows like n**(2/3)",
                source="abstract",
                check=crossing_grows(
                    {n: f"n{n}" for n in sizes}, "bound, GaussCov", "bound, SeparateCov", 2 / 3, 0.1
                ),
            ),
            Claim(
                text="SeparateCov is better than the zero matrix up to a number of columns that "
                "grows like n**2",
                source="1.1",
                check=crossing_grows({n: f"few{n}" for n in few}, "SeparateCov", "zero", 2.0, 0.3),
            ),
        ),
    )


def _bounds(n: int, effort: Effort) -> Panel:
    """Draws that figure 2 makes too, and bounds beyond them."""
    drawn = unit_points(n, effort, Budget(rho=RHO))
    shown = {point.x: point for point in (*drawn, *(_unit_rows(n, d, RHO) for d in WIDER))}
    contenders = [each for each in zcdp_contenders(effort) if each.label in METHODS]
    return Panel(
        key=f"n{n}",
        title=f"n = {n}",
        x_label="d",
        lines=lines(contenders, drawn),
        points=tuple(shown.values()),
        bounds=(
            Bound(label="bound, GaussCov", value=gaussian_bound),
            Bound(label="bound, SeparateCov", value=separate_bound),
        ),
    )


def _few_rows(n: int) -> Panel:
    points = tuple(
        _unit_rows(n, d, 1) for d in (20, 40, 80, 160, 320, 640, 1280, 2560) if d <= n**2 / 6
    )
    return Panel(
        key=f"few{n}",
        title=f"n = {n}, rho = 1",
        x_label="d",
        lines=lines((contender("zero", "zero"), SEPARATE), points),
    )


def _unit_rows(n: int, d: int, rho: float) -> Point:
    return Point(x=d, table=table("zipf", n=n, d=d, N=1), budget=Budget(rho=rho))
