"""Rows of statistical files mean what pyreadstat, which reads them cell by cell, says they mean."""

import lzma
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.io.sas.sas7bdat import SAS7BDATReader

from dpcov.data.schema.draft import describe
from dpcov.data.sources import open_source, records
from dpcov.data.sources.records import TransportRecords
from dpcov.errors import DataError

pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")

FILES = Path(__file__).with_name("files")
READERS = {
    "sas7bdat": "read_sas7bdat",
    "sav": "read_sav",
    "zsav": "read_sav",
    "dta": "read_dta",
    "xpt": "read_xport",
}
# How each file is written.
WRITTEN = {
    "plain.sav": ("write_sav", {}),
    "rows.sav": ("write_sav", {"row_compress": True}),
    "whole.zsav": ("write_sav", {"compress": True}),
    "fourteen.dta": ("write_dta", {"version": 15}),
    "old.dta": ("write_dta", {"version": 10}),
    "five.xpt": ("write_xport", {"file_format_version": 5}),
    "eight.xpt": ("write_xport", {"file_format_version": 8}),
}


def table(n_rows, widths=(1, 8, 9, 255)):
    """Numbers of every kind that the formats write in their own way, and texts."""
    rng = np.random.default_rng(n_rows)
    numbers = {
        "small": rng.integers(-120, 270, n_rows).astype(float),
        "real": rng.normal(size=n_rows) * 10.0 ** rng.integers(-20, 20, n_rows),
        "gaps": np.where(rng.random(n_rows) < 0.5, np.nan, rng.integers(0, 9, n_rows)),
    }
    letters = np.array(["", "a", " b", "ü", "x y", "€uro"])
    texts = {f"text{w}": [t[:w] for t in rng.choice(letters, n_rows)] for w in widths}
    if widths:
        texts[f"text{widths[-1]}"][0] = "z" * widths[-1]
    return pd.DataFrame(numbers | texts)


def write(folder, name, data, **options):
    writer, more = WRITTEN[name]
    getattr(pyreadstat, writer)(data, folder / name, **more, **options)
    return folder / name


def expected(path):
    """What pyreadstat reads, with missing texts empty."""
    cells, _ = getattr(pyreadstat, READERS[path.suffix[1:]])(path, output_format="dict")
    return {
        name: [cell or "" if name.startswith("text") else cell for cell in column]
        for name, column in cells.items()
    }


def found(path, step=None):
    source = open_source(path)
    source.step = step or source.step
    wanted = {name: "text" if name.startswith("text") else "number" for name in source.columns}
    rows = [row for block in source.blocks(1000, wanted=wanted) for row in block.to_pylist()]
    return {
        name: [row[name] or "" if name.startswith("text") else row[name] for row in rows]
        for name in source.columns
    }


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("n_rows", [1, 7, 500])
def test_rows_are_those_of_pyreadstat(name, n_rows, tmp_path):
    path = write(tmp_path, name, table(n_rows, (1, 8, 9, 200)))
    assert found(path, 64) == found(path) == expected(path)


@pytest.mark.parametrize("name", ["plain.sav", "rows.sav", "whole.zsav"])
def test_values_that_a_dictionary_declares_missing(name, tmp_path):
    spans = {"small": [{"lo": float("-inf"), "hi": -99}, 7.0], "text1": ["a"]}
    path = write(tmp_path, name, table(500), missing_ranges=spans)
    told = found(path)
    assert told == expected(path)
    assert None in told["small"]
    assert "a" not in told["text1"]


def test_blocks_of_a_compressed_file_are_read_in_pieces_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_ZIPPED_BYTES", 999)
    rows = [f"{number:0>255}" for number in range(1000)]
    path = write(
        tmp_path, "whole.zsav", pd.DataFrame({f"text{place}": rows for place in range(18)})
    )
    assert found(path) == expected(path)


@pytest.mark.parametrize("name", ["plain.sav", "rows.sav", "whole.zsav"])
def test_texts_of_several_parts(name, tmp_path):
    path = write(tmp_path, name, table(200, (3, 256, 2000)))
    assert found(path, 64) == expected(path)


@pytest.mark.parametrize("name", ["five.xpt", "eight.xpt"])
@pytest.mark.parametrize("n_rows", range(1, 30))
def test_blanks_that_fill_a_transport_file_up_are_no_rows(name, n_rows, tmp_path):
    data = table(n_rows, (3, 8)).drop(columns=["real", "gaps"])
    path = write(tmp_path, name, data)
    assert found(path, 2) == expected(path)
    assert len(found(path)["small"]) == n_rows


@pytest.mark.parametrize("cards", [1, records._PIECE_BYTES // records._CARD])
def test_blank_rows_before_others_are_refused_in_a_transport_file(tmp_path, monkeypatch, cards):
    """At the end they fill the file up, and a row behind them would make them rows."""
    monkeypatch.setattr(records, "_PIECE_BYTES", cards * records._CARD)
    path, blank = tmp_path / "v.xpt", [("", "")] * 500
    pyreadstat.write_xport(pd.DataFrame([("a", "u"), *blank], columns=["c", "d"]), path)
    wanted = {"c": "text", "d": "text"}
    assert sum(len(block) for block in open_source(path).blocks(64, wanted=wanted)) == 1
    rows = [("a", "u"), *blank, ("b", "v")]
    pyreadstat.write_xport(pd.DataFrame(rows, columns=["c", "d"]), path)
    with pytest.raises(DataError, match="blank row"):
        list(open_source(path).blocks(64, wanted=wanted))


def test_moments_of_stata_before_1960_are_those_of_their_day(tmp_path):
    days = pd.to_datetime(["1900-01-01", "1950-01-01", "1959-12-31", "1960-01-01", "2020-02-29"])
    frame, found = pd.DataFrame({"x": days}), []
    for kind in ("tc", "td"):
        path = tmp_path / f"{kind}.dta"
        frame.to_stata(path, write_index=False, version=118, convert_dates={"x": kind})
        (block,) = open_source(path).blocks(9, wanted={"x": "text"})
        found.append(block.column(0).cast(pa.date32()).to_pylist())
    assert found[0] == found[1] == [day.date() for day in days]


@pytest.mark.parametrize("name", [n for n in WRITTEN if not n.endswith("dta")])
def test_files_that_are_cut_short_are_refused(name, tmp_path):
    path = write(tmp_path, name, table(2000, (1, 9)))
    content = path.read_bytes()
    for part in (0.3, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(part * len(content)) // 80 * 80 + 3])
        with pytest.raises(DataError):
            found(path)


def test_a_file_of_spss_need_not_say_how_many_rows_it_holds(tmp_path):
    path = write(tmp_path, "plain.sav", table(30))
    content = bytearray(path.read_bytes())
    content[80:84] = struct.pack("<i", -1)
    path.write_bytes(content)
    assert found(path) == expected(path)


def test_a_transport_file_that_says_nowhere_that_rows_begin_is_refused(tmp_path):
    path = write(tmp_path, "eight.xpt", table(50))
    path.write_bytes(path.read_bytes().replace(b"*******OBS", b"*******ABS"))
    with pytest.raises(DataError, match=r"'eight\.xpt' is damaged\. Write it again"):
        found(path)


@pytest.mark.parametrize("name", ["plain.sav", "whole.zsav"])
def test_notes_in_a_heading_of_spss_are_passed_over(name, tmp_path):
    data = table(20)
    path = write(tmp_path, name, data)
    without = found(path)
    assert found(write(tmp_path, name, data, note="First wave.")) == without
    assert b"First wave." in path.read_bytes()


def test_a_transport_file_of_several_tables_is_refused(tmp_path):
    path = write(tmp_path, "five.xpt", table(50))
    content = path.read_bytes()
    path.write_bytes(content + content[240:])
    with pytest.raises(DataError, match="several tables"):
        found(path)


@pytest.mark.parametrize("before", range(20))
def test_what_says_in_a_transport_file_that_a_table_begins_is_refused_anywhere(
    before, tmp_path, monkeypatch
):
    """Rows of 26 bytes lie at all even places of cards."""
    monkeypatch.setattr(records, "_PIECE_BYTES", 2 * records._CARD)
    cells = [*["a" * 26] * before, records._MEMBER.decode(), "a" * 26]
    path = tmp_path / "t.xpt"
    pyreadstat.write_xport(pd.DataFrame({"c": cells}), path)
    with pytest.raises(DataError, match="several tables"):
        list(open_source(path).blocks(64, wanted={"c": "text"}))


@pytest.mark.parametrize("name", ["many-columns", "rows-small"])
def test_files_of_sas_with_many_columns_and_pages(name, tmp_path):
    path = tmp_path / f"{name}.sas7bdat"
    path.write_bytes(lzma.decompress((FILES / f"{name}.sas7bdat.xz").read_bytes()))
    assert found(path) == expected(path)
    content = path.read_bytes()
    for part in (0.3, 0.9, 0.999):
        path.write_bytes(content[: int(part * len(content))])
        with pytest.raises(DataError):
            found(path)


def test_columns_that_two_readers_of_sas_count_differently_are_refused(tmp_path, monkeypatch):
    class Shorter(SAS7BDATReader):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.column_names = self.column_names[:-1]

    monkeypatch.setattr("pandas.io.sas.sas7bdat.SAS7BDATReader", Shorter)
    with pytest.raises(DataError, match=r"'awkward\.sas7bdat' is damaged\. Write it again"):
        found(FILES / "awkward.sas7bdat")


def test_texts_in_several_pieces_of_memory_are_one_array():
    cells = pd.concat([pd.Series(["a ", None]), pd.Series([" b"])]).astype("string[pyarrow]")
    pieces = pd.concat([cells[:1], cells[1:]])
    assert isinstance(pa.array(pieces), pa.ChunkedArray)
    whole = records.text_array(pieces, "utf-8")
    assert isinstance(whole, pa.Array) and whole.to_pylist() == ["a ", None, " b"]


def _not_understood(*arguments, **options):
    raise ValueError


def test_rows_that_sas_has_deleted_are_none(tmp_path, monkeypatch):
    """A file keeps them until it is written anew, and marks them by the bits behind its rows."""
    content = bytearray((FILES / "awkward.sas7bdat").read_bytes())
    (page, row_bytes), counts = (12288, 57), content.index(b"\xf7\xf7\xf7\xf7") + 48
    assert list(content[counts : counts + 16 : 8]) == [12, 0]
    content[counts + 8] = 2
    content[page + 32] = 0x80
    content[page + 40 + 12 * row_bytes] = 0b01000001
    path = tmp_path / "deleted.sas7bdat"
    path.write_bytes(content)
    kept = [0, *range(2, 7), *range(8, 12)]
    for name, cells in found(FILES / "awkward.sas7bdat").items():
        left = [cells[place] or None for place in kept]
        assert [cell or None for cell in found(path)[name]] == left
        assert [cell or None for cell in found(path, 3)[name]] == left
    # In compressed files pandas does not know what marks them.
    told = found(path)
    monkeypatch.setattr("pandas.io.sas.sas7bdat.SAS7BDATReader", _not_understood)
    assert found(path) == told


def test_what_is_drafted_as_a_date_is_read_as_one(tmp_path):
    formats = {"day": "%td", "moment": "%tc", "week": "%tw", "number": "%9.0g"}
    table = pd.DataFrame({name: [1000.0] for name in formats})
    pyreadstat.write_dta(table, tmp_path / "t.dta", variable_format=formats)
    source = open_source(tmp_path / "t.dta")
    kinds = [type(kind).__name__ for kind in describe(source).schema.columns.values()]
    assert kinds == ["Date", "Date", "Numeric", "Numeric"]
    types = next(source.blocks(9, wanted=dict.fromkeys(formats, "text"))).schema.types
    assert [pa.types.is_temporal(each) for each in types] == [True, True, False, False]


def test_formats_of_sas_that_show_a_whole_date_make_dates(tmp_path):
    days = ("DATE9.", "JULIAN7.", "WEEKDATX.", "WORDDATE18.", "YYMMDDN8.", "E8601DA10.")
    moments = ("DATETIME20.", "E8601DN10.", "E8601DZ.", "B8601DT15.")
    formats = {f"a{at}": each for at, each in enumerate(days + moments)}
    # February 29, 2020.
    table = pd.DataFrame(
        {a: [21974.0 * (86400 if f in moments else 1)] for a, f in formats.items()}
    )
    pyreadstat.write_xport(table, tmp_path / "t.xpt", variable_format=formats)
    source = open_source(tmp_path / "t.xpt")
    drafted = describe(source).schema.columns.values()
    assert {type(kind).__name__ for kind in drafted} == {"Date"}
    (block,) = source.blocks(9, wanted=dict.fromkeys(formats, "text"))
    assert {str(column.cast(pa.date32())[0]) for column in block.columns} == {"2020-02-29"}


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        *((each, "Numeric") for each in ("%tcHH:MM:SS", "%-tcHh:MM_am", "%tchH.MM.SS.sss")),
        *((each, "Date") for each in ("%tcMonth", "%tcDD/NN/YY_HH:MM", "%-tcHH:MM_day", "%tcmon")),
    ],
)
def test_times_of_a_day_alone_are_numbers(tmp_path, written, kind):
    noon = pd.DataFrame({"at": [43_200_000.0]})
    pyreadstat.write_dta(noon, tmp_path / "t.dta", variable_format={"at": written})
    source = open_source(tmp_path / "t.dta")
    assert type(describe(source).schema.columns["at"]).__name__ == kind
    if kind == "Numeric":
        block = next(source.blocks(9, wanted={"at": "number"}))
        assert block.column(0).to_pylist() == [43_200_000.0]


@pytest.mark.parametrize("written", ["%tC", "%-tCDDmonCCYY_HH:MM:SS"])
def test_moments_that_count_leap_seconds_are_refused(tmp_path, written):
    """Read as %tc they would be up to 27 seconds late, and some a day."""
    formats = {"day": "%td", "moment": written}
    table = pd.DataFrame({name: [1.9e12] for name in formats})
    pyreadstat.write_dta(table, tmp_path / "t.dta", variable_format=formats)
    source = open_source(tmp_path / "t.dta")
    assert source.columns == ("day", "moment")
    for reading in ("text", "number"):
        with pytest.raises(DataError, match=r"'moment' counts leap seconds \(%tC\).* cofC"):
            next(source.blocks(9, wanted={"day": "text", "moment": reading}))
    assert next(source.blocks(9, wanted={"day": "text"})).num_rows == 1


def test_numbers_of_transport_files_have_the_sign_of_their_first_bit():
    """Of all exponents; the lowest bytes may be left out."""
    exponents = np.arange(128, dtype=np.uint8)
    cells = np.zeros((256, 4), dtype=np.uint8)
    cells[:, 0], cells[:, 1] = np.concatenate([exponents, exponents + 128]), 0x10
    found = TransportRecords.numbers(None, cells)
    expected = 16.0 ** (exponents.astype(float) - 65)
    assert found.tolist() == [*expected, *-expected]
