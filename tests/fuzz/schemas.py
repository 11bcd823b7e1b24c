"""Schema files: mutated bytes of good ones, and TOML written around odd values."""

import json
import math
import tomllib
from contextlib import suppress

from dpcov.data.schema.schema import Schema
from tests.fuzz.mutate import mutate_bytes, mutate_tree, words

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
_ODD = (
    *words("1979-05-27T07:32:00Z 1979-13-45 25:61:61 0xffff 1_000 1e999999999 -nan"),
    *("9" * 5000, "0." + "9" * 5000),
    *(mark * times for times in (3, 400, 3000, 100_000) for mark in ("[", "{a=")),
)


def run(random, folder):
    """Read a schema and use what the commands use of it."""
    content = mutate_bytes(random, random.choice(_BYTES), _BYTES)
    if random.random() < 0.4:
        tree = mutate_tree(random, tomllib.loads(random.choice(GOOD)))
        content = written(random, tree).encode("utf-8", "surrogatepass")
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


def written(random, tree):
    """Write a table of TOML, now and then with an odd value."""
    if not isinstance(tree, dict):
        return _value(random, tree)
    return "\n".join(f"{json.dumps(key)} = {_value(random, tree[key])}" for key in tree)


def _value(random, value):
    if value is None or random.random() < 0.02:
        return random.choice(_ODD)
    if isinstance(value, dict):
        entries = (f"{json.dumps(key)} = {_value(random, value[key])}" for key in value)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        with suppress(RecursionError):
            return "[" + ", ".join(_value(random, each) for each in value) + "]"
        return "[" * 900 + "]" * 900
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=random.random() < 0.5)
    return str(value)
