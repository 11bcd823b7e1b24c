"""Parts of a table: equal moments when merged, and a value instead of an error."""

import pickle

import numpy as np
import pytest

import dpcov
from dpcov.data.engines import BallEncoding, MomentsTask, TableEncoding
from dpcov.data.engines.base import (
    Failure,
    attempt,
    gather_part,
    merge_or_raise,
    merge_parts,
    require_columns,
)
from dpcov.data.moments import MomentsSpec
from dpcov.errors import DataError, UsageError

TASK = MomentsTask(encoding=BallEncoding(n_features=3, norm_bound=2.0), spec=MomentsSpec(shells=2))
X = np.random.default_rng(0).normal(size=(300, 3))


def fail(error):
    def gather():
        raise error

    return gather


def test_merged_parts_equal_the_whole_and_leave_the_parts_alone():
    parts = [gather_part(TASK, part) for part in np.array_split(X, 4)]
    before = [pickle.dumps(part) for part in parts]
    whole = dpcov.moments(X, norm_bound=2.0, shells=2)
    assert merge_parts(TASK, parts) == whole
    assert merge_or_raise(TASK, iter(parts)) == whole
    assert [pickle.dumps(part) for part in parts] == before
    assert merge_parts(TASK, []) == TASK.empty()


def test_a_part_that_cannot_be_encoded_is_a_failure_without_its_numbers():
    bad = X.copy()
    bad[7, 1], bad[8, 1] = np.nan, 12345.678
    failure = gather_part(TASK, bad)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, DataError)
    assert "NaN" in str(failure.error)
    assert "12345" not in str(failure.error)
    assert failure.error.__context__ is None
    assert failure.error.__traceback__ is None


@pytest.mark.parametrize("error", [UsageError("as said"), DataError("as said")])
def test_an_error_of_ours_keeps_its_kind_and_words(error):
    failure = attempt(fail(error))
    assert type(failure.error) is type(error)
    assert str(failure.error) == "as said"
    assert failure.error is not error


def test_an_error_of_anybody_else_keeps_neither():
    failure = attempt(fail(ValueError("row 12345.678")))
    assert isinstance(failure.error, DataError)
    assert "12345" not in str(failure.error)


def test_the_first_failure_stands_for_all_parts():
    first, second = Failure(DataError("first")), Failure(UsageError("second"))
    parts = [TASK.gather(X), first, second]
    assert merge_parts(TASK, parts) is first
    with pytest.raises(DataError, match="first"):
        merge_or_raise(TASK, parts)


@pytest.mark.parametrize("names", [[], ["a", "a"], ["a", "b", "a"]])
def test_a_table_needs_columns_of_different_names(names):
    with pytest.raises(DataError, match="different names"):
        require_columns(names, TASK)


def test_a_table_without_a_wanted_column_is_refused_before_it_is_read():
    schema = dpcov.Schema(columns={"size": dpcov.Numeric(lower=0, upper=10)})
    task = MomentsTask(encoding=TableEncoding(schema=schema), spec=MomentsSpec())
    require_columns(["other", "size"], task)
    require_columns(iter(["size"]), task)
    with pytest.raises(DataError, match="size"):
        require_columns(["other"], task)
