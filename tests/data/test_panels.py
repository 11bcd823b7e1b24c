"""A matrix kept in panels behaves to the bit like one kept whole, at half the memory."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.data import exact as exact_module
from dpcov.data.exact import ExactSum, packed_entries, panel_entries

D = 7
LARGE = 2**61


@pytest.fixture(params=[1, 2, 3, 7])
def panels(request, monkeypatch):
    """Cut into panels of this many rows whatever is larger than one row."""

    def cut():
        monkeypatch.setattr(exact_module, "_WHOLE", 1)
        monkeypatch.setattr(exact_module, "_PANEL_ROWS", request.param)

    return cut


def symmetric(random, size):
    upper = np.triu(random.integers(-size, size, size=(D, D)))
    return upper + np.triu(upper, 1).T


def terms(size, count):
    return [symmetric(np.random.default_rng(seed), size) for seed in range(count)]


def summed(matrices, bound):
    total = ExactSum(D)
    for matrix in matrices:
        total.add(matrix, bound)
    return total


def everything(total, other, noise):
    """All that can be asked of a sum, as plain numbers."""
    merged = ExactSum(D)
    merged.merge(total)
    merged.merge(other)
    merged.merge(pickle.loads(pickle.dumps(total)))
    copied = ExactSum(D)
    copied.add_words(*total.words())
    assert copied == total
    assert merged != total
    matrix, dropped = merged.plus(noise, room_for=2**70)
    shifted = [total.shifted_down(bits).words() for bits in (0, 1, 31, 32, 40)]
    return total.trace(), total.words(), merged.to_float(), matrix, dropped, shifted


def flat(item):
    if isinstance(item, tuple | list):
        return [number for part in item for number in flat(part)]
    return np.ravel(np.asarray(item, dtype=object)).tolist()


@pytest.mark.parametrize(("size", "count"), [(10**6, 3), (LARGE, 9)])
def test_panels_answer_like_a_whole_matrix(panels, size, count):
    noise = symmetric(np.random.default_rng(99), 2**40)

    def answers():
        return flat(
            everything(summed(terms(size, count), size), summed(terms(size, 1), size), noise)
        )

    whole = answers()
    panels()
    assert answers() == whole


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(["C", "F"]))
def test_a_panelled_product_is_the_integer_product(seed, n_rows, order):
    block = np.asarray(
        np.random.default_rng(seed).integers(-(2**20), 2**20, (n_rows, D)),
        dtype=np.float64,
        order=order,
    )
    expected = block.astype(np.int64).T @ block.astype(np.int64)
    before = exact_module._WHOLE, exact_module._PANEL_ROWS
    try:
        for exact_module._WHOLE, exact_module._PANEL_ROWS in ((1024, 512), (1, 1), (1, 3)):
            total = ExactSum(D)
            total.add_gram(block, n_rows << 40)
            assert (total.words()[1] + (total.words()[0] << 32) == expected).all()
    finally:
        exact_module._WHOLE, exact_module._PANEL_ROWS = before


def test_a_product_at_the_real_panel_size_is_exact():
    block = np.random.default_rng(0).integers(-(2**20), 2**20, (40, 1100)).astype(np.float64)
    total = ExactSum(1100)
    total.add_gram(block, 40 << 40)
    high, low = total.words()
    assert ((high << 32) + low == block.astype(np.int64).T @ block.astype(np.int64)).all()


def test_large_sums_take_half_a_matrix_and_empty_ones_nothing():
    assert packed_entries(10_000) < 0.53 * 10_000**2
    assert panel_entries(10_000) == 512 * 10_000
    assert packed_entries(1000) == panel_entries(1000) == 1000**2
    empty = ExactSum(10_000)
    assert empty.trace() == 0
    assert len(pickle.dumps(empty)) < 1000


def test_reading_an_empty_sum_gives_zeros_and_equals_a_sum_of_zeros():
    zeros = summed([np.zeros((D, D), dtype=np.int64)], 1)
    assert ExactSum(D) == zeros
    assert zeros == ExactSum(D)
    assert not np.any(ExactSum(D).words())
    assert ExactSum(D) != ExactSum(D + 1)
    assert ExactSum(D) != summed([np.eye(D, dtype=np.int64)], 1)
