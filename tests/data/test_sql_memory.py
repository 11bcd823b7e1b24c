"""Memory stays flat while a database streams its rows."""

import os
import sqlite3
import subprocess
import sys

import pytest

MEASURED = """
import resource, sys
from dpcov.data.moments import MomentsSpec
from dpcov.data.schema.declared import Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Query
from dpcov.data.gather import table_moments
schema = Schema(columns={f"x{i}": Numeric(lower=0, upper=1) for i in range(8)})
moments = table_moments(Query(sys.argv[2], db=sys.argv[1]), schema, MomentsSpec())
assert moments.n_rows == int(sys.argv[3])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_mebibytes(url, rows_of, n_rows):
    columns = ", ".join(f"CAST(i AS float) / {i + 1e7} AS x{i}" for i in range(8))
    statement = f"SELECT {columns} FROM {rows_of(n_rows)}"
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, url, statement, str(n_rows)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return float(run.stdout)


SERIES = {
    "duckdb": lambda n: f"(SELECT range AS i FROM range({n})) AS s",
    "sqlite": lambda n: (
        "(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s "
        f"WHERE i < {n}) SELECT i FROM s) AS s"
    ),
    "postgres": lambda n: f"generate_series(1, {n}) AS s(i)",
}


def check_flat_memory(kind, tmp_path, request, small, large, slack):
    if kind == "postgres":
        url = request.getfixturevalue("postgres_database")
    else:
        url = {"duckdb": "duckdb://", "sqlite": f"sqlite:///{tmp_path / 'any.db'}"}[kind]
        sqlite3.connect(tmp_path / "any.db").close()
    first, second = (peak_mebibytes(url, SERIES[kind], n) for n in (small, large))
    # The larger result alone would need large * 8 * 8 bytes.
    assert second - first < slack < large * 64 / 2**20 / 2


def test_memory_does_not_grow_with_the_rows_of_postgres(tmp_path, request):
    check_flat_memory("postgres", tmp_path, request, 100_000, 500_000, slack=14)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", SERIES)
def test_memory_does_not_grow_with_the_rows(kind, tmp_path, request):
    # SQLite's rows pass through Python objects, which takes longer.
    large = 2_000_000 if kind == "sqlite" else 8_000_000
    check_flat_memory(kind, tmp_path, request, large // 8, large, slack=55)
