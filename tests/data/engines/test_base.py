"""What every engine does with a block: how many rows it has and how they are encoded."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.engines import BallEncoding, MomentsTask, TableEncoding
from dpcov.data.engines.base import block_rows
from dpcov.data.groups import Grouping
from dpcov.data.moments import Moments, MomentsSpec

SCHEMA = dpcov.Schema(columns={"size": dpcov.Numeric(lower=0, upper=10)})
BLOCK = pa.record_batch({"size": [1.0, 2.0, 11.0], "kind": ["a", "b", "a"]})


@pytest.mark.parametrize(
    ("n_features", "rows"),
    [
        (1, 2**15),
        (256, 2**15),
        (257, 2**23 // 257),
        (10_000, 838),
        (2**23, 1),
        (2**23 + 1, 1),
        (2**30, 1),
    ],
)
def test_a_block_has_as_many_rows_as_its_values_allow(n_features, rows):
    assert block_rows(n_features) == rows
    encoding = BallEncoding(n_features=n_features, norm_bound=1.0)
    assert MomentsTask(encoding=encoding, spec=MomentsSpec()).block_rows == rows


def test_rows_of_a_table_have_the_groups_of_one_more_column():
    grouped = TableEncoding(schema=SCHEMA, grouping=Grouping("kind", ["a", "b"]))
    plain = TableEncoding(schema=SCHEMA)
    assert (list(plain.wanted), list(grouped.wanted)) == (["size"], ["size", "kind"])
    assert grouped.encode(BLOCK)[1].tolist() == [0, 1, 0]
    assert plain.encode(BLOCK)[1] is None
    assert np.array_equal(plain.encode(BLOCK)[0], grouped.encode(BLOCK)[0])
    assert plain.n_features == plain.encode(BLOCK)[0].shape[1] == len(plain.encoder.columns)
    assert plain.norm_bound == plain.encoder.norm_bound
    copy = pickle.loads(pickle.dumps(grouped))
    assert copy.encode(BLOCK)[1].tolist() == [0, 1, 0]
    assert copy.encoder is copy.encoder


def test_groups_given_beside_a_block_count_unless_the_encoding_tells_them():
    spec = MomentsSpec(groups=3)
    X, beside = np.eye(3), np.array([2, 2, 1])
    task = MomentsTask(encoding=BallEncoding(n_features=3, norm_bound=1.0), spec=spec)
    gathered, expected = task.empty(), Moments(3, spec)
    task.add(gathered, X.copy(), beside)
    expected.add(X.copy(), beside)
    assert gathered == expected
    table = MomentsTask(
        encoding=TableEncoding(schema=SCHEMA, grouping=Grouping("kind", ["a", "b"])), spec=spec
    )
    gathered = table.empty()
    table.add(gathered, BLOCK, beside)
    assert [stratum.n_rows for stratum in gathered.strata] == [2, 1, 0]


@pytest.mark.parametrize("part", [np.eye(3)[:0], pa.table({"size": pa.array([], pa.float64())})])
def test_a_part_without_rows_has_empty_moments(part):
    encoding = BallEncoding(n_features=3, norm_bound=1.0) if isinstance(part, np.ndarray) else None
    task = MomentsTask(encoding=encoding or TableEncoding(schema=SCHEMA), spec=MomentsSpec())
    assert task.gather(part) == task.empty()
