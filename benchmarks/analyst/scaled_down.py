"""What scaling long rows down takes from correlations and means, without any noise.

Run: python -m benchmarks.analyst.scaled_down [--data DIR] | python -m benchmarks.measured
     --store scaled-down.csv scaled-down-rows.csv

Rows are standardized and mapped as a release maps them, and scaled down to the length that loses
a given part of all squared lengths. Errors are root mean squares over pairs and columns, in
standard deviations of columns: of generated tables the usual one (the mean) and the one that one
table in five exceeds, and of each table of people. Lines with an r are of correlations of that
size alone, those that one table in ten exceeds, and over l^(3/4), l the root mean square of the
parts that both columns lost. The second table is of generated tables by their number of rows, over
l^(3/4), l the lost part of all.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.analyst.tables import PUBLIC, Table, made
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov.published.estimate.scaled_down import SAFE, USUAL, correlation_error, error_at

LOST = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
WITH_NEARLY_ALL = (*LOST, 0.9)
SEEDS, SIZES, COLUMNS = range(100, 180), (4_000, 20_000), (4, 8, 15, 30)
OF_PEOPLE = ("nhanes", "credit", "adult", "airfoil")
OF_SIZES = (0.0, 0.1), (0.1, 0.3), (0.3, 0.7)
REGULAR = 0.05
"""What is added to eigenvalues of correlations before their roots are divided by."""
STEPS = 60
LEAST_LOST = 1e-4
ROWS = 9_000
"""Between the sizes of the generated tables."""
SEEDS_OF_ROWS = range(300, 340)
FEW = (1_000, 2_000, 4_000, 8_000, 16_000, 40_000)


def errors(table: Table, lost: float) -> tuple[float, ...]:
    """Root mean square errors: of correlations, of means in deviations, and by sizes over l^3/4.

    Then what intervals count for those sizes.
    """
    frame = table.encoded.loc[:, table.encoded.std() > 0]
    rows = ((frame - frame.mean()) / frame.std(ddof=0)).to_numpy()
    sources = np.array(
        [s for s, kept in zip(table.sources, table.encoded.std() > 0, strict=True) if kept]
    )
    truth = np.corrcoef(rows.T)
    values, vectors = np.linalg.eigh(truth)
    there = vectors / np.sqrt(values + REGULAR) @ vectors.T
    mapped = rows @ there
    squares = np.sum(mapped**2, axis=1)
    shorter = mapped * np.sqrt(np.minimum(1.0, _length(squares, lost) / squares))[:, None]
    back = np.linalg.inv(there)
    kept = shorter @ back
    apart = np.triu(sources[:, None] != sources, 1)
    off, means = (np.corrcoef(kept.T) - truth)[apart], kept.mean(axis=0)
    first, second = np.broadcast_arrays(*np.ix_(*[1 - np.mean(kept**2, axis=0)] * 2))
    first, second = (np.maximum(part[apart], LEAST_LOST) for part in (first, second))
    both = np.sqrt((first**2 + second**2) / 2) ** 0.75
    counted = error_at(truth[apart], first, second, len(rows))
    sizes = [_in(abs(truth[apart]), size) for size in OF_SIZES]
    by_size = [(each / both)[there] for each in (off, counted) for there in sizes]
    return tuple(
        float(np.sqrt(np.mean(each**2))) if each.size else np.nan for each in (off, means, *by_size)
    )


def _in(values: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    return np.asarray((values >= ends[0]) & (values < ends[1]))


def _length(squares: np.ndarray, lost: float) -> float:
    """The squared length beyond which this part of all squared lengths lies."""
    low, high = 1e-9, float(squares.max())
    for _ in range(STEPS):
        middle = np.sqrt(low * high)
        is_short = np.maximum(squares - middle, 0).sum() > lost * squares.sum()
        low, high = (middle, high) if is_short else (low, middle)
    return float(low)


def generated(seed: int) -> Table:
    """A table of a size that follows from its seed."""
    rng = np.random.default_rng(seed)
    return made(seed, int(rng.choice(SIZES)), int(rng.choice(COLUMNS)))


def main() -> None:
    """Print a table."""
    directory = data_directory(asked(__doc__, data=Path).data)
    found = {
        f"made-{seed}": [errors(generated(seed), lost) for lost in WITH_NEARLY_ALL]
        for seed in SEEDS
    }
    family = np.array(list(found.values()))
    usual, high = np.nanmean(family, axis=0), np.nanquantile(family, 0.8, axis=0)
    highest = np.nanquantile(family, 0.9, axis=0)
    lines = {
        "generated tables": usual[:, 0],
        "assumed where a length is chosen": correlation_error(
            np.array(WITH_NEARLY_ALL), ROWS, USUAL
        ),
        "generated tables, one in five": high[:, 0],
        "counted by intervals": correlation_error(np.array(WITH_NEARLY_ALL), ROWS, SAFE),
    }
    for place, size in enumerate(OF_SIZES):
        at, counted = f"r from {size[0]:g} to {size[1]:g}", usual[:, 2 + len(OF_SIZES) + place]
        lines |= {f"one in ten, {at}": highest[:, 2 + place], f"counted, {at}": counted}
    for name in OF_PEOPLE:
        try:
            lines[name] = np.array(
                [errors(PUBLIC[name](directory), lost)[0] for lost in WITH_NEARLY_ALL]
            )
        except MissingTable:
            continue
    lines |= {"means, generated": usual[:, 1], "means, one in five": high[:, 1]}
    show("lost part", WITH_NEARLY_ALL, lines)
    print()
    show("rows", FEW, of_few_rows())


def of_few_rows() -> dict[str, list[float]]:
    """The usual error, and that of one table in five, by the number of rows."""
    lines = dict[str, list[float]]()
    for rows in FEW:
        tables = [made(seed, rows, COLUMNS[seed % len(COLUMNS)]) for seed in SEEDS_OF_ROWS]
        found = [errors(table, lost)[0] / lost**0.75 for table in tables for lost in LOST]
        line = {
            "generated tables": np.mean(found),
            "assumed where a length is chosen": correlation_error(1.0, rows, USUAL),
            "generated tables, one in five": np.quantile(found, 0.8),
            "counted by intervals": correlation_error(1.0, rows, SAFE),
        }
        for name, value in line.items():
            lines.setdefault(name, []).append(float(value))
    return lines


def show(what: str, head: Sequence[float], lines: Mapping[str, Sequence[float]]) -> None:
    """Print one table."""
    print(heading([what, *(f"{each:g}" for each in head)]))
    for name, values in lines.items():
        print(row((name, *(f"{value:.4f}" for value in values))))


if __name__ == "__main__":
    main()
