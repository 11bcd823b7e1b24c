import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcov.data.encode import Encoder, encode_array
from dpcov.data.exact.linear import LinearMap
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric, Weights
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import DataError, SchemaError, UsageError
from dpcov.published.file.columns import LARGEST_SCALE, SMALLEST_SCALE
from tests.data.reading import encode_whole, read_encoded

SLACK = 1e-12


def encode(schema, **columns):
    return encode_whole(Encoder(schema), pa.record_batch(columns))


def undo(schema, encoded):
    return encoded * Encoder(schema).norm_bound


def test_values_of_columns_are_told_one_column_at_a_time():
    schema = Schema(
        columns={
            "c": Categorical(categories=("b", "a")),
            "x": Numeric(lower=0, upper=4),
            "i": Ignored(),
            "t": Boolean(),
        }
    )
    encoder = Encoder(schema)
    block = {"c": ["a", None, "b"], "x": [1.0, None, 9.0], "i": [5, 5, 5], "t": [0, 1, None]}
    cells = encoder.read(pa.record_batch({name: block[name] for name in encoder.wanted}))
    found = dict(zip(encoder.value_columns, encoder.column_values(cells), strict=True))
    assert list(found) == ["x", "t", "c"]
    expected = {"x": [-0.5, math.nan, 1.0], "t": [-1.0, 1.0, math.nan], "c": [1.0, math.nan, 0.0]}
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])
    assert repr(cells) == "Cells(<sensitive>)"


finite = st.floats(-1e12, 1e12)
ordered = st.tuples(finite, finite).filter(lambda pair: pair[1] - pair[0] > 1e-140)
missing = st.sampled_from((None, "center", "indicator"))
labels = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)
numeric = st.builds(lambda b, m: Numeric(lower=b[0], upper=b[1], missing=m), ordered, missing)
categorical = st.builds(Categorical, categories=labels, missing=missing)
features = st.lists(
    st.one_of(numeric, categorical, st.builds(Boolean, missing=missing)), min_size=1, max_size=6
)
any_number = st.one_of(st.none(), st.floats(), st.just(math.nan))
any_text = st.one_of(st.none(), st.sampled_from(("a", " b ", "c", "NA", "?", "zebra", "")))


@st.composite
def tables(draw):
    declared = {f"c{i}": column for i, column in enumerate(draw(features))}
    share = draw(st.one_of(st.none(), st.floats(1e-3, 1.0)))
    weights = draw(st.one_of(st.none(), st.floats(1e-6, 1e6)))
    weighting = Ignored()
    # Of the weights' own column that releases Kish's design effect.
    if weights and draw(st.booleans()):
        declared["w"] = weighting = Numeric(lower=0, upper=weights, missing=draw(missing))
    schema = Schema(
        columns={**declared, "w": weighting},
        missing=draw(st.sampled_from(("center", "indicator"))),
        intercept=True if weights else draw(st.booleans()),
        norm_bound=None if share is None else 0.999 * share * math.sqrt(len(declared)),
        weights=None if weights is None else Weights(column="w", upper=weights),
    )
    rows, arrays = draw(st.integers(1, 8)), {}
    for name, column in schema.columns.items():
        as_text = isinstance(column, Categorical)
        cell = any_text if as_text else any_number
        cells = draw(st.lists(cell, min_size=rows, max_size=rows))
        arrays[name] = pa.array(cells, pa.string() if as_text else pa.float64())
    return schema, pa.record_batch(arrays)


@given(tables())
def test_no_row_is_longer_than_one(table):
    schema, batch = table
    rows = encode_whole(Encoder(schema), batch)
    assert rows.shape == (len(batch), len(schema.encoded_columns))
    assert rows.dtype == np.float64
    assert rows.flags.f_contiguous
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + SLACK


@given(tables(), st.integers(1, 8))
def test_a_row_is_encoded_by_itself(table, cut):
    schema, batch = table
    encoder = Encoder(schema)
    whole = encode_whole(encoder, batch)
    parts = [encode_whole(encoder, batch[:cut]), encode_whole(encoder, batch[cut:])]
    assert (np.vstack(parts) == whole).all()


@pytest.mark.parametrize("linear", [None, LinearMap.nearest(np.array([[0, 2, 1], [0, 1.0, 3]]))])
def test_long_rows_of_a_geometry_have_norm_one_beside_a_whole_intercept(linear):
    wide = Numeric(lower=-100, upper=100)
    schema = Schema(columns={"a": wide, "b": wide}, missing="never")
    scales = {name: Scale(center=0.0, scale=1.0) for name in "ab"}
    encoder = Encoder(schema, Geometry(columns=scales, norm_bound=2.0, linear=linear))
    batch = pa.record_batch({"a": [100.0, -3.0, 0.1], "b": [50.0, 4.0, 0.1]})
    rows = encode_whole(encoder, batch)
    assert rows[:, 0].tolist() == [0.5] * 3
    norms = np.linalg.norm(rows, axis=1)
    assert norms[:2] == pytest.approx(1, abs=SLACK) and norms[2] < 0.9


def test_the_worst_case_is_attained():
    schema = Schema(
        columns={"a": Numeric(lower=0, upper=1), "b": Categorical(categories=("x", "y"))}
    )
    # But for what makes the intercept whole on the grid.
    for cells in ({"a": [1.0], "b": ["y"]}, {"a": [-9.0], "b": ["x"]}):
        assert 1 - 2e-6 < np.linalg.norm(encode(schema, **cells)) <= 1


@pytest.mark.parametrize("count", [1, 2, 5, 9, 20, 300])
def test_truncation_takes_nothing_of_an_intercept_nor_of_a_spread_near_a_bound(count):
    names = [f"x{place}" for place in range(count)]
    schema = Schema(columns=dict.fromkeys(names, Numeric(lower=0, upper=1)), missing="never")
    values = np.random.default_rng(0).normal(0.975, 1 / 142, (5000, 1)).clip(0, 1)
    found = encode(schema, **dict.fromkeys(names, values[:, 0]))
    assert np.linalg.norm(found, axis=1).max() <= 1
    whole = np.trunc(found * 2.0**20)
    moment = whole.T @ whole / len(whole) / 4.0**20
    # As a release reads it, whose intercept is public.
    intercept = schema.norm_bound_or_worst_case**-2.0
    assert moment[0, 0] == pytest.approx(intercept, rel=1e-14)
    variance = moment[1, 1] / intercept - (moment[0, 1] / intercept) ** 2
    assert variance / 4 == pytest.approx(values.var(), rel=1e-3)


@given(ordered, st.floats(allow_nan=False))
@example((0.0, 1.0), math.inf)
@example((-1e12, 1e12), -math.inf)
def test_decoding_gives_the_clipped_value(pair, value):
    schema = Schema(columns={"a": Numeric(lower=pair[0], upper=pair[1])})
    column = schema.encoded_columns[1]
    decoded = column.center + column.half_range * undo(schema, encode(schema, a=[value]))[0, 1]
    size = max(abs(pair[0]), abs(pair[1]))
    assert decoded == pytest.approx(min(max(value, pair[0]), pair[1]), rel=0, abs=1e-14 * size)


@pytest.mark.parametrize("size", [SMALLEST_SCALE, LARGEST_SCALE])
def test_bounds_as_far_apart_as_allowed(size):
    schema = Schema(columns={"a": Numeric(lower=-size, upper=size)})
    encoded = undo(schema, encode(schema, a=[-1.7e308, -size, 0.0, size, 1.7e308, math.inf]))
    np.testing.assert_allclose(encoded[:, 1], [-1, -1, 0, 1, 1, 1])


def test_weights_multiply_rows_by_their_root():
    schema = Schema(
        columns={"a": Numeric(lower=-1, upper=1), "w": Ignored()},
        weights=Weights(column="w", upper=4),
    )
    weights = [4.0, 1.0, 1e308, 0.0, -2.0, None, math.nan, math.inf]
    encoded = undo(schema, encode(schema, a=[1.0] * 8, w=weights))
    np.testing.assert_allclose(encoded[:, 0], [1, 0.5, 1, 0, 0, 0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(encoded[:, 1], encoded[:, 0])


def test_an_incomplete_schema_is_refused():
    with pytest.raises(SchemaError, match="fill in"):
        Encoder(Schema(columns={"a": Numeric()}))


def test_matrices_have_numbered_columns():
    schema = Schema(
        columns={"x1": Numeric(lower=0, upper=2), "x0": Categorical(categories=("1", "2"))},
        missing="never",
    )
    block = np.array([[1.0, 2.0], [2.0, 0.0], [np.nan, 1.0]])
    encoded = undo(schema, np.vstack(list(read_encoded(open_source(block), schema, 2))))
    np.testing.assert_allclose(encoded, [[1, 1, 1, 0], [1, -1, 0, 1], [1, 0, 0, 0]])


rows = st.lists(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1
)


@given(rows, st.floats(1e-300, 1e300))
@example([[1e300, -1e300, 1e308]], 1e-300)
@example([[5e-324, 0.0, 0.0]], 1e-300)
@example([[1e-300, 1e-300, 0.0]], 1e-300)
@settings(max_examples=200)
def test_raw_rows_are_divided_or_shortened(block, bound):
    block = np.array(block)
    encoded = encode_array(block, bound)
    assert np.isfinite(encoded).all()
    assert np.linalg.norm(encoded, axis=1).max() <= 1 + SLACK
    for row, result in zip(block, encoded, strict=True):
        length = math.hypot(*(row / 2)) * 2
        if length < bound * (1 - SLACK):
            np.testing.assert_array_equal(result, row / bound)
        elif length > bound * (1 + SLACK):
            assert math.hypot(*result) == pytest.approx(1, abs=SLACK)
            peak = np.abs(row).max()
            cosine = (row / peak) @ result / math.hypot(*(row / peak))
            assert cosine == pytest.approx(1, abs=SLACK)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_raw_rows_must_be_finite_and_their_bound_positive(bad):
    with pytest.raises(DataError, match="NaN or infinity"):
        encode_array(np.array([[0.0, bad]]), 1.0)
    for bound in (bad, 0.0, -1.0):
        with pytest.raises(UsageError, match="norm_bound"):
            encode_array(np.ones((1, 1)), bound)


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.floats(0.3, 4))
def test_rows_on_the_bound_are_encoded_by_a_sum_of_fixed_order(seed, width, norm_bound):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(40, width))
    rows *= norm_bound / np.linalg.norm(rows, axis=1, keepdims=True)

    def energy(numbers):
        while len(numbers) > 1:
            half = (len(numbers) + 1) // 2
            paired = [a + b for a, b in zip(numbers, numbers[half:], strict=False)]
            numbers = paired + numbers[len(paired) : half]
        return numbers[0]

    for row, encoded in zip(rows, encode_array(rows, norm_bound), strict=True):
        expected = [float(x) / norm_bound for x in row]
        if energy([x * x for x in expected]) > 1.0:
            largest = max(abs(float(x)) for x in row)
            scaled = [float(x) / largest for x in row]
            expected = [x / math.sqrt(energy([y * y for y in scaled])) for x in scaled]
        assert encoded.tolist() == expected


@pytest.mark.parametrize("width", range(1, 13))
def test_rows_of_the_worst_case_keep_every_bit(width):
    """Their squares may add up to a little more than 1, which is no reason to touch them."""
    schema = Schema(columns={f"c{place}": Boolean() for place in range(width)}, intercept=False)
    rows = encode(schema, **{f"c{place}": [True, False] for place in range(width)})
    assert rows.tolist() == [[1 / math.sqrt(width)] * width, [-1 / math.sqrt(width)] * width]


def test_rows_beyond_a_bound_are_divided_by_their_norm():
    schema = Schema(columns={"a": Boolean(), "b": Boolean()}, intercept=False, norm_bound=0.5)
    encoded = encode(schema, a=[True, True], b=[True, None])
    assert encoded.tolist() == [[2 / math.sqrt(8)] * 2, [1, 0]]


def test_columns_stand_side_by_side_in_the_declared_order():
    columns = {
        "c": Categorical(categories=("x", "y"), missing="indicator"),
        "n": Numeric(lower=-2, upper=2, missing="indicator"),
        "d": Categorical(categories=("x",), missing="never"),
        "b": Boolean(missing="indicator"),
    }
    block = {"c": ["y", None, "z"], "n": [1.0, None, -9.0], "d": ["x", "x", None]}
    block["b"] = [True, None, False]
    for intercept in (True, False):
        schema = Schema(columns=columns, intercept=intercept)
        rows = undo(schema, encode(schema, **block)).round(12).tolist()
        ones = [1.0] * intercept
        assert rows == [
            [*ones, 0, 1, 0, 0.5, 0, 1, 1, 0],
            [*ones, 0, 0, 1, 0, 1, 1, 0, 1],
            [*ones, 0, 0, 0, -1, 0, 0, -1, 0],
        ]
