"""What the figures of Dong, Liang, Yi (2022) share: contenders, default setting, axes, claims."""

from benchmarks.papers.claims import all_of, best_of
from benchmarks.papers.figure import Claim, Contender, Effort, Panel, Point, contender, lines, table
from dpcov import Budget

SOURCE = "Dong, Liang, Yi (2022)"
OURS = "this project"
RHO, EPSILON = 0.1, 0.8
D, N_ROWS, BINS = 200, 50_000, 4
SAME_AS_PAPER = "rows are drawn once per setting; repetitions draw the noise again"
WRONG_CHOICE = "Around the crossing it compares bounds, not errors, and takes the wrong branch"
NO_WORSE = 1.05
"""What "no worse" allows, because both errors are means of a few repetitions."""

LARGEST_EM: dict[Effort, int | None] = {"full": None, "quick": 200, "test": 50}
"""Number of columns up to which EMCov takes part."""

SEPARATE = contender("SeparateCov", "separate", noise="entrywise", eigenvalues="clip")
PAPER, OUR = (
    contender(
        f"AdaptiveCov, {label}",
        "adaptive",
        noise="entrywise",
        eigenvalues="clip",
        constants=constants,
        radius=False,
    )
    for label, constants in (("paper", "theory"), ("ours", "tuned"))
)
PUBLISHED_ADAPTIVE = contender("AdaptiveCov, published", "published AdaptiveCov")
ADAPTIVE = (PAPER.label, PUBLISHED_ADAPTIVE.label, OUR.label)
"""AdaptiveCov with the constants of the paper, of the published code and of this library
(``tuned``).  Eigenvalues are clipped throughout, as in the scripts of the published code."""


def zcdp_contenders(effort: Effort) -> tuple[Contender, ...]:
    """The curves of the zCDP figures; the paper's GaussCov has no post-processing, its scripts clip
    eigenvalues."""
    return (
        contender("zero", "zero"),
        contender("GaussCov", "gaussian", noise="upper-triangle", post="none"),
        contender("GaussCov, clipped", "gaussian", noise="upper-triangle", post="clip"),
        SEPARATE,
        PAPER,
        PUBLISHED_ADAPTIVE,
        OUR,
        contender(
            "EMCov",
            "eigenvectors",
            exponent="paper",
            allocation="uniform",
            largest_d=LARGEST_EM[effort],
        ),
        contender("auto", "auto"),
    )


def unit_points(n: int, effort: Effort, budget: Budget) -> tuple[Point, ...]:
    """Rows of norm 1 in growing numbers of columns."""
    grid = {
        "full": (10, 20, 30, 50, 70, 100, 200, 400, 800),
        "quick": (10, 30, 70, 100, 200, 400),
        "test": (10, 100, 200),
    }[effort]
    return tuple(Point(x=d, table=table("zipf", n=n, d=d, N=1), budget=budget) for d in grid)


def vary_norms_and_columns(
    effort: Effort, budget: Budget, contenders: tuple[Contender, ...], n_rows: int
) -> tuple[Panel, Panel]:
    """Panels in which N, and d, vary."""
    bins = {"full": (1, 2, 4, 8, 16, 32), "quick": (1, 2, 4, 8, 32), "test": (1, 32)}[effort]
    grid = {
        "full": (10, 20, 50, 100, 200, 400, 800),
        "quick": (10, 50, 100, 200, 400),
        "test": (10, 200),
    }[effort]
    by_bins = tuple(
        Point(x=N, table=table("zipf", n=n_rows, d=D, N=N), budget=budget) for N in bins
    )
    by_d = tuple(
        Point(x=d, table=table("zipf", n=n_rows, d=d, N=BINS), budget=budget) for d in grid
    )
    return (
        Panel(key="N", title="(a) bins of the norm", x_label="N", lines=lines(contenders, by_bins)),
        Panel(key="d", title="(b) columns", x_label="d", lines=lines(contenders, by_d)),
    )


def adaptive_claims(*panels: str) -> tuple[Claim, ...]:
    """One claim for each set of constants."""
    return tuple(
        Claim(
            text=f"{name}: it follows the better of the two at a small cost (up to half more)",
            source="6.1",
            check=all_of(
                best_of(panel, name, "GaussCov, clipped", "SeparateCov", factor=1.5)
                for panel in panels
            ),
            why=WRONG_CHOICE,
        )
        for name in ADAPTIVE
    )


def auto_claim(
    *panels: str, others: tuple[str, ...] = ("zero", "GaussCov, clipped", "SeparateCov", *ADAPTIVE)
) -> Claim:
    return Claim(
        text="auto is nowhere worse than the best of the paper's methods (5 % for chance)",
        source=OURS,
        check=all_of(best_of(panel, "auto", *others, factor=NO_WORSE) for panel in panels),
    )
