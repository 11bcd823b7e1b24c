"""Read matrices without column names: NumPy arrays and files, and SciPy sparse matrices.

Contract: rows become float64 one block at a time, pickled objects are never loaded, and what a file
states about an array is checked before room is made for it.
"""

import io
import math
import mmap
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, Kind, ReadAs, Source, number_names
from dpcov.data.sources.columnar import let_go
from dpcov.errors import DataError

_MOST_COLUMNS = 100_000
_MOST_EMPTY_ROWS = 10**6
# Bytes of the header of an array, numpy's own limit.
_MAX_HEADER = 10_000
# How many numbers the shape of a sparse matrix can have.
_MOST_SIZES = 8

# Shape and type of an array.
_Header: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]


class _MatrixSource(Source):
    n_rows: int

    def __init__(self, matrix: Any, name: str) -> None:
        check_matrix(matrix.shape, matrix.dtype, name)
        self.name, self._matrix = name, matrix
        self.n_rows, width = matrix.shape
        self.columns = number_names(width)

    def kinds(self) -> dict[str, Kind]:
        """Call every column a number."""
        return dict.fromkeys(self.columns, "number")


class ArraySource(_MatrixSource):
    """A NumPy array in memory, or mapped to memory from a .npy file."""

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        base = self._matrix.base
        for start in range(0, self.n_rows, block_rows):
            rows = self._matrix[start : start + block_rows]
            floats = np.asarray(rows, dtype=np.float64)
            # What a mask hides is missing, not the number behind the mask.
            masked = isinstance(rows, np.ma.MaskedArray)
            yield np.where(np.ma.getmaskarray(rows), np.nan, floats) if masked else floats
            let_go(base if isinstance(base, mmap.mmap) else None)


class SparseSource(_MatrixSource):
    """A SciPy sparse matrix in memory; blocks of its rows become dense."""

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        matrix = self._matrix.tocsr()
        for start in range(0, self.n_rows, block_rows):
            yield np.asarray(matrix[start : start + block_rows].toarray(), dtype=np.float64)


def open_npy(path: Path) -> Source:
    """Map a .npy file to memory."""

    def mapped() -> Any:
        with path.open("rb") as file:
            shape, dtype = _read_header(file)
        if dtype.itemsize == 0:
            raise ValueError  # numpy would divide by it, which ends the process
        check_matrix(shape, dtype, path.name)
        return np.load(path, mmap_mode="r", allow_pickle=False)

    return ArraySource(sealed(mapped, path.name), path.name)


def open_npz(path: Path) -> Source:
    """Find the matrix of a .npz file: a sparse one, the array X, or the only 2-D array."""
    headers = sealed(lambda: _headers(path), path.name)
    if {"format", "shape", "data"} <= set(headers):
        return sealed(lambda: _open_sparse(path, headers), path.name)
    names = [name for name, (shape, _) in headers.items() if len(shape) == 2]
    chosen = ["X"] if "X" in names else names
    if len(chosen) != 1:
        count = len(chosen)
        raise DataError(
            f"'{path.name}' holds {count} two-dimensional arrays. Call the one with rows X."
        )
    check_matrix(*headers[chosen[0]], path.name)
    array = sealed(lambda: np.load(path, allow_pickle=False)[chosen[0]], path.name)
    return ArraySource(array, path.name)


def _headers(path: Path) -> dict[str, _Header]:
    found = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                shape, dtype = _read_header(stream)
            if not dtype.hasobject and math.prod(shape) * dtype.itemsize > info.file_size:
                raise EOFError
            found[info.filename.removesuffix(".npy")] = shape, dtype
    return found


def _read_header(stream: IO[bytes]) -> _Header:
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
    shape, _, dtype = read(text)
    return shape, dtype


def _open_sparse(path: Path, headers: Mapping[str, _Header]) -> Source:
    if any(math.prod(headers[name][0]) > _MOST_SIZES for name in ("format", "shape")):
        raise DataError(f"'{path.name}' is not a sparse matrix as SciPy saves it.")
    small = np.load(path, allow_pickle=False)
    shape = tuple(int(size) for size in small["shape"])
    entries, dtype = headers["data"]
    is_csr = small["format"].item() in ("csr", b"csr")
    if not is_csr and shape[0] > _MOST_EMPTY_ROWS + 100 * math.prod(entries):
        raise DataError(f"'{path.name}' has far more rows than entries. Save it as CSR.")
    check_matrix(shape, dtype, path.name)
    matrix = scipy.sparse.load_npz(path)
    if hasattr(matrix, "check_format"):
        # The places in a file may point anywhere, also out of the matrix.
        # SciPy does not look at pointers if the last one says that nothing is stored.
        if (np.diff(matrix.indptr) < 0).any():
            raise ValueError
        matrix.check_format(full_check=True)
    return SparseSource(matrix, path.name)


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
