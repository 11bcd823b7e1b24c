"""Every mistake in a schema file is told with its line, and only a schema is quoted."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov import Schema
from dpcov.data.schema.lines import Lines
from dpcov.errors import SchemaError

AWKWARD = '''\
title = "[columns.fake]  # no header"   # [columns.comment]
norm_bound = 1.5e0
[weights]
column = 'w # x'
upper = 2
[columns."a.b"]
type = "categorical"
categories = [ # first
  "x", "]", """
[columns.z]
lower = 3
""",
  \'\'\'
it's [here]\'\'\',
]
labels = {"x" = "1", "]" = "2"}
[columns]
c = {type = "numeric", lower = 4, upper = 5}
d.type = "boolean"
"e \\u0066" . type = "ignored"
'w'.type = 'ignored'
[ columns . g ]
type = "date"
reference = 2020-01-01
[[parts]]
a = [[1, 2],
  [3]]
[[parts]]
a = 4
[parts.b]
c = 5
'''
PLACES = {
    ("title",): 1,
    ("norm_bound",): 2,
    ("weights",): 3,
    ("weights", "column"): 4,
    ("columns", "a.b"): 6,
    ("columns", "a.b", "categories"): 8,
    ("columns", "a.b", "categories", 1): 9,
    ("columns", "a.b", "categories", 2): 9,
    ("columns", "a.b", "categories", 3): 13,
    ("columns", "a.b", "labels", "]"): 16,
    ("columns", "c", "upper"): 18,
    ("columns", "d", "type"): 19,
    ("columns", "e f", "type"): 20,
    ("columns", "w"): 21,
    ("columns", "g"): 22,
    ("columns", "g", "reference"): 24,
    ("parts", 0): 25,
    ("parts", 0, "a", 0, 1): 26,
    ("parts", 0, "a", 1): 27,
    ("parts", 1, "a"): 29,
    ("parts", 1, "b", "c"): 31,
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_keys_are_found_where_they_stand(ends):
    text = AWKWARD.replace("\n", ends)
    lines = Lines(text)
    assert {path: lines.of(path) for path in PLACES} == PLACES
    assert ("columns", "fake") not in lines and ("columns", "z") not in lines
    # What has no line has that of the table around it.
    assert lines.of(("columns", "c", "absent", 3)) == 18 and lines.of(("absent",)) is None


keys = st.one_of(st.sampled_from("abc"), st.text(max_size=4))
leaves = st.one_of(
    *(st.integers(-9, 9), st.booleans(), st.text("x\n\"'#[]{}=,. \\", max_size=6)),
    st.lists(st.one_of(st.integers(0, 9), st.text("x]#\n", max_size=3)), max_size=3),
)
tables = st.recursive(
    leaves, lambda inner: st.dictionaries(keys, inner, min_size=1, max_size=3), max_leaves=8
)


class Writer:
    """Write a table in a random way, and keep the line of every key."""

    def __init__(self, random):
        self.lines, self.places, self.random = [], {}, random

    def note(self, path):
        for length in range(1, len(path) + 1):
            self.places.setdefault(path[:length], len(self.lines) + 1)

    def text(self, value):
        quoted = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        multiline = self.random.random() < 0.4 and "\\" not in value and '"' not in value
        return f'"""\n{value}"""' if multiline and not set(value) - set("x\n[]#=. ") else quoted

    def key(self, name):
        bare = name.isascii() and name.isalnum() and self.random.random() < 0.7
        return name if bare else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")

    def put(self, text):
        self.lines += text.split("\n")

    def inline(self, path, value):
        """A value on the line that is being written."""
        if isinstance(value, dict):
            for name in value:
                self.places.setdefault((*path, name), len(self.lines) + 1)
            pairs = (f"{self.key(n)} = {self.inline((*path, n), v)}" for n, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(json.dumps(each) for each in value) + "]"
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    def table(self, path, table):
        inner = {}
        for name, value in table.items():
            here = (*path, name)
            if isinstance(value, dict):
                style = self.random.choice(["header", "inline", "dotted"])
                if style == "header":
                    inner[name] = value
                    continue
                if style == "dotted" and not any(isinstance(v, dict) for v in value.values()):
                    for key, leaf in value.items():
                        self.note((*here, key))
                        self.put(f"{self.key(name)} . {self.key(key)} = {self.inline((), leaf)}")
                    continue
            self.note(here)
            if isinstance(value, str):
                self.put(f"{self.key(name)}={self.text(value)} # [x]")
            elif isinstance(value, list) and self.random.random() < 0.5:
                self.put(f"{self.key(name)} = [ # [y]")
                for place, each in enumerate(value):
                    self.note((*here, place))
                    self.put(f"  {json.dumps(each)}, # ]")
                self.put("]")
            else:
                self.put(f"{self.key(name)} = {self.inline(here, value)}")
        for name, value in inner.items():
            self.note((*path, name))
            self.put("[" + " . ".join(map(self.key, (*path, name))) + "] # z = 1")
            self.table((*path, name), value)


@given(st.dictionaries(keys, tables, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_line_found_is_the_right_one(table, random):
    writer = Writer(random)
    writer.table((), table)
    text = "\n".join(writer.lines)
    assert tomllib.loads(text) == table
    lines = Lines(text)
    assert {path: lines.of(path) for path in writer.places} == writer.places


COLUMN = '[columns.age]\ntype = "numeric"\n'
MISTAKES = {
    'lower = "17"': r"line 3, `lower = \"17\"`: column 'age'.*a number without quotes",
    "lowr = 17": "line 3, `lowr = 17`: .*did you mean `lower`",
    'transform = "log"': 'line 3, `transform = "log"`',
    "missing_codes = [[1]]": "line 3, ",
    "missing_codes = [\n  1,\n  2020-01-01,\n]": "line 5, `2020-01-01,`",
    "lower = 1\nupper = 0": "cannot be used yet.*line 3, `lower = 1`: .*exchange them",
    "lower = 1": "cannot be used yet.*line 1, .*fill in upper",
    "upper = 1": "line 1, .*fill in lower",
    "lower = 0\nupper = 1\n[weights]\nupper = 2": "line 5, .*missing required field `column`",
    "lower = 0\nupper = 1\n[weights]\ncolumn = 'w'\nupper = 2": "line 6, .*'w' is not listed",
    "lower = 0\nupper = 1\n[columns.'b c']\ntype = 'number'": "line 6, .*'b c'.*`numeric`",
    "lower = 0\nupper = 1\n[columns.b]\ncategories = []": "line 5, `.columns.b.`: .*type is",
    "lower = 0\nupper = 1\n[columns.b]\ntype='categorical'\ncategories = []": "line 7, .*list its",
}


@pytest.mark.parametrize(("rest", "words"), MISTAKES.items())
def test_mistakes_quote_their_line(rest, words, tmp_path):
    (tmp_path / "people.toml").write_text(COLUMN + rest)
    with pytest.raises(SchemaError, match=f"(?s)'people.toml' .*{words}"):
        Schema.from_toml(tmp_path / "people.toml", complete=True)


TABLE_MISTAKES = {
    "rows_per_person = 0": "line 1, `rows_per_person = 0`",
    'rows_per_person = "1"': "line 1, .*a whole number without quotes",
    "norm_bound = 9": "line 1, `norm_bound = 9`",
    "intercept = 1": "line 1, .*true or false, without quotes",
    "titel = 'x'": "line 1, .*did you mean `title`",
}


@pytest.mark.parametrize(("first", "words"), TABLE_MISTAKES.items())
def test_mistakes_at_the_top_quote_their_line(first, words):
    with pytest.raises(SchemaError, match=f"(?s){words}"):
        Schema.loads(f"{first}\n{COLUMN}lower = 0\nupper = 1", complete=True)


SYNTAX = {
    COLUMN + "lower = = 2\n": "line 3. Correct that line.\n  lower = = 2\n          ^",
    "[columns.age\ntype = 1": "line 1. Correct that line.\n  [columns.age\n              ^",
    COLUMN + "lower = 1\nlower = 2\n": "line 4",
    COLUMN + 'unit = """\n': "at its end. A quotation mark or a bracket",
    COLUMN + "missing_codes = [1,\n": "at its end. A quotation mark or a bracket",
    f"{COLUMN}unit = {'x' * 200}": "\n  unit = x",
}


@pytest.mark.parametrize(("text", "words"), SYNTAX.items())
def test_what_is_no_toml_is_quoted_with_a_mark(text, words):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    assert "is not valid TOML" in str(caught.value) and words in str(caught.value)
    assert all(len(line) < 120 for line in str(caught.value).splitlines()[1:])


@pytest.mark.parametrize("text", ["id,age\nzebra4711,3\n", "zebra4711 = ;", "a = 1\nzebra4711\n"])
def test_a_table_given_as_a_schema_is_not_quoted(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SchemaError, match="Is this the schema") as caught:
        Schema.from_toml(tmp_path / "t.csv")
    assert "zebra" not in str(caught.value) and "id," not in str(caught.value)


def test_drafts_can_be_loaded_but_not_used():
    draft = f"{COLUMN}lower = nan\nupper = nan\n"
    assert Schema.loads(draft).columns["age"].lower is None
    with pytest.raises(SchemaError, match=r"line 3, `lower = nan`: .*fill in lower and upper"):
        Schema.loads(draft, complete=True)


def test_a_deep_text_is_refused_in_words():
    with pytest.raises(SchemaError, match=r"nested too deeply|columns"):
        Schema.loads(f"columns.a = {'[' * 5000}")
    with pytest.raises(SchemaError):
        Schema.loads(f"[columns.a]\ntype = {'[' * 200}{']' * 200}")
