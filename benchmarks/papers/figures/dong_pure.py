"""Dong, Liang, Yi (2022): figures 7 and 8, synthetic rows under pure DP."""

from dataclasses import replace

from benchmarks.papers.claims import all_of, beats, falls, grows, ratio_rises
from benchmarks.papers.figure import (
    Claim,
    Contender,
    Effort,
    Figure,
    Panel,
    Point,
    contender,
    lines,
    table,
)
from benchmarks.papers.figures.dong_shared import (
    BINS,
    EPSILON,
    LARGEST_EM,
    N_ROWS,
    NO_WORSE,
    OUR,
    PAPER,
    SAME_AS_PAPER,
    SEPARATE,
    SOURCE,
    D,
    auto_claim,
    vary_norms_and_columns,
)
from dpcov import Budget

MORE_ROWS = 500_000
METHODS = ("LapCov, clipped", SEPARATE.label, PAPER.label, OUR.label)


def pure_contenders(effort: Effort) -> tuple[Contender, ...]:
    """The curves of the pure-DP figures; AdaptiveCov with the paper's constants and ours."""
    return (
        contender("zero", "zero"),
        contender("LapCov", "laplace", sensitivity="paper", post="none"),
        contender("LapCov, clipped", "laplace", sensitivity="paper", post="clip"),
        SEPARATE,
        PAPER,
        OUR,
        contender(
            "EMCov",
            "eigenvectors",
            exponent="paper",
            allocation="adaptive",
            largest_d=LARGEST_EM[effort],
        ),
        contender("auto", "auto"),
    )


def dong7(effort: Effort) -> Figure:
    """Pure DP, unit rows, d varies."""
    sizes = {
        "full": (1000, 4000, 10_000, 16000, 40_000, 160_000),
        "quick": (1000, 16000, 160_000),
        "test": (16000,),
    }[effort]
    return Figure(
        name="dong7",
        title="Pure DP, synthetic rows of norm 1: error against d",
        source=f"{SOURCE}, figure 7",
        repetitions={"full": 50, "quick": 6, "test": 3}[effort],
        panels=tuple(_pure_rows(n, effort) for n in sizes),
        notes=(f"epsilon = {EPSILON}, as in the published code; {SAME_AS_PAPER}.",),
        claims=(
            *_pure_claims(*(f"n{n}" for n in sizes)),
            Claim(
                text="The error of LapCov grows like d**2",
                source="I.2",
                check=all_of(grows(f"n{n}", "LapCov", 2.0, 0.1) for n in sizes),
            ),
            Claim(
                text="For d far above n**(2/5) the error of SeparateCov grows no faster than "
                "d**(3/4)",
                source="I.2, Lemma 19",
                check=all_of(
                    falls("n1000", SEPARATE.label, 0.75, 0.1, within=(30, 1000)),
                    falls("n16000", SEPARATE.label, 0.75, 0.1, within=(100, 1000)),
                ),
            ),
            Claim(
                text="The error of EMCov grows no faster than d",
                source="I.2",
                check=all_of(falls(f"n{n}", "EMCov", 1.0, 0.1) for n in sizes),
            ),
            Claim(
                text="With few rows no method of the paper beats the zero matrix at large d",
                source="J.2",
                check=beats("n1000", "zero", *METHODS, "EMCov", within=(30, 1000)),
                why="From 400 columns on AdaptiveCov gains one or two parts of a thousand",
            ),
        ),
    )


def _pure_rows(n: int, effort: Effort) -> Panel:
    grid = {
        "full": (10, 20, 30, 50, 70, 100, 200, 400, 800),
        "quick": (10, 20, 50, 100),
        "test": (10, 30, 90),
    }[effort]
    budget = Budget(epsilon=EPSILON)
    points = tuple(Point(x=d, table=table("zipf", n=n, d=d, N=1), budget=budget) for d in grid)
    return Panel(
        key=f"n{n}", title=f"n = {n}", x_label="d", lines=lines(pure_contenders(effort), points)
    )


def dong8(effort: Effort) -> Figure:
    """Pure DP, one of N, d, epsilon varies."""
    contenders = pure_contenders(effort)
    epsilons = {
        "full": (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4),
        "quick": (0.1, 0.4, 1.6, 6.4),
        "test": (),
    }[effort]
    points = tuple(
        Point(x=e, table=table("zipf", n=N_ROWS, d=D, N=BINS), budget=Budget(epsilon=e))
        for e in epsilons
    )
    budgets = Panel(
        key="epsilon", title="(c) budget", x_label="epsilon", lines=lines(contenders, points)
    )
    budget = Budget(epsilon=EPSILON)
    more = vary_norms_and_columns(effort, budget, contenders, MORE_ROWS) if effort == "full" else ()
    more = tuple(
        replace(panel, key=f"{panel.key}, more", title=f"{panel.title}, n = {MORE_ROWS}")
        for panel in more
    )
    return Figure(
        name="dong8",
        title="Pure DP, synthetic rows with Zipf norms: one parameter varies",
        source=f"{SOURCE}, figure 8",
        repetitions={"full": 50, "quick": 6, "test": 0}[effort],
        panels=(*vary_norms_and_columns(effort, budget, contenders, N_ROWS), budgets, *more),
        notes=(
            f"d = {D}, n = {N_ROWS}, N = {BINS}, epsilon = {EPSILON} unless varied; "
            f"{SAME_AS_PAPER}.",
        ),
        claims=_pure_claims("N", "d", "epsilon", *(panel.key for panel in more)),
    )


def _pure_claims(*panels: str) -> tuple[Claim, ...]:
    return (
        Claim(
            text="SeparateCov always outperforms EMCov (5 % for chance)",
            source="J.2",
            check=all_of(beats(panel, "SeparateCov", "EMCov", factor=NO_WORSE) for panel in panels),
        ),
        Claim(
            text="SeparateCov does better than LapCov as d grows, or epsilon falls",
            source="J.2",
            check=all_of(
                ratio_rises(panel, "SeparateCov", "LapCov, clipped")
                if panel == "epsilon"
                else ratio_rises(panel, "LapCov, clipped", "SeparateCov")
                for panel in panels
            ),
        ),
        auto_claim(*panels, others=("zero", *METHODS)),
    )
