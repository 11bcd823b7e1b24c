"""Schema files: mutated bytes of good ones, and TOML written around odd values."""

import json
import math
from pathlib import Path
from random import Random

from dpcov.data.schema.schema import Schema
from tests.fuzz.engine import Target
from tests.fuzz.mutate import NUMBERS, TEXTS, mutate_bytes

GOOD = (
    """
title = "patients"
[columns.age]
type = "numeric"
lower = 0
upper = 120
[columns.sex]
type = "categorical"
categories = ["F", "M"]
missing = "indicator"
[columns.ill]
type = "boolean"
""",
    """# a comment
title = "a \\"survey\\""
intercept = true
missing = "indicator"
rows_per_person = 3
norm_bound = 1.5
weights = {column = "weight", upper = 9.5}
[columns]
weight = {type = "ignored", note = "the weights"}
"0 y" = {type = "numeric", lower = -1e3, upper = +1e3}
[columns."a.b"]
type = "categorical"
categories = [
  "x=1",  # one
  'y',
]
""",
    '[columns.x]\ntype = "numeric"\nlower = nan\nupper = nan\n',
    "[columns.x]\ntype = 'boolean'\n[columns.y]\ntype = 'ignored'\n",
)
_BYTES = tuple(text.encode() for text in GOOD)
_FIELDS = (
    "title",
    "intercept",
    "missing",
    "rows_per_person",
    "norm_bound",
    "weights",
    "columns",
    "x",
)
_COLUMN_FIELDS = ("type", "lower", "upper", "missing", "categories", "note", "x")
_TYPES = ("numeric", "boolean", "categorical", "ignored", "", "number")


def run(random: Random, folder: Path) -> None:
    """Read a schema and use what the commands use of it."""
    content = (
        written(random)
        if random.random() < 0.4
        else mutate_bytes(random, random.choice(_BYTES), _BYTES)
    )
    schema = parsed(content, folder, through_file=random.random() < 0.2)
    _check_round_trip(schema)
    schema.require_complete()
    assert len(schema.encoded_columns) >= 1
    assert 0 < schema.norm_bound_or_worst_case < math.inf


def parsed(content: bytes, folder: Path, *, through_file: bool) -> Schema:
    """Read through a file, or from text where that is possible."""
    if not through_file:
        try:
            return Schema.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass
    path = folder / "in.toml"
    path.write_bytes(content)
    return Schema.from_toml(path)


def _check_round_trip(schema: Schema) -> None:
    text = schema.dumps()
    assert Schema.loads(text) == schema, "a schema and its text differ"


def written(random: Random) -> bytes:
    """Write TOML with odd keys and values; most of it can be parsed."""
    lines = [f"{_field(random, _FIELDS)} = {value(random)}" for _ in range(random.randrange(4))]
    for _ in range(random.randrange(4)):
        name = random.choice(("x", "age", '"a b"', json.dumps(random.choice(TEXTS))))
        lines.append(f"[columns.{name}]")
        lines.append(f'type = "{random.choice(_TYPES)}"')
        lines += [
            f"{_field(random, _COLUMN_FIELDS)} = {value(random)}"
            for _ in range(random.randrange(4))
        ]
    if random.random() < 0.05:
        lines.append("[" + ".".join(["a"] * random.choice((10, 500, 3000))) + "]")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _field(random: Random, usual: tuple[str, ...]) -> str:
    return random.choice(usual) if random.random() < 0.9 else json.dumps(random.choice(TEXTS))


def value(random: Random, depth: int = 0) -> str:
    """Return a TOML value."""
    kind = random.random()
    if kind < 0.35:
        return _number(random)
    if kind < 0.65:
        return json.dumps(random.choice(TEXTS), ensure_ascii=random.random() < 0.5)
    if kind < 0.75:
        return random.choice(
            ("true", "false", "1979-05-27T07:32:00Z", "1979-13-45", "25:61:61", "0xffff", "1_000")
        )
    if kind < 0.78:
        times = random.choice((3, 60, 400, 3000, 100_000))
        return random.choice(
            ("[" * times + "]" * times, "{a=" * times + "1" + "}" * times, "[" * times)
        )
    if depth > 3:
        return "[]"
    if kind < 0.9:
        return "[" + ", ".join(value(random, depth + 1) for _ in range(random.randrange(4))) + "]"
    pairs = (
        f"{_field(random, _COLUMN_FIELDS)} = {value(random, depth + 1)}"
        for _ in range(random.randrange(4))
    )
    return "{" + ", ".join(pairs) + "}"


def _number(random: Random) -> str:
    chosen = random.choice((*NUMBERS, "9" * 5000, "0." + "9" * 5000, "1e999999999", "-nan", "+inf"))
    return str(chosen)


TARGET = Target(name="schema", run=run, share=26, milliseconds=0.4)
