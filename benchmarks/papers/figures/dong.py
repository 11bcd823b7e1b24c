"""Dong, Liang, Yi (2022): figures 2 and 3, synthetic rows under zCDP."""

from benchmarks.papers.claims import (
    agrees,
    all_of,
    beats,
    changes_by,
    crosses,
    crossing_grows,
    falls,
    grows,
    ratio_rises,
)
from benchmarks.papers.figure import (
    Bound,
    Claim,
    Contender,
    Effort,
    Figure,
    Panel,
    Point,
    lines,
    table,
)
from benchmarks.papers.figures.dong_shared import (
    ADAPTIVE,
    BINS,
    N_ROWS,
    RHO,
    SAME_AS_PAPER,
    SOURCE,
    D,
    adaptive_claims,
    auto_claim,
    unit_points,
    vary_norms_and_columns,
    zcdp_contenders,
)
from benchmarks.papers.published import PUBLISHED, published_error
from dpcov import Budget


def dong2(effort: Effort) -> Figure:
    """Unit rows, d varies."""
    sizes = {"full": (1000, 4000, 16000), "quick": (1000, 4000, 16000), "test": (1000,)}[effort]
    return Figure(
        name="dong2",
        title="Synthetic rows of norm 1: error against d",
        source=f"{SOURCE}, figure 2",
        repetitions={"full": 50, "quick": 6, "test": 3}[effort],
        panels=tuple(
            _unit_rows(n, effort, Budget(rho=RHO), zcdp_contenders(effort)) for n in sizes
        ),
        notes=(
            f"rho = {RHO}; {SAME_AS_PAPER}.",
            "Dashed: measured with the code that the authors published.",
        ),
        claims=(
            Claim(
                text="GaussCov is (slightly) better for small d, SeparateCov much better for "
                "large d",
                source="6.1",
                check=all_of(crosses(f"n{n}", "GaussCov, clipped", "SeparateCov") for n in sizes),
            ),
            Claim(
                text="The number of columns from which SeparateCov is better grows like n**(2/3)",
                source="1.1",
                check=crossing_grows(
                    {n: f"n{n}" for n in sizes}, "GaussCov, clipped", "SeparateCov", 2 / 3, 0.15
                ),
            ),
            *adaptive_claims(*(f"n{n}" for n in sizes)),
            Claim(
                text="The error of GaussCov grows like d",
                source="1.1",
                check=all_of(grows(f"n{n}", "GaussCov", 1.0, 0.05) for n in sizes),
            ),
            Claim(
                text="For d far above n**(2/3) the error of SeparateCov grows no faster than "
                "d**(1/4)",
                source="1.1, Theorem 1",
                check=falls("n1000", "SeparateCov", 0.25, 0.1, within=(100, 1000)),
                why="At rho = 0.1 the second term of Theorem 1 is sqrt(20 d) / n, which is not "
                "small beside the first at n = 1000",
            ),
            Claim(
                text="SeparateCov has smaller error than EMCov",
                source="6.1",
                check=all_of(beats(f"n{n}", "SeparateCov", "EMCov") for n in sizes),
            ),
            Claim(
                text="GaussCov, SeparateCov and AdaptiveCov have the errors of the published "
                "code, up to a third",
                source="published code",
                check=all_of(
                    agrees(f"n{n}", method, f"{method}, their run", 4 / 3)
                    for n in sizes
                    for method in PUBLISHED
                ),
            ),
            auto_claim(*(f"n{n}" for n in sizes)),
        ),
    )


def _unit_rows(n: int, effort: Effort, budget: Budget, contenders: tuple[Contender, ...]) -> Panel:
    points = unit_points(n, effort, budget)
    return Panel(
        key=f"n{n}",
        title=f"n = {n}",
        x_label="d",
        lines=lines(contenders, points),
        points=points,
        bounds=tuple(
            Bound(
                label=f"{method}, their run",
                value=lambda point, method=method: published_error(method, n, point.x),  # type: ignore[misc]
            )
            for method in PUBLISHED
        ),
    )


def dong3(effort: Effort) -> Figure:
    """One of N, d, n, rho varies."""
    n_rows = 20_000 if effort == "test" else N_ROWS
    axes = vary_norms_and_columns(effort, Budget(rho=RHO), zcdp_contenders(effort), n_rows)
    rhos = {
        "full": (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
        "quick": (1e-4, 1e-3, 1e-2, 0.1, 1.0),
        "test": (),
    }[effort]
    points = tuple(
        Point(x=rho, table=table("zipf", n=N_ROWS, d=D, N=BINS), budget=Budget(rho=rho))
        for rho in rhos
    )
    budgets = Panel(
        key="rho", title="(d) budget", x_label="rho", lines=lines(zcdp_contenders(effort), points)
    )
    sizes = {
        "full": (1e3, 4e3, 16e3, 5e4, 1e5, 2e5, 4e5, 8e5),
        "quick": (1e3, 4e3, 16e3, 5e4, 2e5),
        "test": (),
    }[effort]
    points = tuple(
        Point(x=n, table=table("zipf", n=int(n), d=D, N=BINS), budget=Budget(rho=RHO))
        for n in sizes
    )
    rows = Panel(
        key="n", title="(c) rows", x_label="n", lines=lines(zcdp_contenders(effort), points)
    )
    panels = (*axes, rows, budgets)
    return Figure(
        name="dong3",
        title="Synthetic rows with Zipf norms: one parameter varies",
        source=f"{SOURCE}, figure 3",
        repetitions={"full": 50, "quick": 6, "test": 3}[effort],
        panels=tuple(panel for panel in panels if panel.lines[0].points),
        notes=(f"d = {D}, n = {N_ROWS}, N = {BINS}, rho = {RHO} unless varied; {SAME_AS_PAPER}.",),
        claims=(
            Claim(
                text="GaussCov is not trace-sensitive: its error does not depend on N",
                source="6.1, figure 3(a)",
                check=changes_by("N", "GaussCov", at_least=0.9, at_most=1.1),
            ),
            Claim(
                text="SeparateCov, AdaptiveCov and the zero matrix are trace-sensitive",
                source="6.1, figure 3(a)",
                check=all_of(
                    changes_by("N", name, at_most=0.2)
                    for name in ("zero", "SeparateCov", *ADAPTIVE)
                ),
            ),
            Claim(
                text="For the smallest trace the zero matrix is best",
                source="6.1, figure 3(a)",
                check=beats(
                    "N",
                    "zero",
                    "GaussCov, clipped",
                    "SeparateCov",
                    *ADAPTIVE,
                    within=(32, 32),
                    factor=1.001,
                ),
            ),
            Claim(
                text="Higher d, smaller n and smaller rho favor SeparateCov over GaussCov",
                source="6.1, figure 3(b)-(d)",
                check=all_of(
                    ratio_rises("d", "GaussCov, clipped", "SeparateCov"),
                    ratio_rises("n", "SeparateCov", "GaussCov, clipped"),
                    ratio_rises("rho", "SeparateCov", "GaussCov, clipped"),
                ),
            ),
            *adaptive_claims("N", "d", "n", "rho"),
            Claim(
                text="The error of GaussCov falls like 1/n",
                source="1.1",
                check=grows("n", "GaussCov", -1.0, 0.05),
            ),
            Claim(
                text="The error of SeparateCov falls at least like 1/sqrt(n)",
                source="Theorem 1",
                check=falls("n", "SeparateCov", -0.5, 0.05),
            ),
            auto_claim("N", "d", "n", "rho"),
        ),
    )
