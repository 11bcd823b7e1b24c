import numpy as np
import pytest

from dpcov.data.rows import EncodedRows
from dpcov.errors import DataError


def test_rows_can_be_read_again_and_show_nothing():
    rows = EncodedRows(2, norm_bound=3.0)
    rows.add(np.array([[0.123456, 0.5], [0.0, 1.0]]))
    rows.add(np.array([[1.0, 0.0]]))
    for _ in range(2):
        np.testing.assert_array_equal(
            np.vstack(list(rows)), [[0.123456, 0.5], [0.0, 1.0], [1.0, 0.0]]
        )
    assert (rows.n_rows, rows.n_features, rows.norm_bound) == (3, 2, 3.0)
    assert "0.123" not in repr(rows)
    assert "3" not in repr(rows)


@pytest.mark.parametrize("bad", [np.zeros(2), np.zeros((1, 3)), np.array([[np.nan, 0.0]])])
def test_other_blocks_are_refused(bad):
    with pytest.raises(DataError):
        EncodedRows(2).add(bad)


def test_what_is_not_said_of_rows():
    rows = EncodedRows(2)
    assert (rows.norm_bound, rows.n_rows, list(rows)) == (1.0, 0, [])
    assert repr(rows) == "EncodedRows(n_features=2, <sensitive>)"
    rows.add(np.zeros((2, 2)))
    rows.add(np.zeros((3, 2)))
    assert rows.n_rows == 5


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros((2, 2, 1)), np.zeros(2)])
def test_blocks_of_another_shape_say_what_is_expected(bad):
    with pytest.raises(DataError, match="2 encoded columns"):
        EncodedRows(2).add(bad)
