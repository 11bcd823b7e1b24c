"""Limits: what is just allowed is taken, the next is refused.

The numbers stand here as they are documented, not as the package holds them.
"""

import numpy as np
import pytest

import dpcov
from dpcov.data.sources import open_source
from dpcov.data.sources.matrices import check_matrix
from dpcov.errors import DataError
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


@pytest.mark.parametrize(("length", "taken"), [(10_000, True), (10_001, False)])
def test_headers_of_arrays_have_up_to_10000_bytes(tmp_path, length, taken):
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }"
    content = npy_magic(text.ljust(length - 1)) + bytes(16)
    (tmp_path / "x.npy").write_bytes(content)
    if taken:
        assert dpcov.moments(str(tmp_path / "x.npy"), norm_bound=1.0).n_rows == 1
        return
    with pytest.raises(DataError):
        open_source(tmp_path / "x.npy")
