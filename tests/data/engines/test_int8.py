"""Digits in base 128 and their products: small numbers by hand, sizes on both sides of what kernels take."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpcov.data.engines.arrays import Products
from dpcov.errors import UsageError

torch = pytest.importorskip("torch", reason="the device engine needs torch: pip install 'dpcov[device]'")

from dpcov.data.engines import int8  # noqa: E402


@pytest.mark.parametrize(
    ("bits", "rows"), [(4, 2**17), (20, 2**17), (22, 2**17), (23, 2**16), (24, 2**14), (31, 1)]
)
def test_the_most_rows_whose_sums_do_not_wrap(bits, rows):
    assert int8.most_rows(bits) == rows
    assert int8.int8_products(bits).most_rows == rows


@pytest.mark.parametrize(
    ("bits", "count"), [(4, 1), (6, 1), (7, 2), (13, 2), (14, 3), (20, 3), (21, 4), (24, 4)]
)
def test_digits_make_up_the_number_and_have_its_sign(bits, count):
    numbers = [
        0,
        1,
        -1,
        2**bits,
        -(2**bits),
        2**bits - 1,
        *(n for n in (127, 128, -129, 16_384) if n <= 2**bits),
    ]
    numbers = [number for number in numbers if abs(number) <= 2**bits]
    parts = int8.digits(torch.tensor([numbers], dtype=torch.float64), bits)
    assert len(parts) == count
    for place, number in enumerate(numbers):
        found = [int(part[0, place]) for part in parts]
        assert sum(digit * 128**power for power, digit in enumerate(found)) == number
        assert all(digit * number >= 0 and abs(digit) <= 127 for digit in found)


@pytest.mark.parametrize("n_rows", [1, 7, 24, 25, 200])
@pytest.mark.parametrize("n_features", [1, 8, 24, 25, 33])
def test_products_of_any_size_are_those_of_integers(n_rows, n_features):
    values = np.random.default_rng(n_rows).integers(-(2**14), 2**14, size=(n_rows, n_features), endpoint=True)
    made = int8.gram(torch.from_numpy(values.astype(float)), 14)
    assert made.dtype == torch.int64
    assert np.array_equal(made.numpy(), values.T @ values)
    assert np.array_equal(
        int8.int8_products(14).gram(torch.from_numpy(values.astype(float))), values.T @ values
    )


@pytest.mark.parametrize(
    ("shape", "padded"),
    [
        ((1, 1), (24, 24)),
        ((24, 24), (24, 24)),
        ((25, 24), (24, 32)),
        ((32, 33), (40, 32)),
        ((100, 9), (24, 104)),
    ],
)
def test_rows_are_turned_and_padded_with_zeros_to_multiples_of_eight(shape, padded):
    part = torch.arange(1, 1 + shape[0] * shape[1]).reshape(shape).remainder(100).to(torch.int8)
    made = int8._padded(part)
    assert tuple(made.shape) == padded
    assert torch.equal(made[: shape[1], : shape[0]], part.T)
    assert int(made.long().sum()) == int(part.long().sum())
    assert made.dtype == torch.int8


@pytest.mark.parametrize("bits", [23, 24])
def test_rows_beyond_the_most_are_refused(bits):
    most = int8.most_rows(bits)
    assert int(int8.gram(torch.ones((most, 1), dtype=torch.float64), bits)[0, 0]) == most
    with pytest.raises(UsageError, match=f"at most {most} rows of {bits} bits"):
        int8.gram(torch.ones((most + 1, 1), dtype=torch.float64), bits)


def test_the_seconds_of_a_product_are_those_on_the_clock(monkeypatch):
    clock = iter([10.0, 13.5])
    monkeypatch.setattr(int8, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert int8._seconds(Products(lambda rows: rows.T @ rows, 9), torch.ones((3, 2))) == 3.5


@pytest.mark.parametrize(
    ("seconds", "taken"), [((2.0, 1.0), "other"), ((1.0, 2.0), "usual"), ((1.0, 1.0), "usual")]
)
def test_another_product_is_taken_only_if_it_is_faster(seconds, taken, monkeypatch):
    products = {name: Products(lambda rows: rows.T @ rows, 9) for name in ("usual", "other")}
    needs = {id(products["usual"]): seconds[0], id(products["other"]): seconds[1]}
    monkeypatch.setattr(int8, "_seconds", lambda product, _: needs[id(product)])
    assert int8.faster(products["usual"], products["other"], torch.ones((3, 2))) is products[taken]


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError])
def test_products_that_a_device_does_not_have_are_not_taken(error):
    def fail(_):
        raise error

    usual = Products(lambda rows: rows.T @ rows, 9)
    assert int8.faster(usual, Products(fail, 9), torch.ones((3, 2))) is usual
