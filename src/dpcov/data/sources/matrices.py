"""Matrices without column names: NumPy arrays and files, and SciPy sparse matrices.

Contract: rows become float64 one block at a time, pickled objects are never loaded, and files are read in
pieces where their layout allows it (row-major arrays and CSR matrices).  Knows nothing of schemas.
"""

import math
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from dpcov.data.seal import sealed
from dpcov.data.sources.archive import ArrayMember, ArraysArchive, read_header
from dpcov.data.sources.base import Block, Kind, ReadAs, Source, number_names
from dpcov.data.sources.mapped import let_go
from dpcov.errors import DataError

_MOST_COLUMNS = 100_000
_MOST_EMPTY_ROWS = 10**6
_MOST_SIZES = 8
"""How many numbers the shape of a sparse matrix can have."""


class _MatrixSource(Source):
    n_rows: int

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
        self.name = name
        check_matrix(shape, dtype, name)
        self.columns = number_names(shape[1])
        self._row_bytes = shape[1] * dtype.itemsize
        self.n_rows = shape[0]

    def kinds(self) -> dict[str, Kind]:
        """Call every column a number."""
        return dict.fromkeys(self.columns, "number")


class ArraySource(_MatrixSource):
    """A NumPy array in memory, or mapped to memory from a .npy file."""

    def __init__(self, array: np.ndarray[Any, Any], name: str) -> None:
        super().__init__(array.shape, array.dtype, name)
        self._array = array
        self._mapping = array.base if isinstance(array.base, mmap.mmap) else None
        self.progress_total = self.n_rows * self._row_bytes

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        for start in range(0, self.n_rows, block_rows):
            rows = self._array[start : start + block_rows]
            yield _as_floats(rows), (start + len(rows)) * self._row_bytes
            let_go(self._mapping)


def _as_floats(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return rows as floats; what a mask hides is missing, not the number behind the mask."""
    floats = np.asarray(rows, dtype=np.float64)
    return (
        np.where(np.ma.getmaskarray(rows), np.nan, floats)
        if isinstance(rows, np.ma.MaskedArray)
        else floats
    )


class SparseSource(_MatrixSource):
    """A SciPy sparse matrix in memory; blocks of its rows become dense."""

    def __init__(self, matrix: Any, name: str) -> None:
        super().__init__(matrix.shape, matrix.dtype, name)
        self._matrix = matrix.tocsr()
        self.progress_total = int(self._matrix.data.nbytes)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        for start in range(0, self.n_rows, block_rows):
            rows = self._matrix[start : start + block_rows]
            done = int(self._matrix.indptr[start + rows.shape[0]]) * self._matrix.dtype.itemsize
            yield np.asarray(rows.toarray(), dtype=np.float64), done


class ArchivedArraySource(_MatrixSource):
    """A row-major matrix inside a .npz file, decompressed piece by piece."""

    def __init__(self, archive: ArraysArchive, member: ArrayMember, name: str) -> None:
        super().__init__(member.shape, member.dtype, name)
        self._archive, self._member = archive, member
        self.progress_total = self.n_rows * self._row_bytes

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        width = len(self.columns)
        with self._archive.open(self._member) as stream:
            for start in range(0, self.n_rows, block_rows):
                rows = min(block_rows, self.n_rows - start)
                block = stream.take(rows * width).reshape(rows, width)
                yield block.astype(np.float64), (start + rows) * self._row_bytes


class ArchivedCsrSource(_MatrixSource):
    """A CSR matrix written by ``scipy.sparse.save_npz``, decompressed piece by piece."""

    def __init__(self, archive: ArraysArchive, shape: tuple[int, ...], name: str) -> None:
        data = archive.member("data")
        super().__init__(shape, data.dtype, name)
        self._archive = archive
        self._entry_bytes = data.dtype.itemsize
        self.progress_total = data.shape[0] * self._entry_bytes

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        open_member = self._archive.open_named
        with (
            open_member("indptr") as ends,
            open_member("indices") as places,
            open_member("data") as values,
        ):
            first, width = int(ends.take(1)[0]), len(self.columns)
            for start in range(0, self.n_rows, block_rows):
                rows = min(block_rows, self.n_rows - start)
                pointers = np.concatenate((np.array([first]), ends.take(rows)))
                _check_pointers(pointers)
                count = int(pointers[-1]) - first
                if count > rows * width:
                    raise DataError(
                        f"'{self.name}' stores entries twice. Call sum_duplicates() and save it again."
                    )
                parts = (values.take(count), places.take(count), pointers - first)
                matrix = scipy.sparse.csr_array(parts, shape=(rows, width))
                matrix.check_format()
                first = int(pointers[-1])
                yield matrix.toarray().astype(np.float64), first * self._entry_bytes


def open_npy(path: Path) -> Source:
    """Map a .npy file to memory."""

    def mapped() -> Any:
        with path.open("rb") as file:
            head = read_header(file, path.name)
        if head.dtype.itemsize == 0:
            raise ValueError  # numpy would divide by it, which ends the process
        check_matrix(head.shape, head.dtype, path.name)
        return np.load(path, mmap_mode="r", allow_pickle=False)

    return ArraySource(sealed(mapped, path.name), path.name)


def open_npz(path: Path) -> Source:
    """Find the matrix of a .npz file: a sparse matrix, the array called X, or the only two-dimensional one."""
    archive = sealed(lambda: ArraysArchive(path), path.name)
    if {"format", "shape", "data"} <= set(archive.names):
        return sealed(lambda: _open_sparse(path, archive), path.name)
    matrices = [member for member in archive.members if len(member.shape) == 2]
    chosen = [member for member in matrices if member.name == "X"] or matrices
    if len(chosen) != 1:
        raise DataError(
            f"'{path.name}' holds {len(chosen)} two-dimensional arrays. Call the one with the rows X."
        )
    if chosen[0].fortran_order:
        # Column-major rows lie all over the file, so it has to be read as a whole.
        return sealed(lambda: ArraySource(_load(path)[chosen[0].name], path.name), path.name)
    return ArchivedArraySource(archive, chosen[0], path.name)


def _open_sparse(path: Path, archive: ArraysArchive) -> Source:
    if any(math.prod(archive.member(name).shape) > _MOST_SIZES for name in ("format", "shape")):
        raise DataError(f"'{path.name}' is not a sparse matrix as SciPy saves it.")
    small = _load(path)
    layout = small["format"].item()
    shape = tuple(int(size) for size in small["shape"])
    if layout in ("csr", b"csr"):
        return ArchivedCsrSource(archive, shape, path.name)
    entries = math.prod(archive.member("data").shape)
    if shape[0] > _MOST_EMPTY_ROWS + 100 * entries:
        raise DataError(
            f"'{path.name}' has far more rows than entries. Leave out empty rows, or save it as CSR."
        )
    check_matrix(shape, archive.member("data").dtype, path.name)
    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        # The places in a file may point anywhere, also out of the matrix.
        _check_pointers(matrix.indptr)
        matrix.check_format(full_check=True)
    return SparseSource(matrix, path.name)


def _check_pointers(pointers: np.ndarray[Any, Any]) -> None:
    """Refuse rows that end before they begin; SciPy does not look if the last pointer says that nothing is stored."""
    if pointers.dtype.kind not in "iu" or (pointers[1:] < pointers[:-1]).any():
        raise ValueError


def _load(path: Path) -> Any:
    return np.load(path, allow_pickle=False)


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    """Raise unless this is the shape and type of a matrix of real numbers."""
    if dtype.kind not in "fiub":
        raise DataError(f"'{name}' does not hold real numbers. Convert it to float64 or integers.")
    if len(shape) == 1:
        raise DataError(
            f"'{name}' has one dimension. Reshape it: (-1, 1) for one column, (1, -1) for one row."
        )
    if len(shape) != 2:
        raise DataError(f"'{name}' has {len(shape)} dimensions. Reshape it to (rows, columns).")
    if shape[1] < 1:  # a file may state less than none
        raise DataError(f"'{name}' has no columns.")
    if shape[1] > _MOST_COLUMNS:
        raise DataError(
            f"'{name}' has more than {_MOST_COLUMNS} columns, too many for a covariance matrix."
        )
