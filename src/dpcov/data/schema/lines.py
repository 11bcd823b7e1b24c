"""Find the line on which every key of a TOML text stands.

Contract: the text is valid TOML.  A key's place is the line where it is written first, and that of
an entry of a list the line where the list begins.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

# A key path: names of tables and fields, and places in lists.
Path = tuple[str | int, ...]

# What a key's value, if it has several lines, can end with.
_END = re.compile(r"[]}]|\"\"\"|'''")


class Lines:
    """The lines of a TOML text, by key."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n").split("\n")

    @cached_property
    def _found(self) -> dict[Path, int]:
        # Looked for where there is a mistake only.
        found: dict[Path, int] = {}
        table: Path = ()
        begin = 0
        for end, line in enumerate(self.text, 1):
            if end - begin > 1 and not _END.search(line):
                continue
            try:
                read = tomllib.loads("\n".join(self.text[begin:end]))
            except tomllib.TOMLDecodeError:
                continue
            is_header = self.text[begin].lstrip().startswith("[")
            paths = [(*(() if is_header else table), *path) for path in _paths(read)]
            for path in paths:
                found.setdefault(path, begin + 1)
            table = paths[-1] if is_header else table
            begin = end
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


def _paths(table: dict[str, Any]) -> Iterator[Path]:
    # Every key in a table, and in the tables in it.
    for name, value in table.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *path) for path in _paths(value))
