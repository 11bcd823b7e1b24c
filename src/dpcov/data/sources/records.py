"""Read rows of a fixed number of bytes: the data of SPSS files and of SAS transport files.

Contract: rows are read in one pass, whose memory does not depend on their number.  A cell follows
from its own bytes and the heading of the file.  Sources: "System File Format", PSPP Developers
Guide; "Record Layout of a SAS Version 5 or 6 (8 or 9) Data Set in SAS Transport Format", SAS.
"""

import codecs
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.errors import DataError

Bytes = NDArray[np.uint8]

_WORD = 8
_CARD = 80
# Whole cards; compressed pieces are small, because they may become a thousand times as long.
_PIECE_BYTES, _ZIPPED_BYTES = 2**14 * _CARD, 2**16
# Opcodes of compressed SPSS files: others are small whole numbers.
_NOTHING, _END, _AS_IS, _BLANK, _MISSING = 0, 252, 253, 254, 255
# Of SPSS: a text's most bytes, the format of texts, and code pages that Python names otherwise.
_LONGEST, _TEXT_FORMAT = 255, 1
# Bytes of the names of all columns, of which SPSS has 32,767 of 64 letters, and more.
_LONGEST_RECORD = 2**24
_CODE_PAGES = {
    **{0: "latin-1", 2: "cp1252", 3: "cp1252", 4: "cp932", 20127: "ascii", 65001: "utf-8"},
    **{code: f"iso8859-{code - 28590}" for code in range(28591, 28606)},
}
_OBSERVATIONS, _MEMBER = b"HEADER RECORD*******OBS", b"HEADER RECORD*******MEMB"
_LETTERS = np.isin(np.arange(256), list(b"._ABCDEFGHIJKLMNOPQRSTUVWXYZ"))


class SpssRecords:
    """The rows of a ``.sav`` or ``.zsav`` file, compressed or not.

    ``fields`` are the bytes of a row in which columns are, more than the dictionary has where texts
    are beyond 255 bytes.  ``weights`` is the name of the column by which SPSS
    weights the rows, empty without one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            heading = file.read(176)
            self._order = "<" if heading[64:68] in (b"\2\0\0\0", b"\3\0\0\0") else ">"
            compression, weight, n_rows, bias = struct.unpack(f"{self._order}iiid", heading[72:92])
            self._compression, self._n_rows, self._bias = compression, n_rows, bias
            self._encoding, self._code_page, self._labeled = b"", 0, list[bytes]()
            self._names, self._long_names, self._is_sound = list[bytes](), b"", True
            widths = self._widths(file)
            self._begin = file.tell()
        starts = [place for place, width in enumerate(widths) if width >= 0]
        self._row_bytes = len(widths) * _WORD
        self.fields = [slice(at * _WORD, at * _WORD + (widths[at] or _WORD)) for at in starts]
        # Words are counted from 1, and 0 is none.
        numbers = {at: name for at, name in enumerate(self._names, 1) if not widths[at - 1]}
        short = numbers.get(weight, b"")
        pairs = (pair.partition(b"=") for pair in self._long_names.split(b"\t"))
        self.weights: bytes = {name: long for name, _, long in pairs}.get(short, short)

    def _widths(self, file: BinaryIO) -> list[int]:
        # Of every 8 bytes of a row: 0 for a number, the length of a text, -1 where one goes on.
        widths: list[int] = []

        def whole_numbers(count: int) -> tuple[int, ...]:
            return struct.unpack(f"{self._order}{count}i", file.read(4 * count))

        values, begin = list[bytes](), 0
        while (kind := whole_numbers(1)[0]) != 999:
            # A length below zero would lead back.
            if kind not in (2, 3, 4, 6, 7) or file.tell() <= begin:
                raise DataError(f"'{self._path.name}' is damaged. Write it again.")
            begin = file.tell()
            if kind == 2:
                width, labeled, missing, *formats = whole_numbers(5)
                self._names.append(file.read(8).rstrip())
                texts = [(each >> 16) & 255 == _TEXT_FORMAT for each in formats]
                self._is_sound &= -1 <= width <= _LONGEST and (width != 0 or not any(texts))
                if labeled:
                    file.seek(-(-whole_numbers(1)[0] // 4) * 4, 1)
                file.seek(abs(missing) * _WORD, 1)
                widths.append(width)
            elif kind == 3:
                values = []
                for _ in range(whole_numbers(1)[0]):
                    values.append(file.read(_WORD))
                    file.seek(file.read(1)[0] // _WORD * _WORD + _WORD - 1, 1)
            elif kind == 4:
                places = whole_numbers(whole_numbers(1)[0])
                kinds = [widths[place - 1] if 0 < place <= len(widths) else -1 for place in places]
                self._is_sound &= -1 not in kinds
                self._labeled += values if kinds[-1:] != [0] else []
            elif kind == 6:
                file.seek(_CARD * whole_numbers(1)[0], 1)
            else:
                what, size, count = whole_numbers(3)
                if what == 3:
                    self._code_page = whole_numbers(8)[-1]
                n_bytes = max(0, min(size * count, _LONGEST_RECORD))
                if what == 13:
                    self._long_names = file.read(n_bytes)
                elif what == 20:
                    self._encoding = file.read(n_bytes)
                file.seek(begin + 12 + size * count)
        file.seek(4, 1)
        # A text goes on in as many words as its length says.
        if self._is_sound:
            words = [each for width in widths if width >= 0 for each in _words_of(width)]
            self._is_sound = words == [width >= 0 for width in widths]
        return widths

    def check(self, declared: str | None) -> None:
        """Refuse a heading at which pyreadstat would end the process.

        DataError where columns contradict each other, `UnicodeError` where a labeled text is not in
        the encoding, declared or stated.
        """
        if not self._is_sound:
            raise DataError(f"'{self._path.name}' is damaged. Write it again.")
        page = _CODE_PAGES.get(self._code_page, f"cp{self._code_page}")
        stated = self._encoding.decode("ascii").strip(" \0") or page
        for value in self._labeled:
            # The last letter may be cut.
            codecs.getincrementaldecoder(declared or stated)().decode(value.rstrip(b" "))

    def rows(self, count: int) -> Iterator[Bytes]:
        """Yield (count, row) bytes; the last time fewer."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            pieces = self._pieces(file)
            pieces = pieces if self._compression == 0 else self._expanded(pieces)
            n_rows = 0
            for rows in _in_rows(pieces, self._row_bytes, count):
                n_rows += len(rows)
                yield rows
        if self._n_rows not in (-1, n_rows):
            raise DataError(f"'{self._path.name}' is cut short. Write it again.")

    def numbers(self, cells: Bytes) -> NDArray[np.float64]:
        """The numbers of (n, 8) bytes; NaN where missing."""
        found = np.ascontiguousarray(cells).view(f"{self._order}f8")[:, 0].astype(np.float64)
        found[found == -np.finfo(np.float64).max] = np.nan
        return found

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        if self._compression != 2:
            while piece := file.read(_PIECE_BYTES):
                yield piece
            return
        # Blocks, each compressed by itself, up to their table of contents.
        _, end, _ = struct.unpack(f"{self._order}3q", file.read(24))
        inflate = zlib.decompressobj()
        while (left := end - file.tell()) > 0 and (piece := file.read(min(_ZIPPED_BYTES, left))):
            while piece:
                yield inflate.decompress(piece)
                piece = inflate.unused_data
                inflate = zlib.decompressobj() if inflate.eof else inflate

    def _expanded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        # Eight opcodes stand before what they take as it is, in units of 8 bytes.
        words = (np.arange(256) - self._bias).astype(f"{self._order}f8")
        words[_BLANK] = np.frombuffer(b" " * _WORD, words.dtype)[0]
        words[_MISSING] = -np.finfo(np.float64).max
        rest = b""
        for piece in pieces:
            rest += piece
            held = np.frombuffer(rest, np.uint8, len(rest) // _WORD * _WORD).reshape(-1, _WORD)
            # How many bytes of a word are this code: a sum of ones and zeros within the word.
            flags = (held == _AS_IS).view(np.uint64)[:, 0] * np.uint64(0x0101010101010101)
            counts = (flags >> np.uint64(56)).astype(np.uint8).tobytes()
            places, at, end = [], 0, len(held)
            while at < end and (after := at + 1 + counts[at]) <= end:
                places.append(at)
                at = after
            codes = held[places].ravel()
            as_is = np.ones(at, dtype=bool)
            as_is[places] = False
            rest = rest[at * _WORD :]
            expanded = words[codes]
            expanded.view(np.uint64)[codes == _AS_IS] = held[:at][as_is].view(np.uint64)[:, 0]
            ends = np.flatnonzero(codes == _END)
            stop = ends[0] if len(ends) else len(codes)
            yield expanded[:stop][codes[:stop] != _NOTHING].tobytes()
            if len(ends):
                return


class TransportRecords:
    """The rows of a SAS transport file (``.xpt``) with one table."""

    def __init__(self, path: Path, widths: Sequence[int]) -> None:
        self._path = path
        with path.open("rb") as file:
            while not (card := file.read(_CARD)).startswith(_OBSERVATIONS):
                if not card:
                    raise DataError(f"'{path.name}' is damaged. Write it again.")
            self._begin = file.tell()
        ends = np.cumsum(widths).tolist()
        self.fields = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        self._row_bytes = ends[-1]

    def rows(self, count: int) -> Iterator[Bytes]:
        """Yield (count, row) bytes; the last time fewer."""
        with self._path.open("rb") as file:
            file.seek(self._begin)
            for rows in _in_rows(self._pieces(file), self._row_bytes, count):
                # Those at the end are none: how many there are would follow from a row behind them.
                if np.any(np.all(rows == ord(" "), axis=1)):
                    raise DataError(f"'{self._path.name}' has a blank row. Delete it.")
                yield rows

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        # Blanks fill the last card up: rows of nothing else at the end are none.
        blank, n_bytes, last = b"", 0, b""
        while piece := file.read(_PIECE_BYTES):
            # Wherever it stands: a cell must not be read or refused by the rows before it.
            if _MEMBER in last + piece:
                raise DataError(f"'{self._path.name}' holds several tables. Save one by itself.")
            text, last = piece.rstrip(b" "), piece[-len(_MEMBER) :]
            if text:
                n_bytes += len(blank) + len(text)
                yield blank + text
                blank = b""
            blank += piece[len(text) :]
        yield blank[: -n_bytes % self._row_bytes]

    def numbers(self, cells: Bytes) -> NDArray[np.float64]:
        """The numbers of (n, width) bytes as IBM's computers write them; NaN where missing."""
        whole = np.zeros((len(cells), _WORD), dtype=np.uint8)
        whole[:, : cells.shape[1]] = cells
        bits = whole.view(">u8")[:, 0].astype(np.uint64)
        fraction = bits & np.uint64(2**56 - 1)
        exponent = (whole[:, 0] & 127).astype(np.int32) * 4 - (64 * 4 + 56)
        found = np.ldexp(fraction.astype(np.float64), exponent)
        np.negative(found, out=found, where=whole[:, 0] > 127)
        found[(fraction == 0) & _LETTERS[whole[:, 0]]] = np.nan
        return found


def _words_of(width: int) -> list[bool]:
    # Whether each word of a column is its first.
    return [True] + [False] * (-(-width // _WORD) - 1)


def text_array(cells: Any, codec: str) -> pa.Array:
    """Texts, or (n, width) bytes of them, without the blanks behind them."""
    if isinstance(cells, np.ndarray) and cells.dtype == np.uint8:
        kind, data = pa.binary(cells.shape[1]), pa.py_buffer(np.ascontiguousarray(cells))
        found = pa.FixedSizeBinaryArray.from_buffers(kind, len(cells), [None, data])
    else:
        found = pa.array(cells, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if pa.types.is_binary(found.type) or pa.types.is_fixed_size_binary(found.type):
        coded = found.dictionary_encode()
        decoded = [cell.rstrip(b" \0").decode(codec) for cell in coded.dictionary.to_pylist()]
        found = pa.array(decoded, pa.string()).take(coded.indices)
    return found.cast(pa.string())


def _in_rows(pieces: Iterator[bytes], row_bytes: int, count: int) -> Iterator[Bytes]:
    wanted, held = row_bytes * count, bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= wanted:
            yield np.frombuffer(bytes(held[:wanted]), np.uint8).reshape(-1, row_bytes)
            del held[:wanted]
    if held:
        # A row that is cut short does not fit.
        yield np.frombuffer(bytes(held), np.uint8).reshape(-1, row_bytes)
