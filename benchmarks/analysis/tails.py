"""How good the guess of fourth moments is: coverage of 95 % intervals without noise.

Run: python -m benchmarks.analysis.tails [--data DIR]

No release is made. For every numeric column of the public tables the kurtosis that `shapes`
guesses from mean, variance and bounds is compared with the column's own, for several shares of the
variance that outliers may make up. With many rows and no noise the interval is the estimate -+ 1.96
assumed standard errors, so its coverage follows.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.analysis.populations import Population, adult, measurements, populations
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import table
from benchmarks.options import asked
from dpcov import Numeric
from dpcov.analysis.intervals import shapes
from dpcov.published.file.columns import EncodedColumn

SHARES = (0.0, 0.02, shapes.OUTLIERS, 0.1, 1.0)
FILES = ("nhanes1.csv.gz", "credit_default.csv.gz", "communities_crime.csv.gz", "airfoil.csv")
BUNDLED = ("breast_cancer", "wine", "iris", "diabetes", "digits")


def tables(directory: Path) -> Iterator[Population]:
    """Public tables with all their numeric columns of more than two values."""
    from sklearn import datasets

    for name in BUNDLED:
        yield _numbers(
            name.replace("_", " "), pd.DataFrame(getattr(datasets, f"load_{name}")().data)
        )
    for name in FILES:
        if (directory / name).is_file():
            yield _numbers(name.split(".")[0], pd.read_csv(directory / name, na_values="?"))
    try:
        yield adult(directory)
    except MissingTable as missing:
        print(f"left out: {missing}")


def _numbers(name: str, frame: pd.DataFrame) -> Population:
    frame = frame.select_dtypes("number")
    return measurements(name, frame.loc[:, frame.nunique() > 2], 0)


def coverages(population: Population, share: float) -> list[float]:
    """Coverage for each numeric column where outliers make up at most this share of the
    variance."""
    found, normal = [], NormalDist()
    for name, declared in population.schema.columns.items():
        if not isinstance(declared, Numeric):
            continue
        values = population.frame[name].dropna().to_numpy(float)
        mean, variance = float(values.mean()), float(values.var())
        bounds = {"lower": float(declared.lower), "upper": float(declared.upper)}
        column = EncodedColumn(
            name=name, source=name, kind="numeric", center=0.0, half_range=1.0, **bounds
        )
        with mock.patch.object(shapes, "OUTLIERS", share):
            shape = shapes.column_shape(column, (column.lowest, column.largest), mean, variance)
        own = float(np.mean((values - mean) ** 4)) / variance**2
        reach = 1.96 * np.sqrt((3 * shape.kurtosis - 1) / (own - 1))
        found.append(2 * normal.cdf(float(reach)) - 1)
    return found


def main() -> None:
    chosen = list(tables(data_directory(asked(__doc__, data=Path).data)))
    normal = next(iter(populations(Path())))()
    head = ["share w", "columns", "covered below 90 %", "below 80 %", "median"]
    lines = [[*head, "normal columns within 6 σ"]]
    for share in SHARES:
        found = np.concatenate([coverages(population, share) for population in chosen])
        parts = [f"{np.mean(found < 0.9):.0%}", f"{np.mean(found < 0.8):.0%}"]
        parts += [f"{np.median(found):.1%}", f"{np.mean(coverages(normal, share)):.1%}"]
        texts = [part.replace("%", " %") for part in parts]
        lines.append([f"{share:g}", str(len(found)), *texts])
    print(table(lines))


if __name__ == "__main__":
    main()
