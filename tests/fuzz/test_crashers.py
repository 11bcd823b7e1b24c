"""Inputs that once crashed, hung, filled the memory or escaped with a foreign error."""

import hashlib
import io
import json
import tracemalloc
from contextlib import suppress
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.errors import DataError, DpcovError, NumericError, ReleaseError, SchemaError
from dpcov.published.estimate.curve import nonnegative_minimizer
from dpcov.published.file.archive import MANIFEST_NAME
from dpcov.published.release import Release
from tests.data.reading import read_encoded
from tests.fuzz import commands, tables
from tests.fuzz.contract import one_case, scratch
from tests.fuzz.releases import members, saved, signed

LITTLE = 24 * 2**20


def assert_refused(read):
    """Reading raises a DataError and takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            read()
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()


@pytest.fixture
def refused(tmp_path):
    def check(name, content, schema=tables.NAMED):
        path = tmp_path / name
        path.write_bytes(content)
        assert_refused(lambda: list(read_encoded(open_source(path), schema, 64)))

    return check


NINES = "9" * 5000


@pytest.mark.parametrize("value", ["[" * 5000, "{a = " * 3000, NINES, f"[{NINES}]"])
def test_toml_that_ends_the_parser(value):
    with pytest.raises(SchemaError, match="digits"):
        Schema.loads(f"norm_bound = {value}")


def test_a_schema_file_without_end(tmp_path):
    path = tmp_path / "x.toml"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(SchemaError, match="larger than"):
        Schema.from_toml(path)


SHAPES = (
    *("(1000000000, -1)", "(-1, -1)", "(0, 1000000000)", "(0, 100001)"),
    *("(1000000000, 1000000000)", "(0, 9223372036854775807)"),
)


@pytest.mark.parametrize(
    "header",
    [
        *tables.NO_PYTHON,
        *(tables.npy_text("|u1", shape) for shape in SHAPES),
        *(tables.npy_text(kind, (3, 2)) for kind in ("|S0", "|V0", "<U0")),
        tables.npy_text("<f8", (10**9, 2)),
    ],
)
def test_headers_that_promise_too_much_or_are_no_python(refused, header):
    content = tables.npy_magic(header) + bytes(64)
    refused("x.npy", content, tables.PLACED)


def test_an_array_header_of_many_megabytes(refused):
    refused("x.npy", b"\x93NUMPY\x02\x00" + (2**26 - 16).to_bytes(4, "little") + bytes(64))


def test_column_names_that_are_no_text():
    sink = pa.BufferOutputStream()
    table = pa.table({"age": [1.0], "sex": ["F"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes().replace(b"sex", b"\xff\xfe\xfd")
    assert_refused(lambda: open_source(pa.ipc.open_stream(content)))


@pytest.mark.parametrize(
    "change",
    [
        *({"n_features": number} for number in (10**9, 0, -1)),
        {"spec": {"shells": 64, "groups": 9999}},
    ],
)
def test_saved_moments_of_a_stated_size_that_they_do_not_have(tmp_path, change):
    schema = Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1)})
    key, path = Key(b"k" * 32), tmp_path / "x.moments"
    held = dpcov.checkpoint(np.eye(3, 1), schema=schema, budget=dpcov.Budget(rho=1))
    held.save(path, key)
    content = unlock_file(path, key)
    length = int.from_bytes(content[:8], "little")
    text = json.dumps({**json.loads(content[8 : 8 + length]), **change}).encode()
    forged = len(text).to_bytes(8, "little") + text + content[8 + length :]
    lock_file(path, forged, key, overwrite=True)
    assert_refused(lambda: Checkpoint.load(path, key))


def test_fits_to_numbers_that_are_not_finite_or_to_none():
    for bad in (np.nan, np.inf):
        for matrix, vector in ((np.full((3, 3), bad), np.zeros(3)), (np.eye(3), np.full(3, bad))):
            with pytest.raises(NumericError):
                nonnegative_minimizer(matrix, vector)
    np.testing.assert_array_equal(nonnegative_minimizer(np.zeros((3, 3)), np.ones(3)), np.zeros(3))


@pytest.mark.parametrize("change", ["bound", "trace"])
def test_a_norm_bound_whose_square_overflows_and_a_joint_trace_without_a_number(tmp_path, change):
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
    path = tmp_path / "x.dpcov"
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
