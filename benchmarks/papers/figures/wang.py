"""Wang, Xu, Yang (2019), figure 1: sparse covariance matrices by thresholding.

The paper calls the norms of its samples "less than 1 (with high probability)"; with lambda = 50 and
c = 200 they are near sqrt(p / 4), five for p = 100.  So every panel comes twice: with the paper's
noise, which gives no guarantee for such rows, and with noise for a public norm bound that holds.
"""

from math import sqrt

from benchmarks.papers.claims import all_of, beats, changes_by, falls
from benchmarks.papers.figure import (
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
                *(
                    beats(f"sparsity, {kind}", labels["sparsity"][0], labels["sparsity"][-1])
                    for kind in ("as published", "with a guarantee")
                )
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
                *(
                    beats(
                        f"dimension, {kind}",
                        labels["dimension"][-1],
                        labels["dimension"][0],
                        factor=2.0,
                    )
                    for kind in ("as published", "with a guarantee")
                )
            ),
        ),
        Claim(
            text="More privacy means a larger error (2 % for chance)",
            source="V(c) 3)",
            check=all_of(
                *(
                    beats(f"privacy, {kind}", strict, loose, factor=1.02)
                    for kind in ("as published", "with a guarantee")
                )
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
                *(
                    changes_by("privacy, with a guarantee", label, at_most=1.0)
                    for label in labels["privacy"]
                )
            ),
        ),
        Claim(
            text="auto is not worse than thresholding with a guarantee (5 % for chance)",
            source="this project",
            check=all_of(
                *(
                    beats(f"{key}, with a guarantee", f"auto, {label}", label, factor=1.05)
                    for key, cases in labels.items()
                    for label in cases
                )
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
