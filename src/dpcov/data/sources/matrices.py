"""Read matrices without column names: NumPy arrays and files, and SciPy sparse matrices.

Contract: rows become float64 one block at a time, pickled objects are never loaded, and files are
read in pieces where their layout allows it (row-major arrays and CSR matrices).
"""

import io
import math
import mmap
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from dpcov.data.seal import sealed
from dpcov.data.sources.base import Kind, Pieces, ReadAs, Source, number_names
from dpcov.data.sources.columnar import let_go
from dpcov.errors import DataError

_MOST_COLUMNS = 100_000
_MOST_EMPTY_ROWS = 10**6
# Bytes of the header of an array, numpy's own limit.
_MAX_HEADER = 10_000
# How many numbers the shape of a sparse matrix can have.
_MOST_SIZES = 8


@dataclass(frozen=True, kw_only=True)
class ArrayMember:
    """The public frame of an array: its name, shape and type."""

    name: str
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


class ArraysArchive:
    """A .npz file, a zip archive of .npy files; no array is decompressed as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with zipfile.ZipFile(path) as archive:
            self.names = tuple(name.removesuffix(".npy") for name in archive.namelist())
        self.members = {name: self._member(name) for name in self.names}

    def _member(self, name: str) -> ArrayMember:
        with zipfile.ZipFile(self._path) as archive, archive.open(f"{name}.npy") as stream:
            return read_header(stream, name)

    @contextmanager
    def opened(self, name: str) -> Iterator[Callable[[int], np.ndarray[Any, Any]]]:
        """Give a function that returns the next so many entries of an array."""
        dtype = self.members[name].dtype
        if dtype.hasobject:
            raise DataError(f"'{self._path.name}' holds Python objects. Save plain numbers.")

        def take(count: int) -> np.ndarray[Any, Any]:
            data = stream.read(count * dtype.itemsize) if count >= 0 else b""
            if len(data) != count * dtype.itemsize:
                raise EOFError
            return np.frombuffer(data, dtype=dtype)

        with zipfile.ZipFile(self._path) as archive, archive.open(f"{name}.npy") as stream:
            read_header(stream, name)
            yield take


def read_header(stream: IO[bytes], name: str) -> ArrayMember:
    """Read a header of at most `_MAX_HEADER` bytes."""
    # NumPy itself would first unfold whatever length is stated.
    head = stream.read(10)
    is_first = head[6:8] == b"\x01\x00"
    head += b"" if is_first else stream.read(2)
    length = int.from_bytes(head[8:], "little")
    if length > _MAX_HEADER:
        raise ValueError
    text = io.BytesIO(head + stream.read(length))
    npy.read_magic(text)
    read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
    shape, fortran_order, dtype = read(text)
    return ArrayMember(name=name, shape=shape, fortran_order=fortran_order, dtype=dtype)


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

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Pieces:
        for start in range(0, self.n_rows, block_rows):
            rows = self._array[start : start + block_rows]
            yield _as_floats(rows), (start + len(rows)) * self._row_bytes
            let_go(self._mapping)


def _as_floats(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Return rows as floats; what a mask hides is missing, not the number behind the mask.
    floats = np.asarray(rows, dtype=np.float64)
    is_masked = isinstance(rows, np.ma.MaskedArray)
    return np.where(np.ma.getmaskarray(rows), np.nan, floats) if is_masked else floats


class SparseSource(_MatrixSource):
    """A SciPy sparse matrix in memory; blocks of its rows become dense."""

    def __init__(self, matrix: Any, name: str) -> None:
        super().__init__(matrix.shape, matrix.dtype, name)
        self._matrix = matrix.tocsr()
        self.progress_total = int(self._matrix.data.nbytes)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Pieces:
        for start in range(0, self.n_rows, block_rows):
            rows = self._matrix[start : start + block_rows]
            done = int(self._matrix.indptr[start + rows.shape[0]]) * self._matrix.dtype.itemsize
            yield np.asarray(rows.toarray(), dtype=np.float64), done


class ArchivedArraySource(_MatrixSource):
    """A row-major matrix inside a .npz file, decompressed piece by piece."""

    def __init__(self, archive: ArraysArchive, member: ArrayMember, name: str) -> None:
        super().__init__(member.shape, member.dtype, name)
        self._archive, self._member = archive, member.name
        self.progress_total = self.n_rows * self._row_bytes

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Pieces:
        width = len(self.columns)
        with self._archive.opened(self._member) as take:
            for start in range(0, self.n_rows, block_rows):
                rows = min(block_rows, self.n_rows - start)
                block = take(rows * width).reshape(rows, width)
                yield block.astype(np.float64), (start + rows) * self._row_bytes


class ArchivedCsrSource(_MatrixSource):
    """A CSR matrix written by ``scipy.sparse.save_npz``, decompressed piece by piece."""

    def __init__(self, archive: ArraysArchive, shape: tuple[int, ...], name: str) -> None:
        data = archive.members["data"]
        super().__init__(shape, data.dtype, name)
        self._archive = archive
        self._entry_bytes = data.dtype.itemsize
        self.progress_total = data.shape[0] * self._entry_bytes

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Pieces:
        opened, width = self._archive.opened, len(self.columns)
        with opened("indptr") as ends, opened("indices") as places, opened("data") as values:
            first = int(ends(1)[0])
            for start in range(0, self.n_rows, block_rows):
                rows = min(block_rows, self.n_rows - start)
                pointers = np.concatenate((np.array([first]), ends(rows)))
                _check_pointers(pointers)
                count = int(pointers[-1]) - first
                if count > rows * width:
                    raise DataError(f"'{self.name}' stores entries twice. Call sum_duplicates().")
                parts = (values(count), places(count), pointers - first)
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
    """Find the matrix of a .npz file: a sparse one, the array X, or the only 2-D array."""
    archive = sealed(lambda: ArraysArchive(path), path.name)
    if {"format", "shape", "data"} <= set(archive.names):
        return sealed(lambda: _open_sparse(path, archive), path.name)
    matrices = [member for member in archive.members.values() if len(member.shape) == 2]
    chosen = [member for member in matrices if member.name == "X"] or matrices
    if len(chosen) != 1:
        count = len(chosen)
        raise DataError(
            f"'{path.name}' holds {count} two-dimensional arrays. Call the one with rows X."
        )
    if chosen[0].fortran_order:
        # Column-major rows lie all over the file, so it has to be read as a whole.
        whole = sealed(lambda: np.load(path, allow_pickle=False)[chosen[0].name], path.name)
        return ArraySource(whole, path.name)
    return ArchivedArraySource(archive, chosen[0], path.name)


def _open_sparse(path: Path, archive: ArraysArchive) -> Source:
    if any(math.prod(archive.members[name].shape) > _MOST_SIZES for name in ("format", "shape")):
        raise DataError(f"'{path.name}' is not a sparse matrix as SciPy saves it.")
    small = np.load(path, allow_pickle=False)
    layout = small["format"].item()
    shape = tuple(int(size) for size in small["shape"])
    if layout in ("csr", b"csr"):
        return ArchivedCsrSource(archive, shape, path.name)
    entries = math.prod(archive.members["data"].shape)
    if shape[0] > _MOST_EMPTY_ROWS + 100 * entries:
        raise DataError(f"'{path.name}' has far more rows than entries. Save it as CSR.")
    check_matrix(shape, archive.members["data"].dtype, path.name)
    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        # The places in a file may point anywhere, also out of the matrix.
        _check_pointers(matrix.indptr)
        matrix.check_format(full_check=True)
    return SparseSource(matrix, path.name)


def _check_pointers(pointers: np.ndarray[Any, Any]) -> None:
    # Refuse rows that end before they begin.
    # SciPy does not look if the last pointer says that nothing is stored.
    if pointers.dtype.kind not in "iu" or (pointers[1:] < pointers[:-1]).any():
        raise ValueError


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
