import datetime as dt
import io
import sys
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

from dpcov.data.schema.declared import Boolean, Categorical, Numeric, Weights
from dpcov.data.schema.draft import describe
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import DpcovError
from tests.data.reading import read_encoded, read_unit_ball

TEXT, NUMBER = "SENTINEL_7391", 73911937.25
SIGNS = (TEXT, "73911937", "7391")

NUMERIC = Schema(columns={"a": Numeric(lower=0, upper=1), "b": Numeric(lower=0, upper=1)})
TRUTH = Schema(columns={"a": Boolean(), "b": Boolean()})
LABELS = Schema(columns={"a": Categorical(categories=("x",)), "b": Categorical(categories=("x",))})
WEIGHTED = Schema(
    columns={"b": Boolean(), "a": Numeric(lower=0, upper=1)}, weights=Weights(column="w", upper=1)
)
ABSENT = Schema(columns={"a": Boolean(), "zz": Boolean()})

ROWS = f"{TEXT},{NUMBER}\n" * 50
TABLE = pa.table({"a": [TEXT] * 50, "b": [NUMBER] * 50})
LISTS = pa.table({"a": [[TEXT]] * 50, "b": [[NUMBER]] * 50})
FLOATS = np.full((50, 2), NUMBER)


JSON = f'{{"a": "{TEXT}", "b": {NUMBER}}}\n' * 50


def _dictionary(path, writer, cell):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    getattr(pyreadstat, writer)(pd.DataFrame({"a": [cell] * 50, "b": [NUMBER] * 50}), path)


def text(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))


def cut(path, write, keep=0.8):
    write(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


FILES = {
    "text among numbers.csv": lambda p: text(p, "a,b\n" + ROWS),
    "number too long.csv": lambda p: text(p, f"a,b\n1,{NUMBER}{NUMBER}\n"),
    "ragged short.csv": lambda p: text(p, "a,b\n" + ROWS + f"{TEXT}\n"),
    "ragged long.csv": lambda p: text(p, "a,b\n" + ROWS + f"{TEXT},{NUMBER},{TEXT}\n"),
    "open quotation.csv": lambda p: text(p, f'a,b\n1,"{TEXT}\n' + ROWS * 100),
    "latin-1.csv": lambda p: text(p, f"a,b\n{TEXT}ü,ü{NUMBER}\n", "latin-1"),
    "utf-16.csv": lambda p: text(p, "a,b\n" + ROWS, "utf-16"),
    "null bytes.csv": lambda p: text(p, f"a,b\n{TEXT}\0,\0{NUMBER}\n"),
    "no header.csv": lambda p: text(p, ROWS),
    "no header of texts.csv": lambda p: text(p, f"{TEXT},{TEXT}2\n" * 4),
    "same names.csv": lambda p: text(p, f"{TEXT},{TEXT}\n" * 4),
    "not compressed.csv.gz": lambda p: text(p, "a,b\n" + ROWS),
    "not compressed.csv.zst": lambda p: text(p, "a,b\n" + ROWS),
    "text.tsv": lambda p: text(p, ("a,b\n" + ROWS).replace(",", "\t")),
    "commas.tsv": lambda p: text(p, "a,b\n" + ROWS),
    "text among numbers.jsonl": lambda p: text(p, JSON),
    "no json.jsonl": lambda p: text(p, ROWS),
    "broken.jsonl": lambda p: text(p, JSON + f'{{"a": "{TEXT}", "b": {NUMBER}'),
    "lists.ndjson": lambda p: text(p, f'{{"a": ["{TEXT}"], "b": [{NUMBER}]}}\n'),
    "other keys.jsonl": lambda p: text(p, JSON + f'{{"{TEXT}": {NUMBER}}}\n'),
    "not packed.csv.xz": lambda p: text(p, "a,b\n" + ROWS),
    "not packed.csv.bz2": lambda p: text(p, "a,b\n" + ROWS),
    "not packed.zip": lambda p: text(p, "a,b\n" + ROWS),
    "text.sav": lambda p: text(p, ROWS),
    "text.dta": lambda p: text(p, ROWS),
    "text.xlsx": lambda p: text(p, ROWS),
    "dates.sav": lambda p: _dictionary(p, "write_sav", dt.date(1973, 9, 1)),
    "texts.sav": lambda p: _dictionary(p, "write_sav", TEXT),
    "cut.sav": lambda p: cut(p, lambda q: _dictionary(q, "write_sav", TEXT)),
    "texts.dta": lambda p: _dictionary(p, "write_dta", TEXT),
    "cut.xpt": lambda p: cut(p, lambda q: _dictionary(q, "write_xport", TEXT)),
    "wrong types.parquet": lambda p: pa.parquet.write_table(TABLE, p),
    "lists.parquet": lambda p: pa.parquet.write_table(LISTS, p),
    "text.parquet": lambda p: text(p, ROWS),
    "cut.parquet": lambda p: cut(p, lambda q: pa.parquet.write_table(TABLE, q)),
    "text.npy": lambda p: text(p, ROWS),
    "texts.npy": lambda p: np.save(p, np.array([[TEXT]])),
    "objects.npy": lambda p: np.save(
        p, np.array([[TEXT, NUMBER]], dtype=object), allow_pickle=True
    ),
    "vector.npy": lambda p: np.save(p, FLOATS[0]),
    "cut.npy": lambda p: cut(p, lambda q: np.save(q, FLOATS)),
}

OBJECTS = {
    "table": lambda: TABLE,
    "table of lists": lambda: LISTS,
    "table of dates": lambda: pa.table(
        {"a": pa.array([7391], pa.date32()), "b": pa.array([7391], pa.time64("ns"))}
    ),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas mixed": lambda: pd.DataFrame({"a": [1, TEXT, None], "b": [NUMBER, TEXT, b"x"]}),
    "pandas objects": lambda: pd.DataFrame({"a": [{TEXT: NUMBER}, 1], "b": [{TEXT}, object()]}),
    "pandas same names": lambda: pd.DataFrame([[TEXT, NUMBER]], columns=["a", "a"]),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars objects": lambda: pl.DataFrame(
        {"a": [{TEXT}], "b": [1]}, schema={"a": pl.Object, "b": pl.Int8}
    ),
    "lists": lambda: [[TEXT, NUMBER], [1.0, 2.0]],
    "ragged lists": lambda: [[NUMBER], [NUMBER, NUMBER]],
    "vector": lambda: FLOATS[0],
    "complex": lambda: FLOATS * 1j,
    "objects": lambda: np.array([[TEXT, NUMBER]], dtype=object),
    "infinite": lambda: np.array([[NUMBER, np.inf]]),
    "sparse objects": lambda: scipy.sparse.coo_array(FLOATS * 1j),
    "dictionary": lambda: {"a": [TEXT], "b": [NUMBER]},
    "string": lambda: "a,b\n1,2\n",
}


def messages(error):
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield from traceback.format_exception(error)
        error = error.__cause__ or error.__context__


def attempt(make):
    """Return the error of every way to read the data, None where it can be read."""
    schemas = (NUMERIC, TRUTH, LABELS, WEIGHTED, ABSENT)
    ways = [lambda s, schema=schema: list(read_encoded(s, schema, 20)) for schema in schemas]
    ways += [
        lambda s: list(read_unit_ball(s, 1.0, 20)),
        lambda s: s.columns and describe(s) and None,
    ]
    for way in ways:
        try:
            source = open_source(make())
        except DpcovError as error:
            yield error
            return
        try:
            way(source)
        except DpcovError as error:
            yield error


def check(make, capfd, caplog, recwarn):
    errors = list(attempt(make))
    assert errors
    said = [line for error in errors for line in messages(error)]
    said += [*capfd.readouterr(), caplog.text, *(str(warning.message) for warning in recwarn)]
    assert [line for line in said if any(sign in line for sign in SIGNS)] == []
    assert all(error.__cause__ is None for error in errors)


@pytest.mark.parametrize("name", FILES)
def test_no_value_of_a_file_is_told(name, tmp_path, capfd, caplog, recwarn):
    FILES[name](tmp_path / name)
    check(lambda: tmp_path / name, capfd, caplog, recwarn)


@pytest.mark.parametrize("name", OBJECTS)
def test_no_value_in_memory_is_told(name, capfd, caplog, recwarn):
    check(OBJECTS[name], capfd, caplog, recwarn)


@pytest.mark.parametrize("content", [ROWS, "a,b\n" + ROWS, f"a,b\n1,2\n{TEXT}"])
def test_no_value_of_standard_input_is_told(content, monkeypatch, capfd, caplog, recwarn):
    def make():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        return "-"

    check(make, capfd, caplog, recwarn)


def test_the_check_sees_a_value_in_a_context(capfd, caplog, recwarn):
    class Careless:
        @property
        def __arrow_c_stream__(self):
            try:
                float(TEXT)
            except ValueError:
                raise DpcovError("hidden in the context") from None

    with pytest.raises(AssertionError):
        check(Careless, capfd, caplog, recwarn)


@pytest.mark.parametrize(
    "make", [lambda: TABLE, lambda: FLOATS, lambda: scipy.sparse.csr_array(FLOATS)]
)
def test_no_repr_tells_a_value(make):
    source = open_source(make())
    assert not any(sign in repr(source) + str(vars(source).keys()) for sign in SIGNS)
