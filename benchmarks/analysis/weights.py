"""Coverage of intervals with survey weights and several rows of a person; what weights cost.

Run: python -m benchmarks.analysis.weights [--samples 200], then python -m benchmarks.measured
     python -m benchmarks.analysis.weights --cost [--samples 50] [--data DIR], then the same

Three normal columns with bounds of four standard deviations: a mean, a correlation, a coefficient.
Where weights are related to the values, the truth is that of a large weighted table.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from benchmarks.analyst.tables import ADULT
from benchmarks.data import data_directory, file_of
from benchmarks.measured import store
from benchmarks.options import asked
from dpcov.analysis import coefficient_intervals, correlation_intervals, mean_intervals
from dpcov.published.words.design import design_of

UPPER = 8.0
# A bound of Adult's weights.
FINAL = 600_000.0
BOUNDS = dpcov.Numeric(lower=-4, upper=4)
MIX = np.array([[1.0, 0.5, 0.3], [0.0, 0.8, 0.2], [0.0, 0.0, 0.9]]) * 0.8
COVARIANCE = MIX.T @ MIX
POPULATION = 1_000_000

Weigh = Callable[[np.random.Generator, pd.DataFrame], Any]


def schema(kish: bool = True, upper: float = UPPER, persons: int = 1, **more: Any) -> dpcov.Schema:
    """Three numbers and weights, whose column is ignored without Kish's design effect."""
    own = dpcov.Numeric(lower=0, upper=upper) if kish else dpcov.Ignored()
    return dpcov.Schema(
        columns={"a": BOUNDS, "b": BOUNDS, "c": BOUNDS, **more, "w": own},
        weights=dpcov.Weights(column="w", upper=upper),
        rows_per_person=persons,
    )


def lognormal(rng: np.random.Generator, table: pd.DataFrame) -> Any:
    """Weights with a design effect of 1.9."""
    return np.minimum(rng.lognormal(-0.35, 0.84, len(table)), UPPER)


def growing(rng: np.random.Generator, table: pd.DataFrame) -> Any:
    """Weights that grow with a value."""
    return np.minimum(np.exp(table["a"]), UPPER)


def apart(rng: np.random.Generator, table: pd.DataFrame) -> Any:
    """Weights that grow with a value's distance from its mean."""
    return np.minimum(np.exp(table["a"] ** 2), UPPER)


def rows(
    rng: np.random.Generator, n: int, weights: Weigh | None = None, persons: int = 1
) -> pd.DataFrame:
    """Normal rows; those of a person share half of their variance."""
    shared = np.repeat(rng.normal(size=(n // persons, 3)), persons, axis=0)
    own = rng.normal(size=(len(shared), 3))
    mixed = own if persons == 1 else np.sqrt(0.5) * (shared + own)
    table = pd.DataFrame(mixed @ MIX, columns=list("abc"))
    return table.assign(w=np.ones(len(table)) if weights is None else weights(rng, table))


def released(
    table: pd.DataFrame, declared: dpcov.Schema, seed: int = 0, rho: float = 20, **options: Any
) -> dpcov.Release:
    """A seeded release in the geometry of bounds, if nothing else is said."""
    options = {"mechanism": "gaussian", "geometry": "schema"} | options
    budget = options.pop("budget", dpcov.Budget(rho=rho))
    entropy = dpcov.SeededEntropy(seed)
    return dpcov.release(table, schema=declared, budget=budget, entropy=entropy, **options)


def intervals(release: dpcov.Release, **options: Any) -> dict[str, Any]:
    """Of the three means, one correlation and one coefficient."""
    return {
        "mean": mean_intervals(release, list("abc"), **options).rows,
        "correlation": correlation_intervals(release, ["a", "b"], **options).rows,
        "coefficient": coefficient_intervals(release, "c", ["a", "b"], **options).rows[1:2],
    }


def weighted(table: pd.DataFrame, names: Iterable[str] = ("a", "b", "c")) -> tuple[Any, Any]:
    """Weighted means and covariance, by their definition."""
    x, w = table[list(names)].to_numpy(float), table["w"].to_numpy()
    means = w @ x / w.sum()
    return means, (w * (x - means).T) @ (x - means) / w.sum()


def truth_of(means: Any, covariance: Any) -> dict[str, Any]:
    """What the intervals are for."""
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    slopes = np.linalg.solve(covariance[:2, :2], covariance[:2, 2])
    return {"mean": means, "correlation": [correlation], "coefficient": slopes[:1]}


TRUTH = truth_of(np.zeros(3), COVARIANCE)


def covered(made: Iterable[Mapping[str, Any]], kind: str, truth: Any = None) -> float:
    """Part of all intervals of a kind that hold."""
    true = TRUTH[kind] if truth is None else truth
    held = [
        line.lower <= value <= line.upper
        for each in made
        for line, value in zip(each[kind], true, strict=True)
    ]
    return float(np.mean(held))


@dataclass(frozen=True, kw_only=True)
class Case:
    """Rows, how they are released, and how intervals are asked for."""

    words: str
    weights: Weigh | None = None
    persons: int = 1
    kish: bool = True
    # Asked for as well, without the design effect.
    without: bool = False
    asked: dict[str, float] = field(default_factory=dict)
    # Half of the error is noise.
    noisy: bool = False


CASES = (
    Case(words="equal weights", without=True),
    Case(words="lognormal, unrelated to the values", weights=lognormal, without=True),
    Case(words="the same, column ignored", weights=lognormal, kish=False),
    Case(words="growing with a value, e^x", weights=growing),
    Case(words="the same, column ignored", weights=growing, kish=False),
    Case(words="growing with a value's distance, e^(x²)", weights=apart),
    Case(words="the same, column ignored", weights=apart, kish=False),
    Case(words="three rows a person, half of the variance shared", persons=3, without=True),
    Case(words="the same, `design_effect=2`", persons=3, asked={"design_effect": 2}),
    Case(words="lognormal, half noise", weights=lognormal, noisy=True),
    Case(words="three rows a person, half noise", persons=3, noisy=True),
)


def lines(samples: int) -> Iterator[list[str]]:
    """Coverage in percent of every case."""
    kinds = list(TRUTH)
    yield ["rows", "n", "samples", "design effect taken", *kinds, "without design effect"]
    for case in CASES:
        population = rows(np.random.default_rng(1), POPULATION, case.weights)
        truth = TRUTH if case.weights in (None, lognormal) else truth_of(*weighted(population))
        upper = 1.0 if case.weights is None else UPPER
        n, options = (
            (5000, {"rho": 2, "mechanism": "stratified", "geometry": "private"})
            if case.noisy
            else (1500, {"rho": 1000})
        )
        counted, ignored, effects = [], [], []
        for seed in range(samples):
            table = rows(np.random.default_rng([seed, 7]), n, case.weights, case.persons)
            made = released(table, schema(case.kish, upper, case.persons), seed, **options)
            counted.append(intervals(made, **case.asked))
            if case.without:
                ignored.append(intervals(made, design_effect=1))
            effects.append(case.asked.get("design_effect") or design_of(made).effect)
        # Of the means that of the column that weights may be related to.
        first = [{kind: each[kind][:1] for kind in kinds} for each in counted]
        bare = [{kind: each[kind][:1] for kind in kinds} for each in ignored]
        held = [f"{100 * covered(first, kind, truth[kind][:1]):.0f}" for kind in kinds]
        plain = [f"{100 * covered(bare, kind, truth[kind][:1]):.0f}" for kind in kinds if bare]
        taken = f"{np.mean(effects):.1f}"
        line = [case.words, f"{n:,}", str(samples), taken, *held, " / ".join(plain)]
        print(*line, sep=" | ", flush=True)
        yield line


def census(directory: Path) -> pd.DataFrame:
    """Seven columns of Adult, and `fnlwgt` up to a public bound."""
    table = pd.read_csv(file_of(directory, "adult.csv.gz"))
    truths = {"male": table["sex"] == "Male", "rich": table["income"] == ">50K"}
    numbers = table[[name for name in ADULT if name != "fnlwgt"]]
    return numbers.assign(**truths, w=np.minimum(table["fnlwgt"], FINAL)).astype(float)


def errors_of(
    table: pd.DataFrame, declared: dpcov.Schema, samples: int, **options: Any
) -> tuple[float, float]:
    """Root mean square errors of correlations, and of means in standard deviations."""
    names = list(table.columns.drop("w"))
    weighs = declared.weights is not None
    means, covariance = weighted(table if weighs else table.assign(w=1.0), names)
    scale = np.sqrt(np.diag(covariance))
    upper = np.triu_indices(len(names), 1)
    squares = []
    for seed in range(samples):
        made = released(table, declared, seed, mechanism="auto", **options)
        places = [made.feature_names.index(name) for name in names]
        found = made.correlation_matrix()[np.ix_(places, places)][upper]
        wrong = found - (covariance / np.outer(scale, scale))[upper]
        squares.append(
            [np.mean(wrong**2), np.mean(((made.mean_vector()[places] - means) / scale) ** 2)]
        )
    correlations, of_means = np.sqrt(np.mean(squares, axis=0))
    return float(correlations), float(of_means)


def costs(directory: Path, samples: int) -> Iterator[list[str]]:
    """Errors without weights, with them, and without them in as many rows as they leave."""
    table = census(directory)
    bounds = {name: dpcov.Numeric(lower=0, upper=top) for name, (_, top) in ADULT.items()}
    columns = {name: bounds.get(name, dpcov.Numeric(lower=0, upper=1)) for name in table}
    weights = dpcov.Weights(column="w", upper=FINAL)
    kinds = {"ignored": dpcov.Ignored(), "numeric": dpcov.Numeric(lower=0, upper=FINAL)}
    plain, ignored, numeric = (
        dpcov.Schema(columns=columns | {"w": kind}, weights=of, missing="never")
        for kind, of in (
            (kinds["ignored"], None),
            (kinds["ignored"], weights),
            (kinds["numeric"], weights),
        )
    )
    left = round(table["w"].sum() / FINAL)
    fewer = table.sample(left, random_state=0)
    cases = ((table, plain), (table, ignored), (table, numeric), (fewer, plain))
    heads = ("no weights", "weighted, column ignored", "weighted, column numeric")
    yield ["geometry", "ε", "releases", *heads, f"no weights, {left:,} rows"]
    for geometry in ("private", "schema"):
        for epsilon in (0.5, 1.0):
            options = {"geometry": geometry, "budget": dpcov.Budget(epsilon=epsilon, delta="1e-6")}
            found = [errors_of(*case, samples, **options) for case in cases]
            cells = [f"{wrong:.3f} / {of_means:.3f}" for wrong, of_means in found]
            line = [geometry, f"{epsilon:g}", str(samples), *cells]
            print(*line, sep=" | ", flush=True)
            yield line


def main() -> None:
    """Measure, and write the file of the page."""
    options = asked(__doc__, samples=int, cost=False, data=Path)
    warnings.simplefilter("ignore")
    if options.cost:
        store("weights-cost.csv", list(costs(data_directory(options.data), options.samples or 50)))
    else:
        store("weights.csv", list(lines(options.samples or 200)))


if __name__ == "__main__":
    main()
