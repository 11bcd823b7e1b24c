"""Every way in which rows come in, as functions from rows to what `dpcov.release` takes.

A row is a pair of cells: the columns ``n`` (a number) and ``c`` (a category).  ``cells`` says what
a door can hold: objects of any type, declared types only, or lines of text as a careless program
would write them.
"""

import gzip
import io
import sqlite3
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import scipy.sparse

import dpcov
from dpcov.data.sources import delimited

NAMES = ("n", "c")
TYPES = pa.schema([("n", pa.float64()), ("c", pa.string())])


@dataclass(frozen=True)
class Door:
    """A way in: what it opens, the kind of its cells, the engine if the data's type says none."""

    opens: object
    cells: str
    engine: str | None = None


DOORS = {}


def door(cells, engine=None):
    """Add a function to the list."""

    def add(opens):
        DOORS[opens.__name__] = Door(opens, cells, engine)
        return opens

    return add


def arrow(rows):
    """Rows as a table of declared types."""
    columns = zip(zip(*rows, strict=True), TYPES.types, strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in columns], schema=TYPES)


def _objects(rows):
    columns = zip(NAMES, zip(*rows, strict=True), strict=True)
    return {name: pd.Series(list(cells), dtype=object) for name, cells in columns}


@door("lines")
def csv(lines, folder):
    path = folder / "t.csv"
    path.write_bytes("\n".join(["n,c", *lines, ""]).encode())
    return path


@door("lines")
def csv_gz(lines, folder):
    path = folder / "t.csv.gz"
    path.write_bytes(gzip.compress("\r\n".join(["n,c", *lines]).encode()))
    return path


@door("lines")
def standard_input(lines, folder):
    stream = io.BytesIO("\n".join(["n,c", *lines, ""]).encode())
    return delimited.from_stream(stream, "standard input")


@door("declared")
def parquet(rows, folder):
    pa.parquet.write_table(arrow(rows), folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet"


@door("declared")
def arrow_file(rows, folder):
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, TYPES) as writer:
        writer.write_table(arrow(rows), max_chunksize=2)
    return folder / "t.arrow"


DOORS |= {
    "arrow_table": Door(lambda rows, folder: arrow(rows), "declared"),
    "arrow_stream": Door(lambda rows, folder: arrow(rows).to_reader(max_chunksize=2), "declared"),
    "polars_frame": Door(lambda rows, folder: pl.from_arrow(arrow(rows)), "declared"),
}


@door("objects")
def pandas_objects(rows, folder):
    return pd.DataFrame(_objects(rows))


@door("labels")
def pandas_categories(rows, folder):
    labels = list(dict.fromkeys(cell for _, cell in rows if cell is not None))
    codes = [-1 if cell is None else labels.index(cell) for _, cell in rows]
    categories = pd.Categorical.from_codes(codes, pd.Index(labels, dtype=object))
    return pd.DataFrame({"n": _objects(rows)["n"], "c": categories})


@door("objects")
def sqlite(rows, folder):
    return dpcov.Query("SELECT n, c FROM t", db=f"sqlite:///{_sqlite_file(rows, folder)}")


def _sqlite_file(rows, folder):
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (n NUMERIC, c NUMERIC)")
        storable = [tuple(map(_storable, row)) for row in rows]
        connection.executemany("INSERT INTO t VALUES (?, ?)", storable)
    return path


def _storable(cell):
    """What SQLite can hold of a cell: it has no decimals, dates, or integers beyond 64 bits."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    storable = cell is None or isinstance(cell, float | str | bytes)
    return cell if storable or (isinstance(cell, int) and abs(cell) < 2**63) else str(cell)


@door("declared")
def duckdb_file(rows, folder):
    import duckdb

    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.register("given", arrow(rows))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return dpcov.Query("SELECT n, c FROM t", db=f"duckdb:///{path}")


@door("lines")
def duckdb_csv(lines, folder):
    columns = "{'n': 'DOUBLE', 'c': 'VARCHAR'}"
    call = f"read_csv('{csv(lines, folder)}', auto_detect=false, header=true, columns={columns})"
    return dpcov.Query(f"SELECT * FROM {call}", db="duckdb://")


@door("objects")
def dask_frame(rows, folder):
    import dask
    import dask.dataframe

    frame, parts = pd.DataFrame(_objects(rows)), max(1, len(rows) // 2)
    with dask.config.set({"dataframe.convert-string": False}):
        return dask.dataframe.from_pandas(frame, npartitions=parts)


@door("declared", engine="dask")
def dask_files_of_parquet(rows, folder):
    place = folder / "files"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    for start in range(0, len(rows), 2):
        pa.parquet.write_table(arrow(rows[start : start + 2]), place / f"{start}.parquet")
    return place


@door("declared", engine="spark")
def spark_frame(rows, folder):
    from pyspark.sql import SparkSession

    typed = [tuple(None if cell is None else cell for cell in row) for row in rows]
    return SparkSession.getActiveSession().createDataFrame(typed, "n double, c string")


def array(rows):
    """Rows of numbers."""
    return np.array([[float(cell) for cell in row] for row in rows])


def _npy(rows, folder):
    np.save(folder / "t.npy", array(rows))
    return folder / "t.npy"


# Ways in for numbers only.
ARRAYS = {
    "list_of_lists": lambda rows, folder: [list(row) for row in rows],
    "array": lambda rows, folder: array(rows),
    "npy": _npy,
    "sparse": lambda rows, folder: scipy.sparse.csr_matrix(array(rows)),
}
