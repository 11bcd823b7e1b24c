"""Dong, Liang, Yi (2022), figure 5, on two news corpora that are not the paper's."""

from benchmarks.papers.figure import Effort, Figure, Panel, Point, Table, lines, table
from benchmarks.papers.figures.dong_digits import real_claims
from benchmarks.papers.figures.dong_shared import RHO, SOURCE, zcdp_contenders
from dpcov import Budget

CORPORA = {"reuters21578": "Reuters", "20newsgroups": "Newsgroups"}
SCALINGS = ("own norm", "largest norm")
D = 128


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


def _panels(corpus: str, scaling: str, effort: Effort) -> tuple[Panel, Panel, Panel]:
    sizes = {"full": (1000, 2000, 5000, 10_000, 18_000), "quick": (1000, 5000, 18_000), "test": ()}[
        effort
    ]
    dimensions = {"full": (32, 64, 128, 256, 512), "quick": (32, 128, 512), "test": ()}[effort]
    rhos = {"full": (1e-3, 1e-2, 0.1, 1.0), "quick": (0.01, 0.1, 1.0), "test": ()}[effort]

    def rows(d: int, n: int | None = None) -> Table:
        return table("news", corpus=corpus, d=d, scaling=scaling, n=n)

    axes = {
        "n": tuple(Point(x=n, table=rows(D, n), budget=Budget(rho=RHO)) for n in sizes),
        "d": tuple(Point(x=d, table=rows(d), budget=Budget(rho=RHO)) for d in dimensions),
        "rho": tuple(Point(x=rho, table=rows(D), budget=Budget(rho=rho)) for rho in rhos),
    }
    contenders = zcdp_contenders(effort)
    first, second, third = (
        Panel(
            key=f"{CORPORA[corpus]}, {scaling}, {axis}",
            title=f"{CORPORA[corpus]}, {scaling}",
            x_label=axis,
            lines=lines(contenders, points),
        )
        for axis, points in axes.items()
    )
    return first, second, third
