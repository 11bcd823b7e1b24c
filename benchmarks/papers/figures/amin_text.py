"""Amin et al. (2019): what the text claims beside the figures."""

from math import ceil, log

from benchmarks.papers.claims import (
    agrees,
    all_of,
    below_bound,
    below_measured,
    falls,
    grows,
    unmeasured,
)
from benchmarks.papers.figure import (
    Bound,
    Claim,
    Contender,
    Effort,
    Figure,
    Line,
    Panel,
    Point,
    contender,
    lines,
    table,
)
from benchmarks.papers.figures.amin import AD, LAPLACE, SOURCE, UNIFORM, tables_of
from dpcov import Budget

ZETAS = (0.5, 1.0)
RANKS = (1, 3, 10)
COLUMNS, EPSILON = 10, 1.0
DELTA = 1e-3
COUNTED = contender("proposals", "proposals")
GAUSSIAN = contender("G-3", "gaussian", noise="upper-triangle", post="clip", delta=DELTA)


def needed_rows(d: int, zeta: float) -> int:
    """Twice the largest eigenvalue that Corollary 2 asks for: unit rows here have more than half of
    it in one direction."""
    return ceil(2 * 2 * d**3 / (EPSILON * zeta**2) * log(d / (EPSILON * zeta)))


def amin_text(effort: Effort) -> Figure:
    """Proposals of the sampler, Corollary 2, Theorem 2 with and without a rank, rates."""
    return Figure(
        name="amin-text",
        title="What the text claims beside the figures",
        source=f"{SOURCE}, sections 3 and 5",
        repetitions={"full": 50, "quick": 5, "test": 3}[effort],
        panels=(
            *(_proposals(name, effort) for name in tables_of(effort)),
            _corollary(effort),
            _ranks(effort),
            *_rates(effort),
        ),
        notes=(
            "Proposals: the sampler of Kent et al. with an envelope for every direction, uniform "
            "splitting, the tables of figure 1.",
            f"Otherwise unit rows, d = {COLUMNS}, epsilon = {EPSILON:g} unless varied. Theorem 2 "
            f"is drawn with the constant 1 and the factor log(lambda_1) of section 3.1.",
        ),
        claims=_claims(effort),
    )


def _proposals(name: str, effort: Effort) -> Panel:
    epsilons = {"full": (0.01, 0.1, 1.0, 4.0), "quick": (0.01, 4.0), "test": (0.01, 4.0)}[effort]
    points = tuple(
        Point(x=e, table=table(f"raw {name}"), budget=Budget(epsilon=e)) for e in epsilons
    )
    return Panel(
        key=f"proposals, {name}",
        title=f"Proposals per direction, {name}",
        x_label="epsilon",
        y_label="proposals / d",
        lines=tuple(
            Line(label=kind, contender=COUNTED, points=points, metric=f"{kind} over d")
            for kind in ("median", "mean")
        ),
        points=points,
        bounds=(
            Bound(label="d", value=lambda point: 1.0),
            Bound(label="2 d", value=lambda point: 2.0),
        ),
    )


def _corollary(effort: Effort) -> Panel:
    columns = {"full": (5, 10, 20), "quick": (5, 10), "test": (5, 10)}[effort]
    points = {
        zeta: tuple(
            Point(x=d, table=table("unit rows", n=needed_rows(d, zeta), d=d),
                  budget=Budget(epsilon=EPSILON))
            for d in columns
        )
        for zeta in ZETAS
    }  # fmt: skip
    return Panel(
        key="corollary",
        title="Corollary 2",
        x_label="d",
        y_label="Frobenius error / largest eigenvalue",
        lines=tuple(
            Line(label=f"IT-U, zeta = {zeta:g}", contender=UNIFORM, points=points[zeta],
                 metric="over largest")
            for zeta in ZETAS
        ),
        points=points[ZETAS[0]],
        bounds=tuple(
            Bound(label=f"zeta = {zeta:g}", value=lambda point, zeta=zeta: zeta)  # type: ignore[misc]
            for zeta in ZETAS
        ),
    )  # fmt: skip


def _ranks(effort: Effort) -> Panel:
    made = []
    for k in RANKS:
        method = contender(f"rank {k}", "low rank", k=k)
        for label, metric in ((method.label, "rank"), (f"Theorem 2, rank {k}", "rank bound")):
            made.append(
                Line(label=label, contender=method, points=_by_rows(effort), metric=f"{metric}:{k}")
            )
    return Panel(
        key="rank",
        title="Algorithm 1 stopped after k directions",
        x_label="n",
        y_label="distance from the best matrix of rank k",
        lines=tuple(made),
    )


def _by_rows(effort: Effort) -> tuple[Point, ...]:
    sizes = {"full": (30_000, 100_000, 300_000, 1_000_000), "quick": (30_000, 300_000),
             "test": (30_000, 100_000)}[effort]  # fmt: skip
    return tuple(_point(n, n, COLUMNS) for n in sizes)


def _point(x: float, n: int, d: int) -> Point:
    return Point(x=x, table=table("unit rows", n=n, d=d), budget=Budget(epsilon=EPSILON))


def _rates(effort: Effort) -> tuple[Panel, Panel]:
    columns = {"full": (5, 10, 20, 40), "quick": (5, 20), "test": (5, 10)}[effort]
    by_d = tuple(_point(d, 300_000, d) for d in columns)
    every: tuple[Contender, ...] = (AD, UNIFORM, LAPLACE, GAUSSIAN)
    return (
        Panel(key="n", title="Rows", x_label="n", lines=lines(every, _by_rows(effort))),
        Panel(key="d", title="Columns, n = 300000", x_label="d", lines=lines(every, by_d)),
    )


def _claims(effort: Effort) -> tuple[Claim, ...]:
    names = tables_of(effort)
    return (
        Claim(
            text="The median number of proposals for one direction is less than d",
            source="3.2",
            check=all_of(below_bound(f"proposals, {n}", "median", "d") for n in names),
        ),
        Claim(
            text="The mean number of proposals for one direction is around 2 d (up to a factor 2)",
            source="3.2",
            check=all_of(agrees(f"proposals, {n}", "mean", "2 d", 2.0) for n in names),
            why="With rows in the unit ball and epsilon / (2 d) for a direction its density is "
            "nearly flat, and nearly every proposal is kept. The paper's scaling is not known",
        ),
        Claim(
            text="Corollary 2 with the constant 1: the error is at most zeta times the largest "
            "eigenvalue, in every draw",
            source="Corollary 2",
            check=all_of(
                below_bound("corollary", f"IT-U, zeta = {zeta:g}", f"zeta = {zeta:g}")
                for zeta in ZETAS
            ),
        ),
        Claim(
            text="Theorem 2 for k directions holds in every draw with the constant 1 and the "
            "factor log(lambda_1)",
            source="Theorem 2, 3.1",
            check=all_of(
                below_measured("rank", f"rank {k}", f"Theorem 2, rank {k}") for k in RANKS
            ),
            why="The theorem states no constant; its rate holds",
        ),
        Claim(
            text="The distance from the best matrix of rank k falls at least like 1/sqrt(n)",
            source="Theorem 2",
            check=all_of(falls("rank", f"rank {k}", -0.5, 0.1) for k in RANKS),
        ),
        Claim(
            text="The error of AD and IT-U falls at least like 1/sqrt(n)",
            source="5",
            check=all_of(falls("n", made.label, -0.5, 0.1) for made in (AD, UNIFORM)),
        ),
        Claim(
            text="The error of the Laplace and Gaussian mechanisms falls like 1/n",
            source="5",
            check=all_of(grows("n", made.label, -1.0, 0.05) for made in (LAPLACE, GAUSSIAN)),
        ),
        Claim(
            text="The error of AD and IT-U grows no faster than d**(3/2)",
            source="5",
            check=all_of(falls("d", made.label, 1.5, 0.05) for made in (AD, UNIFORM)),
        ),
        Claim(
            text="The error of Kapralov and Talwar's mechanism needs a largest eigenvalue above "
            "d**4 / (epsilon zeta**6)",
            source="3.1",
            check=unmeasured("a theorem of another paper, with an unknown constant"),
        ),
        Claim(
            text="What appendix C shows of the dimension and of regression",
            source="appendix C",
            check=unmeasured("its text could not be obtained, and amin-regression has our setting"),
        ),
    )
