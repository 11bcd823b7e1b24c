"""What a usual run never meets: refusals and answers at the edges of the sensitive side."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dpcov
from dpcov.data import moments
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.groups import OTHER, Grouping, split_schema
from dpcov.data.moments import MomentsSpec, quantize
from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.seal import explain
from dpcov.data.sources import open_source
from dpcov.data.vault import Key, lock_file, unlock_file, write_key
from dpcov.errors import DataError, NumericError, SchemaError, UsageError

KEY = Key(bytes(range(32)))
SCHEMA = Schema(columns={"x": Numeric(lower=0, upper=1), "flag": Boolean()})


def saved(value=0.5):
    rows = pa.table({"x": [value] * 3, "flag": [True, False, True]})
    return dpcov.checkpoint(rows, schema=SCHEMA, budget=dpcov.Budget(rho=1), mechanism="gaussian")


@pytest.mark.parametrize("cut", [0, 8, 40, -8, -1])
def test_saved_moments_that_do_not_fit_their_heading_are_refused(tmp_path, cut):
    content = saved()._to_bytes()
    lock_file(tmp_path / "a", content[:cut] if cut else content + bytes(8), KEY)
    with pytest.raises(DataError, match="another version"):
        Checkpoint.load(tmp_path / "a", KEY)


@pytest.mark.parametrize("categories", [(), ("a", "a"), ("a", OTHER)])
def test_groups_need_distinct_names(categories):
    with pytest.raises(SchemaError, match="distinct"):
        Grouping("g", categories)


def test_rows_of_no_group_have_a_group_of_their_own():
    grouping = Grouping("g", ("a", "b"))
    assert grouping.names == ("a", "b", OTHER)
    assert grouping.codes_of(pa.array(["a", "zebra", None, "b", " b "])).tolist() == [0, 2, 2, 1, 1]
    numbered = Grouping("x11", ("0", "1"))
    block = np.zeros((3, 12))
    block[:, 11] = [1.0, 0.0, 7.0]
    assert numbered.codes(block).tolist() == [1, 0, 2]
    assert grouping.codes(pa.record_batch({"f": ["b", "b"], "g": ["a", "b"]})).tolist() == [0, 1]


def test_only_columns_with_public_values_make_groups():
    schema = Schema(
        columns={**SCHEMA.columns, "sex": Categorical(categories=("F", "M")), "note": Ignored()}
    )
    for column, names in (("flag", ("true", "false", OTHER)), ("sex", ("F", "M", OTHER))):
        rest, grouping = split_schema(schema, column)
        assert (grouping.names, column in rest.features) == (names, False)
    for column in ("x", "note", "absent"):
        with pytest.raises(SchemaError, match="categorical or boolean"):
            split_schema(schema, column)


def test_rows_that_cannot_be_shortened_are_refused(monkeypatch):
    monkeypatch.setattr(
        moments, "_same_everywhere", lambda energy, *others: np.full_like(energy, 4.0**18)
    )
    with pytest.raises(NumericError, match="norm bound"):
        quantize(np.array([[1.0, 1.0]]), MomentsSpec())


def test_columns_of_a_schema_have_names():
    with pytest.raises(SchemaError, match="mapping"):
        Schema(columns=[Numeric(lower=0, upper=1)])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (PermissionError(), "no permission"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), "UTF-8"),
        (KeyError("zebra"), "damaged"),
    ],
)
def test_errors_are_told_by_their_kind_alone(error, words):
    assert words in explain(error)
    assert "zebra" not in explain(error)


def test_a_source_is_its_own_source_and_a_stream_of_arrow_is_one():
    source = open_source(np.eye(2))
    assert open_source(source) is source

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"x": [1.0, 0.0]}).__arrow_c_stream__(requested_schema)

    assert open_source(Stream()).columns == ("x",)


def test_polars_without_batches_is_read_as_a_whole(monkeypatch):
    lazy = pl.LazyFrame({"x": [0.5, 0.25], "flag": [True, False]})
    expected = dpcov.checkpoint(
        lazy, schema=SCHEMA, budget=dpcov.Budget(rho=1), mechanism="gaussian"
    )
    monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)
    again = dpcov.checkpoint(lazy, schema=SCHEMA, budget=dpcov.Budget(rho=1), mechanism="gaussian")
    assert again.moments == expected.moments


def test_key_files_that_cannot_be_written_or_read_say_why(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: no such file"):
        write_key(tmp_path / "absent" / "key")
    with pytest.raises(DataError, match="cannot be read: no such file"):
        unlock_file(tmp_path / "absent", KEY)
