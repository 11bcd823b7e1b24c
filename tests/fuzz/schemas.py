"""Schema files: mutated bytes of good ones, and TOML written around odd values."""

import json
import math
from contextlib import suppress

from dpcov.data.schema.schema import Schema
from tests.fuzz.mutate import NUMBERS, TEXTS, mutate_bytes, words

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
_FIELDS = words("title intercept missing rows_per_person norm_bound weights columns x")
_COLUMN_FIELDS = words("type lower upper missing categories note x")
_ODD = words("true false 1979-05-27T07:32:00Z 1979-13-45 25:61:61 0xffff 1_000")
_TYPES = ("numeric", "boolean", "categorical", "ignored", "", "number")


def run(random, folder):
    """Read a schema and use what the commands use of it."""
    good = mutate_bytes(random, random.choice(_BYTES), _BYTES)
    content = written(random) if random.random() < 0.4 else good
    schema = parsed(content, folder, through_file=random.random() < 0.2)
    assert Schema.loads(schema.dumps()) == schema, "a schema and its text differ"
    schema.require_complete()
    assert len(schema.encoded_columns) >= 1
    assert 0 < schema.norm_bound_or_worst_case < math.inf


def parsed(content, folder, *, through_file):
    """Read through a file, or from text where that is possible."""
    if not through_file:
        with suppress(UnicodeDecodeError):
            return Schema.loads(content.decode("utf-8-sig"))
    path = folder / "in.toml"
    path.write_bytes(content)
    return Schema.from_toml(path)


def written(random):
    """Write TOML with odd keys and values; most of it can be parsed."""
    lines = _fields(random, _FIELDS)
    for _ in range(random.randrange(4)):
        name = random.choice(("x", "age", '"a b"', json.dumps(random.choice(TEXTS))))
        lines += [f"[columns.{name}]", f'type = "{random.choice(_TYPES)}"']
        lines += _fields(random, _COLUMN_FIELDS)
    if random.random() < 0.05:
        lines.append("[" + ".".join(["a"] * random.choice((10, 500, 3000))) + "]")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _fields(random, usual, depth=0):
    return [
        f"{random.choice(usual) if random.random() < 0.9 else json.dumps(random.choice(TEXTS))} = "
        f"{value(random, depth)}"
        for _ in range(random.randrange(4))
    ]


def value(random, depth=0):
    """Return a TOML value."""
    kind = random.random()
    if kind < 0.35:
        odd = ("9" * 5000, "0." + "9" * 5000, "1e999999999", "-nan", "+inf")
        return str(random.choice((*NUMBERS, *odd)))
    if kind < 0.65:
        return json.dumps(random.choice(TEXTS), ensure_ascii=random.random() < 0.5)
    if kind < 0.75:
        return random.choice(_ODD)
    if kind < 0.78:
        times = random.choice((3, 60, 400, 3000, 100_000))
        nested = ("[" * times + "]" * times, "{a=" * times + "1" + "}" * times, "[" * times)
        return random.choice(nested)
    if depth > 3:
        return "[]"
    if kind < 0.9:
        return "[" + ", ".join(value(random, depth + 1) for _ in range(random.randrange(4))) + "]"
    return "{" + ", ".join(_fields(random, _COLUMN_FIELDS, depth + 1)) + "}"
