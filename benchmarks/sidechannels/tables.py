"""Tables that differ in private things only: values, one row more or less, groups, lengths of
rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

N_FEATURES = 8
SCHEMA = "\n".join(
    [
        'title = "side channels"',
        "intercept = false",
        *(
            f'[columns.x{place}]\ntype = "numeric"\nlower = -1\nupper = 1'
            for place in range(N_FEATURES)
        ),
        '[columns.g]\ntype = "categorical"\ncategories = ["a", "b", "c", "d"]',
    ]
)

REFERENCE = "usual values"


def variants(n_rows: int) -> dict[str, tuple[str, pa.Table]]:
    """Return the kind of difference and the table, by name; the reference stands first and once
    more."""
    random = np.random.default_rng(0)
    usual = random.uniform(-1, 1, (n_rows + 1, N_FEATURES))
    spread = np.array(list("abcd"))[random.integers(0, 4, n_rows + 1)]
    same = np.full_like(usual[:n_rows], 1.0)
    missing = np.where(random.random((n_rows, N_FEATURES)) < 0.5, np.nan, usual[:n_rows])
    one_group, other_group = np.full(n_rows, "a"), np.full(n_rows, "elsewhere")
    tables = {
        REFERENCE: ("", usual[:n_rows], spread),
        "the same again": ("", usual[:n_rows], spread),
        "a row more": ("rows", usual, spread),
        "a row less": ("rows", usual[: n_rows - 1], spread),
        "all zero": ("values", same * 0, spread),
        "all maximal": ("values", same, spread),
        "all clipped": ("values", usual[:n_rows] * 1e6, spread),
        "half missing": ("values", missing, spread),
        "one group": ("group", usual[:n_rows], one_group),
        "unknown groups": ("group", usual[:n_rows], other_group),
        "short rows": ("shell", usual[:n_rows] / 1000, spread),
        "rows of all lengths": (
            "shell",
            usual[:n_rows] * 2.0 ** -random.integers(0, 12, (n_rows, 1)),
            spread,
        ),
    }
    return {name: (kind, _table(values, groups)) for name, (kind, values, groups) in tables.items()}


def _table(values: NDArray[np.float64], groups: NDArray[np.str_]) -> pa.Table:
    columns = {
        f"x{place}": pa.array(column, from_pandas=True) for place, column in enumerate(values.T)
    }
    return pa.table({**columns, "g": groups[: len(values)]})


def write(table: pa.Table, stem: Path) -> None:
    """Write CSV with numbers of one width, and Parquet without compression, so that files differ
    little."""
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pa.parquet.write_table(table, stem.with_suffix(".parquet"), **options)
    cells = [
        [
            "NaN" if number is None else f"{number:+12.5f}"
            for number in table[f"x{place}"].to_pylist()
        ]
        for place in range(N_FEATURES)
    ]
    lines = map(",".join, zip(*cells, table["g"].to_pylist(), strict=True))
    stem.with_suffix(".csv").write_text("\n".join([",".join(table.column_names), *lines]) + "\n")
