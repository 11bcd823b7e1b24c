"""Every mistake in a schema file is told with its line, and only a schema is quoted."""

import pytest

from dpcov import Schema
from dpcov.data.schema.mistakes import Lines
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
lower = 1900
'''
PLACES = {
    ("title",): 1,
    ("norm_bound",): 2,
    ("weights",): 3,
    ("weights", "column"): 4,
    ("columns", "a.b"): 6,
    ("columns", "a.b", "categories"): 8,
    ("columns", "a.b", "categories", 3): 8,
    ("columns", "a.b", "labels", "]"): 16,
    ("columns", "c", "upper"): 18,
    ("columns", "d", "type"): 19,
    ("columns", "e f", "type"): 20,
    ("columns", "w"): 21,
    ("columns", "g"): 22,
    ("columns", "g", "reference"): 24,
    ("columns", "g", "lower"): 25,
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_keys_are_found_where_they_stand(ends):
    text = AWKWARD.replace("\n", ends)
    lines = Lines(text)
    assert {path: lines.of(path) for path in PLACES} == PLACES
    assert ("columns", "fake") not in lines and ("columns", "z") not in lines
    # What has no line has that of the table around it.
    assert lines.of(("columns", "c", "absent", 3)) == 18 and lines.of(("absent",)) is None


COLUMN = '[columns.age]\ntype = "numeric"\n'
MISTAKES = {
    'lower = "17"': r"line 3, `lower = \"17\"`: column 'age'.*a number without quotes",
    "lowr = 17": "line 3, `lowr = 17`: .*did you mean `lower`",
    'transform = "log"': 'line 3, .*it is "log1p" or "sqrt"; did you mean `log1p`',
    "[columns.b]\ntype = 'date'\nas = 'Year'": 'it is "year", "days" or "age"; did you mean `year`',
    "[columns.b]\ntype = 'date'\nlower = 2015-01-01": "line 5, .*2015, not 2015-01-01",
    "[columns.b]\ntype = 'date'\nreference = '1.2.2015'": "line 5, .*a date as 2020-12-31",
    "missing_codes = [[1]]": "line 3, ",
    "missing_codes = [nan]": "line 1, .*column 'age': Missing codes are a list of numbers or texts",
    "missing_codes = [\n  1,\n  2020-01-01,\n]": "line 3, `missing_codes = .`.*missing_codes.1.",
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
    'missing = "none"': 'line 1, .*it is "center", "indicator" or "never"',
    '[file]\nencoding = "klingon"': "line 2, `encoding = .klingon.`: .*is not known",
    '[file]\ndelimiter = ";;"': "line 2, `delimiter = .;;.`: .*one ASCII character",
    'file = {header = 0, quote = ""}': "line 1, `file = .header = 0.*`: .*from 1",
}


@pytest.mark.parametrize(("first", "words"), TABLE_MISTAKES.items())
def test_mistakes_at_the_top_quote_their_line(first, words):
    with pytest.raises(SchemaError, match=f"(?s){words}"):
        Schema.loads(f"{first}\n{COLUMN}lower = 0\nupper = 1", complete=True)


def test_what_is_wrong_with_the_whole_table_has_no_line():
    told = "The schema cannot be used yet:\n  - No column is numeric, boolean or categorical; there"
    with pytest.raises(SchemaError, match=told):
        Schema.loads('[columns.a]\ntype = "ignored"', complete=True)


def test_one_screen_of_mistakes_is_shown():
    columns = "".join(f"[columns.c{place}]\nlower = 1\n" for place in range(23))
    with pytest.raises(SchemaError) as caught:
        Schema.loads(columns)
    heading, *lines, rest = str(caught.value).split("\n")
    assert heading == "The schema has mistakes:" and rest == "  - and 3 more"
    assert len(lines) == 20 and "column 'c19'" in lines[-1]


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
    draft = f"{COLUMN}lower = nan  # the smallest value\nupper = nan\n"
    assert Schema.loads(draft).columns["age"].lower is None
    with pytest.raises(SchemaError, match=r"line 3, `lower = nan`: .*fill in lower and upper"):
        Schema.loads(draft, complete=True)


def test_a_deep_text_is_refused_in_words():
    with pytest.raises(SchemaError, match=r"nested too deeply|columns"):
        Schema.loads(f"columns.a = {'[' * 5000}")
    with pytest.raises(SchemaError):
        Schema.loads(f"[columns.a]\ntype = {'[' * 200}{']' * 200}")
    with pytest.raises(SchemaError, match=r"line 5, `\[b\.b\.b.*unknown field `b`"):
        Schema.loads(f"{COLUMN}lower = 0\nupper = 1\n[{'.'.join('b' * 5000)}]")
