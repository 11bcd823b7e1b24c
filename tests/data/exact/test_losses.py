"""Sums of what scaling rows down takes: exact, of bounded sensitivity, row by row."""

import pickle
from fractions import Fraction
from math import isqrt

import dask.dataframe as dask
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dpcov
from dpcov.data.encode import Encoder
from dpcov.data.exact.linear import LinearMap
from dpcov.data.exact.losses import Losses, LossQuestion
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.groups import split_schema
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import DataError, NumericError
from dpcov.mechanisms.geometry.losses import spread_out
from dpcov.published.file.statistics import LOSS_UNITS

LIMIT = 4.0
NUMBERS = st.floats(-1e150, 1e150) | st.floats(-10, 10)
ROWS = st.tuples(st.lists(NUMBERS, min_size=3, max_size=3), st.floats(1, 1e150) | st.just(1.0))


def question(in_l2, columns=(1, 2, 3), middles=(0.0, 0.5, -1.0), limit=LIMIT):
    return LossQuestion(columns=columns, middles=middles, limit=limit, in_l2=in_l2)


def alone(row, divisor, in_l2, weight=None):
    weights = None if weight is None else np.array([weight])
    return question(in_l2).of_rows(np.array([row]), np.array([divisor]), weights)[:, 0]


@pytest.mark.parametrize("in_l2", [True, False])
@given(ROWS, st.floats(0, 1) | st.none())
@example(([1e150, 1e150, 1e150], 1e150), None)
@example(([1e150, 1e150, 1e150], 1e150), 0.0)
@example(([2.0, 0.5, -1.0], 1e9), 1.0)
@example(([-1e6, 0.5, -1.0], 1e150), 0.5)
def test_no_row_adds_more_than_one_unit(in_l2, row, weight):
    found = [int(each) for each in alone(*row, in_l2, weight)]
    assert min(found) >= 0
    norm = sum(each**2 for each in found) if in_l2 else sum(found)
    assert norm <= (LOSS_UNITS**2 if in_l2 else LOSS_UNITS)


@pytest.mark.parametrize("in_l2", [True, False])
def test_the_sensitivity_is_attained(in_l2):
    """One row far out in one column, in place of one far out in another; or of none."""
    first, second = alone([1e9, 0.5, -1.0], 1e6, in_l2), alone([0.0, 1e9, -1.0], 1e6, in_l2)
    none = alone([3.0, 3.0, 3.0], 1.0, in_l2)
    change = [int(each) for each in first - second]
    if in_l2:
        assert isqrt(sum(each**2 for each in change)) == pytest.approx(
            2**0.5 * LOSS_UNITS, rel=1e-5
        )
    else:
        assert sum(map(abs, change)) == pytest.approx(2 * LOSS_UNITS, rel=1e-5)
    farthest = alone([1e150, 0.5, -1.0], 1e150, in_l2)
    assert farthest.tolist() == [LOSS_UNITS - 1, 0, 0]
    assert none.tolist() == [0, 0, 0]
    assert (first - none).sum() == pytest.approx(LOSS_UNITS, rel=1e-5)


def test_whole_numbers_of_a_longer_vector_are_not_kept():
    """Losses of 2^20 and 1 have a norm that no float tells from 2^20."""
    row = [[2.0**10, 1.0]]
    asked = LossQuestion(columns=(1, 2), middles=(0.0, 0.0), limit=1.0, in_l2=True)
    found = asked.of_rows(np.array(row), np.array([1e200]))[:, 0]
    assert sum(int(each) ** 2 for each in found) <= LOSS_UNITS**2


def test_more_rows_than_sums_can_hold_are_refused():
    """Sums would wrap around, and noise on them hide nothing."""
    half = Losses(question(True))
    half.sums[:] = 2**61
    whole = Losses(question(True))
    whole.merge(half)
    whole.merge(half)
    with pytest.raises(NumericError, match="more rows"):
        whole.merge(half)


@pytest.mark.parametrize("limit", [0.0, 1e-101, 1e101, float("nan")])
def test_a_limit_of_no_usual_size_is_refused(limit):
    with pytest.raises(NumericError, match="limit"):
        question(True, limit=limit)


@pytest.mark.parametrize("in_l2", [True, False])
def test_rows_add_what_the_definition_says(in_l2):
    """Against exact fractions, for rows within the limit; those beyond it keep their direction."""
    rng = np.random.default_rng(0)
    values, divisors = rng.normal(size=(50, 3)), 1 + rng.exponential(size=50)
    middles = [Fraction(m) for m in (0.0, 0.5, -1.0)]
    for row, divisor in zip(values, divisors, strict=True):
        taken = 1 - 1 / Fraction(divisor) ** 2
        losses = [(Fraction(x) - m) ** 2 * taken for x, m in zip(row, middles, strict=True)]
        norm = float(sum(each**2 for each in losses)) ** 0.5 if in_l2 else float(sum(losses))
        scale = LOSS_UNITS / max(norm, LIMIT)
        expected = [float(each) * scale for each in losses]
        found = alone(row.tolist(), divisor, in_l2)
        assert np.all(found <= np.array(expected)) and np.all(found > np.array(expected) - 1.01)


def test_sums_do_not_depend_on_blocks_and_can_be_sent_away():
    rng = np.random.default_rng(1)
    values, divisors = 5 * rng.normal(size=(200, 3)), 1 + rng.exponential(size=200)
    whole, parts = Losses(question(True)), Losses(question(True))
    whole.add(values, divisors, np.arange(200))
    for block in np.array_split(rng.permutation(200), 7):
        part = Losses(question(True))
        part.add(values[block], divisors[block], np.arange(len(block)))
        parts.merge(pickle.loads(pickle.dumps(part)))
    assert parts == whole and whole.sums.sum() > 0 and whole != whole.sums.tolist()
    assert "sensitive" in repr(whole) and str(whole.sums[0]) not in repr(whole)
    for other in (Losses(question(False)), Losses(question(True), 2)):
        with pytest.raises(DataError):
            whole.merge(other)


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_t(3, size=(n, 3)) @ rng.normal(size=(3, 3)), columns=[*"abc"])
    frame["d"] = np.where(rng.random(n) < 0.5, "x", "y")
    return frame


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("mapped", [True, False])
def test_the_losses_of_a_table_are_those_of_its_encoded_rows(mapped, grouped, weighted):
    frame, bound = table(), 2.5
    columns = {name: dpcov.Numeric(lower=-30, upper=30) for name in "abc"}
    columns["d"] = dpcov.Categorical(categories=("x", "y"))
    columns |= {"g": dpcov.Categorical(categories=("s", "t")), "w": dpcov.Ignored()}
    weights = dpcov.Weights(column="w", upper=4) if weighted else None
    schema = dpcov.Schema(columns=columns, missing="never", weights=weights)
    frame["g"] = np.where(np.arange(len(frame)) % 3 == 0, "s", "t")
    frame["w"] = np.arange(len(frame)) % 6 - 1.0
    schema, grouping = split_schema(schema, "g")
    encoding = Encoder(schema, grouping=grouping if grouped else None)
    scales = {name: Scale(center=0.3, scale=1.5) for name in "abc"}
    matrix = np.random.default_rng(2).normal(size=(5, 6)) if mapped else None
    linear = None if matrix is None else LinearMap.nearest(matrix)
    geometry = Geometry(columns=scales, norm_bound=bound, linear=linear)
    z = (frame[[*"abc"]].to_numpy() - 0.3) / 1.5
    rows = np.column_stack([z, frame["d"] == "x", frame["d"] == "y"])
    middles = np.zeros(5)
    if linear is not None:
        middles = -np.linalg.solve(linear.matrix[:, 1:], linear.matrix[:, 0])
        lengths = np.square((rows - middles) @ linear.matrix[:, 1:].T).sum(axis=1)
    else:
        lengths = np.square(rows).sum(axis=1)
    taken = np.maximum(1 - (bound**2 - 1) / lengths, 0.0)
    limit = 1e3
    parts = np.square(z - middles[:3]) * taken[:, None]
    if weighted:
        parts *= np.clip(frame[["w"]].to_numpy() / 4, 0, 1)
    places = [frame["g"] == "s", frame["g"] == "t", np.zeros(len(frame), dtype=bool)]
    places = places if grouped else [np.ones(len(frame), dtype=bool)]
    expected = np.array([parts[place].sum(axis=0) for place in places])
    losses = question(True, (1, 2, 3), tuple(middles[:3].tolist()), limit)
    spec = MomentsSpec(groups=len(places))
    asked = MomentsQuestion(spec=spec, geometry=geometry, losses=losses)
    found = Gathering(threads=1).answer(frame, encoding, asked)
    assert taken.max() > 0.5
    np.testing.assert_allclose(
        found.losses.sums * (limit / LOSS_UNITS), expected, rtol=1e-3, atol=1.0
    )
    parts = dask.from_pandas(frame, npartitions=3)
    assert Gathering(engine="dask").answer(parts, encoding, asked) == found


@pytest.mark.parametrize("in_l2", [True, False])
def test_the_limit_counts_that_columns_which_are_alike_lose_together(in_l2):
    """Along the map rows lose the square of their length; in m equal columns each of them does."""
    m, noise = 9, 1e-3
    alike = np.full((m, m), 1.0) + noise * np.eye(m)
    for covariance, factor in ((np.eye(m), 1.0), (alike, np.sqrt(m) if in_l2 else m)):
        values, vectors = np.linalg.eigh(covariance)
        linear = LinearMap.nearest(np.column_stack([np.zeros(m), (vectors / np.sqrt(values)).T]))
        assert spread_out(linear.matrix, in_l2=in_l2) == pytest.approx(factor, rel=0.01)
