"""Rows that are read several times: a copy is kept where it has room, and nothing else changes."""

import pyarrow as pa
import pyarrow.csv
import pytest

from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.groups import split_schema
from dpcov.data.kept import KeptSource
from dpcov.data.layout import PLAIN
from dpcov.data.questions import MomentsQuestion
from dpcov.data.schema.declared import Categorical, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.sources.delimited import from_stream
from dpcov.errors import DataError, UsageError

ROWS = 1000
TABLE = pa.table(
    {"size": [float(row % 7) for row in range(ROWS)], "kind": ["a", "b"] * (ROWS // 2)}
)
SCHEMA = Schema(
    columns={"size": Numeric(lower=0, upper=6), "kind": Categorical(categories=("a", "b"))}
)
WANTED = {"size": "number", "kind": "text"}
QUESTIONS = [MomentsQuestion(spec=MomentsSpec(shells=shells), watched=True) for shells in (1, 4, 9)]


@pytest.fixture
def path(tmp_path):
    pa.csv.write_csv(TABLE, tmp_path / "t.csv")
    return tmp_path / "t.csv"


def kept(data, memory, schema=SCHEMA):
    return KeptSource(open_source(data), memory, Encoder(schema).readers)


def rows_of(source):
    return [row for block in source.blocks(100, wanted=WANTED) for row in block.to_pylist()]


@pytest.mark.parametrize(("memory", "reads"), [(2**20, 1), (2**10, 2)])
def test_a_file_that_fits_is_read_once(path, memory, reads, monkeypatch):
    source = kept(path, memory)
    opened, blocks = [], type(source._source).blocks
    monkeypatch.setattr(
        type(source._source),
        "blocks",
        lambda self, *args, **options: opened.append(1) or blocks(self, *args, **options),
    )
    assert rows_of(source) == rows_of(source) == TABLE.to_pylist()
    assert len(opened) == reads
    assert source.columns == ("size", "kind")
    assert source.kinds() == {"size": "number", "kind": "text"}


@pytest.mark.parametrize(
    "opened", [open_source, lambda path: from_stream(path.open("rb"), "s", PLAIN)]
)
def test_a_copy_holds_the_text_of_a_level_once(tmp_path, opened):
    """Half a KiB a row otherwise, where a stream is reckoned to need 64 bytes for a cell."""
    levels = [f"{level} {'long ' * 100}" for level in "ab"]
    table = TABLE.set_column(1, "kind", [levels * (ROWS // 2)])
    pa.csv.write_csv(table, tmp_path / "t.csv")
    levels = Categorical(categories=tuple(levels))
    source = kept(
        opened(tmp_path / "t.csv"), 2**20, Schema(columns={**SCHEMA.columns, "kind": levels})
    )
    assert rows_of(source) == rows_of(source) == table.to_pylist()
    assert sum(block.nbytes for block in source._held) < 64 * ROWS


def test_a_copy_holds_few_levels_in_a_byte_a_cell(path):
    source = kept(path, 2**20)
    assert rows_of(source) == rows_of(source) == TABLE.to_pylist()
    # Beside a number of eight.
    assert sum(block.nbytes for block in source._held) < 10 * ROWS


@pytest.mark.parametrize("levels", [255, 256, 257, 70_000])
def test_a_copy_tells_many_levels_apart(levels):
    texts = [f"{row % levels:x}" for row in range(2 * levels)] + [None]
    table = pa.table({"size": [0.0] * len(texts), "kind": texts})
    kind = Categorical(categories=tuple(texts[:levels]))
    source = kept(table.to_reader(), 2**30, Schema(columns={**SCHEMA.columns, "kind": kind}))
    for _ in range(2):
        blocks = source.blocks(len(texts), wanted=WANTED)
        assert [text for block in blocks for text in block["kind"].to_pylist()] == texts


@pytest.mark.parametrize("by", [None, "kind"])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_a_copy_of_long_texts_that_all_differ_keeps_within_64_bytes_a_cell(kind, by):
    """What is refused follows from the number of cells, so what no level lists is not held."""
    long = [f"{row:x} {'long ' * 100}" for row in range(ROWS)]
    texts = pa.array(["a", " A ", "b", None, "NA", *long[5:]]).cast(kind)
    table = pa.table({"size": TABLE["size"], "kind": texts, "sort": texts})
    levels = Categorical(categories=("a", "b"), other="c", ignore_case=True)
    schema, grouping = Schema(columns={**SCHEMA.columns, "sort": levels}), None
    if by is not None:
        schema, grouping = split_schema(schema, by)
    encoding = Encoder(schema, grouping=grouping)
    answer = Gathering(threads=1).answer
    source = KeptSource(open_source(table.to_reader()), 2**20, encoding.readers)
    spec = MomentsSpec(shells=2, groups=1 if by is None else len(grouping.names))
    question = MomentsQuestion(spec=spec, watched=True)
    for _ in range(2):
        assert answer(source, encoding, question) == answer(table, encoding, question)
        assert sum(block.nbytes for block in source._held) < 64 * 3 * ROWS


def test_no_machine_is_so_large_that_a_copy_grows_with_the_table(path, monkeypatch):
    monkeypatch.setattr("dpcov.data.kept.MOST_BYTES", 2**10)
    source = kept(path, 2**60)
    assert rows_of(source) == rows_of(source) == TABLE.to_pylist()
    assert source._held is None


def test_no_copy_is_begun_again_where_it_did_not_fit(path):
    source = kept(path, 2**10)
    for _ in range(2):
        rows_of(source)
        assert source._held is None


def test_what_was_read_in_part_is_read_again(path):
    source = kept(path, 2**20)
    next(iter(source.blocks(100, wanted=WANTED)))
    assert rows_of(source) == TABLE.to_pylist()


def test_a_stream_that_does_not_fit_is_refused():
    source = kept(TABLE.to_reader(), ROWS * 64)
    with pytest.raises(UsageError, match="Save it to a file"):
        rows_of(source)
    source = kept(TABLE.to_reader(), ROWS * 2 * 64)
    assert rows_of(source) == rows_of(source) == TABLE.to_pylist()


@pytest.mark.parametrize("memory", [None, 0.04])
def test_answers_do_not_depend_on_the_copy(path, memory):
    gathering = Gathering(threads=2, memory_limit=memory)
    ask = gathering.ask(path, Encoder(SCHEMA), again=True)
    for question in QUESTIONS:
        assert ask(question) == gathering.answer(path, Encoder(SCHEMA), question)


def test_a_file_that_is_not_kept_may_not_change(path):
    gathering = Gathering(threads=1, memory_limit=0.04)
    ask = gathering.ask(path, Encoder(SCHEMA), again=True)
    ask(QUESTIONS[0])
    pa.csv.write_csv(TABLE[1:], path)
    # The copy is what was asked before.
    assert ask(QUESTIONS[1]).n_rows == ROWS
    ask = Gathering(threads=1).ask(path, Encoder(SCHEMA))
    ask(QUESTIONS[0])
    pa.csv.write_csv(TABLE, path)
    with pytest.raises(DataError, match="changed"):
        ask(QUESTIONS[1])
