"""Amin et al. (2019): figure 1 and the regression of appendix C."""

from dataclasses import replace

from benchmarks.papers.claims import EVERYWHERE, all_of, beats, below_measured
from benchmarks.papers.figure import (
    Check,
    Claim,
    Contender,
    Effort,
    Figure,
    FigureResult,
    Panel,
    Point,
    Verdict,
    contender,
    lines,
    table,
)
from dpcov import Budget

SOURCE = "Amin et al. (2019)"
TABLES = ("wine", "airfoil", "adult")
SCALED = (
    "raw columns, all rows divided by the largest norm (data treated as public, as in the "
    "paper's footnote 1)"
)
FROM_TENTH, UP_TO_TENTH = (0.05, 10.0), (0.0, 0.15)
LARGE_EPSILON = (
    "As the paper's section 3.1 predicts, additive noise wins once epsilon n is large: its error "
    "falls like "
    "1 / (epsilon n), that of sampled eigenvectors like 1 / sqrt(epsilon n). The paper's scaling "
    "is not known"
)
ALPHA = 0.01
"""Regularization; the paper's is not known."""

POWERS = (16, 10, 3)
GAUSSIAN = {
    "analytic": tuple(f"G-{power}" for power in POWERS),
    "classical": tuple(f"G-{power}, classical" for power in POWERS),
}

AD = contender("AD", "eigenvectors", exponent="paper", allocation="adaptive")
UNIFORM = contender("IT-U", "eigenvectors", exponent="paper", allocation="uniform")
KT = contender("KT", "kapralov-talwar", exponent="paper")
LAPLACE = contender("L", "laplace", sensitivity="paper", post="clip")
ZERO = contender("zero", "zero")
AUTO = contender("auto", "auto")


def amin1(effort: Effort) -> Figure:
    """Normalized Frobenius error against epsilon: (a) pure mechanisms, (b) against Gaussian
    noise."""
    panels = []
    for name in tables_of(effort):
        points = _points(name, effort)
        pure = (ZERO, AD, UNIFORM, KT, LAPLACE, AUTO)
        panels.append(_panel(f"{name} a", f"(a) {name}", pure, points))
    for name in tables_of(effort):
        analytic = tuple(
            contender(
                f"G-{power}", "gaussian", noise="upper-triangle", post="clip", delta=10.0**-power
            )
            for power in POWERS
        )
        classical = tuple(
            contender(f"G-{power}, classical", "classical Gaussian", delta=10.0**-power)
            for power in POWERS
        )
        relaxed = contender("auto with delta 1e-10", "auto", delta=1e-10)
        panels.append(
            _panel(
                f"{name} b",
                f"(b) {name}",
                (AD, *analytic, *classical, relaxed),
                _points(name, effort),
            )
        )
    return Figure(
        name="amin1",
        title="Wine, Airfoil and Adult: error against epsilon",
        source=f"{SOURCE}, figure 1",
        panels=tuple(panels),
        repetitions={"full": 50, "quick": 10, "test": 10}[effort],
        notes=(
            f"Rows: {SCALED}.",
            "Adult has 108 columns: 6 numbers and 8 one-hot attributes. Eigenvalues are clipped "
            "as in the paper.",
            "L uses the l1 norm sqrt(2) d of the full matrix; the paper's 2 d is larger still.",
            "G is calibrated by the analytic and by the classical formula; the latter is not "
            "proven above epsilon = 1.",
        ),
        claims=_claims(effort),
    )


def tables_of(effort: Effort) -> tuple[str, ...]:
    return TABLES[:2] if effort == "test" else TABLES


def _points(name: str, effort: Effort) -> tuple[Point, ...]:
    epsilons = {
        "full": (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0),
        "quick": (0.01, 0.1, 0.5, 1.0, 4.0),
        "test": (0.01, 0.5, 4.0),
    }[effort]
    return tuple(Point(x=e, table=table(f"raw {name}"), budget=Budget(epsilon=e)) for e in epsilons)


def _panel(
    key: str, title: str, contenders: tuple[Contender, ...], points: tuple[Point, ...]
) -> Panel:
    drawn = lines(contenders, points, metric="relative frobenius")
    return Panel(
        key=key, title=title, x_label="epsilon", y_label="relative Frobenius error", lines=drawn
    )


def _claims(effort: Effort) -> tuple[Claim, ...]:
    names = tables_of(effort)
    return (
        Claim(
            text="AD outperforms L and KT everywhere, but for wine at epsilon = 0.01",
            source="4",
            check=all_of(
                beats(f"{name} a", "AD", other, within=FROM_TENTH if name == "wine" else EVERYWHERE)
                for name in names
                for other in ("L", "KT")
            ),
            why=LARGE_EPSILON,
        ),
        *(
            Claim(
                text=f"AD outperforms the {kind} Gaussian mechanism even at delta = 0.001 (wine: "
                f"from epsilon = 0.1)",
                source="4",
                check=all_of(
                    beats(f"{n} b", "AD", *found, within=FROM_TENTH if n == "wine" else EVERYWHERE)
                    for n in names
                ),
                why=LARGE_EPSILON,
            )
            for kind, found in GAUSSIAN.items()
        ),
        Claim(
            text="In the high-privacy regime (epsilon up to 0.1) AD outperforms KT, L and G-10 "
            "(10 % for chance)",
            source="1",
            check=all_of(
                *(
                    beats(f"{name} a", "AD", "KT", "L", within=UP_TO_TENTH, factor=1.1)
                    for name in names
                ),
                *(
                    beats(f"{name} b", "AD", *found[:2], within=UP_TO_TENTH, factor=1.1)
                    for name in names
                    for found in GAUSSIAN.values()
                ),
            ),
        ),
        Claim(
            text="On wine and adult the zero matrix is better than AD at every epsilon",
            source="this project",
            check=all_of(beats(f"{name} a", "zero", "AD") for name in names if name != "airfoil"),
        ),
        Claim(
            text="How the budget is split has no big effect: AD and IT-U are within a factor of "
            "1.5",
            source="4",
            why="At large epsilon, where directions are found at all, the budget is worth most "
            "on the first ones",
            check=all_of(
                *(beats(f"{n} a", "AD", "IT-U", factor=1.5) for n in names),
                *(beats(f"{n} a", "IT-U", "AD", factor=1.5) for n in names),
            ),
        ),
        Claim(
            text="The gap between AD and KT is largest on the table with the most columns",
            source="4",
            check=_gap_grows(),
        ),
        Claim(
            text="auto is not worse than any pure method of the paper (5 % for chance)",
            source="this project",
            check=all_of(
                beats(f"{n} a", "auto", "zero", "AD", "IT-U", "KT", "L", factor=1.05) for n in names
            ),
        ),
        Claim(
            text="auto with delta = 1e-10 is not worse than the Gaussian mechanism with the same "
            "delta",
            source="this project",
            check=all_of(
                beats(f"{n} b", "auto with delta 1e-10", "G-10", factor=1.05) for n in names
            ),
        ),
    )


def _gap_grows() -> Check:
    """The largest ratio KT / AD over epsilon is attained by adult."""

    def check(result: FigureResult) -> Verdict:
        gaps = {}
        for name in TABLES:
            curves = result.panels[f"{name} a"].curves if f"{name} a" in result.panels else {}
            if "AD" not in curves or "KT" not in curves:
                return Verdict(status="not checked", reason=f"AD or KT was not measured on {name}")
            gaps[name] = float((curves["KT"].mean / curves["AD"].mean).max())
        reason = ", ".join(f"{name}: KT / AD up to {gap:.3g}" for name, gap in gaps.items())
        return Verdict(
            status="confirmed" if max(gaps, key=gaps.__getitem__) == "adult" else "failed",
            reason=reason,
        )

    return check


def amin_regression(effort: Effort) -> Figure:
    """Ridge regression from the released matrix against output perturbation, and Lemma 1."""
    names = tables_of(effort)
    panels = []
    for name in names:
        points = _points(name, effort)
        panels += [_weights_panel(name, points), _bound_panel(name, points)]
    return Figure(
        name="amin-regression",
        title="Ridge regression of the last column on the others",
        source=f"{SOURCE}, appendix C and Lemma 1",
        panels=tuple(panels),
        repetitions={"full": 50, "quick": 10, "test": 10}[effort],
        notes=(
            f"alpha = {ALPHA:g}, which the paper does not state; rows: {SCALED}.",
            "Output perturbation uses the sensitivity that holds for rows in the unit ball "
            "(derived beside the code); "
            "it pays again for every alpha, target or set of features, the released matrix never.",
        ),
        claims=(
            Claim(
                text="Regression from AD's matrix has smaller error than output perturbation "
                "with delta",
                source="4 and appendix C",
                check=all_of(
                    beats(f"{n} weights", "AD", "output perturbation, delta 1e-6") for n in names
                ),
            ),
            Claim(
                text="Lemma 1 bounds the distance of the weights in every draw",
                source="Lemma 1",
                check=all_of(
                    below_measured(f"{n} bound", c, f"Lemma 1, {c}")
                    for n in names
                    for c in ("AD", "auto")
                ),
            ),
            Claim(
                text="Regression from auto's matrix has smaller error than output perturbation "
                "with delta",
                source="this project",
                check=all_of(
                    beats(f"{n} weights", "auto, delta 1e-6", "output perturbation, delta 1e-6")
                    for n in names
                ),
            ),
        ),
    )


def _weights_panel(name: str, points: tuple[Point, ...]) -> Panel:
    contenders = (
        AD,
        contender("output perturbation", "output perturbation", alpha=ALPHA),
        contender(
            "output perturbation, delta 1e-6", "output perturbation", alpha=ALPHA, delta=1e-6
        ),
        AUTO,
        contender("auto, delta 1e-6", "auto", delta=1e-6),
    )
    return Panel(
        key=f"{name} weights",
        title=f"{name}: weights",
        x_label="epsilon",
        y_label="relative distance of the weights",
        lines=lines(contenders, points, metric=f"ridge weights:{ALPHA}"),
    )


def _bound_panel(name: str, points: tuple[Point, ...]) -> Panel:
    drawn = []
    for before, metric in (("", "ridge weights"), ("Lemma 1, ", "ridge bound")):
        both = lines((AD, AUTO), points, metric=f"{metric}:{ALPHA}")
        drawn += [replace(line, label=before + line.label) for line in both]
    return Panel(
        key=f"{name} bound",
        title=f"{name}: Lemma 1",
        x_label="epsilon",
        y_label="relative distance of the weights",
        lines=tuple(drawn),
    )
