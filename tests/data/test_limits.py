"""Limits: what is just allowed is taken, the next is refused.

The numbers stand here as they are documented, not as the package holds them.
"""

import numpy as np
import pytest
import scipy.sparse

import dpcov
from dpcov.data.sources import open_source
from dpcov.data.sources.matrices import check_matrix
from dpcov.errors import DataError
from tests.fuzz.mutate import zipped
from tests.fuzz.tables import npy_magic


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
