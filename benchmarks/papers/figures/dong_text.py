"""Dong, Liang, Yi (2022): what the text and the appendices claim beside the figures."""

from math import log, sqrt

from benchmarks.papers.claims import (
    agrees,
    all_of,
    beats,
    below_bound,
    changes_by,
    falls,
    grows,
    open_claims,
    ratio_rises,
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
from benchmarks.papers.figures.dong_news import CORPORA
from benchmarks.papers.figures.dong_shared import (
    EPSILON,
    NO_WORSE,
    OUR,
    PAPER,
    PUBLISHED_ADAPTIVE,
    RHO,
    SEPARATE,
    SOURCE,
)
from benchmarks.papers.synthetic import norms
from dpcov import Budget
from dpcov.mechanisms.blocks.tail_bounds import eta, nu, omega

BETA = 0.1
ROUNDS = (1, 2, 3, 4, 5)
GAUSS = contender("GaussCov, clipped", "gaussian", noise="upper-triangle", post="clip")
SAME_NOISE = contender("GaussCov, CoinPress's noise", "gaussian", noise="isotropic", post="clip")
"""CoinPress draws noise with half the variance off the diagonal, in every round."""
COINPRESS = tuple(contender(f"CoinPress, t = {t}", "coinpress", rounds=t) for t in ROUNDS)
PROJECTION = contender("projection", "projection", trace="public")
ADAPTIVE = (PAPER, PUBLISHED_ADAPTIVE, OUR)
UNIFORM, WEIGHTED = (
    contender(f"EMCov, {kind}", "eigenvectors", exponent="paper", allocation=kind)
    for kind in ("uniform", "adaptive")
)
PURE = (
    contender("zero", "zero"),
    contender("LapCov, clipped", "laplace", sensitivity="paper", post="clip"),
    SEPARATE,
    PAPER,
    OUR,
    WEIGHTED,
)
Shells = tuple[tuple[float, float], ...]
"""Numbers of rows and their norm."""

ASYMPTOTIC = (1e12, 1e15, 1e18, 1e21, 1e24)
"""Numbers of rows at which bounds are computed from their formulas; nothing is drawn there."""


def tail(rows: Shells, clip: float) -> float:
    """The tail of equation 1: part of the trace in rows longer than the clip."""
    total = sum(count for count, _ in rows)
    return sum(count * norm**2 for count, norm in rows if norm > clip * (1 + 1e-9)) / total


def gauss_noise(rows: Shells, d: float, clip: float, rho: float, beta: float) -> float:
    """First part of equation 4."""
    return clip**2 / (sqrt(rho) * _rows(rows)) * omega(round(d), beta)


def separate_noise(rows: Shells, d: float, clip: float, rho: float, beta: float) -> float:
    """Second part of equation 4."""
    n, trace, d = _rows(rows), tail(rows, 0.0), round(d)
    turned = 2**1.25 * clip * sqrt(trace * nu(d, beta / 2) / n) / rho**0.25
    return turned + sqrt(2 / rho) * clip**2 / n * eta(d, beta / 2)


def _rows(rows: Shells) -> float:
    return sum(count for count, _ in rows)


def zipf_shells(point: Point) -> Shells:
    """The norms of the synthetic rows of a point."""
    found = norms(int(point.table["n"] or 0), int(point.table["N"] or 0))
    return tuple((float((found == norm).sum()), float(norm)) for norm in sorted(set(found)))


def theorem_1(point: Point) -> float:
    return separate_noise(zipf_shells(point), *_setting(point), BETA)


def theorem_3(point: Point) -> float:
    """The theorem's expression with the constant 1, at the best of the clips 2**-k."""
    rows, (d, _, rho) = zipf_shells(point), _setting(point)
    n = _rows(rows)
    slower = log(1 / BETA) ** 0.25 / rho**0.25 * log(n)
    biased = log(d * n / BETA) / sqrt(rho)
    return min(
        slower
        * min(noise(rows, d, clip, rho / 2, BETA / 2) for noise in (gauss_noise, separate_noise))
        + biased * tail(rows, clip)
        for clip in (2.0**-k for k in range(40))
    )


def _setting(point: Point) -> tuple[float, float, float]:
    """Columns, no clip, and the budget."""
    return float(point.table["d"] or 0), 1.0, float(point.budget.rho or 0)


def example(n: float) -> Shells:
    """Section 1.2: four rows of norm 1, the others of norm n**(-1/4)."""
    return ((4.0, 1.0), (n - 4, n**-0.25))


def first_table(n: float) -> Shells:
    """Appendix F, first data set."""
    return ((n ** (9 / 16), 1.0), (n - n ** (9 / 16), 0.0))


def second_table(n: float) -> Shells:
    """Appendix F, second data set; a constant number of rows is one."""
    middle = n ** (19 / 32)
    return ((1.0, 1.0), (middle, n ** (-13 / 64)), (n - 1 - middle, n ** (-7 / 32)))


def dong_text(effort: Effort) -> Figure:
    """CoinPress, projection, the theorems, the introduction's example, appendices C, E, F, J."""
    return Figure(
        name="dong-text",
        title="What the text claims beside the figures",
        source=f"{SOURCE}, sections 1, 4, 5, 6, appendices C, E, F, J",
        repetitions={"full": 50, "quick": 5, "test": 3}[effort],
        panels=(
            *_rivals(effort),
            *_projection(effort),
            _theorems(effort),
            *_introduction(effort),
            _quantiles(),
            *_sampling(effort),
            *_news(effort),
            _times(effort),
        ),
        notes=(
            f"rho = {RHO:g}, epsilon = {EPSILON:g}, rows of norm 1 unless said. The example of "
            f"section 1.2 has rho = 1 and rows in two directions.",
            "O(1) in Theorem 3 is taken for 1. Appendix F is checked on the bounds of equation 4, "
            "for 1e12 to 1e24 rows: its exponents cannot be seen on tables that fit a computer.",
        ),
        claims=(
            *_rival_claims(),
            *_projection_claims(),
            *_theorem_claims(),
            *_sampling_claims(),
            *OPEN,
        ),
    )


def _rivals(effort: Effort) -> tuple[Panel, Panel]:
    grid = {"full": (10, 30, 100, 200), "quick": (10, 30, 100), "test": (10, 30)}[effort]
    n = {"full": 16_000, "quick": 16_000, "test": 4000}[effort]
    budget = Budget(rho=RHO)
    skewed = tuple(Point(x=d, table=table("unit rows", n=n, d=d), budget=budget) for d in grid)
    even = tuple(
        Point(x=d, table=table("shells", d=d, directions=d, rows=f"{n} of 1"), budget=budget)
        for d in grid
    )
    contenders = (GAUSS, SAME_NOISE, *COINPRESS)
    return (
        Panel(key="coinpress", title=f"CoinPress, n = {n}", x_label="d",
              lines=lines(contenders, skewed)),
        Panel(key="even", title=f"CoinPress, all directions alike, n = {n}", x_label="d",
              lines=lines(contenders, even)),
    )  # fmt: skip


def _rival_claims() -> tuple[Claim, ...]:
    rounds = [made.label for made in COINPRESS]
    return (
        Claim(
            text="CoinPress (t = 1 to 5) does not do better than GaussCov with the same noise in "
            "Frobenius norm (5 % for chance)",
            source="6",
            check=beats("coinpress", SAME_NOISE.label, *rounds, factor=NO_WORSE),
        ),
        Claim(
            text="Where the matrix is well conditioned CoinPress (t = 1 to 5) is as good as "
            "GaussCov with the same noise (up to a factor 1.5)",
            source="6",
            check=all_of(agrees("even", made, SAME_NOISE.label, 1.5) for made in rounds),
            why="Every round but the last spends budget, and the norms that rows are clipped to "
            "allow for the noise of the round before, which grows with d",
        ),
    )


def _projection(effort: Effort) -> tuple[Panel, ...]:
    columns = {"full": (10, 30, 100, 200, 400), "quick": (10, 100, 200), "test": (100, 200)}[effort]
    rows = {"full": (1e3, 4e3, 16e3), "quick": (1e3, 16e3), "test": (1e3, 4e3)}[effort]
    bins = {"full": (1, 2, 4, 8, 16, 32), "quick": (1, 4, 32), "test": (4, 32)}[effort]
    axes = {
        "d": [(d, {"n": 1000, "d": d, "N": 1}) for d in columns],
        "n": [(n, {"n": int(n), "d": 100, "N": 1}) for n in rows],
        "N": [(N, {"n": 4000, "d": 100, "N": N}) for N in bins],
    }
    return tuple(
        Panel(
            key=f"projection, {axis}",
            title="Projection mechanism",
            x_label=axis,
            lines=lines(
                (GAUSS, SEPARATE, PROJECTION),
                tuple(
                    Point(x=x, table=table("zipf", **setting), budget=Budget(rho=RHO))
                    for x, setting in found
                ),
            ),
        )
        for axis, found in axes.items()
    )


def _projection_claims() -> tuple[Claim, ...]:
    name = PROJECTION.label
    return (
        Claim(
            text="For d above n**(2/3) the error of the projection mechanism grows no faster than "
            "d**(1/4)",
            source="1.1, appendix E",
            check=falls("projection, d", name, 0.25, 0.1, within=(100, 1000)),
        ),
        Claim(
            text="The error of the projection mechanism falls at least like 1/sqrt(n)",
            source="1.1, appendix E",
            check=falls("projection, n", name, -0.5, 0.1),
        ),
        Claim(
            text="The projection mechanism is not trace-sensitive, SeparateCov is: from N = 4 to "
            "32 less, and more, than half of the error goes",
            source="1.1",
            check=all_of(
                changes_by("projection, N", name, at_least=0.5, within=(4, 32)),
                changes_by("projection, N", SEPARATE.label, at_most=0.5, within=(4, 32)),
            ),
        ),
    )


def _theorems(effort: Effort) -> Panel:
    bins = {"full": (1, 2, 4, 8, 16), "quick": (1, 2, 4, 8), "test": (1, 4)}[effort]
    points = tuple(
        Point(x=N, table=table("zipf", n=4000, d=50, N=N), budget=Budget(rho=RHO)) for N in bins
    )
    return Panel(
        key="theorems",
        title="Theorems 1 and 3, n = 4000, d = 50",
        x_label="N",
        lines=lines((SEPARATE, *ADAPTIVE), points),
        points=points,
        bounds=(
            Bound(label="Theorem 1", value=theorem_1),
            Bound(label="Theorem 3", value=theorem_3),
        ),
    )


def _introduction(effort: Effort) -> tuple[Panel, Panel]:
    """Draws for small n, bounds for large n."""
    drawn = {"full": (512, 1024, 2048, 4096), "quick": (256, 1024), "test": (256, 512)}[effort]
    budget = Budget(rho=1)
    points = tuple(
        Point(
            x=n,
            table=table(
                "shells",
                d=round(n**0.75),
                directions=2,
                rows=", ".join(f"{count:g} of {norm!r}" for count, norm in example(n)),
            ),
            budget=budget,
        )
        for n in drawn
    )
    clipped = tuple(
        Line(
            label="SeparateCov clipped",
            contender=contender(
                "SeparateCov clipped",
                "separate",
                noise="entrywise",
                eigenvalues="clip",
                clip=point.x**-0.25,
            ),
            points=(point,),
        )
        for point in points
    )  # fmt: skip
    bounds = {"without clipping": 0.0, "clipped": -0.25}
    return (
        Panel(key="example", title="The example of section 1.2, d = n^(3/4)", x_label="n",
              lines=(*lines((SEPARATE,), points), *clipped)),
        Panel(
            key="example, bounds",
            title="Its bounds",
            x_label="n",
            y_label="bound",
            points=_asymptotic(),
            bounds=tuple(
                Bound(
                    label=f"bound {kind}",
                    value=lambda point, power=power: _noise_and_bias(  # type: ignore[misc]
                        example(point.x), point.x**0.75, point.x**power
                    ),
                )
                for kind, power in bounds.items()
            ),
        ),
    )  # fmt: skip


def _asymptotic() -> tuple[Point, ...]:
    return tuple(Point(x=n, table=table("none"), budget=Budget(rho=1)) for n in ASYMPTOTIC)


def _noise_and_bias(rows: Shells, d: float, clip: float) -> float:
    """The better noise of equation 4, and the tail."""
    noise = min(part(rows, d, clip, 1.0, BETA) for part in (gauss_noise, separate_noise))
    return noise + tail(rows, clip)


def _separate_and_bias(rows: Shells, d: float, clip: float) -> float:
    """Clipped SeparateCov alone, and the tail."""
    return separate_noise(rows, d, clip, 1.0, BETA) + tail(rows, clip)


def _quantiles() -> Panel:
    """Bounds at the clips that appendix F compares."""
    clips = {"1": 0.0, "n^(-13/64)": -13 / 64, "n^(-7/32)": -7 / 32}
    bounds = [
        Bound(
            label="F 1: clip 1",
            value=lambda point: _noise_and_bias(first_table(point.x), point.x ** (9 / 16), 1.0),
        )
    ]
    for label, power in clips.items():
        for kind, value in (("SeparateCov", _separate_and_bias), ("better", _noise_and_bias)):
            bounds.append(
                Bound(
                    label=f"F 2: {kind}, clip {label}",
                    value=lambda point, power=power, value=value: value(  # type: ignore[misc]
                        second_table(point.x), point.x ** (9 / 16), point.x**power
                    ),
                )
            )
    return Panel(
        key="quantiles",
        title="Appendix F: bounds at three clips",
        x_label="n",
        y_label="bound",
        points=_asymptotic(),
        bounds=tuple(bounds),
    )


def _theorem_claims() -> tuple[Claim, ...]:
    second = "F 2: {}, clip {}".format
    return (
        Claim(
            text="Theorem 1 holds in every draw for any trace",
            source="Theorem 1",
            check=below_bound("theorems", SEPARATE.label, "Theorem 1"),
        ),
        Claim(
            text="Theorem 3 holds in every draw with the constant 1, for AdaptiveCov with any "
            "constants",
            source="Theorem 3",
            check=all_of(below_bound("theorems", made.label, "Theorem 3") for made in ADAPTIVE),
        ),
        Claim(
            text="In the introduction's example the bound falls like n**(-9/16) without clipping "
            "and like n**(-13/16) with the clip n**(-1/4)",
            source="1.2",
            check=all_of(
                grows("example, bounds", "bound without clipping", -9 / 16, 0.02),
                grows("example, bounds", "bound clipped", -13 / 16, 0.02),
            ),
        ),
        Claim(
            text="In the introduction's example the error falls at least at these rates",
            source="1.2",
            check=all_of(
                falls("example", "SeparateCov", -9 / 16, 0.05),
                falls("example", "SeparateCov clipped", -13 / 16, 0.05),
            ),
        ),
        Claim(
            text="Appendix F: SeparateCov has the exponents -37/64 on the first data set, and "
            "-37/64, -25/32, -51/64 at the three clips on the second",
            source="appendix F",
            check=all_of(
                grows("quantiles", "F 1: clip 1", -37 / 64, 0.02),
                *(
                    grows("quantiles", second("SeparateCov", clip), exponent, 0.02)
                    for clip, exponent in (
                        ("1", -37 / 64),
                        ("n^(-13/64)", -25 / 32),
                        ("n^(-7/32)", -51 / 64),
                    )
                ),
            ),
        ),
        Claim(
            text="Appendix F: on the second data set the clip n**(-7/32) has the smallest bound "
            "of equation 3",
            source="appendix F",
            check=beats(
                "quantiles",
                second("better", "n^(-7/32)"),
                second("better", "n^(-13/64)"),
                second("better", "1"),
            ),
            why="Equation 3 takes the better of two noises, the appendix compares SeparateCov's "
            "alone. After clipping to n**(-13/64) GaussCov has the exponent -54/64, while the tail "
            "beyond n**(-7/32) has -52/64. So one quantile suits both data sets, and the example "
            "shows its point for SeparateCov only",
        ),
    )


def _sampling(effort: Effort) -> tuple[Panel, ...]:
    columns = {"full": (10, 20, 50, 100), "quick": (10, 50), "test": (10, 30)}[effort]
    rows = {
        "full": (64_000, 256_000, 1_024_000),
        "quick": (64_000, 256_000),
        "test": (16_000, 64_000),
    }[effort]

    def points(found: tuple[tuple[float, int, int], ...], budget: Budget) -> tuple[Point, ...]:
        return tuple(
            Point(x=x, table=table("unit rows", n=n, d=d), budget=budget) for x, n, d in found
        )

    def panel(key: str, title: str, axis: str, made: tuple[Contender, ...],
              at: tuple[Point, ...]) -> Panel:  # fmt: skip
        return Panel(key=key, title=title, x_label=axis, lines=lines(made, at))

    zcdp, pure = Budget(rho=RHO), Budget(epsilon=EPSILON)
    by_d = tuple((float(d), 160_000, d) for d in columns)
    return (
        panel("EMCov, d", "EMCov, n = 160000", "d", (UNIFORM,), points(by_d, zcdp)),
        panel("EMCov, n", "EMCov, d = 10", "n", (UNIFORM,),
              points(tuple((float(n), n, 10) for n in rows), zcdp)),
        panel("allocation", "EMCov, pure DP, n = 16000", "d", (UNIFORM, WEIGHTED),
              points(tuple((float(d), 16_000, d) for d in columns), pure)),
    )  # fmt: skip


def _news(effort: Effort) -> tuple[Panel, ...]:
    columns = {"full": (64, 128), "quick": (128,), "test": ()}[effort]
    return tuple(
        Panel(
            key=f"pure, {title}",
            title=f"Pure DP, {title}, largest norm",
            x_label="d",
            lines=lines(
                PURE,
                tuple(
                    Point(
                        x=d,
                        table=table("news", corpus=corpus, d=d, scaling="largest norm", n=None),
                        budget=Budget(epsilon=EPSILON),
                    )
                    for d in columns
                ),
            ),
        )
        for corpus, title in CORPORA.items()
    )


def _times(effort: Effort) -> Panel:
    columns = {"full": (50, 100, 200, 400), "quick": (50, 200), "test": (50, 100)}[effort]
    points = tuple(
        Point(x=d, table=table("unit rows", n=4000, d=d), budget=Budget(rho=RHO)) for d in columns
    )
    return Panel(
        key="seconds",
        title="Processor time of one draw",
        x_label="d",
        y_label="seconds",
        lines=lines((SEPARATE, UNIFORM), points, metric="seconds"),
    )


def _sampling_claims() -> tuple[Claim, ...]:
    return (
        Claim(
            text="The error of EMCov under zCDP grows no faster than d**(3/4)",
            source="1.1, appendix C",
            check=falls("EMCov, d", UNIFORM.label, 0.75, 0.1),
        ),
        Claim(
            text="The error of EMCov under zCDP falls at least like 1/sqrt(n)",
            source="1.1, appendix C",
            check=falls("EMCov, n", UNIFORM.label, -0.5, 0.1),
        ),
        Claim(
            text="Under pure DP uniform and weighted budgets give EMCov similar errors (up to a "
            "factor 1.5)",
            source="J.2, appendix C",
            check=agrees("allocation", UNIFORM.label, WEIGHTED.label, 1.5),
            why="Where directions are found at all, the budget is worth most on the first ones",
        ),
        Claim(
            text="Under pure DP no method of the paper beats the zero matrix on the news tables, "
            "for d of 64 and 128 and epsilon = 0.8",
            source="J.2",
            check=all_of(
                beats(f"pure, {title}", "zero", *(made.label for made in PURE[1:] if made != OUR))
                for title in CORPORA.values()
            ),
        ),
        Claim(
            text="SeparateCov takes less time than EMCov",
            source="1.1, 4",
            check=beats("seconds", SEPARATE.label, UNIFORM.label),
        ),
        Claim(
            text="The time of EMCov grows faster with d than that of SeparateCov",
            source="1.1, 4",
            check=ratio_rises("seconds", UNIFORM.label, SEPARATE.label),
        ),
    )


OPEN = open_claims(
    (
        "No mechanism has an error below sqrt(d)/n, and for d < sqrt(n) none below d/n",
        "1.1, appendix D",
        "draws show single mechanisms, the bound is on all",
    ),
    (
        "The search radius of PrivRadius cuts off few rows",
        "Lemma 9",
        "the paper's experiments do not need it either, because they scale the rows",
    ),
    (
        "Without the budget for the trace AdaptiveCov costs nothing where all norms are 1",
        "6.1",
        "AdaptiveCov has no such option here",
    ),
    (
        "The errors of figure 5 on News Commentary v16",
        "6.2",
        "the corpus could not be obtained, and dong5 shows the orderings on two others",
    ),
    (
        "The lemmas on Laplace matrices and Theorem 4",
        "Lemmas 14 to 19, Theorem 4",
        "their constants are not stated, and dong7 shows the growth with d",
    ),
)
