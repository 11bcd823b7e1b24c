"""Dong, Liang, Yi (2022), figure 5, on two news corpora that are not the paper's."""

from collections.abc import Iterator

from benchmarks.papers.figure import Effort, Figure, Panel, Point, Table, lines, table
from benchmarks.papers.figures.dong_digits import real_claims
from benchmarks.papers.figures.dong_shared import RHO, SOURCE, zcdp_contenders
from dpcov import Budget

CORPORA = {"reuters21578": "Reuters", "20newsgroups": "Newsgroups"}
SCALINGS = ("own norm", "largest norm")
D = 128
SWEPT = {"full": (32, D, 512), "quick": (D,), "test": (D,)}
"""Numbers of columns at which rows and budget vary."""


def dong5(effort: Effort) -> Figure:
    """n, d and rho vary, for two corpora in two scalings."""
    panels = tuple(
        panel
        for corpus in CORPORA
        for scaling in SCALINGS
        for panel in _panels(corpus, scaling, effort)
    )
    return Figure(
        name="dong5",
        title="Hashed word counts of news",
        source=f"{SOURCE}, figure 5",
        panels=panels,
        repetitions={"full": 50, "quick": 4, "test": 0}[effort],
        notes=(
            "Not the paper's corpus (News Commentary v16, which could not be obtained): "
            "Reuters-21578 and 20 "
            "Newsgroups, same preparation and similar size. Errors cannot be compared with the "
            "paper's, orderings can.",
            f"d = {D}, all rows, rho = {RHO} unless varied; rows divided by their own norm, or "
            f"by the largest norm.",
        ),
        claims=real_claims(*(panel.key for panel in panels)),
    )


def _panels(corpus: str, scaling: str, effort: Effort) -> Iterator[Panel]:
    sizes = {"full": (1000, 2000, 5000, 10_000, 18_000), "quick": (1000, 5000, 18_000), "test": ()}[
        effort
    ]
    dimensions = {"full": (32, 64, 128, 256, 512), "quick": (32, 128, 512), "test": ()}[effort]
    rhos = {"full": (1e-3, 1e-2, 0.1, 1.0, 10.0), "quick": (0.01, 0.1, 1.0), "test": ()}[effort]

    def rows(d: int, n: int | None = None) -> Table:
        return table("news", corpus=corpus, d=d, scaling=scaling, n=n)

    def panel(axis: str, x_label: str, points: tuple[Point, ...]) -> Panel:
        return Panel(
            key=f"{CORPORA[corpus]}, {scaling}, {axis}",
            title=f"{CORPORA[corpus]}, {scaling}",
            x_label=x_label,
            lines=lines(zcdp_contenders(effort), points),
        )

    by_d = (Point(x=d, table=rows(d), budget=Budget(rho=RHO)) for d in dimensions)
    yield panel("d", "d", tuple(by_d))
    for d in SWEPT[effort]:
        by_n = (Point(x=n, table=rows(d, n), budget=Budget(rho=RHO)) for n in sizes)
        by_rho = (Point(x=rho, table=rows(d), budget=Budget(rho=rho)) for rho in rhos)
        yield panel(f"n at d = {d}", f"n (d = {d})", tuple(by_n))
        yield panel(f"rho at d = {d}", f"rho (d = {d})", tuple(by_rho))
