"""Error of released correlations, for bounds as typed and far too wide.

Run: python -m benchmarks.analyst [--quick] [--data DIR] [--repetitions N] [--epsilon E ...]
     [--wide W ...] [--only NAME ...] [--geometry NAME ...] [--out FILE]

Rows of the result: a table, an epsilon (delta = 1e-6; a negative one is pure), how many times too
wide the bounds are, a geometry, and the root mean square and the largest error of a correlation,
averaged over repetitions. ``floor`` is what true means and deviations of the table would give, at
the whole budget and without shortening rows. ``--quick`` is a short form for tests. Lines that FILE
has are replaced where they are measured again, and kept otherwise.
"""

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.analyst.measure import Score, Truth, average
from benchmarks.analyst.tables import PUBLIC, Table, made
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov.data.geometry import Geometry, Scale

GEOMETRIES = ("schema", "private", "floor")
_KEYS = ("table", "epsilon", "wide", "geometry")


@dataclass(frozen=True)
class Line:
    """One line of the result."""

    table: str
    epsilon: float
    wide: float
    geometry: str
    score: Score


def exact(table: Table) -> Geometry:
    """That of the floor: true means and deviations."""
    columns = table.encoded.agg(["mean", "std"]).T.itertuples()
    # Levels are zero or one over their scale.
    return Geometry(
        columns={
            name: Scale(center=mean * (name in table.bounds), scale=std)
            for name, mean, std in columns
        }
    )


def score(table: Table, epsilon: float, wide: float, geometry: str, repetitions: int) -> Score:
    """Average over releases."""
    truth, frame = Truth(table), table.frame
    left_out = np.arange(len(frame)) % 5 == 0
    most, others = table.of(frame[~left_out]), frame[left_out]
    where = exact(table) if geometry == "floor" else geometry
    found = []
    for seed in range(repetitions):
        whole, part = (each.release(epsilon, seed, wide, geometry=where) for each in (table, most))
        found.append(truth.score(whole, (part, others)))
    return average(found)


def tables(directory: Path, only: list[str] | None) -> Iterator[Table]:
    """Public tables that are here, and the generated family."""
    for name, load in PUBLIC.items():
        if only is None or name in only:
            try:
                yield load(directory)
            except MissingTable as missing:
                print(f"left out: {missing}", file=sys.stderr)
    for seed in (1, 2, 3):
        if only is None or f"made-{seed}" in only:
            yield made(seed)


def run(options: Namespace) -> Iterator[Line]:
    """Every table, epsilon, width and geometry."""
    chosen = tables(data_directory(options.data), options.only)
    for table in [made(1, n_rows=4_000, n_columns=6)] if options.quick else chosen:
        for epsilon in options.epsilon:
            for wide in options.wide:
                for geometry in options.geometry:
                    if geometry != "floor" or wide == options.wide[0]:
                        found = score(table, epsilon, wide, geometry, options.repetitions)
                        yield Line(table.name, epsilon, wide, geometry, found)


def main() -> None:
    """Print a table, and write it as CSV where a file is named."""
    options = asked(
        __doc__,
        quick=False,
        data=Path,
        repetitions=20,
        epsilon=[0.5, 1.0, 4.0, -1.0, -4.0],
        wide=[1.0, 10.0, 100.0, 1000.0],
        only=[str],
        geometry=GEOMETRIES,
        out=Path,
    )
    warnings.simplefilter("ignore")
    names = [*_KEYS, *(field.name for field in fields(Score))]
    print(heading(names))
    for each in run(options):
        values = [getattr(each, key) for key in _KEYS] + list(vars(each.score).values())
        shown = [f"{value:.3g}" if isinstance(value, float) else value for value in values]
        print(row(shown), flush=True)
        if options.out is not None:
            _keep(options.out, pd.DataFrame([values], columns=names))


def _keep(path: Path, line: pd.DataFrame) -> None:
    """Write a line in place of the one with its keys, or behind all others."""
    lines = pd.concat([pd.read_csv(path), line]) if path.exists() else line
    places = {key: place for place, key in enumerate(dict.fromkeys(_keys_of(lines)))}
    lines = lines.set_axis([places[key] for key in _keys_of(lines)])
    lines[~lines.index.duplicated(keep="last")].sort_index().to_csv(
        path, index=False, float_format="%.4g"
    )


def _keys_of(lines: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(lines[list(_KEYS)].itertuples(index=False, name=None))


if __name__ == "__main__":
    main()
