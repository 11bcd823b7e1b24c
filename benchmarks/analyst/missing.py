"""Bias of released numbers, and coverage of intervals, where values are made missing.

Run: python -m benchmarks.analyst.missing [--quick] [--data DIR] [--repetitions N] [--epsilon E]
     [--lines FILE]

The complete rows of NHANES are the population; tables are drawn from it, and values of all columns
but age, race and sex are hidden: completely at random, or more often the older a person is; then
a tenth of those three as well.  The same of Adult with four categories, whose numbers are hidden by
marital status.
Writes the lines, and the table of docs/measured/missing.md from them.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec.structs import replace as changed

import dpcov
from benchmarks.analyst.measure import held
from benchmarks.analyst.page import DOCS
from benchmarks.analyst.tables import Table, adult_full, budget_of, made, nhanes
from benchmarks.data import data_directory
from benchmarks.measured import filled
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from dpcov import SeededEntropy
from dpcov.analysis import coefficient_intervals, correlation_intervals, mean_intervals
from dpcov.published.estimate.present import MissingAs

LINES, PAGE = DOCS / "measured" / "missing.csv", DOCS / "measured" / "missing.md"
LACKING = "MAR by age, a tenth of which is missing"
SETTINGS = ((0.0, "MCAR"), (0.1, "MCAR"), (0.4, "MCAR"), (0.1, "MAR by age"), (0.4, "MAR by age"))
SETTINGS += ((0.4, LACKING),)
BY_LEVEL = ((0.4, "MAR by marital-status"),)
READINGS = ("pairwise", "at-random", "center")
LACKED = 0.1
KNOWN, LEVELS = ("age", "race", "sex"), ("workclass", "marital-status", "race", "sex")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Root mean squares over correlations, and over means in deviations of their columns.

    ``bias`` is that of the average over repetitions, ``noise`` of what is around it.  Intervals
    are at 95 % for the population: the shares that hold it.
    """

    table: str
    share: float
    how: str
    reading: str
    bias: float
    noise: float
    mean_bias: float
    mean_noise: float
    means: float = np.nan
    correlations: float = np.nan
    coefficients: float = np.nan


def hidden(frame: pd.DataFrame, share: float, how: str, rng: np.random.Generator) -> pd.DataFrame:
    """Rows with a share of the values of every column of numbers missing."""
    found, first = frame.copy(), frame.columns[0]
    by = how.removeprefix("MAR by ")
    ranks = frame[by if by in frame else first].rank(pct=True).to_numpy()
    chance = share * (2 * ranks if how.startswith("MAR") else np.ones(len(frame)))
    for name in frame.select_dtypes("number").columns:
        if name not in (*KNOWN, first):
            found.loc[rng.random(len(frame)) < chance, name] = np.nan
        elif how == LACKING:
            found.loc[rng.random(len(frame)) < LACKED, name] = np.nan
    return found


def with_levels(table: Table) -> Table:
    """The numbers, and a few of the categories."""
    kept = {name: table.categories[name] for name in LEVELS}
    return replace(table, frame=table.frame[[*table.bounds, *kept]], categories=kept)


def _slopes(table: Table, encoded: pd.DataFrame) -> np.ndarray:
    """Of the target on an intercept and the rest, without the first level of each category."""
    first = {f"{name}={levels[0]}" for name, levels in table.categories.items()}
    names = [name for name in encoded if name not in {table.target, *table.left_out} | first]
    x = np.column_stack([np.ones(len(encoded)), encoded[names]])
    return np.linalg.lstsq(x, encoded[table.target].to_numpy(), rcond=None)[0]


def lines(
    table: Table, settings: Iterable[tuple[float, str]], epsilon: float, repetitions: int
) -> Iterator[Line]:
    """Every setting, read in every way."""
    frame, encoded = table.frame, table.encoded
    names = list(encoded)
    truth = encoded.corr().to_numpy()[np.triu_indices(len(names), 1)]
    mean, spread = encoded.mean().to_numpy(), encoded.std(ddof=0).to_numpy()
    slopes = _slopes(table, encoded)
    for share, how in settings:
        errors: dict[str, list[np.ndarray]] = {reading: [] for reading in READINGS}
        shares: dict[str, list[list[float]]] = {reading: [] for reading in READINGS[:2]}
        for seed in range(repetitions):
            rng = np.random.default_rng([seed, 1])
            sampled = frame.sample(len(frame), replace=True, random_state=seed)
            rows = hidden(sampled.reset_index(drop=True), share, how, rng)
            for schema in ("indicator", "center"):
                release = dpcov.release(
                    rows,
                    schema=changed(table.schema(), missing=schema),
                    budget=budget_of(epsilon),
                    entropy=SeededEntropy(seed),
                )
                for reading in READINGS[:2] if schema == "indicator" else READINGS[2:]:
                    kind: MissingAs = "at-random" if reading == "at-random" else "pairwise"
                    found = release.correlation_matrix(missing=kind)[np.triu_indices(len(names), 1)]
                    off = (release.mean_vector(missing=kind) - mean) / spread
                    errors[reading].append(np.concatenate([np.nan_to_num(found) - truth, off]))
                    if reading != "center":
                        shares[reading].append(
                            _all_held(release, table, kind, (mean, truth, slopes))
                        )
        for reading in READINGS:
            made_of = np.array(errors[reading])
            bias, noise = made_of.mean(axis=0), made_of.std(axis=0, ddof=1)
            # What is left of the noise in an average is no bias.
            squares = bias**2 - noise**2 / repetitions
            sizes = [
                float(np.sqrt(max(0.0, each.mean())))
                for part in (slice(0, len(truth)), slice(len(truth), None))
                for each in (squares[part], noise[part] ** 2)
            ]
            line = Line(
                table=table.name,
                share=share,
                how=how,
                reading=reading,
                **dict(zip(("bias", "noise", "mean_bias", "mean_noise"), sizes, strict=True)),
            )
            if reading in shares:
                kinds = ("means", "correlations", "coefficients")
                means = np.mean(shares[reading], axis=0)
                line = replace(line, **dict(zip(kinds, means, strict=True)))
            yield line


def _all_held(
    release: dpcov.Release, table: Table, kind: MissingAs, truths: tuple[np.ndarray, ...]
) -> list[float]:
    """Shares of the intervals of means, correlations and coefficients that hold the truth."""
    found = (
        mean_intervals(release, missing=kind),
        correlation_intervals(release, missing=kind),
        coefficient_intervals(release, table.target, table.features, missing=kind),
    )
    return [held(*each) for each in zip(found, truths, strict=True)]


def block(found: pd.DataFrame) -> str:
    """The table of the page."""
    head = ["table", "missing", "read as", "bias", "noise", "bias of means", "noise of means"]
    head += ["means held", "correlations held", "coefficients held"]
    rows = [head]
    for line in found.itertuples():
        what = f"{line.share:.0%}, {line.how}" if line.share else "none"
        sizes = (line.bias, line.noise, line.mean_bias, line.mean_noise)
        kinds = (line.means, line.correlations, line.coefficients)
        texts = ["" if np.isnan(each) else f"{each:.1%}" for each in kinds]
        rows.append([line.table, what, line.reading, *(f"{size:.3f}" for size in sizes), *texts])
    return markdown(rows)


def main() -> None:
    """Measure, write the lines, and the table of the page anew."""
    options = asked(__doc__, quick=False, data=Path, repetitions=20, epsilon=1.0, lines=Path)
    warnings.simplefilter("ignore")
    quick = options.quick
    directory = None if quick else data_directory(options.data)
    tables = [(made(1, n_rows=4_000, n_columns=4), SETTINGS)]
    if directory is not None:
        tables = [(nhanes(directory), SETTINGS), (with_levels(adult_full(directory)), BY_LEVEL)]
    names = [field.name for field in fields(Line)]
    found = []
    for table, settings in tables:
        for line in lines(table, settings, options.epsilon, options.repetitions):
            found.append(vars(line))
            print(" ".join(f"{name}={vars(line)[name]}" for name in names), flush=True)
    frame = pd.DataFrame(found, columns=names)
    frame.to_csv(options.lines or LINES, index=False, float_format="%.5g")
    if options.lines is None:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(filled(page, {"missing": block(frame)}), encoding="utf-8")


if __name__ == "__main__":
    main()
