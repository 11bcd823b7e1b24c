"""How much the automatic penalty loses against the best one of its path, by several rules.

Run: python -m benchmarks.analysis.penalty [--data DIR] [--repetitions N]
     | python -m benchmarks.measured --store analysis-penalty.csv

The best penalty is that with the largest R² on the fifth of the rows that nobody saw.  R² is cut at
-1, and predictions are those of `PrivateRidge.predict`.
"""

import itertools
import warnings
from pathlib import Path

import numpy as np

import dpcov
from benchmarks.analyst.__main__ import tables
from benchmarks.analyst.contest import Case
from benchmarks.analyst.measure import Array, r2
from benchmarks.data import data_directory
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from dpcov.analysis import PrivateRidge
from dpcov.published.estimate.entry_noise import DEVIATIONS

TABLES = ("adult-full", "credit", "made-1", "communities", "nhanes", "airfoil")
# Negative: pure.
EPSILONS = (1.0, 4.0, -4.0)
RELATIONS = ("replace-one", "add-remove-one")
SHIPPED = "the larger of the unbiased risk and the shrunk matrix's own, as shipped"
RULES = (SHIPPED, "the unbiased risk, and two deviations of its errors", "the unbiased risk")
NEAR, WORST = 0.02, -1.0


def along_the_path(case: Case, release: dpcov.Release) -> tuple[Array, dict[str, int]]:
    """R² of every penalty, (n_alphas,), and the places that the rules choose."""
    table = case.table
    model = PrivateRidge.from_release(release, target=table.target, features=table.features)
    risks = model._risks(model._problems, model.alphas_)
    noisy = risks + DEVIATIONS * model._risk_noise(model._problems)
    places = int(np.searchsorted(model.alphas_, model.alpha_)), noisy[0].argmin(), risks[0].argmin()
    chosen = dict(zip(RULES, map(int, places), strict=True))
    found, rows = [], case.held_out[table.features]
    for weights in model._problems[0].path(model.alphas_):
        model.coef_, model.intercept_ = model._original(0, weights)
        found.append(r2(case.held_out[table.target].to_numpy(), model.predict(rows)))
    return np.maximum(found, WORST), chosen


def main(arguments: list[str] | None = None) -> None:
    options = asked(__doc__, arguments, data=Path, repetitions=3)
    warnings.simplefilter("ignore")
    lost: dict[str, list[float]] = {rule: [] for rule in RULES}
    cases = [Case.of(table) for table in tables(data_directory(options.data), TABLES)]
    terms = itertools.product(cases, EPSILONS, RELATIONS, range(options.repetitions))
    for case, epsilon, neighbors, seed in terms:
        release = case.table.release(epsilon, seed, neighbors=neighbors)
        scores, chosen = along_the_path(case, release)
        for rule, place in chosen.items():
            lost[rule].append(float(scores.max() - scores[place]))
        print(case.table.name, epsilon, neighbors, seed, *(each[-1] for each in lost.values()))
    lines = [
        (
            "rule for the penalty",
            "R² lost against the best penalty of the path",
            f"within {NEAR} of the best, % of releases",
        )
    ]
    for rule, values in lost.items():
        near = 100 * np.mean(np.array(values) <= NEAR)
        lines.append((rule, f"{np.mean(values):.3f}", f"{near:.0f}"))
    print(markdown(lines))


if __name__ == "__main__":
    main()
