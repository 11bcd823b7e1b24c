"""Every way in which rows come in, as functions from rows to what `dpcov.release` takes.

A row is a pair of cells: the columns ``n`` (a number) and ``c`` (a category).  ``cells`` says what
a door can hold: objects of any type, declared types only, or lines of text as a careless program
would write them.
"""

import gzip
import io
import lzma
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import scipy.sparse

import dpcov
from dpcov.data.layout import FileLayout
from dpcov.data.sources import delimited, open_source

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


def _layout_of(path, text, **layout):
    path.write_bytes(text)
    return open_source(path, FileLayout(**layout))


@door("lines")
def semicolons_latin1(lines, folder):
    text = "\r\n".join(["Title", "n;c", *(line.replace(",", ";") for line in lines)])
    path = folder / "latin.csv"
    return _layout_of(path, text.encode("latin-1"), delimiter=";", encoding="latin-1", header=2)


@door("lines")
def utf16_tabs(lines, folder):
    text = "\n".join(["n\tc", *(line.replace(",", "\t") for line in lines), ""])
    return _layout_of(folder / "t.txt", text.encode("utf-16"), delimiter="\t", encoding="utf-16")


@door("lines")
def csv_zip(lines, folder):
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        archive.write(csv(lines, folder), "t.csv")
    return folder / "t.zip"


@door("json")
def json_lines(lines, folder):
    (folder / "t.jsonl").write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    return folder / "t.jsonl"


@door("json")
def json_lines_xz(lines, folder):
    text = "\r\n".join([*lines, ""]).encode(errors="surrogateescape")
    (folder / "t.ndjson.xz").write_bytes(lzma.compress(text))
    return folder / "t.ndjson.xz"


def _statistical(write, path, rows):
    pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    write(pd.DataFrame(_objects(rows)).astype({"n": float, "c": object}), path)
    source = open_source(path)
    source.step = 2
    return source


@door("dictionary")
def spss(rows, folder):
    import pyreadstat

    return _statistical(pyreadstat.write_sav, folder / "t.sav", rows)


@door("dictionary")
def stata(rows, folder):
    import pyreadstat

    return _statistical(pyreadstat.write_dta, folder / "t.dta", rows)


@door("dictionary")
def sas_transport(rows, folder):
    import pyreadstat

    return _statistical(pyreadstat.write_xport, folder / "t.xpt", rows)


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" '
    'ContentType="application/xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets><sheet name="t" '
    'sheetId="1" r:id="s"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship '
    f'Id="s" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}


def _sheet_cell(cell):
    if cell is None:
        return "<c/>"
    if isinstance(cell, bool):
        return f'<c t="b"><v>{cell:d}</v></c>'
    if isinstance(cell, str):
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    return f"<c><v>{cell!r}</v></c>"


@door("sheet")
def sheet(rows, folder):
    pytest.importorskip("python_calamine", reason="needs dpcov[files]")
    lines = (f"<row>{''.join(map(_sheet_cell, row))}</row>" for row in [NAMES, *rows])
    data = f'<worksheet xmlns="{_SHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
    with zipfile.ZipFile(folder / "t.xlsx", "w") as archive:
        for name, part in {**_PARTS, "xl/worksheets/sheet1.xml": data}.items():
            archive.writestr(name, part)
    return folder / "t.xlsx"


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
        # Nobody waits for the disk: the file is gone after a moment.
        connection.execute("PRAGMA synchronous = OFF")
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
    with duckdb.connect(str(path), config={"threads": 1}) as connection:
        connection.register("given", arrow(rows))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return dpcov.Query("SELECT n, c FROM t", db=f"duckdb:///{path}")


@door("declared")
def duckdb_files_of_parquet(rows, folder):
    place = dask_files_of_parquet(rows, folder)
    return dpcov.Query(f"SELECT n, c FROM '{place}/*.parquet'", db="duckdb://")


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
