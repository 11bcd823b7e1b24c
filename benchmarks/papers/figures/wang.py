"""Wang, Xu, Yang (2019), figure 1: sparse covariance matrices by thresholding.

The paper calls the norms of its samples "less than 1 (with high probability)"; with lambda = 50 and
c = 200 they are near sqrt(p / 4), five for p = 100.  So every panel comes twice: with the paper's
noise, which gives no guarantee for such rows, and with noise for a public norm bound that holds.
"""

from math import inf, log, sqrt

from benchmarks.papers.claims import all_of, beats, below_bound, changes_by, falls, unmeasured
from benchmarks.papers.figure import (
    Bound,
    Claim,
    Effort,
    Figure,
    Line,
    Panel,
    Point,
    Value,
    contender,
    table,
)
from dpcov import Budget

SOURCE = "Wang, Xu, Yang (2019)"
GAMMA = 0.5
"""The paper does not state gamma.  Sample entries have standard deviation 1/4 / sqrt(n), and the
largest of p**2 of them is about 1/2 sqrt(log p / n)."""

SPARSITY, P, EPSILON = 0.2, 100, 1.0


def norm_bound(p: int) -> float:
    """A public bound that rows exceed with negligible probability: E ||x||**2 is at most p (50 + 1)
    / 200."""
    return round(sqrt(p * 51 / 200) + 4 * sqrt(0.7), 1)


def wang1(effort: Effort) -> Figure:
    """Sparsity, dimension and privacy, each as published and with a guarantee."""
    settings = {
        "sparsity": [
            (f"sparsity {s:g}", {"p": P, "sparsity": s}, EPSILON)
            for s in {"full": (0.1, 0.2, 0.3, 0.5), "quick": (0.1, 0.3, 0.5), "test": (0.1, 0.5)}[
                effort
            ]
        ],
        "dimension": [
            (f"p = {p}", {"p": p, "sparsity": SPARSITY}, EPSILON)
            for p in {"full": (50, 100, 200, 500), "quick": (50, 100, 200), "test": (50, 100)}[
                effort
            ]
        ],
        "privacy": [
            (f"epsilon = {e:g}", {"p": 200 if effort == "full" else P, "sparsity": SPARSITY}, e)
            for e in {"full": (0.1, 0.5, 1.0, 2.0), "quick": (0.1, 0.5, 2.0), "test": (0.1, 2.0)}[
                effort
            ]
        ],
    }
    panels = [
        _panel(key, honest, cases, effort)
        for honest in (False, True)
        for key, cases in settings.items()
    ]
    return Figure(
        name="wang1",
        title="DP-Thresholding on sparse Gaussian rows",
        source=f"{SOURCE}, figure 1",
        panels=tuple(panels),
        repetitions={"full": 50, "quick": 8, "test": 3}[effort],
        notes=(
            f"delta = 1/n; sparsity {SPARSITY:g}, p = {P}, epsilon = {EPSILON:g} unless varied (p "
            f"= 200 in the privacy "
            "panel of the paper and of the full run); new rows in every repetition.",
            "The paper does not state gamma; 1/2 removes what sampling alone does to a zero entry.",
            "'as published' has no guarantee: rows are longer than 1 and the noise lacks a "
            "factor sqrt(2).",
        ),
        claims=_claims({key: [case[0] for case in cases] for key, cases in settings.items()}),
    )


def _claims(labels: dict[str, list[str]]) -> tuple[Claim, ...]:
    loose, strict = labels["privacy"][0], labels["privacy"][-1]
    return (
        Claim(
            text="A less sparse matrix has a larger relative error",
            source="V(c) 1)",
            why=(
                "It holds where the thresholded entries dominate. With noise for the true norms "
                "the noise dominates "
                "for few rows, and it is divided by ||U||, which grows with the number of entries"
            ),
            check=all_of(
                beats(f"sparsity, {kind}", labels["sparsity"][0], labels["sparsity"][-1])
                for kind in ("as published", "with a guarantee")
            ),
        ),
        Claim(
            text="The dimension only slightly affects the error, like log p (at most twice over "
            "the range)",
            source="V(c) 2)",
            why=(
                "At fixed sparsity a column has p * sparsity nonzero entries, so s grows with p; "
                "so do the norms, "
                "which a guarantee has to cover"
            ),
            check=all_of(
                beats(
                    f"dimension, {kind}",
                    labels["dimension"][-1],
                    labels["dimension"][0],
                    factor=2.0,
                )
                for kind in ("as published", "with a guarantee")
            ),
        ),
        Claim(
            text="More privacy means a larger error (2 % for chance)",
            source="V(c) 3)",
            check=all_of(
                beats(f"privacy, {kind}", strict, loose, factor=1.02)
                for kind in ("as published", "with a guarantee")
            ),
        ),
        Claim(
            text="The squared error falls like 1/n (Theorem 2), so the error at least like "
            "n**(-1/2)",
            source="Theorem 2",
            check=falls("sparsity, as published", labels["sparsity"][0], -0.5, 0.1),
            why=(
                "Nonzero entries are at most 1/200, below the threshold for these n: what remains "
                "is their own size, "
                "which more rows do not reduce"
            ),
        ),
        Claim(
            text="With a guarantee, more rows help",
            source="this project",
            check=all_of(
                changes_by("privacy, with a guarantee", label, at_most=1.0)
                for label in labels["privacy"]
            ),
        ),
        Claim(
            text="auto is not worse than thresholding with a guarantee (5 % for chance)",
            source="this project",
            check=all_of(
                beats(f"{key}, with a guarantee", f"auto, {label}", label, factor=1.05)
                for key, cases in labels.items()
                for label in cases
            ),
        ),
    )


def _panel(
    key: str, honest: bool, cases: list[tuple[str, dict[str, Value], float]], effort: Effort
) -> Panel:
    kind = "with a guarantee" if honest else "as published"
    lines = []
    for label, parameters, epsilon in cases:
        points = _points(parameters, epsilon, honest, effort)
        if honest:
            scaled = GAMMA / norm_bound(int(parameters["p"])) ** 2
            made = contender(
                label, "thresholding", noise="upper-triangle", rule="hard", gamma=scaled
            )
        else:
            made = contender(label, "published DP-Thresholding", gamma=GAMMA)
        lines.append(Line(label=label, contender=made, points=points, metric="relative spectral"))
        if honest:
            auto = contender(f"auto, {label}", "auto")
            lines.append(
                Line(
                    label=auto.label,
                    contender=auto,
                    points=points,
                    metric="relative spectral",
                    ours=True,
                )
            )
    return Panel(
        key=f"{key}, {kind}",
        title=f"{key}, {kind}",
        x_label="n",
        y_label="relative spectral error",
        lines=tuple(lines),
    )


def _points(
    parameters: dict[str, Value], epsilon: float, honest: bool, effort: Effort
) -> tuple[Point, ...]:
    sizes = {
        "full": (1000, 2000, 5000, 10_000, 20_000),
        "quick": (1000, 5000, 20_000),
        "test": (1000, 8000),
    }
    bound = norm_bound(int(parameters["p"])) if honest else 1.0
    return tuple(
        Point(
            x=n,
            table=table("sparse gaussian", redrawn=True, n=n, norm_bound=bound, **parameters),
            budget=Budget(epsilon=epsilon, delta=1 / n),
        )
        for n in sizes[effort]
    )


ENTRIES = 4
"""Expected nonzero entries of a column beside the diagonal, in the panels on the rate."""


def wang_rate(effort: Effort) -> Figure:
    """Theorem 2: the spectral distance from the population covariance, as published."""
    rows = {"full": (1e4, 1e5, 3e5, 1e6), "quick": (1e4, 1e5, 3e5), "test": (1e4, 3e4)}[effort]
    columns = {"full": (20, 50, 100, 200), "quick": (20, 50, 100), "test": (20, 40)}[effort]
    epsilons = {"full": (0.1, 0.3, 1.0), "quick": (0.1, 1.0), "test": (0.1, 1.0)}[effort]
    axes = {
        "n": [(n, n, 20, EPSILON) for n in rows],
        "p": [(p, 20_000, p, EPSILON) for p in columns],
        "epsilon": [(epsilon, 1e5, 20, epsilon) for epsilon in epsilons],
    }
    made = contender("DP-Thresholding", "published DP-Thresholding", gamma=GAMMA)
    panels = []
    for axis, settings in axes.items():
        points = tuple(_rate_point(*setting) for setting in settings)
        line = Line(label=made.label, contender=made, points=points, metric=f"schatten:{inf}")
        panels.append(
            Panel(
                key=axis,
                title=f"Theorem 2: {axis}",
                x_label=axis,
                y_label="spectral error",
                lines=(line,),
                points=points,
                bounds=(Bound(label="bound", value=rate),),
            )
        )
    return Figure(
        name="wang-rate",
        title="The rate of DP-Thresholding against the population covariance",
        source=f"{SOURCE}, Theorem 2",
        panels=tuple(panels),
        repetitions={"full": 50, "quick": 5, "test": 3}[effort],
        notes=(
            f"As published, without a guarantee; p = 20, epsilon = {EPSILON:g} and delta = 1/n "
            f"unless varied, {ENTRIES} nonzero entries in a column beside the diagonal; new rows "
            f"in every repetition.",
            "O(1) in the theorem is drawn as 1.",
        ),
        claims=_rate_claims(),
    )


def rate(point: Point) -> float:
    """Root of Theorem 2 with the constant 1: sqrt(s log p log(1 / delta) / n) / epsilon."""
    n, p = float(point.table["n"] or 0), float(point.table["p"] or 0)
    epsilon, delta = float(point.budget.epsilon or 0), float(point.budget.delta or 0)
    return sqrt((1 + ENTRIES) * log(p) * log(1 / delta) / n) / epsilon


def _rate_point(x: float, n: float, p: int, epsilon: float) -> Point:
    rows = table("sparse gaussian", redrawn=True, n=int(n), norm_bound=1.0, p=p,
                 sparsity=ENTRIES / (p - 1))  # fmt: skip
    return Point(x=x, table=rows, budget=Budget(epsilon=epsilon, delta=1 / n))


def _rate_claims() -> tuple[Claim, ...]:
    name = "DP-Thresholding"
    return (
        Claim(
            text="The squared error stays below Theorem 2's expression with the constant 1, "
            "in every draw",
            source="Theorem 2",
            check=all_of(below_bound(axis, name, "bound") for axis in ("n", "p", "epsilon")),
        ),
        Claim(
            text="Once the entries exceed the threshold (n from 100000) the error falls at least "
            "like 1/sqrt(n)",
            source="Theorem 2",
            check=falls("n", name, -0.5, 0.1, within=(1e5, 1e6)),
        ),
        Claim(
            text="With a fixed number of nonzero entries in a column the error grows with p at "
            "most like sqrt(log p) (10 % for chance)",
            source="Theorem 2",
            check=changes_by("p", name, at_most=1.1 * sqrt(log(200) / log(20))),
        ),
        Claim(
            text="The error falls with epsilon",
            source="Theorem 2",
            check=changes_by("epsilon", name, at_most=1.0),
        ),
        Claim(
            text="Algorithm 1 is (epsilon, delta)-differentially private",
            source="Theorem 1",
            check=unmeasured(
                "draws cannot show it, and the noise lacks a factor sqrt(2) for rows of "
                "norm 1, and rows of the experiment are longer"
            ),
        ),
    )
