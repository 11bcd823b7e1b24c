"""Dong, Liang, Yi (2022): figures 4 and 6, MNIST under zCDP."""

from benchmarks.papers.claims import all_of, beats, beats_often
from benchmarks.papers.figure import Claim, Effort, Figure, Panel, Point, Table, lines, table
from benchmarks.papers.figures.dong_shared import ADAPTIVE, RHO, SOURCE, auto_claim, zcdp_contenders
from dpcov import Budget


def dong4(effort: Effort) -> Figure:
    """MNIST, all digits."""
    sizes = {"full": (1000, 3000, 10000, 30000, 60000), "quick": (1000, 8000, 60000), "test": ()}[
        effort
    ]
    swept = {"full": (6000, 20000, 60000), "quick": (60000,), "test": ()}[effort]
    contenders = zcdp_contenders(effort)
    by_rows = tuple(Point(x=n, table=table("mnist", n=n), budget=Budget(rho=RHO)) for n in sizes)
    budgets = tuple(_budgets(table("mnist", n=n), effort) for n in swept)
    return Figure(
        name="dong4",
        title="MNIST, all digits",
        source=f"{SOURCE}, figure 4",
        repetitions={"full": 50, "quick": 3, "test": 0}[effort],
        panels=(
            Panel(key="n", title="rows", x_label="n", lines=lines(contenders, by_rows)),
            *(
                Panel(
                    key=f"rho, n{n}",
                    title=f"budget, n = {n}",
                    x_label="rho",
                    lines=lines(contenders, points),
                )
                for n, points in zip(swept, budgets, strict=True)
            ),
        ),
        notes=(
            f"60000 images of 784 pixels divided by 255 * 28; rho = {RHO} unless varied. EMCov "
            f"only in the full run.",
        ),
        claims=real_claims("n", *(f"rho, n{n}" for n in swept)),
    )


def _budgets(rows: Table, effort: Effort) -> tuple[Point, ...]:
    rhos = {"full": (1e-3, 1e-2, 0.1, 1.0, 10.0), "quick": (0.01, 0.1, 1.0), "test": ()}[effort]
    return tuple(Point(x=rho, table=rows, budget=Budget(rho=rho)) for rho in rhos)


def dong6(effort: Effort) -> Figure:
    """MNIST, digit by digit."""
    digits = {"full": tuple(range(10)), "quick": (0, 1, 8), "test": ()}[effort]
    points = {
        rho: tuple(
            Point(x=digit, table=table("mnist", digit=digit), budget=Budget(rho=rho))
            for digit in digits
        )
        for rho in (0.1, 1.0)
    }
    swept = {"full": (0, 1, 2), "quick": (), "test": ()}[effort]
    contenders = zcdp_contenders(effort)
    return Figure(
        name="dong6",
        title="MNIST, digit by digit",
        source=f"{SOURCE}, figure 6",
        repetitions={"full": 50, "quick": 3, "test": 0}[effort],
        panels=(
            *(
                Panel(
                    key=f"rho{rho:g}",
                    title=f"rho = {rho:g}",
                    x_label="digit",
                    lines=lines(contenders, at),
                    log_x=False,
                )
                for rho, at in points.items()
            ),
            *(
                Panel(
                    key=f"digit{digit}",
                    title=f"digit {digit}",
                    x_label="rho",
                    lines=lines(contenders, _budgets(table("mnist", digit=digit), effort)),
                )
                for digit in swept
            ),
        ),
        notes=("5421 to 6742 images of 784 pixels per digit, divided by 255 * 28.",),
        claims=real_claims("rho0.1", "rho1", *(f"digit{digit}" for digit in swept)),
    )


def real_claims(*panels: str) -> tuple[Claim, ...]:
    return (
        Claim(
            text="GaussCov never outperforms SeparateCov, but for a very small advantage (10 %)",
            source="6.2",
            check=all_of(
                beats(panel, "SeparateCov", "GaussCov, clipped", factor=1.1) for panel in panels
            ),
            why="The paper names the exception: rows of norm 1, few columns or a large budget",
        ),
        *(
            Claim(
                text=f"{name}: it outperforms GaussCov and SeparateCov in many cases (at a third "
                f"of the points)",
                source="6.2",
                check=beats_often(panels, name, "GaussCov, clipped", "SeparateCov", share=1 / 3),
            )
            for name in ADAPTIVE
        ),
        auto_claim(*panels),
    )
