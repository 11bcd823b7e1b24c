"""Values planted in rows are nowhere but in the rows: not on the screen, in errors, nor in a file.

Searched are all forms in which a value could be written: text in three encodings, floats and
integers of either byte order and of several widths, also as they are after encoding.
"""

import gzip
import logging
import os
import shutil
import struct
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app

TEXT, INSIDE, OUTSIDE, WHOLE = "zebra4711", 47.11926535, 31337.265358979, 1739119373
LOWER, UPPER = 0.0, 120.0
ROWS = 60

NUMERIC = "[columns.{}]\ntype = 'numeric'\nlower = 0\nupper = {}\n"
COLUMNS = "".join(map(NUMERIC.format, ("age", "far", "id"), (120, 120, 1000)))
SEX = "[columns.sex]\ntype = 'categorical'\ncategories = ['F', 'M']\n"
SCHEMA = f"title = 'patients'\n{COLUMNS}{SEX}"


def forms():
    """Every byte string that would betray a planted value; none so short that chance makes it."""
    texts = [TEXT, "47.1192653", "4711926535", "31337.2653", "3133726535", str(WHOLE)]
    encodings = ("utf-8", "utf-16-le", "utf-16-be")
    found = [text.encode(encoding) for text in texts for encoding in encodings]
    encoded = (INSIDE - (UPPER + LOWER) / 2) / ((UPPER - LOWER) / 2)
    for number in (INSIDE, OUTSIDE, float(WHOLE), encoded, encoded / np.sqrt(5)):
        found += [struct.pack(order + "d", number) for order in "<>"]
    for whole in (WHOLE, int(encoded * 2**20 / np.sqrt(5))):
        found += [struct.pack(order + "q", whole) for order in "<>"]
    # Two of a column's values: four bytes alone turn up among random ones.
    found += [struct.pack(order + "2i", WHOLE, WHOLE) for order in "<>"]
    return found


FORMS = forms()


def told(content):
    """The forms that occur in some bytes as they are; what is compressed hides them."""
    return [form for form in FORMS if form in content]


def table():
    sexes = [TEXT, *["F", "M"] * ((ROWS - 1) // 2), "F"]
    columns = {"age": [INSIDE] * ROWS, "far": [OUTSIDE] * ROWS}
    return pa.table(columns | {"id": pa.array([WHOLE] * ROWS, pa.int64()), "sex": sexes})


def csv(rows):
    lines = [rows.column_names, *(map(str, row.values()) for row in rows.to_pylist())]
    return "\n".join(map(",".join, lines)).encode()


def sqlite(path, rows):
    import sqlite3

    with sqlite3.connect(path) as book:
        book.execute("CREATE TABLE t (age, far, id, sex)")
        cells = [tuple(row.values()) for row in rows.to_pylist()]
        book.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", cells)
    book.close()


WRITE = {
    "t.csv": lambda path: path.write_bytes(csv(table())),
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(csv(table()))),
    "t.parquet": lambda path: pa.parquet.write_table(table(), path),
    "t.db": lambda path: sqlite(path, table()),
}
WRONG = f"\n{TEXT},{OUTSIDE},{WHOLE},F".encode()
BROKEN = {
    "text.csv": lambda path: path.write_bytes(csv(table()) + WRONG),
    "cut.csv": lambda path: path.write_bytes(csv(table())[:-9]),
    "cut.parquet": lambda path: (pa.parquet.write_table(table(), path), os.truncate(path, 900)),
    "cut.csv.gz": lambda path: path.write_bytes(gzip.compress(csv(table()))[:-30]),
}


class Room:
    """A folder with rows in a place of its own, and everything else watched."""

    def __init__(self, path, capfd, caplog):
        self.rows, self.work, self.temporary = path / "rows", path / "work", path / "tmp"
        for folder in (self.rows, self.work, self.temporary):
            folder.mkdir()
        self.capfd, self.caplog = capfd, caplog
        (self.work / "schema.toml").write_text(SCHEMA)
        ledger = dpcov.Ledger(self.work / "ledger.sqlite")
        ledger.create("patients", dpcov.Budget(rho=5), "replace-one")

    def run(self, *arguments, **options):
        before = self.files()
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
        out, err = self.capfd.readouterr()
        said = "\n".join((result.output, out, err, self.caplog.text)).encode()
        assert told(said) == [], f"{arguments[0]} told a value"
        for path in self.work.rglob("*"):
            if path.is_file():
                assert told(path.read_bytes()) == [], f"{path.name} holds a value"
        assert list(self.temporary.iterdir()) == [], "temporary files were left"
        if result.exit_code != 0:
            assert self.files() <= before, "a failure left a file"
        return result

    def files(self):
        return {path.name for path in self.work.rglob("*")}


@pytest.fixture
def room(tmp_path, capfd, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    made = Room(tmp_path, capfd, caplog)
    monkeypatch.setattr(tempfile, "tempdir", str(made.temporary))
    monkeypatch.setenv("TMPDIR", str(made.temporary))
    monkeypatch.chdir(made.work)
    return made


def release(data, output="out.dpcov", *more, rho="0.5"):
    fixed = ("--schema", "schema.toml", "--rho", rho, "--ledger", "ledger.sqlite")
    return ("release", *data, *fixed, "--dataset", "patients", "-o", output, *more)


def gather(data, output, *more):
    fixed = ("--schema", "schema.toml", "--rho", "1", "--key", "site.key")
    return ("moments", "checkpoint", data, *fixed, "-o", output, *more)


def sources(room):
    for name, write in WRITE.items():
        write(room.rows / name)
    duck = ("--sql", f"SELECT * FROM '{room.rows / 't.parquet'}'", "--db", "duckdb://")
    lite = ("--sql", "SELECT * FROM t", "--db", f"sqlite:///{room.rows / 't.db'}")
    return [*((room.rows / name,) for name in WRITE if not name.endswith(".db")), duck, lite]


READING = (
    *("show 0.dpcov --json", "report 0.dpcov -o x.html", "sample 0.dpcov -o x.parquet"),
    *("export 0.dpcov -o x.csv", "record 0.dpcov --kind checklist -o x.md"),
    *("ledger show ledger.sqlite --dataset patients", "ledger verify ledger.sqlite"),
)


def test_nothing_of_the_rows_is_in_anything_that_a_release_leaves(room):
    for number, data in enumerate(sources(room)):
        assert room.run(*release(data, f"{number}.dpcov", "--mechanism", "gaussian")).exit_code == 0
    assert room.run(*release(["-"], "stdin.dpcov"), input=csv(table())).exit_code == 0
    for command in READING:
        assert room.run(*command.split()).exit_code == 0, command
    parts = pa.parquet.read_metadata(room.work / "x.parquet")
    assert parts.row_group(0).column(0).statistics is not None


def test_nothing_of_the_rows_is_in_drafts_and_checks(room):
    for number, data in enumerate(sources(room)):
        assert room.run("schema", "draft", *data, "-o", f"{number}.toml").exit_code == 0
        assert room.run("schema", "draft", *data).exit_code == 0
        table = ("--data", *data) if len(data) == 1 else data
        for told in ((), ("--json",)):
            # Two columns have nothing within their bounds.
            assert room.run("schema", "check", "schema.toml", *table, *told).exit_code == 1


def test_nothing_of_the_rows_is_in_saved_moments_without_the_key(room):
    for name, place in (("t.csv", "t.csv"), ("t.parquet", "t.parquet"), ("t.csv", "u.csv")):
        WRITE[name](room.rows / place)
    for key in ("site.key", "other.key"):
        assert room.run("moments", "key", key).exit_code == 0
    assert room.run(*gather(room.rows / "t.csv", "north.moments")).exit_code == 0
    assert room.run(*gather(room.rows / "t.parquet", "south.moments")).exit_code == 0
    assert room.run(*gather(room.rows / "u.csv", "south.moments", "--resume")).exit_code == 0
    merge = ("moments", "merge", "north.moments", "south.moments", "-o", "all.moments")
    assert room.run(*merge, "--key", "site.key").exit_code == 0
    for failing in (
        ("moments", "merge", "all.moments", *merge[3:5], "b.moments", "--key", "site.key"),
        (*merge[:5], "b.moments", "--key", "other.key"),
        (*merge, "--key", "site.key"),
    ):
        assert room.run(*failing).exit_code != 0
    spend = ("--key", "site.key", "--schema", "schema.toml", "--rho", "1", "--no-ledger")
    assert room.run("release", "all.moments", *spend, "-o", "x.dpcov").exit_code == 0


def test_nothing_of_the_rows_is_left_by_a_damaged_file_of_moments(room):
    WRITE["t.csv"](room.rows / "t.csv")
    room.run("moments", "key", "site.key")
    for name in ("a", "b"):
        shutil.copy(room.rows / "t.csv", room.rows / f"{name}.csv")
        assert room.run(*gather(room.rows / f"{name}.csv", f"{name}.moments")).exit_code == 0
    path = room.work / "b.moments"
    content = path.read_bytes()
    merge = ("moments", "merge", "a.moments", "b.moments", "--key", "site.key", "-o", "all.moments")
    for damaged in (content[:-1], content[: len(content) // 2], content[:-9] + bytes(9), b""):
        path.write_bytes(damaged)
        assert room.run(*merge).exit_code != 0
        assert room.run(*gather(room.rows / "a.csv", "b.moments", "--resume")).exit_code != 0


@pytest.mark.parametrize("name", BROKEN)
def test_nothing_of_the_rows_is_left_by_a_failure(room, name):
    BROKEN[name](room.rows / name)
    data = room.rows / name
    assert room.run(*release([data])).exit_code != 0
    room.run("schema", "draft", data)
    room.run("moments", "key", "site.key")
    assert room.run(*gather(data, "x.moments")).exit_code != 0


FAILING = [
    "SELECT age::INTEGER AS age, sex::INTEGER AS far, id, sex FROM '{rows}'",
    "SELECT error(sex) AS age FROM '{rows}'",
    "SELECT * FROM '{rows}' WHERE sex = 'zebra4711",
    "COPY (SELECT * FROM '{rows}') TO 'stolen.csv'",
    "SELECT [age] AS age, far, id, sex FROM '{rows}'",
    "SELECT * FROM '{rows}' ORDER BY sex::DATE",
]


@pytest.mark.parametrize("sql", FAILING)
def test_nothing_of_the_rows_is_left_by_a_failing_query(room, sql):
    WRITE["t.parquet"](room.rows / "t.parquet")
    data = ("--sql", sql.format(rows=room.rows / "t.parquet"), "--db", "duckdb://")
    assert room.run(*release(data)).exit_code != 0
    room.run("schema", "draft", *data)


@pytest.fixture
def server(postgres_database):
    """A database server with the table."""
    import psycopg

    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE TABLE t (age float8, far float8, id bigint, sex text)")
        cells = [tuple(row.values()) for row in table().to_pylist()]
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", cells)
    return postgres_database


def test_nothing_of_the_rows_is_left_by_a_query_to_a_server(room, server):
    data = ("--sql", "SELECT * FROM t", "--db", server)
    assert room.run(*release(data)).exit_code == 0
    assert room.run("schema", "draft", *data, "-o", "draft.toml").exit_code == 0
    for failing in (
        "SELECT age, far, id, sex::integer AS sex FROM t",
        f"SELECT age / (id - {WHOLE}) AS age, far, id, sex FROM t",
        f"SELECT {TEXT} FROM t",
        "SELECT age, far, id, ARRAY[sex] AS sex FROM t",
    ):
        data = ("--sql", failing, "--db", server)
        assert room.run(*release(data, "failed.dpcov")).exit_code != 0
        room.run("schema", "draft", *data)


def test_nothing_of_the_rows_is_left_where_the_end_fails(room, monkeypatch):
    """After the rows were read: a full ledger, a taken name, a failing disk, an interruption."""
    WRITE["t.csv"](room.rows / "t.csv")
    data = [room.rows / "t.csv"]
    assert room.run(*release(data, "a.dpcov")).exit_code == 0
    assert room.run(*release(data, "a.dpcov")).exit_code == 7
    assert room.run(*release(data, "b.dpcov", "--rows", "7")).exit_code == 4
    assert room.run(*release(data, "b.dpcov", rho="50")).exit_code == 6

    def stop(*arguments):
        raise KeyboardInterrupt

    def full(*arguments):
        raise OSError(28, f"No space left {TEXT}")

    for name, failing in (("fsync", full), ("fsync", stop)):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing)
            assert room.run(*release(data, "b.dpcov")).exit_code in (7, 130)


def test_the_search_sees_what_it_searches_for(room):
    """A copy of the rows anywhere, in any format, is found."""
    for name in ("t.csv", "t.db"):
        WRITE[name](room.rows / name)
        shutil.copy(room.rows / name, room.work / "copy")
        with pytest.raises(AssertionError, match="holds a value"):
            room.run("mechanisms")
    (room.work / "copy").unlink()
    (room.temporary / "spill").write_bytes(b"")
    with pytest.raises(AssertionError, match="temporary"):
        room.run("mechanisms")
    np.save(room.work / "x.npy", (table()["age"].to_numpy() - 60) / 60)
    with pytest.raises(AssertionError, match=r"x\.npy"):
        room.run("mechanisms")
