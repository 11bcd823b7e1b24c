"""Exact histograms: against counting cell by cell, on every engine, and whatever a cell holds."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.data.encode import Encoder
from dpcov.data.exact.linear import LinearMap
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.histograms import (
    ABOVE,
    BELOW,
    FINE_CELLS,
    MISSING,
    UNIT,
    FineWindow,
    HistogramQuestion,
    Histograms,
    Rings,
    Shared,
    Window,
    fine_edges,
)
from dpcov.data.questions import MomentsQuestion
from dpcov.data.schema.declared import Boolean, Categorical, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.errors import DataError, UsageError

SCHEMA = Schema(
    missing="never",
    columns={
        "kind": Categorical(categories=("a", "b")),
        "size": Numeric(lower=0, upper=10),
        "ok": Boolean(),
    },
)
TABLE = pa.table(
    {
        "kind": ["a", "b", "a", None, "c"] * 40,
        "size": pa.array([0.0, 2.5, None, 10.0, 99.0] * 40),
        "ok": [True, False, None, True, True] * 40,
    }
)
QUESTION = HistogramQuestion(
    windows=(Window(cells=4), Window(cells=2), Window(lower=0, upper=2, cells=2))
)


def by_hand(window, value):
    if math.isnan(value):
        return MISSING
    if value == window.upper:
        return window.cells + 2
    cell = math.floor((value - window.lower) * (window.cells / (window.upper - window.lower)))
    return BELOW if cell < 0 else ABOVE if cell >= window.cells else 3 + cell


@given(
    st.lists(st.one_of(st.just(math.nan), st.floats(-1, 1, width=32)), min_size=1),
    st.sampled_from([Window(cells=8), Window(-0.5, 0.25, 6), Window(0.0, 1.0, 1)]),
)
def test_every_value_is_counted_once_in_its_cell(values, window):
    found = window.places(np.array(values))
    assert found.tolist() == [by_hand(window, value) for value in values]


@given(st.lists(st.floats(-1, 1), min_size=1), st.sampled_from([0.0, -0.0, 0.25, -1.0]))
def test_fine_cells_hold_their_lower_ends_on_either_side_of_the_anchor(values, anchor):
    values = np.concatenate([values, [0.0, -0.0, 1.0, -1.0], anchor + fine_edges()[::97] / 2])
    cells = np.searchsorted(fine_edges(), values - anchor, side="right") - 1
    expected = np.clip(cells, 0, FINE_CELLS - 1) + MISSING + 1
    found = FineWindow(anchor).places(np.append(values, np.nan))
    assert found.tolist() == [*expected.tolist(), MISSING]


@given(
    st.lists(st.one_of(st.just(math.nan), st.floats(-1, 1, width=32)), min_size=1),
    st.sampled_from([0.0, 0.3, -1.0]),
    st.sampled_from([2.0**-30, 0.01]),
)
def test_a_ring_is_twice_as_far_out_as_the_one_before(values, middle, radius):
    found = Rings(middle, radius, 5).places(np.array(values))
    for value, place in zip(values, found, strict=True):
        # Distances in units of the radius, as floats divide; what is missing is nowhere.
        away = np.float64(value) - middle
        distance = abs(away) / (radius * (1 + 2**-16 if away < 0 else 1 - 2**-16))
        inner = [ring for ring in range(5) if distance >= 2**ring]
        assert place == (max(inner) if inner else -1)


def test_what_lies_a_radius_below_a_rounded_middle_is_within_it():
    """Cells hold their lower ends: such a value is the one that most rows share."""
    for lowest, radius in itertools.product((-1.0, -0.3, 0.1), (2.0**-31, 2.0**-26, 2.0**-8)):
        rings, values = Rings(lowest + radius, radius, 5), np.array([lowest, lowest + 2 * radius])
        assert rings.places(values).tolist() == [-1, 0]


def test_histograms_equal_no_list_of_their_counts():
    found = Histograms(HistogramQuestion(windows=(Window(cells=1),)))
    found.add([np.zeros(3)])
    assert found != [counts.tolist() for counts in found.counts]


def shared_by(weights, in_l2):
    return Shared(tuple((i, w, Rings(0.0, 0.25, 2)) for i, w in enumerate(weights)), in_l2)


@pytest.mark.parametrize("in_l2", [False, True])
@given(st.lists(st.tuples(st.integers(1, UNIT), st.sampled_from([0.0, 0.3, 0.6])), min_size=1))
def test_a_row_adds_a_unit_to_all_its_rings_together(in_l2, cells):
    """At most, and no less than rounding down takes."""
    shared = shared_by([weight for weight, _ in cells], in_l2)
    question = HistogramQuestion(windows=(Window(cells=1),) * len(cells), shared=shared)
    histograms = Histograms(question)
    histograms.add([np.array([value]) for _, value in cells])
    added = np.concatenate(histograms.counts[len(cells) :])
    touched = sum(value > 0 for _, value in cells)
    norm = int(added @ added) if in_l2 else int(added.sum())
    assert norm <= (UNIT**2 if in_l2 else UNIT)
    if touched:
        least = np.linalg.norm(added) + touched**0.5 if in_l2 else added.sum() + touched
        assert least >= UNIT * (1 - 1e-12)
    else:
        assert norm == 0


def test_rows_are_shared_by_weight():
    question = HistogramQuestion(
        windows=(Window(cells=1),) * 2, shared=shared_by([1, 3], in_l2=False)
    )
    histograms = Histograms(question)
    # In both columns' rings, in the second's, in the first's, in none, and missing.
    histograms.add([np.array([0.3, 0.0, 0.9, 0.2, np.nan]), np.array([0.6, 0.3, 0.0, 0.2, 0.3])])
    assert histograms.counts[2].tolist() == [UNIT // 4, UNIT]
    assert histograms.counts[3].tolist() == [2 * UNIT, 3 * UNIT // 4]


@pytest.fixture(scope="module")
def here():
    return Gathering(threads=1).answer(TABLE, Encoder(SCHEMA), QUESTION)


def test_columns_are_counted_in_the_order_of_the_encoding(here):
    assert Encoder(SCHEMA).value_columns == ("size", "ok", "kind")
    assert here.counts[0].tolist() == [0, 0, 40, 40, 40, 0, 80]
    assert here.counts[1].tolist() == [0, 0, 40, 40, 120]
    assert here.counts[2].tolist() == [0, 0, 80, 80, 40]
    assert here.n_rows == 200
    assert "200" not in repr(here)


@pytest.fixture(params=["dask", "device", "local", "spark"])
def answer(request, tmp_path):
    """Answer a question about the table by an engine."""
    engine, path = request.param, tmp_path / "t.parquet"
    pq.write_table(TABLE, path, row_group_size=64)
    if engine == "spark":
        request.getfixturevalue("session")
    elif engine != "local":
        pytest.importorskip({"dask": "dask", "device": "torch"}[engine])
    encoding = Encoder(SCHEMA)
    return lambda question: Gathering(engine=engine).answer(str(path), encoding, question)


def test_all_engines_count_alike(answer, here):
    assert answer(QUESTION) == here
    rings = (0, 7, Rings(-0.5, 0.1, 6)), (1, 2, Rings(-1.0, 2.0, 1))
    question = HistogramQuestion(windows=(Window(cells=1),) * 3, shared=Shared(rings, in_l2=True))
    expected = Gathering(threads=1).answer(TABLE, Encoder(SCHEMA), question)
    assert sum(map(sum, expected.counts[3:])) > 0
    assert answer(question) == expected


def test_all_engines_map_rows_alike(answer):
    """Moments and lengths in a geometry that mixes columns; the table of one block is the truth."""
    matrix = np.random.default_rng(0).normal(size=(4, 5))
    scales = {"size": Scale(center=0.1, scale=0.01)}
    geometry = Geometry(columns=scales, norm_bound=4.0, linear=LinearMap.nearest(matrix))
    for question in (
        HistogramQuestion(windows=(Window(0.0, 1.0, 64),), geometry=geometry),
        MomentsQuestion(spec=MomentsSpec(shells=4), geometry=geometry, watched=True),
    ):
        expected = Gathering(threads=1).answer(TABLE, Encoder(SCHEMA), question)
        assert answer(question) == expected


def test_fine_cells_are_as_fine_as_numbers_are():
    edges = fine_edges()
    assert len(edges) == FineWindow().cells + 1
    assert (np.diff(edges) > 0).all()
    # But for the two cells at the anchor, which reach it.
    positive = edges[FineWindow().cells // 2 + 1 :]
    assert (np.diff(positive) <= positive[:-1] * 2.0**-10).all()
    assert positive[0] < 2.0**-30


def test_what_does_not_fit_is_refused(here):
    with pytest.raises(DataError, match="3 columns"):
        here.add([np.zeros(1)])
    with pytest.raises(DataError, match="different questions"):
        here.merge(Histograms(HistogramQuestion(windows=(Window(),))))
    with pytest.raises(UsageError, match="Gathering needs"):
        Gathering(memory_limit=1e-6).answer(TABLE, Encoder(SCHEMA), QUESTION)
