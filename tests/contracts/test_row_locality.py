"""What a cell means depends on that cell and on public metadata alone: one contract for all doors.

The moments of a table are the sum of what its rows give alone, each read in a table of its own, in
whatever order the rows come; a table is refused exactly if one of its rows is refused alone.  So
two tables that differ in one row differ by that row's contribution, from which every proof starts.
"""

import json
import math
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache, reduce

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.encode import Encoder
from dpcov.data.engines.base import BallEncoding
from dpcov.data.engines.local import GroupedRows
from dpcov.data.exact.linear import LinearMap
from dpcov.data.exact.losses import LossQuestion
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.groups import Grouping, split_schema
from dpcov.data.histograms import FineWindow, HistogramQuestion, Histograms, Rings, Shared, Window
from dpcov.data.questions import MomentsQuestion
from dpcov.data.sources import base, databases, delimited, frames
from dpcov.data.vault import Key
from dpcov.errors import DpcovError
from dpcov.pipeline.arrays import _group_codes
from tests.contracts.doors import ARRAYS, DOORS, arrow, csv
from tests.data.engines.conftest import session  # noqa: F401

LABELS = (
    *("1", "1.5", "2", "2.0", "01", "a", "x", "true", "True", "1.50", "1e16", "10000000000000000"),
    *("9007199254740993", "9007199254740992", "2020-01-01", "2020-01-01 00:00:00+00:00"),
    *('x"y', "a,b", ""),
)
SCHEMA = dpcov.Schema(
    columns={
        "n": dpcov.Numeric(lower=-2.7, upper=9e15 + 0.3, missing="indicator"),
        "c": dpcov.Categorical(categories=LABELS[:-1], missing="indicator"),
    }
)
ENCODING = Encoder(SCHEMA)
# Every further field of a schema, each on cells that it changes and on hostile ones.
CODES = (-9, "unknown", 99.5)
FIELDS = {
    "marks, a logarithm, groups and all others": {
        "n": dpcov.Numeric(lower=0, upper=1e4, transform="log1p", decimal=",", thousands="."),
        "c": dpcov.Categorical(
            categories=("a", "1"),
            labels={"1": "one"},
            groups={"g": ("X", "true")},
            other="else",
            ignore_case=True,
        ),
    },
    "a truth value and a date": {
        "n": dpcov.Boolean(),
        "c": dpcov.Date(as_="age", reference="2020-01-01", lower=0, upper=99),
    },
    "truth values as categories": {
        "n": dpcov.Categorical(categories=("true", "false")),
        "c": dpcov.Categorical(categories=("1", "0"), ignore_case=True),
    },
    "a year of digits and a root": {
        "n": dpcov.Date(as_="year", format="%Y", lower=1900, upper=2020),
        "c": dpcov.Numeric(lower=0, upper=9, transform="sqrt", thousands="'"),
    },
}
FIELD_LINES = [
    *('"1.234,5",a', '"1,5",A', "-9,X", "unknown,unknown", '"1.23,4",g', '"99,5",99.50'),
    "1e2, TRUE ",
    *("yes,2000-02-29", "9.0,2000-02-30", "1980,1'234.5", "2.000,1970-01-01T23:59-05:00", "12,-9"),
    *("1980,4", "2001,1'234.5", "1999,", "2020, unknown", "1980,-9.0", "-9,4.0", "unknown,1e0"),
    *('" -9,0 ",-9.0', "1.234,Zebra", "inf,1", "-5,0", "99.5,0.25", "no,2020-01-01"),
]
FIELD_CELLS = [
    *((-9, "unknown"), (-9.0, "A"), (99.5, " x "), (1980.0, "2000-02-29"), (1234.5, "1'234.5")),
    *((1980.0, "4"), (2001.0, "1'234.5"), (1999.0, None), (2020.0, "unknown"), (1980.0, "-9.0")),
    *((float("inf"), "g"), (-5.0, "-9"), (1.0, "1970-01-01T23:59-05:00"), (3.0, "9.0")),
]
FIELD_OBJECTS = [
    *FIELD_CELLS,
    *(("1.234,5", Decimal("99.50")), ("unknown", -9), (True, date(2000, 2, 29)), ("yes", 0.25)),
    *((True, False), (False, True), (True, None), (None, True), ("TRUE", "false")),
    *(
        ("1980", datetime(2000, 2, 29, 23, tzinfo=timezone(timedelta(hours=-5)))),
        (Decimal("-9.0"), 1),
    ),
]
SPEC = MomentsSpec(shells=3, normalized=True)
BASE = [(1.0, "1"), (2.5, "2"), (-1.0, "a"), (7.0, None)]

DECLARED = [
    *((0.1, "01"), (2.0**53, "x"), (None, "1.5"), (float("nan"), "2.0")),
    (float("inf"), "9007199254740993"),
]
OBJECTS = [
    *((1, 1), (1.5, 1.5), (True, True), ("2.5", "1"), (2**53 + 1, 2**53 + 1), (2**63, 10**16)),
    *((10**30, 1e16), (Decimal("1.5"), Decimal("1.50")), (Decimal("0.1"), Decimal("1.5"))),
    *((np.float16(0.1), np.float16(1.5)), (np.float32(0.1), np.int8(1)), (None, None)),
    *((float("nan"), float("nan")), (0, date(2020, 1, 1)), (3, datetime(2020, 1, 1, tzinfo=UTC))),
    (3, datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
    *((Decimal("1E+400"), "x"), (-0.0, "01"), ("NA", ""), ("zebra", "a"), (b"1", b"a")),
    *(([1], "a"), (0.3, (1,))),
]
LINES = [
    *("0.1,01", "2,2.0", "3,true", "1e3,1e16", ",", "NA,NA", '4,"a,b"', '5,"x""y"', '"6","a\nb"'),
    *("7, 1 ", "8,1.50", '9,"a', '9,x"y', '9"', "", " ", "9", "9,a,b", "zebra,a", '9,"a"b', "\t"),
    "9007199254740993,9007199254740993",
]
POOLS = {
    "declared": BASE + DECLARED,
    "objects": BASE + OBJECTS,
    # pandas takes 1, 1.0 and True for one category, so a frame may hold one of them only.
    "labels": [
        *((0.5, "2"), (0.5, "a"), (0.5, 1), (0.5, None), (0.5, 1.5), (0.5, "1"), (0.5, "1.50")),
        *((0.5, 2**53 + 1), (0.5, 1e16), (0.5, date(2020, 1, 1)), (0.5, b"a")),
    ],
    "json": [
        *('{"n": 1, "c": "1"}', '{"n": 2.5, "c": 2}', '{"c": "a", "n": -1}', '{"n": 7, "c": null}'),
        *('{"n": "2.5", "c": 1.50}', '{"n": true, "c": true}', '{"n": null, "c": "1.50"}'),
        *('{"n": 9007199254740993, "c": 9007199254740993}', '{"n": 1e400, "c": "a"}', '{"n": 3}'),
        *('{"n": 1, "c": 1e16, "x": [{}]}', '{"n": 1, "c": "a", "n": 2}', '{"n": 0.1, "c": [1]}'),
        *('{"n": 1, "c": "a"}{"n": 2, "c": "x"}', '{"n": 1,', '"c": "a"}', '{"n": 1, "c": "x\\n"}'),
        *("", " ", "[]", "n,c", '{"n": "zebra", "c": "a"}', '{"n": 18446744073709551617, "c": ""}'),
        # Keys that nobody wants: a number beyond all floats, and what is no UTF-8.
        *('{"n": 1, "c": "a", "x": 1e400}', '{"n": 1, "c": "a", "x": "\udcff"}'),
        *('{"n": 1, "c": "a", "\udcff": 1}', '{"n": 1, "c": "a", "x": ' + "9" * 5000 + "}"),
    ],
    # These formats write missing texts as empty ones.
    "dictionary": [*BASE, *(row for row in DECLARED if row[0] is None or abs(row[0]) < 1e300)],
    # A row without any cell is none.
    "sheet": [
        *BASE,
        *((1, 1), (2.5, 2.0), (True, True), ("2.5", "1"), (None, "x"), (0, None), ("NA", " 1 ")),
        *(("zebra", "a"), (0.1, 1.5), ("", "01"), (3, "true"), (9007199254740993, 1e16)),
    ],
    "lines": ["1,1", "2.5,2", "-1,a", "7,", *LINES],
}
FIELD_POOLS = {
    "declared": FIELD_CELLS,
    "objects": FIELD_CELLS + FIELD_OBJECTS,
    "lines": FIELD_LINES,
    "labels": [(row[0], row[1]) for row in FIELD_CELLS],
    "json": [
        json.dumps(dict(zip("nc", row, strict=True)))
        for row in FIELD_CELLS + FIELD_OBJECTS
        if all(isinstance(cell, int | float | str | None) for cell in row)
        and not any(isinstance(cell, float) and not math.isfinite(cell) for cell in row)
    ],
}
SLOW = (
    *("dask_files_of_parquet", "dask_frame", "dask_folder_of_parquet"),
    *("duckdb_csv", "duckdb_file", "duckdb_files_of_parquet", "semicolons_latin1", "csv_zip"),
    *("json_lines_xz", "spss", "stata", "sas_transport", "sheet"),
)
QUICK = [name for name, each in DOORS.items() if each.engine != "spark"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("doors")


class Gatherer:
    """Moments of tables behind a door, and the sum of what their rows give alone."""

    def __init__(self, opens, folder, encoding=ENCODING, engine=None):
        self.folder, self.encoding, self.spec = folder, encoding, SPEC
        self.linear, self.watched, self.windows, self.geometry = None, True, None, None
        self.shared, self.losses = None, None
        self._opens, self._where = opens, Gathering(engine=engine, threads=1)
        self.alone = cache(lambda place: self([self.pool[place]]))
        self.pool = []

    @property
    def question(self):
        """What is asked; with a digest of the rows, which must add up like the moments."""
        if self.windows:
            return HistogramQuestion(
                windows=self.windows, geometry=self.geometry, shared=self.shared
            )
        return MomentsQuestion(
            spec=self.spec,
            linear=self.linear,
            watched=self.watched,
            geometry=self.geometry,
            losses=self.losses,
        )

    @property
    def norm_bound(self):
        """Of the encoding, in the geometry asked for."""
        if self.geometry is None:
            return self.encoding.norm_bound
        return Encoder(SCHEMA, geometry=self.geometry).norm_bound

    def __call__(self, rows):
        """Moments, or None where the table is refused in plain words."""
        try:
            return self._where.answer(self._opens(rows, self.folder), self.encoding, self.question)
        except DpcovError:
            return None

    def sum(self, places):
        """The sum, or None if a row is refused alone."""
        total = (
            Histograms(self.question)
            if self.windows
            else Moments(
                self.encoding.n_features, self.spec, norm_bound=self.norm_bound, losses=self.losses
            )
        )
        for place in places:
            part = self.alone(place)
            if part is None:
                return None
            total.merge(part)
        return total

    def require_rows_alone(self, places):
        """The contract."""
        together = self([self.pool[place] for place in places])
        assert together == self.sum(places)


def check(gatherer, examples):
    """Run the contract on drawn tables of the pool, and on every cell of it among ordinary ones."""
    drawn = st.lists(st.integers(0, len(gatherer.pool) - 1), min_size=1, max_size=6)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(drawn)
    @example(list(range(4)))
    def contract(places):
        gatherer.require_rows_alone(places)

    contract()
    for place in range(4, len(gatherer.pool)):
        gatherer.require_rows_alone([0, 1, place, 2, 3])
        gatherer.require_rows_alone([3, place, 2, 1, 0])


def check_at_once(gatherer):
    """The same in fewer tables, for questions whose cells are read as in those of all moments."""
    kept = [place for place in range(len(gatherer.pool)) if gatherer.alone(place) is not None]
    assert len(kept) > 4
    # All rows that are read alone, together; and every one among them that is not.
    gatherer.require_rows_alone(kept)
    gatherer.require_rows_alone(kept[::-1])
    for place in set(range(len(gatherer.pool))) - set(kept):
        gatherer.require_rows_alone([kept[0], place, kept[1]])
    for start in range(0, len(kept) - 3, 6):
        gatherer.require_rows_alone([kept[start], kept[start + 1], kept[start]])


def gatherer_of(name, folder, request=None):
    found = DOORS[name]
    if found.engine == "spark":
        request.getfixturevalue("session")
    made = Gatherer(found.opens, folder, engine=found.engine)
    made.pool = POOLS[found.cells]
    return made


@pytest.mark.parametrize("name", QUICK)
def test_every_row_counts_as_it_does_alone(name, folder):
    check(gatherer_of(name, folder), 5 if name in SLOW else 40)


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("name", [name for name in QUICK if name not in SLOW])
def test_every_field_of_a_schema_reads_a_cell_by_itself(name, fields, folder):
    made = gatherer_of(name, folder)
    made.encoding = Encoder(
        dpcov.Schema(columns=FIELDS[fields], missing="indicator", missing_codes=CODES)
    )
    made.pool = POOLS[DOORS[name].cells][:4] + FIELD_POOLS[DOORS[name].cells]
    check_at_once(made)


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize(
    "name", ["csv", "standard_input", "json_lines", "arrow_stream", "parquet", "sqlite"]
)
def test_a_copy_of_rows_that_are_asked_again_gives_what_they_give(name, fields, folder):
    """It holds one text of all that are read alike."""
    made = gatherer_of(name, folder)
    made.encoding = Encoder(
        dpcov.Schema(columns=FIELDS[fields], missing="indicator", missing_codes=CODES)
    )
    made.pool = [row for pools in (POOLS, FIELD_POOLS) for row in pools[DOORS[name].cells]]
    kept = [place for place in range(len(made.pool)) if made.alone(place) is not None] * 2
    ask = Gathering(threads=1).ask(
        DOORS[name].opens([made.pool[place] for place in kept], folder), made.encoding, again=True
    )
    ask(MomentsQuestion(spec=MomentsSpec(), watched=True))
    assert ask(made.question) == made.sum(kept)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in DOORS if name not in QUICK])
def test_every_row_of_spark_counts_as_it_does_alone(name, folder, request):
    made = gatherer_of(name, folder, request)
    # A task of Spark takes seconds; a row alone gives the same everywhere.
    made.alone = gatherer_of("arrow_table", folder).alone
    every = range(len(made.pool))
    made.require_rows_alone(every)
    assert made([made.pool[place] for place in reversed(every)]) == made.sum(every) is not None


def test_no_door_but_the_guessing_one_refuses_ordinary_rows(folder):
    # Spark's, which take seconds to open, are shown to take all rows above.
    for name in QUICK:
        made = gatherer_of(name, folder)
        assert (made(made.pool[:4]) is None) == (name == "duckdb_csv"), name


@pytest.mark.parametrize("name", ["arrow_table", "pandas_objects", "csv", "sqlite", "dask_frame"])
def test_histograms(name, folder):
    made = gatherer_of(name, folder)
    for window in (Window(-1, 2, 64), FineWindow(-0.25)):
        made.windows = tuple(window for _ in ENCODING.value_columns)
        made.alone.cache_clear()
        check_at_once(made)
    # Rings of both columns: a row's own cells say how it shares its unit among them.
    rings = (0, 3, Rings(0.0, 0.25, 2)), (1, 5, Rings(0.0, 1.0, 4))
    for in_l2 in (False, True):
        made.shared = Shared(rings, in_l2)
        made.alone.cache_clear()
        check_at_once(made)


@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize("name", ["arrow_table", "csv", "dask_frame"])
def test_in_a_geometry_that_scales_rows_down(name, lengths, folder):
    made = gatherer_of(name, folder)
    scales = {"n": Scale(center=1.5, scale=0.7), "c=a": Scale(center=0.0, scale=0.2)}
    made.geometry = Geometry(columns=scales, norm_bound=None if lengths else 3.0)
    made.windows = (Window(0, 1, 64),) if lengths else None
    made.losses = None if lengths else LossQuestion((1,), (0.25,), 5.0, in_l2=True)
    check_at_once(made)


@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize("name", ["arrow_table", "csv", "dask_frame"])
def test_in_a_geometry_that_mixes_columns(name, lengths, folder):
    made, size = gatherer_of(name, folder), ENCODING.n_features
    matrix = np.random.default_rng(0).normal(size=(size - 1, size))
    scales = {"n": Scale(center=1.5, scale=1e-3)}
    linear = LinearMap.nearest(matrix)
    made.geometry = Geometry(columns=scales, norm_bound=3.0, linear=linear)
    made.windows = (Window(0, 1, 64),) if lengths else None
    made.losses = None if lengths else LossQuestion((1,), (0.25,), 5.0, in_l2=False)
    check_at_once(made)


@pytest.mark.parametrize("name", ["arrow_table", "csv", "dask_frame"])
def test_under_a_public_linear_map(name, folder):
    made = gatherer_of(name, folder)
    size = ENCODING.n_features
    made.linear = LinearMap.nearest(np.random.default_rng(0).normal(size=(size, size)))
    check_at_once(made)


@pytest.mark.parametrize("name", ["arrow_table", "pandas_objects", "csv", "sqlite", "dask_frame"])
def test_by_a_column(name, folder):
    grouped = Encoder((split := split_schema(SCHEMA, "c"))[0], grouping=split[1])
    made = gatherer_of(name, folder)
    made.encoding, made.spec = grouped, MomentsSpec(shells=2, groups=len(LABELS))
    check_at_once(made)


@pytest.mark.parametrize("name", ["arrow_table", "csv", "dask_frame"])
def test_what_groups_lose_in_a_geometry(name, folder):
    schema, grouping = split_schema(SCHEMA, "c")
    made = gatherer_of(name, folder)
    made.geometry = Geometry(columns={"n": Scale(center=1.5, scale=0.1)}, norm_bound=2.0)
    made.encoding = Encoder(schema, grouping=grouping)
    made.spec = MomentsSpec(shells=2, groups=len(grouping.names))
    made.losses = LossQuestion((1,), (0.25,), 5.0, in_l2=True)
    check_at_once(made)


NUMBERS = [(1.0, 2.0), (0.5, -1.5), (2.0**53, 1.0), (1e300, 0.1), (-0.0, 3.0)]
MIXED = [
    *((2**53 + 1, 1), (True, 0.5), (np.float16(0.1), 3), (np.float32(0.1), 10**30)),
    *((Decimal("0.1"), 1), ("x", 1)),
]
# No lists of numbers, though each has as many parts.
NO_LISTS = [b"ab", range(2), {1: 1, 2: 2}, {1, 2}, pd.Series([1, 2])]


@pytest.mark.parametrize("name", ARRAYS)
def test_rows_of_numbers(name, folder):
    made = Gatherer(ARRAYS[name], folder, BallEncoding(n_features=2, norm_bound=3.7))
    made.pool = NUMBERS + (MIXED if name == "list_of_lists" else [])
    check(made, 40)


def test_a_row_of_a_list_is_a_list_whatever_the_others_are(folder):
    made = Gatherer(lambda rows, _: rows, folder, BallEncoding(n_features=2, norm_bound=3.7))
    made.pool = [[1.0, 2.0], (0.5, -1.5), np.array([1, 2]), [3, 0.0], (0, 4), *NO_LISTS]
    check_at_once(made)


def grouped_rows(rows, folder):
    codes, _ = _group_codes([label for _, label in rows], LABELS[:-1])
    return GroupedRows(
        rows=np.array([[float(len(str(label))), 1.0] for _, label in rows]), groups=codes
    )


def test_groups_beside_the_rows(folder):
    made = Gatherer(grouped_rows, folder, BallEncoding(n_features=2, norm_bound=3.7))
    made.spec = MomentsSpec(shells=2, groups=len(LABELS))
    made.pool = BASE + OBJECTS
    check(made, 40)


def test_saved_moments(folder, tmp_path):
    (tmp_path / "key").write_bytes(bytes(range(65, 97)))
    key = Key.from_file(tmp_path / "key")

    def saved(rows, folder):
        budget = dpcov.Budget(rho=1)
        parts = [
            dpcov.checkpoint(arrow([row]), schema=SCHEMA, budget=budget, name=str(place))
            for place, row in enumerate(rows)
        ]
        (tmp_path / "t.moments").unlink(missing_ok=True)
        reduce(Checkpoint.merge, parts).save(tmp_path / "t.moments", key)
        return Checkpoint.load(tmp_path / "t.moments", key)

    made = Gatherer(saved, folder)
    made.watched = False
    made.spec = dpcov.checkpoint(
        arrow(BASE), schema=SCHEMA, budget=dpcov.Budget(rho=1)
    ).moments.spec
    made.pool = POOLS["declared"]
    check(made, 2)


def test_postgres(folder, postgres_database):
    psycopg = pytest.importorskip("psycopg", reason="needs dpcov[postgres]")

    def table(rows, folder):
        with psycopg.connect(postgres_database) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute("CREATE TABLE t (n numeric, c text)")
            connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", rows)
        return dpcov.Query("SELECT n, c FROM t", db=postgres_database)

    made = Gatherer(table, folder)
    made.pool = [*POOLS["declared"], (Decimal("0.1"), "1.50")]
    made.pool += [(2**53 + 1, "2"), (Decimal("1e30"), "x")]
    check_at_once(made)


def arrow_types_by_block(cells_of, wanted):
    """What the databases did: one type for all cells of a block."""
    columns = []
    for cells in map(cells_of.get, wanted):
        kinds = {type(cell) for cell in cells} - {type(None)}
        kind = (float if kinds <= {int, float} else str) if len(kinds) > 1 else lambda cell: cell
        columns.append(pa.array([cell if cell is None else kind(cell) for cell in cells]))
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))


def typed_together(groups, categories):
    """What `second_moment` did with labels."""
    grouping = Grouping("groups", categories)
    cells = np.asarray(groups, dtype=object if None in groups else None).astype(str)
    return grouping.codes_of(pa.array(cells)), grouping.names


class LenientLines:
    """What the CSV reader did: quotation marks and blank lines are the library's affair."""

    closed = False

    def __init__(self, stream, **_):
        self.read, self.close = stream.read, lambda: None


def lenient(parse=pa.csv.ParseOptions, **options):
    """What the CSV reader did with blank lines."""
    return parse(**{**options, "ignore_empty_lines": True})


def by_arrows_guess(cells, name, reading):
    """What frames did with objects of pandas."""
    return pa.array(cells, from_pandas=True)


LENIENT = (delimited, "CheckedLines", LenientLines)
FAULTS = {
    "one type for a block of cells": (
        *("sqlite", [(1.0, 2**53 + 1), (2.0, 1.5)]),
        [(databases, "batch_of_cells", arrow_types_by_block)],
    ),
    "pandas objects by Arrow's guess": (
        *("pandas_objects", [(1.0, Decimal("1.5")), (1.0, Decimal("1.00"))]),
        [(frames, "_pandas_column", by_arrows_guess)],
    ),
    "JSON by one type for a block": (
        *("json_lines", ['{"n": 1, "c": 9007199254740993}', '{"n": 1, "c": 1.5}']),
        [(base, "column_of_cells", by_arrows_guess)],
    ),
    "labels of all rows together": (None, [(1.0, 2**53 + 1), (1.0, 1.5)], []),
    "a quotation mark": ("csv", ['1,"a', "2,x", '3,"a"'], [LENIENT]),
    "a blank line": ("csv", ["1,1", "", "2,x"], [LENIENT, (pa.csv, "ParseOptions", lenient)]),
    "types by DuckDB's guess": (
        *("guessed_csv", ["1,1.50", "2,x"]),
        [(databases, "refuse_guesses", lambda *_, **__: None)],
    ),
}


def guessed_csv(lines, folder):
    return dpcov.Query(f"SELECT * FROM '{csv(lines, folder)}'", db="duckdb://")


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault, folder, monkeypatch):
    name, rows, patches = FAULTS[fault]
    if name is None:
        made = Gatherer(grouped_rows, folder, BallEncoding(n_features=2, norm_bound=3.7))
        made.spec = MomentsSpec(shells=2, groups=len(LABELS))
        patches = [(sys.modules[__name__], "_group_codes", typed_together)]
    else:
        opens = guessed_csv if name == "guessed_csv" else DOORS[name].opens
        made = Gatherer(opens, folder, engine=getattr(DOORS.get(name), "engine", None))
    made.pool = rows
    if name != "guessed_csv":
        made.require_rows_alone(range(len(rows)))
    made.alone.cache_clear()
    for module, attribute, fault_in in patches:
        monkeypatch.setattr(module, attribute, fault_in)
    with pytest.raises(AssertionError):
        made.require_rows_alone(range(len(rows)))
