"""Read the arrays inside a .npz file as streams.

Contract: an array is never decompressed as a whole, and pickled objects are refused.
"""

import io
import zipfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from dpcov.errors import DataError

# Bytes, numpy's own limit.
_MAX_HEADER = 10_000


@dataclass(frozen=True, kw_only=True)
class ArrayMember:
    """The public frame of an array: its name, shape and type."""

    name: str
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


class ArraysArchive:
    """A .npz file: a zip archive of .npy files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with zipfile.ZipFile(path) as archive:
            self.names = tuple(name.removesuffix(".npy") for name in archive.namelist())
        self.members = tuple(self.member(name) for name in self.names)

    def member(self, name: str) -> ArrayMember:
        """Read the header of one array."""
        with zipfile.ZipFile(self._path) as archive, archive.open(f"{name}.npy") as stream:
            return read_header(stream, name)

    def open(self, member: ArrayMember) -> "ArrayStream":
        """Open an array behind its header."""
        return ArrayStream(self._path, member)


class ArrayStream(AbstractContextManager["ArrayStream"]):
    """The entries of one array, in the order of the file."""

    def __init__(self, path: Path, member: ArrayMember) -> None:
        if member.dtype.hasobject:
            raise DataError(f"'{path.name}' holds Python objects. Save plain numbers.")
        self._archive = zipfile.ZipFile(path)
        self._stream = self._archive.open(f"{member.name}.npy")
        read_header(self._stream, member.name)
        self._dtype = member.dtype

    def __exit__(self, *error: object) -> None:
        self._stream.close()
        self._archive.close()

    def take(self, count: int) -> np.ndarray[Any, Any]:
        """Return the next ``count`` entries."""
        if count < 0:
            raise EOFError
        size = count * self._dtype.itemsize
        data = self._stream.read(size)
        if len(data) != size:
            raise EOFError
        return np.frombuffer(data, dtype=self._dtype)


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
