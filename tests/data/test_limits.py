"""Limits: what is just allowed is taken, the next is refused; old files are opened.

The numbers stand here as they are documented, not as the package holds them.
"""

import hashlib
import json

import numpy as np
import pytest
import scipy.sparse

import dpcov
from dpcov.data.schema.declared import Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.sources.matrices import check_matrix
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.errors import DataError, SchemaError, UsageError
from tests.fuzz.mutate import zipped
from tests.fuzz.tables import npy_magic

FILE_KEY, WORDS = Key(bytes(range(32))), Key.from_passphrase("correct horse")
SALT = bytes(range(100, 132)).hex()
LOCKED = {
    "file": "ef2d5d29ea823e4926c549e54392d0e11bee99395d1a37c1d47f405e4d",
    "passphrase": "9c774831df6abe239790f3350f8ae5b83e6d61b3a33e489a4939f6bfa3",
}


@pytest.mark.parametrize(("kind", "key"), [("file", FILE_KEY), ("passphrase", WORDS)])
def test_files_that_were_locked_once_are_opened_for_ever(tmp_path, kind, key):
    line = (
        json.dumps({"format": "dpcov-vault", "version": 1, "key": kind, "salt": SALT}).encode()
        + b"\n"
    )
    (tmp_path / "old").write_bytes(line + bytes.fromhex(LOCKED[kind]))
    assert unlock_file(tmp_path / "old", key) == b"exact moments"


def test_long_files_are_locked_as_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: bytes(range(100, 100 + count)))
    lock_file(tmp_path / "new", bytes(2 * 2**20 + 7), FILE_KEY)
    assert hashlib.sha256((tmp_path / "new").read_bytes()).hexdigest() == (
        "31481095bfc46299289786a105b3dc4d749f392c12fd5e208b301136267e1173"
    )


@pytest.mark.parametrize(
    ("size", "taken"), [(31, False), (32, True), (2**16, True), (2**16 + 1, False)]
)
def test_keys_have_32_bytes_to_64_kilobytes(tmp_path, size, taken):
    (tmp_path / "key").write_bytes(b"k" * size)
    if taken:
        assert Key.from_file(tmp_path / "key").secret == b"k" * size
        return
    with pytest.raises(UsageError, match="at least 32"):
        Key.from_file(tmp_path / "key")


def test_passphrases_have_12_characters():
    assert Key.from_passphrase("x" * 12).kind == "passphrase"
    with pytest.raises(UsageError, match="at least 12"):
        Key.from_passphrase("x" * 11)


@pytest.mark.parametrize(("count", "lines"), [(1, 2), (20, 21), (21, 22), (90, 22)])
def test_twenty_mistakes_of_a_schema_are_told(count, lines):
    text = "".join(f"[columns.c{place}]\ntype = 'number'\n" for place in range(count))
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    assert len(str(caught.value).splitlines()) == lines
    assert ("more" in str(caught.value).splitlines()[-1]) == (count > 20)


def test_twenty_problems_of_a_schema_are_told():
    schema = Schema(columns={f"c{place}": Numeric() for place in range(30)})
    with pytest.raises(SchemaError) as caught:
        schema.require_complete()
    assert len(str(caught.value).splitlines()) == 22


def test_a_mistake_is_told_in_400_characters():
    with pytest.raises(SchemaError) as caught:
        Schema.loads(f'[columns."{"x" * 5000}"]\ntype = 3\n')
    assert max(map(len, str(caught.value).splitlines())) == 404


def test_schema_files_have_up_to_16_megabytes(tmp_path):
    path = tmp_path / "x.toml"
    text = b'[columns.x]\ntype = "boolean"\n#'
    path.write_bytes(text + b"x" * (16 * 2**20 - len(text)))
    assert Schema.from_toml(path).features
    path.write_bytes(text + b"x" * (16 * 2**20 - len(text) + 1))
    with pytest.raises(SchemaError, match="larger than 16 MiB"):
        Schema.from_toml(path)


@pytest.mark.parametrize(
    ("lower", "upper", "taken"),
    [
        (-1e150, 1e150, True),
        (-1.6e150, 1e149, True),
        (-1e149, 1.6e150, True),
        (-1e150, 1.1e150, False),
        (-1e-150, 1e-150, True),
        (3e-150, 6e-150, True),
        (-6e-150, -3e-150, True),
        (3e-150, 4.9e-150, False),
    ],
)
def test_half_ranges_lie_between_limits_whose_squares_are_floats(lower, upper, taken):
    problems = Schema(columns={"x": Numeric(lower=lower, upper=upper)}).problems()
    assert (problems == []) == taken


@pytest.mark.parametrize(
    ("columns", "taken"), [(0, False), (1, True), (100_000, True), (100_001, False)]
)
def test_matrices_have_up_to_100000_columns(columns, taken):
    if taken:
        check_matrix((3, columns), np.dtype("f8"), "x")
        return
    with pytest.raises(DataError, match="columns"):
        check_matrix((3, columns), np.dtype("f8"), "x")


@pytest.mark.parametrize(("rows", "taken"), [(10**6 + 200, True), (10**6 + 201, False)])
def test_sparse_columns_have_up_to_a_million_empty_rows(tmp_path, rows, taken):
    matrix = scipy.sparse.csc_array((np.ones(2), ([0, 1], [0, 1])), shape=(rows, 2))
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    if taken:
        assert len(open_source(tmp_path / "x.npz").columns) == 2
        return
    with pytest.raises(DataError, match="far more rows than entries"):
        open_source(tmp_path / "x.npz")


@pytest.mark.parametrize(("length", "taken"), [(10_000, True), (10_001, False)])
def test_headers_of_arrays_have_up_to_10000_bytes(tmp_path, length, taken):
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }"
    content = npy_magic(text.ljust(length - 1)) + bytes(16)
    (tmp_path / "x.npz").write_bytes(zipped([("X.npy", content)]))
    if taken:
        assert dpcov.moments(str(tmp_path / "x.npz"), norm_bound=1.0).n_rows == 1
        return
    with pytest.raises(DataError):
        open_source(tmp_path / "x.npz")
