"""Read matrices without column names: NumPy arrays and .npy files, and SciPy sparse matrices.

Contract: rows become floats one block at a time, pickled objects are never loaded, and what a file
states about an array is checked before room is made for it.
"""

import io
import mmap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcov.data.cells import number_of, plain_cell
from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, Kind, Source, Wanted, number_names
from dpcov.errors import DataError

_MOST_COLUMNS = 100_000
# Bytes of the header of an array, numpy's own limit.
_MAX_HEADER = 10_000
_NO_LIST = "it holds something else than equally long lists of numbers; give a data frame."


class MatrixSource(Source):
    """A NumPy array in memory, a .npy file mapped to memory, or a SciPy sparse matrix."""

    n_rows: int

    def __init__(self, matrix: Any, name: str, *, is_file: bool = False) -> None:
        check_matrix(matrix.shape, matrix.dtype, name)
        self.name, self._matrix, self._is_file = name, matrix, is_file
        # Single precision stays: missing codes are compared as such a column holds them.
        is_short = matrix.dtype.kind == "f" and matrix.dtype.itemsize < 8
        self._dtype = np.dtype(f"f{matrix.dtype.itemsize}" if is_short else np.float64)
        self.n_rows, width = matrix.shape
        self.columns = number_names(width)

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Call every column a number."""
        return dict.fromkeys(self.columns, "number")

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        sparse = scipy.sparse.issparse(self._matrix)
        matrix = self._matrix.tocsr() if sparse else self._matrix
        base = None if sparse else matrix.base
        for start in range(0, self.n_rows, block_rows):
            rows = matrix[start : start + block_rows]
            with np.errstate(over="ignore"):
                floats = np.asarray(rows.toarray() if sparse else rows, dtype=self._dtype)
            # What a mask hides is missing, not the number behind the mask.
            masked = isinstance(rows, np.ma.MaskedArray)
            yield np.where(np.ma.getmaskarray(rows), np.nan, floats) if masked else floats
            # Without the pages that were read, a file takes no more memory than the part at hand.
            # Of a map that somebody else made they may hold what no file has.
            if self._is_file and isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                base.madvise(mmap.MADV_DONTNEED)


def open_list(rows: Sequence[Any]) -> Source:
    """A list of equally long lists of numbers; texts and dates have meanings in tables only."""
    matrix = sealed(lambda: _floats(rows), "the list", lambda _: _NO_LIST)
    return MatrixSource(matrix, "the list")


def _floats(rows: Sequence[Any]) -> NDArray[np.float64]:
    # Every number by itself: a common type would follow from all of them.
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        return np.array([_float(cell) for cell in rows])
    return np.array([[_float(cell) for cell in row] for row in rows], dtype=np.float64)


def _float(cell: object) -> float:
    if type(cell) is float:
        return cell
    # What a mask hides is missing, not the number behind the mask.
    plain = None if cell is np.ma.masked else plain_cell(cell)
    if not isinstance(plain, int | float | Decimal | None):
        raise TypeError
    return number_of(plain, "")


def open_npy(path: Path) -> Source:
    """Map a .npy file to memory."""

    def mapped() -> Any:
        with path.open("rb") as file:
            shape, dtype = _read_header(file)
        if dtype.itemsize == 0:
            raise ValueError  # numpy would divide by it, which ends the process
        check_matrix(shape, dtype, path.name)
        return np.load(path, mmap_mode="r", allow_pickle=False)

    return MatrixSource(sealed(mapped, path.name), path.name, is_file=True)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    # Shape and type of an array.  NumPy itself would first unfold whatever length is stated.
    head = stream.read(10)
    is_first = head[6:8] == b"\x01\x00"
    head += b"" if is_first else stream.read(2)
    length = int.from_bytes(head[8:], "little")
    if length > _MAX_HEADER:
        raise ValueError
    text = io.BytesIO(head + stream.read(length))
    npy.read_magic(text)
    read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
    shape, _, dtype = read(text)
    return shape, dtype


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    """Raise unless this is the shape and type of a matrix of real numbers."""
    if dtype.kind not in "fiub":
        problem = "does not hold real numbers. Convert it to float64 or integers."
    elif len(shape) == 1:
        problem = "has one dimension. Reshape it: (-1, 1) for one column, (1, -1) for one row."
    elif len(shape) != 2:
        problem = f"has {len(shape)} dimensions. Reshape it to (rows, columns)."
    elif shape[1] < 1:  # a file may state less than none
        problem = "has no columns."
    elif shape[1] > _MOST_COLUMNS:
        problem = f"has more than {_MOST_COLUMNS} columns, too many for a covariance matrix."
    else:
        return
    raise DataError(f"'{name}' {problem}")
