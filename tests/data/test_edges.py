"""What a usual run never meets: refusals and answers at the edges of the sensitive side."""

import numpy as np
import pyarrow as pa
import pytest

from dpcov.data.groups import Grouping, split_schema
from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.seal import explain
from dpcov.data.sources import open_source
from dpcov.errors import DataError, SchemaError
from dpcov.published.file.columns import OTHER

SCHEMA = Schema(columns={"x": Numeric(lower=0, upper=1), "flag": Boolean()})


@pytest.mark.parametrize("categories", [(), ("a", "a"), ("a", OTHER), "north"])
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


def test_groups_of_a_boolean_column_are_read_as_it_is_without_groups():
    _, grouping = split_schema(SCHEMA, "flag")
    for cells in (
        [True, False, None],
        ["True", "FALSE", ""],
        ["yes", " no ", "NA"],
        ["1", "0.0", "7"],
        [1.0, 0.0, 7.0],
    ):
        assert grouping.codes_of(pa.array(cells)).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="neither true nor false"):
        grouping.codes_of(pa.array(["yes", "maybe"]))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (PermissionError(13, "zebra", "zebra"), "no permission"),
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
