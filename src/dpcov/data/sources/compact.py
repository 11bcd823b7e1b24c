"""The compact protocol of Apache Thrift, in which Parquet writes its headers, as far as walking through it needs.

Promise: reads every byte at most once, keeps nothing, and refuses what two readers could take differently: a field that
comes twice, a number of a field that does not fit, or nesting without end.  Knows nothing of Parquet.
"""

from collections.abc import Iterator

BYTE, I32, I64, BINARY, LIST, STRUCT = 3, 5, 6, 8, 9, 12
_TRUE, _FALSE, _I16, _DOUBLE, _SET, _MAP = 1, 2, 4, 7, 10, 11
_DEEPEST = 16
_SIZES = {BYTE: 1, _DOUBLE: 8}


class UnreadableError(Exception):
    """The bytes end too early, or are none of the protocol."""


class Compact:
    """A place in bytes, behind what was read; ``at`` counts from their beginning."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of every field of a structure; its value has to be read before the next."""
        field, seen = 0, set()
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self.number()
            if field in seen or not 0 < field < 2**15:
                raise UnreadableError
            seen.add(field)
            yield field, head & 15

    def elements(self, kind: int, wanted: int) -> range:
        """Positions of a list's elements, which have to be of the wanted type and read one by one."""
        head = self._list_head() if kind == LIST else None
        if head is None or head[0] != wanted:
            raise UnreadableError
        return range(head[1])

    def integer(self, kind: int, wanted: int) -> int:
        """Read a number, which has to be of the wanted type."""
        if kind != wanted:
            raise UnreadableError
        return self.number()

    def number(self) -> int:
        """Read a number of any width."""
        folded = self._unsigned()
        return folded >> 1 ^ -(folded & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value that stands in a structure."""
        if kind in (_TRUE, _FALSE):  # stands in the type itself
            return
        self._skip_element(kind, depth)

    def _skip_element(self, kind: int, depth: int) -> None:
        """Pass over a value, where a truth value takes a byte."""
        if depth > _DEEPEST:
            raise UnreadableError
        if kind in _SIZES or kind in (_TRUE, _FALSE):
            self._pass(_SIZES.get(kind, 1))
        elif kind in (_I16, I32, I64):
            self._unsigned()
        elif kind == BINARY:
            self._pass(self._unsigned())
        elif kind in (LIST, _SET):
            self._skip_elements(*self._list_head(), depth)
        elif kind == _MAP:
            self._skip_pairs(depth)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise UnreadableError

    def _skip_elements(self, kind: int, size: int, depth: int) -> None:
        for _ in range(size):
            self._skip_element(kind, depth + 1)

    def _skip_pairs(self, depth: int) -> None:
        size = self._sized(self._unsigned())
        if not size:
            return
        kinds = self._byte()
        for _ in range(size):
            self._skip_element(kinds >> 4, depth + 1)
            self._skip_element(kinds & 15, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        return head & 15, self._sized(self._unsigned() if head >> 4 == 15 else head >> 4)

    def _sized(self, size: int) -> int:
        """A number of elements, of which each takes a byte at least."""
        if size > len(self._content) - self.at:
            raise UnreadableError
        return size

    def _byte(self) -> int:
        self._pass(1)
        return self._content[self.at - 1]

    def _pass(self, count: int) -> None:
        self.at += count
        if self.at > len(self._content):
            raise UnreadableError

    def _unsigned(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) >= 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise UnreadableError
        return value | byte << shift
