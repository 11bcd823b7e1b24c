"""The pages of a Parquet file, and what they say they unfold to, before one of them is unfolded.

Promise: a file whose wanted pages all pass is decoded page by page into at most :data:`LARGEST_PAGE` bytes each, where
a few kilobytes can claim gigabytes otherwise.  Reads headers only, in the order in which a reader meets them; a page
that unfolds to more than its header says is refused by the reader.

Format: ``parquet.thrift`` of Apache Parquet; its field numbers stand below.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dpcov.data.sources.compact import I32, I64, STRUCT, Compact, UnreadableError
from dpcov.errors import DataError

LARGEST_PAGE = 128 << 20
"""Writers make pages of about 1 MiB; the largest ones that are known have 100 MB."""

_FIRST_LOOK = 256
_LONGEST_HEADER = 16 << 20
_PADDING = 100
"""Bytes by which old writers made a column chunk longer than they said; readers allow for it."""

_ENDING = 8
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_NUM_VALUES, _TOTAL_COMPRESSED, _DATA_OFFSET, _DICTIONARY_OFFSET = 5, 7, 9, 11
_CHUNK_FIELDS = (_NUM_VALUES, _TOTAL_COMPRESSED, _DATA_OFFSET, _DICTIONARY_OFFSET)
_TYPE, _UNFOLDED, _FOLDED = 1, 2, 3
_DATA_HEADERS = {0: 5, 3: 8}
"""Field of the header inside, by type of page; other pages hold no values."""


@dataclass(frozen=True, kw_only=True)
class _Page:
    unfolded: int
    folded: int
    values: int
    header_bytes: int


def check_pages(path: Path, places: Collection[int]) -> None:
    """Refuse a file if a page of the columns at these places is too large or has no readable header."""
    with path.open("rb") as file:
        try:
            for place, chunk in _chunks(_footer(file)):
                if place in places:
                    _check_chunk(file, path.name, chunk)
        except UnreadableError:
            raise DataError(
                f"'{path.name}' cannot be read: its headers are not as they should be; write it again."
            ) from None


def _footer(file: BinaryIO) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - _ENDING))
    length = int.from_bytes(file.read(_ENDING)[:4], "little")
    file.seek(max(0, size - _ENDING - length))
    return file.read(length)


def _chunks(footer: bytes) -> Iterator[tuple[int, dict[int, int]]]:
    """Place among the columns and numbers of every column chunk."""
    reader = Compact(footer)
    for field, kind in reader.fields():
        if field != _ROW_GROUPS:
            reader.skip(kind)
            continue
        for _ in reader.elements(kind, STRUCT):
            for inner, inner_kind in reader.fields():
                if inner != _COLUMNS:
                    reader.skip(inner_kind)
                    continue
                for place in reader.elements(inner_kind, STRUCT):
                    yield place, _chunk(reader)


def _chunk(reader: Compact) -> dict[int, int]:
    found: dict[int, int] = {}
    for field, kind in reader.fields():
        if field != _META_DATA or kind != STRUCT:
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner in _CHUNK_FIELDS:
                found[inner] = reader.integer(inner_kind, I64)
            else:
                reader.skip(inner_kind)
    return found


def _check_chunk(file: BinaryIO, name: str, chunk: dict[int, int]) -> None:
    """Walk through a column chunk's pages until they hold as many values as it has."""
    left, at = chunk.get(_NUM_VALUES, 0), chunk.get(_DATA_OFFSET, -1)
    if 0 < chunk.get(_DICTIONARY_OFFSET, 0) < at:
        at = chunk[_DICTIONARY_OFFSET]
    end = at + chunk.get(_TOTAL_COMPRESSED, 0) + _PADDING
    while left > 0 and at < end:
        page = _page(file, at)
        if max(page.unfolded, page.folded) > LARGEST_PAGE:
            raise DataError(
                f"'{name}' has a page that unfolds to more than {LARGEST_PAGE >> 20} MiB. Write it again with pages of "
                "a usual size (1 MiB), or without the long cells."
            )
        left -= page.values
        at += page.header_bytes + page.folded


def _page(file: BinaryIO, at: int) -> _Page:
    """Read a page's header, and more of the file as long as it goes on."""
    look = _FIRST_LOOK
    while at >= 0:
        file.seek(at)
        content = file.read(look)
        try:
            return _page_header(Compact(content))
        except UnreadableError:
            if len(content) < look or look > _LONGEST_HEADER:
                raise
            look *= 8
    raise UnreadableError


def _page_header(reader: Compact) -> _Page:
    numbers = {_TYPE: -1, _UNFOLDED: -1, _FOLDED: -1}
    values: dict[int, int] = {}
    for field, kind in reader.fields():
        if field in numbers:
            numbers[field] = reader.integer(kind, I32)
        elif field in _DATA_HEADERS.values() and kind == STRUCT:
            values[field] = _first_number(reader)
        else:
            reader.skip(kind)
    if min(numbers.values()) < 0:
        raise UnreadableError
    return _Page(
        unfolded=numbers[_UNFOLDED],
        folded=numbers[_FOLDED],
        values=values.get(_DATA_HEADERS.get(numbers[_TYPE], 0), 0),
        header_bytes=reader.at,
    )


def _first_number(reader: Compact) -> int:
    """The first field of a structure, the number of values in the headers of data pages."""
    found = 0
    for field, kind in reader.fields():
        if field == 1:
            found = reader.integer(kind, I32)
        else:
            reader.skip(kind)
    return found
