"""Say what is wrong in a schema file, and on which line: by key, counted from 1.

Contract: lines are quoted of texts that describe columns only, so that a table given by mistake is
not shown.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, get_args

import msgspec

from dpcov.data.schema.declared import Declared
from dpcov.data.schema.problems import listed
from dpcov.errors import SchemaError, closest


def either(texts: Iterable[str]) -> str:
    """Name all of several texts, of which one is wanted."""
    return " or ".join(", ".join(f'"{text}"' for text in texts).rsplit(", ", 1))


# A key path: names of tables and fields, and places in lists.
Path = tuple[str | int, ...]

# Tables in tables: columns, one of them, its groups, and one of these.
_DEEPEST = 4
# What a key's value, if it has several lines, can end with.
_END = re.compile(r"[]}]|\"\"\"|'''")
STRUCTS: dict[str, type[msgspec.Struct]] = {
    str(struct.__struct_config__.tag): struct for struct in get_args(Declared)
}
# Every type that a column can have, in words.
TYPES = either(STRUCTS)

_LOOKS_LIKE_A_SCHEMA = re.compile(r"(?m)^\s*(\[\s*columns\b|columns\s*[.=])")
_POSITION = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")
_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `(.*)`$", re.DOTALL)
_COLUMN = re.compile(r"Column '(.*?)'(?::| |$)", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(.*)`, got `(\w+)`")
_NO_CHOICE = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
TOO_LONG_OR_DEEP = "a number of thousands of digits, or brackets nested too deeply"
# What is wrong where a value has another type, by the type that is expected.
_WRITE = {
    "float": "write a number without quotes, such as 90 or 0.5",
    "date": 'bounds are of the number that a date becomes: 2015, not 2015-01-01, for as = "year"',
    "int": "write a whole number without quotes",
    "bool": "write true or false, without quotes",
    "str": 'write a text, in quotes: "1"',
    "array": "write a list, in brackets",
    "object": "write a table, such as {...}",
}


def load_toml(text: str, name: str) -> dict[str, Any]:
    """Read TOML, or say in which line it cannot be read."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = str(error)
    except (ValueError, RecursionError):
        raise SchemaError(f"{name} has {TOO_LONG_OR_DEEP}.") from None
    raise _syntax_error(text, name, told)


def _syntax_error(text: str, name: str, told: str) -> SchemaError:
    position = _POSITION.search(told)
    said, lines = _POSITION.sub("", told), text.replace("\r\n", "\n").split("\n")
    if not _LOOKS_LIKE_A_SCHEMA.search(text):
        where = f" in line {position[1]}" if position and position[1] else ""
        return SchemaError(
            f"{name} is not valid TOML{where}, and has no [columns.<name>] table. "
            "Is this the schema? The command dpcov schema draft FILE writes one."
        )
    if position is None or position[1] is None:
        return SchemaError(
            f"{name} is not valid TOML: {said} at its end. A quotation mark or a bracket that was "
            "opened is not closed."
        )
    line, column = int(position[1]), int(position[2])
    # A window, so that the mark stands on the screen also in a long line.
    start = max(0, column - 60)
    shown = lines[line - 1][start : start + 90].replace("\t", " ")
    mark = " " * (column - 1 - start) + "^"
    return SchemaError(
        f"{name} is not valid TOML: {said} in line {line}. Correct that line.\n  {shown}\n  {mark}"
    )


class Mistakes:
    """What was found wrong in one text, each with its line."""

    def __init__(self, text: str) -> None:
        self._lines = Lines(text)
        self.found: list[str] = []

    def add(self, path: Path, told: str) -> None:
        """Note a mistake at a key."""
        self.found.append(f"{self._lines.quote(path)}{told}")

    def add_problems(self, problems: Iterable[str]) -> None:
        """Note what makes a schema unusable: it is where the first field that it names stands."""
        for problem in problems:
            self.add(self._place_of(problem), problem)

    def convert(self, path: Path, what: str, entry: Any, kind: Any) -> Any:
        """Make a value of plain ones; None where that is a mistake."""
        try:
            return msgspec.convert(entry, kind, strict=True)
        except msgspec.ValidationError as error:
            told = str(error)
        except SchemaError as error:
            self.add(path or self._place_of(str(error)), f"{what}: {error}")
            return None
        struct = kind
        if kind == Declared and isinstance(entry, dict):
            struct = STRUCTS.get(str(entry.get("type")))
        place = _PLACE.search(told)
        inside = () if place is None else tuple(map(_step, _STEP.finditer(place[1])))
        said = _PLACE.sub(f" at `{place[1].lstrip('.')}`" if place and place[1] else "", told)
        if unknown := _UNKNOWN.search(told):
            inside = (*inside, unknown[1])
        said = f"{what}: {said}{_advice(told, inside, entry, struct)}"
        self.add((*path, *inside), said if said.endswith("?") else f"{said}.")
        return None

    def refuse(self, heading: str) -> None:
        """Raise if there was any mistake."""
        if self.found:
            raise SchemaError(listed(heading, self.found))

    def _place_of(self, problem: str) -> Path:
        table: Path = ()
        if column := _COLUMN.match(problem):
            table = ("columns", column[1])
            problem = problem[column.end() :]
        else:
            parts = [("weights",), ("file",)]
            table = next((p for p in parts if p[0] in problem.lower() and p in self._lines), ())
        words = re.findall(r"\w+", problem)
        return next(((*table, word) for word in words if (*table, word) in self._lines), table)


def _step(found: re.Match[str]) -> str | int:
    return found[1] if found[2] is None else int(found[2])


def _advice(told: str, inside: Path, entry: Any, struct: Any) -> str:
    if "`type`" in told or inside == ("type",):
        given = entry.get("type") if isinstance(entry, dict) else None
        return f"; type is {TYPES}{_meant(given, STRUCTS)}"
    if "unknown field" in told and struct is not None:
        fields = [field for field in struct.__struct_encode_fields__ if field != "columns"]
        return f"; it has: {', '.join(fields)}{_meant(inside[-1], fields)}"
    if (wrong := _NO_CHOICE.search(told)) and struct is not None and inside:
        known = _choices(struct, str(inside[-1]))
        return f"; it is {either(known)}{_meant(wrong[1], known)}" if known else ""
    if "encoded date" in told:
        return "; write a date as 2020-12-31"
    if wrong := _EXPECTED.search(told):
        kind = wrong[1].partition(" ")[0]
        kind = "date" if (kind, wrong[2]) == ("float", "date") else kind
        return f"; {_WRITE[kind]}" if kind in _WRITE else ""
    return ""


def _choices(struct: Any, name: str) -> list[str]:
    """The texts that a field of fixed texts can be."""
    kinds = [each.type for each in msgspec.structs.fields(struct) if each.encode_name == name]
    while kinds and not isinstance(kinds[0], str):
        kinds = [each for kind in kinds for each in get_args(kind)]
    return kinds


def _meant(given: object, known: Iterable[str]) -> str:
    close = closest(given, known)
    return f"; did you mean `{close}`?" if close else ""


class Lines:
    """The lines of a valid TOML text, by key.

    A key's place is the line where it is written first, and that of an entry of a list the line
    where the list begins.
    """

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
        # A draft's comment on the line says what the problem says.
        line = self.text[number - 1].partition("  # ")[0].strip()
        return f"line {number}, `{line[:100]}`: "

    def __contains__(self, path: object) -> bool:
        return path in self._found


def _paths(table: dict[str, Any], depth: int = _DEEPEST) -> Iterator[Path]:
    # Every key in a table, and in the tables in it.
    for name, value in table.items():
        yield (name,)
        if isinstance(value, dict) and depth > 1:
            yield from ((name, *path) for path in _paths(value, depth - 1))
