"""Device arithmetic on NumPy: boundaries worked out by hand; when sums leave the device."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.encode import Encoder
from dpcov.data.engines import arrays
from dpcov.data.engines.arrays import DeviceMoments, require_exact_products
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.exact import moments as here
from dpcov.data.exact.library import NUMPY, ordered_norms
from dpcov.data.exact.moments import Moments, MomentsSpec, exact_shell_of, shorten
from dpcov.data.groups import Grouping
from dpcov.errors import DataError, UsageError


def on_sphere(n_rows, n_features, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def task(n_features=3, norm_bound=1.0, **spec):
    encoding = BallEncoding(n_features=n_features, norm_bound=norm_bound)
    return MomentsTask(encoding=encoding, spec=MomentsSpec(**spec))


@pytest.mark.parametrize("exponent", [-1074, -1073, -1, 0, 1, 40, 1022, 1023])
def test_powers_of_two_are_exact(exponent):
    assert NUMPY.power_of_two(np.array([exponent]))[0] == math.ldexp(1.0, exponent) > 0


@pytest.mark.parametrize(("bits", "most"), [(7, 2**39), (20, 2**13), (24, 2**5)])
def test_products_take_as_many_rows_as_are_exact(bits, most):
    gathered = DeviceMoments(NUMPY, task(bits=bits))
    assert gathered._moments.block_rows == most
    rows = np.zeros((min(most, 2**13), 3))
    rows[:, 0] = 1.0
    gathered.add(rows, None)
    assert int(gathered.fetch().strata[0].sscp.trace()) == len(rows) << (2 * bits)


@pytest.mark.parametrize("width", range(1, 18))
def test_every_square_is_added_once(width):
    whole = np.arange(1.0, width + 1.0)[None]
    assert ordered_norms(whole)[0] == width * (width + 1) * (2 * width + 1) / 6


def shell_of(row, shells):
    """The shell s with norm in (2**-(s+1), 2**-s], by fractions."""
    energy = sum(entry**2 for entry in row)
    return next((s for s in range(shells - 1) if energy > Fraction(1, 4 ** (s + 1))), shells - 1)


@pytest.mark.parametrize("shells", [2, 3, 7, 64])
def test_shells_are_those_of_exact_norms(shells):
    random = np.random.default_rng(shells)
    border = 2.0 ** -np.arange(0.0, 70.0)[:, None] * np.array([[1.0, 0.0, 0.0]])
    pythagorean = 2.0 ** -np.arange(3.0, 70.0)[:, None] * np.array([[3.0, -4.0, 0.0]])
    rows = np.concatenate(
        [
            border,
            np.nextafter(border, 0.0),
            np.nextafter(border[1:], 1.0),
            border[1:] * (1 + 2.0**-25),
            border[1:] * (1 + 2.0**-24),
            np.full((1, 3), 0.25) * np.array([[1 + 2.0**-25, 2.0**-13, 0.0]]),
            pythagorean,
            on_sphere(200, 3) * 2.0 ** -random.uniform(0.01, 68.0, (200, 1)),
            np.zeros((1, 3)),
            np.full((1, 3), 5e-324),
        ]
    )
    # 25 bits of the largest entry decide: nothing tells a row one rounding error longer apart.
    scales = np.ldexp(1.0, 25 - np.frexp(np.abs(rows).max(axis=1))[1].clip(-900)).tolist()
    coarse = [
        [Fraction(int(x * by)) / Fraction(by) for x in row]
        for row, by in zip(rows, scales, strict=True)
    ]
    expected = [shell_of(row, shells) for row in coarse]
    assert exact_shell_of(rows, MomentsSpec(shells=shells)).tolist() == expected
    assert here.quantize(rows, MomentsSpec(shells=shells))[1].tolist() == expected


@pytest.mark.parametrize(
    ("n_features", "bits"), [(1, 26), (3, 25), (4, 25), (7, 25), (8, 24), (31, 24), (32, 23)]
)
def test_the_largest_entry_is_measured_to_as_many_bits_as_sums_of_squares_allow(n_features, bits):
    rows = np.zeros((2, n_features))
    rows[:, -1] = 0.25 * (1 + 2.0 ** -np.array([bits - 1, bits]))
    assert exact_shell_of(rows, MomentsSpec(shells=5)).tolist() == [1, 2]
    assert here.quantize(rows, MomentsSpec(shells=5))[1].tolist() == [1, 2]


SPECS = [{}, {"bits": 4}, {"shells": 5}, {"shells": 2, "bits": 24}, {"shells": 3, "fineness": 4}]


@pytest.mark.parametrize("spec", [*SPECS, {"clip": 0.3}, {"clip": 0.3, "shells": 3, "fineness": 1}])
def test_rows_longer_than_one_are_shortened_as_here(spec):
    rows = on_sphere(400, 4) * np.linspace(0.01, 3.0, 400)[:, None]
    spec = MomentsSpec(**spec)
    expected, places = here.quantize(rows, spec)
    values, strata = arrays.quantize(NUMPY, rows, spec)
    assert np.array_equal(values, expected)
    assert np.square(values).sum(axis=1).max() <= 4**spec.bits
    assert (strata is None) == (places is None)
    assert strata is None or np.array_equal(strata, places)


def test_a_row_exactly_at_the_limit_is_not_shortened():
    made = shorten(np.array([[4096.0, 0.0], [4096.0, 1.0], [-4097.0, 0.0]]), 12)
    assert made.tolist() == [[4096.0, 0.0], [4095.0, 0.0], [-4095.0, 0.0]]


def test_a_stratum_is_multiplied_in_blocks_of_the_most_rows():
    rows = on_sphere(100, 3)
    gathered = DeviceMoments(NUMPY, task(bits=24))
    assert gathered._moments.block_rows == 32
    gathered.add(rows, None)
    assert gathered._held[0, False][1] == 100 << 48
    assert set(gathered._held) == {(0, False)}
    expected = Moments(3, MomentsSpec(bits=24))
    expected.add(rows)
    assert gathered.fetch() == expected


@pytest.mark.parametrize(("room", "left"), [(1, 2), (0, 1)])
def test_a_sum_leaves_the_device_when_it_could_reach_the_limit(room, left, monkeypatch):
    assert arrays._LIMIT == 2**62
    monkeypatch.setattr(arrays, "_LIMIT", (20 << 40) + room)
    rows = on_sphere(20, 3)
    gathered = DeviceMoments(NUMPY, task())
    for part in (rows[:10], rows[10:]):
        gathered.add(part, None)
    assert gathered._held[0, False][1] == (10 * left) << 40
    assert gathered._moments.strata[0].sscp.trace() == 0 or left == 1
    expected = Moments(3, MomentsSpec())
    expected.add(rows)
    assert gathered.fetch() == expected
    assert gathered._held == {}


@pytest.mark.parametrize("shells", [1, 3])
def test_groups_and_shells_share_the_strata(shells):
    rows = on_sphere(90, 3) * np.linspace(0.05, 1.0, 90)[:, None]
    groups = np.arange(90) % 4
    with pytest.raises(DataError, match="group of every row"):
        DeviceMoments(NUMPY, task(groups=2, shells=shells)).add(rows, None)
    gathered = DeviceMoments(NUMPY, task(groups=4, shells=shells))
    # More rows can be added after fetching.
    for part in (slice(0, 20), slice(20, 90)):
        gathered.add(rows[part], groups[part])
        gathered.fetch()
    expected = Moments(3, MomentsSpec(groups=4, shells=shells))
    expected.add(rows, groups)
    assert gathered.fetch() == expected
    with pytest.raises(DataError, match="group of every row"):
        gathered.add(rows, None)


def test_rows_of_a_table_come_here_to_be_encoded():
    schema = dpcov.Schema(columns={"size": dpcov.Numeric(lower=0, upper=10)})
    block = pa.record_batch({"size": [1.0, 2.0, 11.0], "kind": ["a", "b", "a"]})
    encoding = Encoder(schema, grouping=Grouping("kind", ["a", "b"]))
    described = MomentsTask(encoding=encoding, spec=MomentsSpec(groups=3), watched=True)
    gathered = DeviceMoments(NUMPY, described)
    gathered.add_host(block)
    expected = described.empty()
    described.add(expected, block)
    assert gathered.fetch() == expected
    assert "sensitive" in repr(gathered)
    assert [stratum.n_rows for stratum in expected.strata] == [2, 1, 0]


def test_numbers_without_a_schema_come_here_as_well():
    rows = on_sphere(50, 3)
    gathered = DeviceMoments(NUMPY, task(norm_bound=2.0))
    gathered.add_host(rows)
    assert gathered.fetch() == task(norm_bound=2.0).gather(rows)


def inexact(change):
    """A device whose products are changed."""

    class Changed(np.ndarray):
        def __matmul__(self, other):
            return change(np.asarray(self) @ np.asarray(other))

    return replace(NUMPY, from_host=lambda array: array.view(Changed))


def rounded_above(limit):
    return inexact(lambda product: np.where(product > limit, np.trunc(product / 2) * 2, product))


def test_products_are_tried_up_to_the_last_exact_integer():
    require_exact_products(inexact(lambda product: product))
    require_exact_products(rounded_above(2.0**53))
    # 2**13 rows of 2**20 - 1: above this the device may not round.
    largest = 2.0**13 * (2.0**20 - 1) ** 2
    for limit in (largest - 1, 2.0**50, 0.0):
        with pytest.raises(UsageError, match="float64 exactly"):
            require_exact_products(
                inexact(lambda product, limit=limit: product + (product > limit))
            )
    require_exact_products(inexact(lambda product: product + (product > largest)))


def test_products_in_a_narrower_type_are_refused_even_if_they_are_right():
    narrow = inexact(lambda product: product.astype(np.float32))
    with pytest.raises(UsageError, match="float64 exactly"):
        require_exact_products(narrow, block_rows=4, bits=3)
