"""d'Orsi, Novikov (2025): no figures in the paper, so its two theorems are measured against their
bounds."""

from math import inf, log, sqrt

from benchmarks.papers.claims import all_of, beats, below_bound, falls, grows, unmeasured
from benchmarks.papers.figure import (
    Bound,
    Claim,
    Effort,
    Figure,
    Line,
    Panel,
    Point,
    Table,
    contender,
    lines,
    table,
)
from dpcov import Budget

SOURCE = "d'Orsi, Novikov (2025)"
EPSILON, D, N_ROWS = 1.0, 40, 20_000
WIDTHS = (40, 80)
NORMS = {1.0: "p = 1", 2.0: "p = 2", inf: "p = inf"}
CONSTANT = 6.0
"""What Theorem 2's O(1) is taken to be here: twice the constant of Theorem 1, for half of
epsilon."""

SQUARE = contender("Algorithm 1", "nonsymmetric nuclear")
"""The paper's own Z; the mechanism of the library releases its symmetric part."""
SYMMETRIZED = contender("Algorithm 1, symmetrized", "nuclear", noise="square", post="none")
SYMMETRIC = contender("Algorithm 1 on symmetric matrices", "nuclear", noise="nuclear", post="none")
PROJECTED = contender("Algorithm 2", "nuclear-projection", noise="square", budget_split="paper")
TUNED = contender("Algorithm 2, tuned", "nuclear-projection")
SEPARATE = contender("SeparateCov", "separate", noise="entrywise", eigenvalues="clip")
AUTO = contender("auto", "auto")


def additive_bound(point: Point, p: float) -> float:
    """Theorem 1: 3 d**(1 + 1/p) / (epsilon n)."""
    d, n, epsilon = _numbers(point)
    return 3 * d ** (1 + 1 / p) / (epsilon * n)


def projection_bound(point: Point) -> float:
    """Theorem 2 with :data:`CONSTANT` for O(1)."""
    d, n, epsilon = _numbers(point)
    small_sample = sqrt(d * trace(point.table) / (epsilon * n)) + sqrt(d * log(d)) / (epsilon * n)
    return CONSTANT * min(d**1.5 / (epsilon * n), small_sample)


def trace(rows: Table) -> float:
    """Trace of the second moment of synthetic rows: norms 2**(k - N) with weights 1 / k**3."""
    bins = int(rows["N"])  # type: ignore[arg-type]
    weights = [k**-3.0 for k in range(1, bins + 1)]
    squares = [4.0 ** (k - bins) for k in range(1, bins + 1)]
    return sum(w * s for w, s in zip(weights, squares, strict=True)) / sum(weights)


def _numbers(point: Point) -> tuple[float, float, float]:
    assert point.budget.epsilon is not None
    return float(point.table["d"] or 0), float(point.table["n"] or 0), float(point.budget.epsilon)


def dorsi(effort: Effort) -> Figure:
    """Error against d, n and p; then Algorithm 2 for few rows and for a small trace."""
    dimensions = {
        "full": (5, 10, 20, 40, 80, 160),
        "quick": (5, 10, 20, 40, 80),
        "test": (10, 20, 40),
    }[effort]
    sizes = {"full": (1e3, 1e4, 1e5), "quick": (1e3, 1e4, 1e5), "test": (1e3, 1e4)}[effort]
    few = {
        "full": (100, 300, 1000, 3000, 10_000),
        "quick": (100, 300, 1000, 10_000),
        "test": (100, 1000),
    }[effort]
    by_d = tuple(_point(d, n=N_ROWS, d=d) for d in dimensions)
    by_n = tuple(_point(n, n=int(n), d=20) for n in sizes)
    panels = (
        _additive("d", "Theorem 1: columns", "d", by_d),
        _additive("n", "Theorem 1: rows", "n", by_n),
        *(_every_norm(d) for d in WIDTHS),
        _projection("few", "Theorem 2: rows", "n", tuple(_point(n, n=n, d=D) for n in few)),
        _projection(
            "wide", "Theorem 2: columns", "d", tuple(_point(d, n=500, d=d) for d in dimensions)
        ),
        _projection(
            "trace",
            "Theorem 2: small trace",
            "N",
            tuple(_point(N, n=500, d=D, N=N) for N in (1, 2, 4)),
        ),
    )
    return Figure(
        name="dorsi",
        title="Pure DP with nuclear-norm noise: measured error against the theorems",
        source=f"{SOURCE}, Theorems 1 and 2",
        panels=panels,
        repetitions={"full": 50, "quick": 10, "test": 10}[effort],
        notes=(
            f"epsilon = {EPSILON:g}; unit rows but for the last panel; d = 20 and n = {N_ROWS}, d "
            f"= {D} and n = 500 "
            "unless varied.",
            f"O(1) in Theorem 2 is drawn as {CONSTANT:g}. Algorithm 2 spends 7/10 of epsilon; "
            f"tuned, all of it.",
        ),
        claims=_claims(),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        Claim(
            text="Theorem 1: the error is at most 3 d**(1 + 1/p) / (epsilon n) in every Schatten "
            "norm",
            source="Theorem 1",
            check=all_of(
                *(
                    below_bound(axis, name, f"bound, {name}")
                    for axis in ("d", "n")
                    for name in NORMS.values()
                ),
                *(below_bound(f"p, d = {d}", "Algorithm 1", "bound") for d in WIDTHS),
            ),
            why=(
                "The proof takes the largest of d singular values that sum to one for (1 + o(1)) "
                "/ d; they spread, so "
                "the largest stays a constant times 1 / d. The rate holds, the constant 3 does not"
            ),
        ),
        Claim(
            text="The constant 3 is large enough for p up to 2",
            source="this project",
            check=all_of(
                below_bound(f"p, d = {d}", "Algorithm 1", "bound", within=(1, 2)) for d in WIDTHS
            ),
        ),
        Claim(
            text="Symmetrizing Z keeps the bound for p up to 4",
            source="this project",
            check=all_of(
                below_bound(f"p, d = {d}", "Algorithm 1, symmetrized", "bound", within=(1, 4))
                for d in WIDTHS
            ),
        ),
        Claim(
            text="The error grows like d**(1 + 1/p)",
            source="Theorem 1",
            check=all_of(
                grows("d", name, 1 + 1 / p, 0.15, within=(10, inf)) for p, name in NORMS.items()
            ),
        ),
        Claim(
            text="The error falls like 1/n",
            source="Theorem 1",
            check=all_of(grows("n", name, -1.0, 0.05) for name in NORMS.values()),
        ),
        Claim(
            text="Algorithm 2 stays below Theorem 2's bound with constant 6",
            source="Theorem 2",
            check=all_of(
                below_bound(key, "Algorithm 2", "bound") for key in ("few", "wide", "trace")
            ),
        ),
        Claim(
            text="With few rows the error of Algorithm 2 grows no faster than sqrt(d)",
            source="Theorem 2",
            check=falls("wide", "Algorithm 2", 0.5, 0.1, within=(20, inf)),
        ),
        Claim(
            text="Algorithm 2 improves on SeparateCov in all regimes",
            source="1.1",
            check=all_of(
                beats(key, "Algorithm 2", "SeparateCov") for key in ("few", "wide", "trace")
            ),
            why="Algorithm 2 leaves 3/10 of epsilon unspent, and the bounds compared in the "
            "paper have no constants",
        ),
        Claim(
            text="Algorithm 2, tuned, improves on SeparateCov (15 % for chance where both are as "
            "bad as zero)",
            source="this project",
            check=all_of(
                beats(key, "Algorithm 2, tuned", "SeparateCov", factor=1.15)
                for key in ("few", "wide", "trace")
            ),
        ),
        Claim(
            text="Noise on symmetric matrices has about half of Algorithm 1's Frobenius error "
            "(at most 0.55 of it)",
            source="this project",
            check=all_of(
                beats(
                    f"p, d = {d}",
                    "Algorithm 1 on symmetric matrices",
                    "Algorithm 1",
                    factor=0.55,
                    within=(2, 2),
                )
                for d in WIDTHS
            ),
        ),
        Claim(
            text="No purely private mechanism has a smaller error than d**(1 + 1/p) / (epsilon n) "
            "for p of 2 or more, up to a constant, once n is at least d**2 / epsilon",
            source="1.1",
            check=unmeasured("draws show single mechanisms, the bound is on all"),
        ),
        Claim(
            text="auto is not worse than Algorithm 2 (5 % for chance)",
            source="this project",
            check=all_of(
                beats(key, "auto", "Algorithm 2", factor=1.05) for key in ("few", "wide", "trace")
            ),
        ),
    )


def _every_norm(d: int) -> Panel:
    points = tuple(
        Point(
            x=p,
            table=_table(N_ROWS, d, 1),
            budget=Budget(epsilon=EPSILON),
            metric=f"schatten:{p:g}",
        )
        for p in (1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 32.0)
    )
    return Panel(
        key=f"p, d = {d}",
        title=f"Theorem 1: Schatten norm, d = {d}",
        x_label="p",
        y_label="Schatten p-norm of the error",
        lines=lines((SQUARE, SYMMETRIZED, SYMMETRIC), points),
        points=points,
        bounds=(Bound(label="bound", value=lambda point: additive_bound(point, point.x)),),
    )


def _additive(key: str, title: str, x_label: str, points: tuple[Point, ...]) -> Panel:
    drawn = tuple(
        Line(label=name, contender=SQUARE, points=points, metric=f"schatten:{p:g}")
        for p, name in NORMS.items()
    )
    ours = Line(label="auto, p = 2", contender=AUTO, points=points, metric="schatten:2", ours=True)
    bounds = tuple(
        Bound(label=f"bound, {name}", value=lambda point, p=p: additive_bound(point, p))  # type: ignore[misc]
        for p, name in NORMS.items()
    )
    return Panel(
        key=key,
        title=title,
        x_label=x_label,
        y_label="Schatten p-norm of the error",
        lines=(*drawn, ours),
        points=points,
        bounds=bounds,
    )


def _projection(key: str, title: str, x_label: str, points: tuple[Point, ...]) -> Panel:
    return Panel(
        key=key,
        title=title,
        x_label=x_label,
        lines=lines((SEPARATE, PROJECTED, TUNED, AUTO), points),
        points=points,
        bounds=(Bound(label="bound", value=projection_bound),),
        log_x=key != "trace",
    )


def _point(x: float, *, n: int, d: int, N: int = 1) -> Point:
    return Point(x=float(x), table=_table(n, d, N), budget=Budget(epsilon=EPSILON))


def _table(n: int, d: int, N: int) -> Table:
    return table("zipf", n=n, d=d, N=N)
