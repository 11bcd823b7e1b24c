"""Find the line on which every key of a TOML text stands.

Contract: the text is valid TOML.  A key's place is the line where it is written first, and that of
an entry of a list the line where the entry begins.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cached_property

# A key path: names of tables and fields, and places in lists.
Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r"(?P<text>"
    r'"""(?:[^\\]|\\.)*?"{3,5}|' + r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*')"
    r"|(?P<comment>#[^\n]*)|(?P<blank>[ \t\r]+)|(?P<sign>[][{}=.,\n])"
    r"|(?P<word>[^][{}=.,\n\s#\"']+)",
    re.DOTALL,
)


class Lines:
    """The lines of a TOML text, by key."""

    def __init__(self, text: str) -> None:
        self._whole = text
        self.text = text.replace("\r\n", "\n").split("\n")

    @cached_property
    def _found(self) -> dict[Path, int]:
        # Looked for where there is a mistake only.
        found: dict[Path, int] = {}
        try:
            _Scan(self._whole, found).document()
        except (RecursionError, StopIteration):
            # Nested too deeply to be a schema: errors then come without lines.
            found.clear()
        return found

    def of(self, path: Path) -> int | None:
        """The number of a key's line, counted from 1; of the table around it where it has none."""
        while path and path not in self._found:
            path = path[:-1]
        return self._found.get(path)

    def quote(self, path: Path) -> str:
        """``line 12, `lower = 17`: `` for a key, or nothing."""
        number = self.of(path)
        if number is None:
            return ""
        return f"line {number}, `{self.text[number - 1].strip()[:100]}`: "

    def __contains__(self, path: object) -> bool:
        return path in self._found


class _Scan:
    """One walk over the tokens, which writes down the line of every key."""

    def __init__(self, text: str, found: dict[Path, int]) -> None:
        self._tokens = _tokens(text)
        self._found = found
        self._lists: dict[Path, int] = {}
        self._next()

    def document(self) -> None:
        """Headers and keys until the end."""
        table: Path = ()
        while self._now:
            if self._now == "\n":
                self._next()
            elif self._now == "[":
                table = self._header()
            else:
                self._pair(table)

    def _next(self) -> str:
        # Step on, and return what was there; the end is an empty token.
        passed = getattr(self, "_now", "")
        self._now, self._line = next(self._tokens)
        return passed

    def _header(self) -> Path:
        line, is_list = self._line, False
        self._next()
        if self._now == "[":
            is_list = bool(self._next())
        path = self._inside(self._key())
        if is_list:
            self._lists[path] = self._lists.get(path, -1) + 1
            path = (*path, self._lists[path])
        self._note(path, line)
        while self._now == "]":
            self._next()
        return path

    def _inside(self, key: Path) -> Path:
        # A table inside of a list of tables belongs to the last one of that list.
        path: Path = ()
        for step in key[:-1]:
            path = (*path, step)
            if path in self._lists:
                path = (*path, self._lists[path])
        return (*path, *key[-1:])

    def _key(self) -> Path:
        names: list[str] = []
        while True:
            token = self._next()
            names.append(_unquoted(token) if token[0] in "\"'" else token)
            if self._now != ".":
                return tuple(names)
            self._next()

    def _pair(self, table: Path) -> None:
        line = self._line
        path = (*table, *self._key())
        self._note(path, line)
        self._next()  # the equals sign
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._now == "[":
            self._list(path)
        elif self._now == "{":
            self._next()
            while self._now != "}":
                if self._now in (",", "\n"):
                    self._next()
                else:
                    self._pair(path)
            self._next()
        else:
            self._next()
            while self._now and self._now not in ("\n", ",", "]", "}"):
                self._next()

    def _list(self, path: Path) -> None:
        self._next()
        place = 0
        while self._now != "]":
            if self._now in (",", "\n"):
                place += self._next() == ","
            else:
                self._note((*path, place), self._line)
                self._value((*path, place))
        self._next()

    def _note(self, path: Path, line: int) -> None:
        for length in range(1, len(path) + 1):
            self._found.setdefault(path[:length], line)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    # Tokens that mean something, and their lines.
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup not in ("comment", "blank"):
            yield found[0], line
        line += found[0].count("\n")
    yield "", line


def _unquoted(token: str) -> str:
    text: str = tomllib.loads(f"text = {token}")["text"]
    return text
