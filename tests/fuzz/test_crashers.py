"""Inputs that once crashed, hung, filled the memory or escaped with a foreign error."""

import hashlib
import io
import json
import sqlite3
import tracemalloc
import zipfile
from contextlib import suppress
from random import Random

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

import dpcov
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.errors import DataError, DpcovError, LedgerError, NumericError, ReleaseError, SchemaError
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.spend import Spend
from dpcov.published.estimate.curve import nonnegative_minimizer
from dpcov.published.file import MANIFEST_NAME
from dpcov.published.release import Release
from tests.data.reading import read_encoded, read_unit_ball
from tests.fuzz import commands, tables
from tests.fuzz.contract import one_case, scratch
from tests.fuzz.mutate import zipped
from tests.fuzz.releases import members, saved, signed

LITTLE = 24 * 2**20


@pytest.fixture
def refused(tmp_path):
    """Write a file, read it, and expect a DataError and little memory."""

    def check(name, content, schema=tables.NAMED):
        path = tmp_path / name
        path.write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(DataError):
                for _ in read_encoded(open_source(path), schema, 64):
                    pass
            assert tracemalloc.get_traced_memory()[1] < LITTLE
        finally:
            tracemalloc.stop()

    return check


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000,
        "x = " + "{a = " * 3000,
        "norm_bound = " + "9" * 5000,
        "x = [" + "9" * 5000 + "]",
    ],
)
def test_toml_that_ends_the_parser(text):
    with pytest.raises(SchemaError, match="digits"):
        Schema.loads(text)


def test_a_schema_file_without_end(tmp_path):
    path = tmp_path / "x.toml"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(SchemaError, match="larger than"):
        Schema.from_toml(path)


@pytest.mark.parametrize("header", tables.NO_PYTHON)
def test_headers_that_are_no_python(refused, header):
    content = tables.npy_magic(header)
    refused("x.npy", content)
    refused("x.npz", zipped([("X.npy", content)]))


@pytest.mark.parametrize("kind", ["|S0", "|V0", "<U0"])
def test_entries_of_no_size(refused, kind):
    refused(
        "x.npy",
        tables.npy_magic(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (3, 2), }}")
        + bytes(64),
    )


@pytest.mark.parametrize(
    "shape",
    [
        "(1000000000, -1)",
        "(-1, -1)",
        "(0, 1000000000)",
        "(0, 100001)",
        "(1000000000, 1000000000)",
        "(0, 9223372036854775807)",
    ],
)
def test_a_header_of_too_many_columns(refused, shape):
    content = tables.npy_magic(f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}")
    refused("x.npy", content)
    refused("x.npz", zipped([("X.npy", content)]))


def test_a_header_of_too_many_rows(refused):
    content = tables.npy_magic(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 2), }"
    ) + bytes(64)
    refused("x.npy", content, tables.PLACED)
    refused("x.npz", zipped([("X.npy", content)]), tables.PLACED)


def test_an_array_header_of_many_megabytes(refused):
    refused("x.npz", tables.header_bomb())


def sparse(layout, **changes):
    """Return a saved sparse matrix some of whose arrays were replaced."""
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, scipy.sparse.csr_array(np.eye(4, 2)).asformat(layout))
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members |= {f"{name}.npy": saved(np.asarray(value)) for name, value in changes.items()}
    return zipped(list(members.items()), compression=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("place", [2**31 - 1, -1, 10**6])
def test_places_outside_of_a_sparse_matrix(refused, layout, place):
    refused("x.npz", sparse(layout, indices=np.array([0, place], dtype=np.int32)), tables.PLACED)


@pytest.mark.parametrize(
    "pointers", [[0, 2**40, 0, 0, 0], [0, -5, 0, 0, 0], [0, 9, 9, 9, 9], [2**62, 0, 0, 0, 0]]
)
def test_pointers_that_promise_too_much(refused, pointers):
    indices = np.zeros(4, dtype=np.int32)
    content = sparse("csr", indptr=np.array(pointers), indices=indices, data=np.zeros(4))
    refused("x.npz", content, tables.PLACED)


@pytest.mark.parametrize("layout", ["csc", "coo", "dia", "bsr"])
@pytest.mark.parametrize("shape", [[10**9, 2], [2, 10**9], [2**62, 2], [-1, 2], [4]])
def test_sparse_matrices_of_impossible_shapes(refused, layout, shape):
    refused("x.npz", sparse(layout, shape=shape), tables.PLACED)


def test_a_shape_of_many_numbers(refused):
    refused("x.npz", sparse("csr", shape=np.zeros(2**22, dtype=np.int64)), tables.PLACED)


def arrow(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("end", [2**31 - 1, -1, 2**30])
def test_texts_that_reach_out_of_the_file(refused, end):
    content = arrow(pa.table({"age": [1.0] * 3, "sex": ["F", "M", "F"], "ill": [True] * 3}))
    offsets = np.array([0, 1, 2, 3], dtype="<i4").tobytes()
    assert content.count(offsets) == 1
    refused("x.arrow", content.replace(offsets, np.array([0, 1, 2, end], dtype="<i4").tobytes()))


def test_categories_that_are_not_in_the_dictionary(refused):
    folded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 0], pa.int32()), ["F", "M"])
    content = arrow(pa.table({"age": [1.0] * 5, "sex": folded, "ill": [True] * 5}))
    codes = np.array([0, 1, 0, 1, 0], dtype="<i4").tobytes()
    assert content.count(codes) == 1
    refused("x.arrow", content.replace(codes, np.array([0, 1, 0, 1, 2**30], dtype="<i4").tobytes()))


def test_column_names_that_are_no_text(refused):
    refused(
        "x.arrow",
        arrow(pa.table({"age": [1.0], "sex": ["F"], "ill": [True]})).replace(
            b"sex", b"\xff\xfe\xfd"
        ),
    )


def test_saved_moments_of_a_stated_size_that_they_do_not_have(tmp_path):
    schema, key, path = (
        Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1)}),
        Key(b"k" * 32),
        tmp_path / "x.moments",
    )
    held = dpcov.checkpoint(
        np.eye(3, 1), schema=schema, budget=dpcov.Budget(rho=1), mechanism="gaussian", name="a"
    )
    held.save(path, key)
    content = unlock_file(path, key)
    length = int.from_bytes(content[:8], "little")
    heading = msgspec.json.decode(content[8 : 8 + length])
    for change in (
        {"n_features": 10**9},
        {"n_features": 0},
        {"n_features": -1},
        {"spec": {"shells": 64, "groups": 9999}},
    ):
        text = msgspec.json.encode({**heading, **change})
        lock_file(
            path,
            len(text).to_bytes(8, "little") + text + content[8 + length :],
            key,
            overwrite=True,
        )
        tracemalloc.start()
        with pytest.raises(DataError, match="another version"):
            Checkpoint.load(path, key)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LITTLE


@pytest.fixture
def ledger(tmp_path):
    """A ledger with one release, and a way to change its cells."""
    book = Ledger(tmp_path / "ledger.sqlite")
    book.create("patients", dpcov.Budget(rho=2), "replace-one")
    book.reserve(
        "patients", Spend(promise=dpcov.Budget(rho=1).promise, mechanism="gaussian"), "replace-one"
    )

    def change(statement, *values):
        with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
            connection.execute("DROP TRIGGER event_update")
            connection.execute(statement, values)
        connection.close()
        return book

    return change


@pytest.mark.timeout(20)
@pytest.mark.parametrize("cell", ["1e999999999", "9" * 5000, "1/0", "nan", b"\xff", -1.5])
def test_a_ledger_whose_numbers_are_bombs(ledger, cell):
    book = ledger("UPDATE entry SET promise_rho = ?", cell)
    with pytest.raises(LedgerError):
        book.remaining("patients")


@pytest.mark.parametrize("cell", [b"\xff", float("inf"), 7])
@pytest.mark.parametrize("column", ["at", "details", "kind", "dataset"])
def test_a_trail_with_cells_of_another_kind_is_broken_and_says_so(ledger, column, cell):
    book = ledger(f"UPDATE event SET {column} = ? WHERE number = 1", cell)
    assert "event 1 was changed" in book.verify(None).problems[0]


def test_a_ledger_whose_times_are_no_text(ledger):
    book = ledger("UPDATE entry SET reserved_at = x'00'")
    with pytest.raises(LedgerError):
        book.entries("patients")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_fit_to_numbers_that_are_not_finite(bad):
    with pytest.raises(NumericError):
        nonnegative_minimizer(np.full((3, 3), bad), np.zeros(3))
    with pytest.raises(NumericError):
        nonnegative_minimizer(np.eye(3), np.full(3, bad))


def test_a_fit_without_curves():
    np.testing.assert_array_equal(nonnegative_minimizer(np.zeros((3, 3)), np.ones(3)), np.zeros(3))


def test_a_norm_bound_whose_square_overflows_and_a_joint_trace_without_a_number(tmp_path):
    for change in ("bound", "trace"):
        parts = dict(members()[2])
        record = json.loads(parts[MANIFEST_NAME])
        if change == "bound":
            record["norm_bound"] = 1e300
        else:
            traces = np.load(io.BytesIO(parts["joint_trace.npy"])).astype(float)
            content = parts["joint_trace.npy"] = saved(traces * np.nan)
            digest = hashlib.sha256(content).hexdigest()
            record["members"]["joint_trace"] |= {"sha256": digest, "dtype": "<f8"}
        parts[MANIFEST_NAME] = json.dumps(record).encode()
        path = tmp_path / f"{change}.dpcov"
        path.write_bytes(signed(parts[MANIFEST_NAME], list(parts.items())))
        with pytest.raises(ReleaseError):
            Release.load(path).covariance()


@pytest.mark.parametrize(("table", "place", "value"), [(2, 713, 8), (0, 371, 9)])
def test_parquet_of_statistics_that_end_the_process_and_of_a_dictionary_that_is_too_short(
    tmp_path, table, place, value
):
    content = bytearray(tables.good_parquet()[table])
    content[place] = value
    (tmp_path / "x.parquet").write_bytes(content)
    with suppress(DpcovError):
        list(read_encoded(open_source(tmp_path / "x.parquet"), tables.NAMED, 16))


@pytest.mark.parametrize(
    "words",
    [
        ("record", "in.dpcov", "--kind", "checklist", "-o", "in\udcff.csv"),
        ("ledger", "show", "in.sqlite", "--dataset", "in\udcff.csv"),
    ],
)
def test_names_that_are_no_text(words, monkeypatch):
    monkeypatch.setattr(commands, "arguments", lambda random: list(words))
    with scratch() as folder:
        assert one_case(commands.run, Random(1), folder, writes=True)[1] == []


def test_good_files_are_still_read(tmp_path):
    """The refusals above do not refuse too much."""
    for layout in ("csr", "csc", "coo", "dia", "bsr"):
        (tmp_path / "x.npz").write_bytes(sparse(layout))
        blocks = list(read_unit_ball(open_source(tmp_path / "x.npz"), 1.0, 64))
        np.testing.assert_array_equal(np.concatenate(blocks), np.eye(4, 2))
