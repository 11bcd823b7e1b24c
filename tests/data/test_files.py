"""Files that other programs wrote: see tests/data/files/README.md for how each was made."""

import bz2
import datetime
import lzma
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app
from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.schema.codebooks import read_codebook
from dpcov.data.schema.draft import describe
from dpcov.data.seal import sealed
from dpcov.data.sources import open_source
from dpcov.data.sources.sheets import SheetSource
from dpcov.data.sources.statistical import StatisticalSource
from dpcov.errors import DataError, SchemaError, UsageError
from tests.data.reading import read_column, table_moments

pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
pytest.importorskip("python_calamine", reason="needs dpcov[files]")

FILES = Path(__file__).with_name("files")
CITIES = ("Zürich", "Köln", "Bern", "Málaga", "Bern; old")
SCHEMA = dpcov.Schema(
    columns={
        "age": dpcov.Numeric(lower=0, upper=100, missing_codes=(-9,)),
        "sex": dpcov.Categorical(categories=("1", "2"), missing_codes=(9,)),
        "city": dpcov.Categorical(categories=CITIES),
        "height": dpcov.Numeric(lower=1, upper=2.3),
        "change": dpcov.Numeric(lower=-100, upper=1000),
        "born": dpcov.Date(as_="age", reference=datetime.date(2026, 1, 1), lower=0, upper=100),
    },
    missing="indicator",
)
LAYOUTS = {
    "awkward.csv.bz2": {},
    "awkward.csv.xz": {},
    "zipped.csv.zip": {},
    "semicolons-latin1.csv": {"delimiter": ";", "encoding": "latin-1"},
    "utf16-tabs.txt": {"delimiter": "\t", "encoding": "utf-16"},
    "awkward.jsonl": {},
    "awkward.sav": {},
    "awkward.zsav": {},
    "awkward.dta": {},
    "pandas.dta": {},
    "foreign-latin1.dta": {"encoding": "windows-1252"},
    "awkward.xpt": {},
    "awkward.sas7bdat": {},
    "titled.xlsx": {"header": 3},
    "two-sheets.xlsx": {"part": "Daten"},
    "awkward.ods": {},
    "awkward.xls": {},
}
STATISTICAL = [name for name in LAYOUTS if name.endswith(("sav", "dta", "xpt", "sas7bdat"))]


def schema_for(name):
    """The schema of all files; what differs is how a file is laid out and writes decimals."""
    decimal = "," if name == "semicolons-latin1.csv" else "."
    file = dpcov.FileLayout(**LAYOUTS.get(name, {}))
    return msgspec.structs.replace(SCHEMA, file=file, decimal=decimal)


def moments(name):
    return table_moments(FILES / name, schema_for(name), MomentsSpec(shells=2), threads=1)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_table_means_the_same_in_every_format(name):
    assert moments(name) == moments("awkward.csv")


def test_the_csv_means_what_it_says():
    gathered = moments("awkward.csv")
    assert gathered.n_rows == 12
    second = gathered.second_moment()
    names = [column.name for column in SCHEMA.encoded_columns]
    means = dict(zip(names, second[0] * 12, strict=True))
    # Of age, two cells have the code -9 and one is empty; of sex, one has the code 9.
    missing = {"age": 3, "sex": 2, "city": 2, "height": 1, "change": 1, "born": 2}
    for column, count in missing.items():
        assert means[f"{column} (missing)"] == pytest.approx(count, abs=1e-4)
    assert means["city=Köln"] == pytest.approx(3, abs=1e-4)
    ages = np.array([34, 51, 28, 63, 40, 19, 77, 55, 46])
    assert means["age"] == pytest.approx(((ages - 50) / 50).sum(), abs=1e-4)


@pytest.mark.parametrize("name", STATISTICAL)
def test_rows_of_a_statistical_file_mean_the_same_however_many_are_read(name):
    def cells(step):
        source = open_source(FILES / name, schema_for(name).file)
        assert isinstance(source, StatisticalSource)
        source.step = step
        wanted = dict.fromkeys(SCHEMA.columns, "text")
        return [row for block in source.blocks(5, wanted=wanted) for row in block.to_pylist()]

    assert len(cells(12)) == 12
    for step in (1, 5, 13):
        assert cells(step) == cells(12)


def test_formats_of_dates_and_missing_values_are_the_dictionarys():
    read = next(open_source(FILES / "awkward.sav").blocks(99, wanted={"age": "number"}))
    # Declared missing: -99 to -1.
    assert read.column("age").to_pylist()[:5] == [34.0, 51.0, None, 28.0, None]
    read = next(open_source(FILES / "awkward.dta").blocks(99, wanted={"age": "number"}))
    assert read.column("age").to_pylist()[:5] == [34.0, 51.0, -9.0, 28.0, None]


# The six files that a custodian really has, each drafted and released by one command.
AWKWARD = {
    "semicolons-latin1.csv": ("--delimiter", ";", "--encoding", "latin-1"),
    "utf16-tabs.txt": ("--delimiter", "tab", "--encoding", "utf-16"),
    "awkward.sav": (),
    "awkward.dta": (),
    "awkward.sas7bdat": (),
    "titled.xlsx": ("--header", "3"),
    "zipped.csv.zip": (),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_each_awkward_file_is_drafted_and_released_by_one_command(name, tmp_path):
    draft, schema = tmp_path / "draft.toml", tmp_path / "schema.toml"

    def run(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == 0, result.output

    run("schema", "draft", FILES / name, *AWKWARD[name], "-o", draft)
    drafted = dpcov.Schema.from_toml(draft)
    layout = LAYOUTS[name]
    assert drafted.file == (dpcov.FileLayout(**layout) if layout else None)
    assert list(drafted.columns)[1:] == list(SCHEMA.columns)
    for value in ("Zürich", "1.825", "1,825", "1990", "1234"):
        assert value not in draft.read_text(encoding="utf-8")
    # What the custodian fills in; the layout stays as drafted.
    msgspec.structs.replace(schema_for(name), file=drafted.file).save(schema)
    released = tmp_path / "made.dpcov"
    options = ("--rho", "1", "--no-ledger", "--geometry", "schema", "-o", released)
    run("release", FILES / name, "--schema", schema, *options)
    made = dpcov.load(released)
    assert made.n_rows == 12
    assert "city=Köln" in made.feature_names


def refused(name, error, words, **layout):
    with pytest.raises(error, match=words) as caught:
        source = open_source(name, dpcov.FileLayout(**layout))
        list(source.blocks(9, wanted=dict.fromkeys(source.columns, "text")))
    told = str(caught.value)
    assert "rich" not in told
    assert "Bern" not in told
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_what_has_to_be_declared_is_asked_for(tmp_path):
    refused(FILES / "semicolons-latin1.csv", DataError, 'Declare delimiter = ";"')
    refused(FILES / "semicolons-latin1.csv", DataError, "declare its encoding", delimiter=";")
    refused(FILES / "utf16-tabs.txt", DataError, "Declare delimiter")
    refused(FILES / "utf16-tabs.txt", DataError, "declare", delimiter="\t")
    for encoding in ("utf-16-le", "utf-16-be"):
        (tmp_path / "unmarked.csv").write_bytes("age,dose\n1,2\n".encode(encoding))
        refused(tmp_path / "unmarked.csv", DataError, 'Declare encoding = "utf-16-le"')
    for header, words in {
        **{2: "no names in row 2", 99: "no names in row 99"},
        **{4: "column names are expected, in line 4.*correct header"},
        **{1: "a blank row.*declare header.*notes and totals"},
    }.items():
        refused(FILES / "titled.xlsx", DataError, words, header=header)
    refused(FILES / "two-sheets.xlsx", DataError, "'Read me', 'Daten'. Choose one by part")
    refused(FILES / "awkward.csv", DataError, "no line 99", header=99)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "x,y\n1,2\n")
        archive.writestr("b.csv", "x,y\n3,4\n")
    refused(tmp_path / "two.zip", DataError, "holds 2 files: 'a.csv', 'b.csv'. Choose one by part")
    zipfile.ZipFile(tmp_path / "none.zip", "w").close()
    refused(tmp_path / "none.zip", DataError, "holds no files. Give a file that holds the table")
    refused(tmp_path / "two.zip", DataError, "holds 2 files", part="c.csv")
    source = open_source(tmp_path / "two.zip", dpcov.FileLayout(part="b.csv"))
    assert next(source.blocks(9)).column("x").to_pylist() == [3.0]


def test_what_a_system_leaves_in_an_archive_is_no_table(tmp_path):
    left = [
        "__MACOSX/d/._t.csv",
        ".DS_Store",
        "d/.DS_Store",
        "d/._t.csv",
        "Thumbs.db",
        "desktop.ini",
    ]
    with zipfile.ZipFile(tmp_path / "mac.zip", "w") as archive:
        for name in ("d/t.csv", *left):
            archive.writestr(name, "x,y\n1,2\n")
    source = open_source(tmp_path / "mac.zip")
    assert next(source.blocks(9)).column("x").to_pylist() == [1.0]
    with zipfile.ZipFile(tmp_path / "left.zip", "w") as archive:
        archive.writestr(".DS_Store", "x,y\n1,2\n")
    refused(tmp_path / "left.zip", DataError, "holds no files")


def test_what_can_only_be_read_unpacked_is_said_to_be(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.write(FILES / "titled.xlsx", "t.XLSX")
    refused(tmp_path / "t.zip", DataError, r"only be read unpacked \(.xlsx\). Unpack it")
    (tmp_path / "t.sav.gz").write_bytes(b"?")
    refused(tmp_path / "t.sav.gz", DataError, r"only be read unpacked \(.sav\)")


def test_damaged_files_are_refused_in_plain_words(tmp_path):
    for name in LAYOUTS:
        content = (FILES / name).read_bytes()
        if name.endswith((".jsonl", ".csv", ".txt")):
            continue
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError) as caught:
            moments(tmp_path / name)
        assert "rich" not in str(caught.value)


def test_a_sheet_behind_a_password_is_told_as_such(tmp_path):
    entry = b'manifest:full-path="content.xml" manifest:media-type="text/xml"'
    with (
        zipfile.ZipFile(FILES / "awkward.ods") as whole,
        zipfile.ZipFile(tmp_path / "t.ods", "w") as locked,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            if name == "META-INF/manifest.xml":
                assert content.count(entry + b"/>") == 1
                parts = b"><manifest:encryption-data/></manifest:file-entry>"
                content = content.replace(entry + b"/>", entry + parts)
            locked.writestr(name, content)
    refused(tmp_path / "t.ods", DataError, "a password protects it; save it without")


def test_an_archive_packed_in_an_unknown_way_is_refused_in_plain_words(tmp_path):
    # Windows packs large files by Deflate64, method 9, which stands in both headings.
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "x,y\n1,2\n")
    content = bytearray((tmp_path / "t.csv.zip").read_bytes())
    content[8], content[content.index(b"PK\1\2") + 10] = 9, 9
    (tmp_path / "t.csv.zip").write_bytes(content)
    refused(tmp_path / "t.csv.zip", DataError, "not known here; unpack it")


@pytest.mark.parametrize(("ending", "pack"), [("bz2", bz2.compress), ("xz", lzma.compress)])
def test_what_is_packed_in_parts_is_read_whole_or_refused(tmp_path, ending, pack):
    path, first = tmp_path / f"t.csv.{ending}", pack(b"x,y\n1,2\n")
    path.write_bytes(first + pack(b"3,4\n"))
    (block,) = open_source(path).blocks(9)
    assert block.column("x").to_pylist() == [1.0, 3.0]
    for damaged in (b"?" + pack(b"3,4\n"), b"\0" * 10, pack(b"3,4\n")[:-1], b"B"):
        path.write_bytes(first + damaged)
        refused(path, DataError, "damaged, cut short")
    lines, row = tmp_path / f"t.jsonl.{ending}", b'{"x": 1, "y": "' + bytes([32] * 999) + b'"}\n'
    # A few bytes that become more than is read at once.
    lines.write_bytes(pack(row * 4000))
    assert sum(map(len, open_source(lines).blocks(999, wanted={"x": "number"}))) == 4000
    lines.write_bytes(pack(row)[:-1])
    refused(lines, DataError, "damaged, cut short")


class PanicException(BaseException):
    """As libraries of Rust raise it."""


def test_a_panic_of_a_library_is_refused(monkeypatch):
    def panics(path):
        raise PanicException("zebra")

    monkeypatch.setattr("python_calamine.load_workbook", panics)
    with pytest.raises(DataError, match="is damaged") as caught:
        open_source(FILES / "awkward.xls")
    assert caught.value.__context__ is None


def test_a_cell_on_which_a_library_panics_is_refused(monkeypatch):
    class Sheet:
        def iter_rows(self):
            yield ["a", "b"]
            yield [1.0, 2.0]
            raise PanicException("zebra")

    monkeypatch.setattr(SheetSource, "_load", lambda self: Sheet())
    with pytest.raises(DataError, match="is damaged") as caught:
        list(open_source(FILES / "titled.xlsx").blocks(1, wanted={"a": "number"}))
    assert caught.value.__context__ is None
    # Ctrl-C is no error.
    with pytest.raises(KeyboardInterrupt):
        sealed(_interrupted, "x")


class TwoLines:
    """A sheet whose names stand below headings of several columns."""

    def iter_rows(self):
        yield ["Person", "", "Values", ""]
        yield ["age", "sex", "dose", ""]
        yield [1.0, "F", 2.0, ""]


class Stays:
    """A sheet with durations."""

    def iter_rows(self):
        yield ["stay", "age"]
        yield [datetime.timedelta(hours=36), 50.0]
        yield ["", 60.0]


def test_durations_of_a_sheet_are_drafted_as_the_numbers_that_they_are_read_as(monkeypatch):
    monkeypatch.setattr(SheetSource, "_load", lambda self: Stays())
    source = open_source(FILES / "titled.xlsx")
    assert source.kinds() == {"stay": "number", "age": "number"}
    (block,) = source.blocks(9, wanted={"stay": "number"})
    assert block.column("stay").to_pylist() == [1.5, None]


def test_columns_of_a_sheet_without_a_name_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(SheetSource, "_load", lambda self: TwoLines())
    command = ["schema", "draft", str(FILES / "titled.xlsx")]
    made = CliRunner().invoke(app, command)
    assert made.exit_code == 0
    told = "2 columns of the sheet without a name: not read. If the names of the columns stand"
    assert told in " ".join(made.stderr.split())
    assert "without a name" not in made.stdout
    desk = pytest.importorskip("dpcov.desk.decisions").Decisions
    assert desk.open(str(FILES / "titled.xlsx"), tmp_path).unnamed == 2
    assert (
        "without a name"
        not in CliRunner().invoke(app, [*command[:2], str(FILES / "awkward.csv")]).output
    )


def _interrupted():
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", [13.8e9, 1e305, -1e305])
def test_a_moment_beyond_all_calendars_says_nothing(tmp_path, recwarn, moment):
    frame = pd.DataFrame({"seen": [13.8e9, moment]})
    pyreadstat.write_sav(frame, tmp_path / "x.sav", variable_format={"seen": "DATETIME20"})
    schema = dpcov.Schema(columns={"seen": dpcov.Date(as_="year", lower=1900, upper=2100)})
    dpcov.release(tmp_path / "x.sav", schema=schema, budget=dpcov.Budget(rho=0.5))
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]


@pytest.mark.parametrize(("ending", "shown"), [("dta", "%tw"), ("dta", "%tq"), ("xpt", "MMYY7.")])
def test_a_format_that_shows_no_day_is_told(tmp_path, ending, shown):
    write = {"dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}[ending]
    path = tmp_path / f"x.{ending}"
    write(pd.DataFrame({"seen": [2000.0, 2100.0]}), path, variable_format={"seen": shown})
    schema = dpcov.Schema(columns={"seen": dpcov.Date(lower=1900, upper=2100)})
    with pytest.raises(DataError, match="type or format in the data holds no day"):
        dpcov.release(path, schema=schema, budget=dpcov.Budget(rho=0.5))


def test_a_declared_utf8_is_that_of_an_old_stata_file(tmp_path, monkeypatch):
    path, schema = tmp_path / "x.dta", dpcov.Schema(columns={"c": SCHEMA.columns["city"]})
    # Before version 14 a file does not say its encoding.
    pyreadstat.write_dta(pd.DataFrame({"c": CITIES}), path, version=12)
    encoder = Encoder(schema)

    def read(encoding):
        (block,) = open_source(path, dpcov.FileLayout(encoding=encoding)).blocks(
            9, wanted=encoder.wanted
        )
        return tuple(block.column("c").to_pylist())

    assert read("utf-8") == read("UTF8") == CITIES
    assert read("windows-1252") == tuple(x.encode().decode("windows-1252") for x in CITIES)
    assert read("mac-roman") == tuple(x.encode().decode("mac-roman") for x in CITIES)
    # A newer file is always so, and read in one pass as without.
    pyreadstat.write_dta(pd.DataFrame({"c": CITIES}), path, version=14)
    monkeypatch.delattr(StatisticalSource, "_counted")
    assert read("utf-8") == CITIES


@pytest.mark.parametrize("encoding", ["windows-1258", "utf-16"])
def test_an_encoding_whose_characters_depend_on_each_other_is_refused(tmp_path, encoding):
    """What pyreadstat leaves of a text in windows-1258 becomes the beginning of the next row's."""
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(pd.DataFrame({"c": ["Hue", "Vinh"]}), path, version=12)
    refused(path, DataError, "depend on each other. .* UTF-8", encoding=encoding)


def test_labeled_texts_that_are_not_in_the_encoding_are_refused(tmp_path):
    """Reading one, pyreadstat ends the process."""
    path, labels = tmp_path / "x.sav", {"c": {"fübar": "one", "b": "two"}}
    pyreadstat.write_sav(pd.DataFrame({"c": ["fübar"]}), path, variable_value_labels=labels)
    refused(path, DataError, "not in the encoding", encoding="ascii")
    path.write_bytes(path.read_bytes().replace("fübar".encode(), "fübar ".encode("latin-1")))
    refused(path, DataError, "not in the encoding")
    # Without a name of the encoding that of the machine counts.
    named, unnamed = struct.pack("<3i", 7, 20, 1), struct.pack("<3i", 7, 999, 1)
    assert path.read_bytes().count(named) == 1
    path.write_bytes(path.read_bytes().replace(named, unnamed))
    refused(path, DataError, "not in the encoding")
    source = open_source(path, dpcov.FileLayout(encoding="latin-1"))
    assert set(describe(source).schema.columns["c"].categories) == {"fübar", "b"}
    (block,) = source.blocks(9, wanted={"c": "text"})
    assert block.column("c").to_pylist() == ["fübar"]


@pytest.mark.parametrize(
    ("at", "now", "then"),
    [
        # The first column goes on in no further word; the second is a number, which is no text.
        *((180, 2, 9), (180, 2, 255), (180, 2, 256), (180, 2, 2**31 - 1), (180, 2, -1)),
        *((212, 0, 12), (224, 0x50802, 0x10802), (228, 0x50802, 0x10802)),
        # The column of which values are labeled.
        *((272, 2, place) for place in (0, 3, -1, 2**31 - 1)),
    ],
)
def test_contradictions_in_a_heading_of_spss_are_refused(tmp_path, at, now, then):
    """At most of them pyreadstat ends the process."""
    path, frame = tmp_path / "x.sav", pd.DataFrame({"c": ["ab"], "x": [1.0]})
    pyreadstat.write_sav(frame, path, variable_value_labels={"x": {1.0: "one"}})
    content = bytearray(path.read_bytes())
    assert content[at : at + 4] == struct.pack("<i", now)
    content[at : at + 4] = struct.pack("<i", then)
    path.write_bytes(content)
    refused(path, DataError, "is damaged. Write it again")
    with pytest.raises(DataError, match="is damaged"):
        read_codebook(path)


def test_lengths_below_zero_in_a_heading_of_spss_lead_nowhere(tmp_path):
    path = tmp_path / "x.sav"
    pyreadstat.write_sav(pd.DataFrame({"x": [1.0]}), path)
    record = struct.pack("<4i", 7, 3, 4, 8)
    content = path.read_bytes()
    assert content.count(record) == 1
    path.write_bytes(content.replace(record, struct.pack("<4i", 7, 3, 4, -4)))
    refused(path, DataError, "cannot be read")


def test_a_column_without_a_name_is_refused(tmp_path):
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(pd.DataFrame({"word": [1.0]}), path, version=12)
    path.write_bytes(path.read_bytes().replace(b"word", bytes(4)))
    refused(path, DataError, "is damaged. Write it again")


def test_character_sets_that_are_not_known_are_told(tmp_path):
    """SAS writes them as numbers: 123 is Big5, and 119 is known to pyreadstat alone."""
    path, content = tmp_path / "x.sas7bdat", (FILES / "awkward.sas7bdat").read_bytes()
    for letter in "üöá":
        content = content.replace(letter.encode(), "陛".encode("big5"))
    content = bytearray(content)
    content[70] = 123
    path.write_bytes(content)
    (block,) = open_source(path).blocks(99, wanted={"city": "text"})
    assert block.column("city").to_pylist()[:2] == ["Z陛rich", "K陛ln"]
    for number in (119, 70):
        content[70] = number
        path.write_bytes(content)
        refused(path, DataError, "character set is not known here; declare another")


def test_codes_of_statas_single_precision_are_missing(tmp_path):
    frame = pd.DataFrame({"x": np.array([99.9, 7], np.float32), "y": [np.float32(99.9), 7.0]})
    frame["y"] = frame["y"].astype(np.float64)
    frame.to_stata(tmp_path / "x.dta", write_index=False)
    column = dpcov.Numeric(lower=0, upper=100)
    schema = dpcov.Schema(columns={"x": column, "y": column}, missing_codes=(99.9,))
    found = {name: read_column(tmp_path / "x.dta", schema, name) for name in "xy"}
    np.testing.assert_array_equal(found["x"], [np.nan, 7.0])
    assert found["y"][0] == np.float32(99.9)


def book_for(path):
    ledger = dpcov.Ledger(path)
    ledger.create("survey", dpcov.Budget(rho=1), "replace-one")
    return ledger


@pytest.mark.parametrize("name", ["titled.xlsx", "awkward.ods", "awkward.xls"])
def test_a_workbook_without_room_is_refused_before_budget_is_spent(name, tmp_path, monkeypatch):
    ledger, budget = book_for(tmp_path / "ledger.sqlite"), dpcov.Budget(rho=0.5)
    where = {"schema": schema_for(name), "budget": budget, "ledger": ledger, "dataset": "survey"}
    # Gathering has room in one GiB, and these workbooks have.
    with monkeypatch.context() as small:
        small.setattr("dpcov.data.sources.sheets._HELD", dict.fromkeys((True, False), 2**20))
        with pytest.raises(
            UsageError, match=r"held in memory as a whole, .* Save the sheet as CSV"
        ):
            dpcov.release(FILES / name, memory_limit=1, **where)
    assert ledger.entries("survey") == ()
    dpcov.release(FILES / name, memory_limit=1, **where)
    assert len(ledger.entries("survey")) == 1


_ENDS = """
import os, sys
import dpcov, pyreadstat, python_calamine
# What a fault of a library does while rows are read.
end = lambda *arguments, **options: os._exit(139)
if sys.argv[1].endswith("xlsx"):
    python_calamine.load_workbook = end
else:
    pyreadstat.read_sav = end
dpcov.release(
    sys.argv[1],
    schema=dpcov.Schema.from_toml(sys.argv[2]),
    budget=dpcov.Budget(rho=0.5),
    ledger=dpcov.Ledger(sys.argv[3]),
    dataset="survey",
)
"""


@pytest.mark.parametrize("name", ["titled.xlsx", "awkward.sav"])
def test_a_library_that_ends_the_process_spends_nothing(name, tmp_path):
    ledger, schema = book_for(tmp_path / "ledger.sqlite"), tmp_path / "schema.toml"
    schema_for(name).save(schema)
    arguments = (str(FILES / name), str(schema), str(tmp_path / "ledger.sqlite"))
    ended = subprocess.run([sys.executable, "-c", _ENDS, *arguments], check=False)
    assert ended.returncode == 139
    assert ledger.entries("survey") == ()


def test_json_lines_have_every_wanted_key(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": "zebra"}\n{"b": "zebra"}\n')
    source = open_source(path)
    with pytest.raises(DataError, match="not every line has the key 'a'; write null"):
        list(source.blocks(9, wanted={"a": "number"}))
    with pytest.raises(DataError, match="Use it with a schema"):
        list(source.blocks(9))
    pattern = dpcov.Schema(columns={"a*": dpcov.Numeric(lower=0, upper=1)})
    with pytest.raises(UsageError, match="those of its first row"):
        dpcov.release(path, schema=pattern, budget=dpcov.Budget(rho=1))
    path.write_text('{"a": [1], "b": 2}\n')
    with pytest.raises(DataError, match="column 'a' holds objects or lists"):
        list(open_source(path).blocks(9, wanted={"a": "number"}))


@pytest.mark.parametrize("name", ["awkward.sav", "awkward.ods"])
def test_a_missing_package_is_told_with_its_extra(name, monkeypatch):
    for module in ("pyreadstat", "python_calamine"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=r"pip install 'dpcov\[files\]'"):
        open_source(FILES / name)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"encoding": "iso2022_jp"}, "encoding"),
        ({"encoding": "utf-7"}, "encoding"),
        ({"encoding": "nonsense"}, "encoding"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": ""}, "delimiter"),
        ({"quote": "''"}, "quotation mark"),
        ({"header": 0}, "header"),
    ],
)
def test_layouts_that_cannot_be_used_are_refused(layout, words):
    with pytest.raises(SchemaError, match=words):
        dpcov.FileLayout(**layout)


def test_a_layout_is_written_and_read_with_its_schema():
    file = dpcov.FileLayout(delimiter="\t", quote="", encoding="utf-16", header=2, part="a b")
    schema = msgspec.structs.replace(SCHEMA, file=file)
    assert dpcov.Schema.loads(schema.dumps()) == schema
    assert "[file]" not in schema.meaning
    assert schema.meaning == SCHEMA.dumps()


def test_text_without_quotation_marks(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text('a|b\n5"|x\n6|"\n')
    layout = dpcov.FileLayout(delimiter="|", quote="")
    read = next(open_source(path, layout).blocks(9, wanted={"a": "text", "b": "text"}))
    assert read.to_pydict() == {"a": ['5"', "6"], "b": ["x", '"']}
