"""Open the bytes of a text file, compressed or not, as UTF-8 from its line of names on.

Contract: memory does not depend on the length of the file, and what the bytes mean follows from
the ending of the file and the declared layout alone.
"""

import io
import lzma
import os
import re
import select
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcov.data.layout import FileLayout
from dpcov.data.seal import sealed
from dpcov.errors import DataError

Opener = Callable[[], Any]

# Where the line of names must be found.
HEAD_BYTES = 1 << 20
# Alike above the names and below, where Arrow reads.
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".zip")
# Seconds within which a signal is heard.
_PATIENCE = 0.5
_LITTER = (".ds_store", "thumbs.db", "desktop.ini")
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def open_bytes(path: Path, layout: FileLayout) -> tuple[Opener, str]:
    """Return what opens the bytes of a file, and the name whose ending says what they are."""
    ending, name = path.suffix.lower(), path.name
    if ending == ".zip":
        member = sealed(lambda: _member(path, layout), name)
        return lambda: zipfile.ZipFile(path).open(member), member
    if codec := _CODECS.get(ending):
        return lambda: pa.CompressedInputStream(pa.OSFile(str(path)), codec), path.stem
    if ending == ".xz":
        return lambda: _Unpacked(pa.OSFile(str(path))), path.stem
    return lambda: pa.OSFile(str(path)), name


def _member(path: Path, layout: FileLayout) -> str:
    # The file of an archive that was named, or the only one.
    with zipfile.ZipFile(path) as archive:
        found = [each for each in archive.infolist() if not each.is_dir()]
    named = {each.filename: each for each in found if not is_litter(each.filename)}
    name = layout.choose(list(named), path.name, "files")
    if named[name].flag_bits & 1:
        raise DataError(f"'{path.name}' is encrypted. Unpack it first.")
    return name


def is_litter(name: str) -> bool:
    """Whether a Mac, Windows or Excel leaves a file of this name beside others."""
    *folders, file = name.split("/")
    return "__MACOSX" in folders or file.startswith(("._", "~$")) or file.lower() in _LITTER


def open_text(opener: Opener, layout: FileLayout, name: str) -> Any:
    """Open a stream of UTF-8 that begins with the line of names."""
    stream = opener()
    if layout.codec not in ("utf-8", "ascii"):
        stream = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
        stream = pa.transcoding_input_stream(stream, layout.codec, "utf-8")
    return stream if layout.header == 1 else Replayed(_after(stream, layout.header, name), stream)


def head_of(stream: Any, size: int = HEAD_BYTES) -> bytes:
    """Read as many bytes; fewer only at the end.  Terminals and pipes give them in parts."""
    head = bytearray()
    while len(head) < size and (more := bytes(stream.read(size - len(head)))):
        head += more
    return bytes(head)


def _after(stream: Any, header: int, name: str) -> bytes:
    # Skip the lines before the one of names; return what was read of it and after it.
    lines = _LINE_ENDS.split(head_of(stream), header - 1)
    if len(lines) < header:
        raise DataError(
            f"'{name}' has no line {header}, where the schema's [file] says that the column names "
            "are. Correct header."
        )
    return lines[-1]


class Borrowed:
    """What is read through another stream, as Arrow reads Python's files."""

    closed = False

    def close(self) -> None:
        """Leave the stream to whoever opened it."""


class _Unpacked(Borrowed):
    """The text of an ``.xz`` file; Python's own reader ends where a later part is damaged."""

    def __init__(self, file: Any) -> None:
        self._file, self._part = file, lzma.LZMADecompressor()

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, as many as there are; none at the end."""
        found = bytearray()
        while len(found) < size and (more := self._more(size - len(found))):
            found += more
        return bytes(found)

    def _more(self, size: int) -> bytes:
        while True:
            if self._part.eof:
                packed = self._part.unused_data or bytes(self._file.read(HEAD_BYTES))
                if not packed:
                    return b""
                self._part = lzma.LZMADecompressor()
            elif not self._part.needs_input:
                packed = b""
            elif not (packed := bytes(self._file.read(HEAD_BYTES))):
                raise EOFError
            if text := self._part.decompress(packed, size):
                return text


class Awaited(Borrowed):
    """A pipe or a terminal, read only once there is something.

    A signal that comes just before a read which has to wait would be heard only after it.
    """

    def __init__(self, stream: io.BufferedReader) -> None:
        # What the stream holds already comes first.
        self._stream, self._is_empty = stream, False

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, as many as there are; none at the end."""
        while self._is_empty and not select.select([self._stream], [], [], _PATIENCE)[0]:
            pass
        data = self._stream.read1(size)
        self._is_empty = self._is_empty or len(data) < size
        return data


def awaited(stream: Any) -> Any:
    """Standard input in which signals are heard, where the system can tell whether it has bytes."""
    has_file = isinstance(getattr(stream, "raw", None), io.FileIO)
    return Awaited(stream) if os.name == "posix" and has_file else stream


class Replayed(Borrowed):
    """The head that was already read, then the rest of the stream."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = memoryview(head), rest

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""
        data, self._head = self._head[:size], self._head[size:]
        return bytes(data) or bytes(self._rest.read(size))
