"""Sums are exact, whatever the order, the tree, the words and the panels they are kept in."""

import pickle
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.data.exact import sums as exact_module
from dpcov.data.exact.sums import ExactSum, _Words, packed_entries, panel_entries
from dpcov.errors import NumericError
from tests.data.engines.peak import measured

LARGE = 2**61


def value(exact):
    high, low = exact.words()
    return [
        [(int(h) << 32) + int(w) for h, w in zip(hs, ws, strict=True)]
        for hs, ws in zip(high, low, strict=True)
    ]


def total(terms, dimension=2):
    return [[sum(int(t[i][j]) for t in terms) for j in range(dimension)] for i in range(dimension)]


def summed(terms, bound=LARGE, dimension=2):
    exact = ExactSum(dimension)
    for term in terms:
        exact.add(np.array(term, dtype=np.int64), bound)
    return exact


def holding(number):
    """A sum of one entry, of up to 95 bits."""
    high, low = divmod(number, 2**32)
    exact = ExactSum(1)
    exact.add_words(np.array([[high]]), np.array([[low]]))
    return exact


def plus(exact, noise, **options):
    matrix, dropped = exact.plus(np.array(noise, dtype=np.int64), **options)
    return [[int(x) for x in row] for row in matrix], dropped


small = st.integers(-(10**6), 10**6)
large = st.integers(-LARGE, LARGE)


def matrices(numbers):
    return st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=2, max_size=2)


@given(st.lists(matrices(small | large), min_size=1, max_size=12), st.data())
def test_any_order_and_any_tree_equals_python_integers(terms, data):
    parts = [summed([term]) for term in data.draw(st.permutations(terms))]
    while len(parts) > 1:
        merged = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(merged)
    assert parts[0] == summed(terms)
    assert value(parts[0]) == total(terms)
    assert parts[0].trace() == total(terms)[0][0] + total(terms)[1][1]
    expected = np.array(total(terms), dtype=object).astype(np.float64)
    np.testing.assert_allclose(parts[0].to_float(), expected, rtol=1e-15, atol=2.0**20)


@given(st.lists(matrices(small), max_size=5), st.lists(matrices(large), min_size=4, max_size=8))
def test_one_word_and_two_words_merge_both_ways(few, many):
    left, right = summed(few, 10**6), summed(many)
    left.merge(right)
    right.merge(summed(few, 10**6))
    assert left == right
    assert value(left) == total(few + many)


def test_different_sums_are_not_equal():
    one = [[1, 0], [0, 1]]
    assert summed([one]) == summed([one])
    assert summed([one]) != summed([[[1, 0], [0, 2]]])
    assert summed([[[LARGE, 0], [0, 1]]] * 8) != summed([[[LARGE, 0], [0, 1]]] * 9)
    assert summed([one]) not in ("sum", ExactSum(2), ExactSum(3))


def test_float_terms_are_taken_exactly():
    exact = ExactSum(1)
    exact.add(np.array([[2.0**53 - 1]]), 2**53)
    assert exact.trace() == 2**53 - 1


@given(
    st.lists(matrices(small | large), min_size=1, max_size=30),
    matrices(large),
    st.integers(-(2**80), 2**80),
)
def test_plus_drops_the_fewest_bits_that_make_room(terms, noise, room):
    matrix, dropped = plus(summed(terms), noise, room_for=room)
    noisy = total([*terms, noise])
    assert matrix == [[entry >> dropped for entry in row] for row in noisy]
    widest = max([*(abs(entry) for row in noisy for entry in row), abs(room)])
    assert widest >> dropped <= 2**62
    assert dropped == 0 or widest >> (dropped - 1) >= 2**61 - 2**31


@given(st.lists(matrices(large), min_size=1, max_size=20), matrices(large))
def test_dropped_bits_depend_on_the_noisy_numbers_alone(terms, shift):
    moved = [[-entry for entry in row] for row in shift]
    first = plus(summed(terms), [[0, 0], [0, 0]])
    assert plus(summed([*terms, shift]), moved) == first


def words(*terms):
    """One number as words, added term by term with its own bound."""
    made = _Words((1, 1))
    for term, bound in terms:
        made.add(np.array([[term]], dtype=np.int64), bound)
    return made


def number(made):
    high, low = made.split()
    assert 0 <= low.min() <= low.max() < 2**32
    return (int(high[0, 0]) << 32) + int(low[0, 0])


@pytest.mark.parametrize(("second", "carries"), [(2**61 - 1, False), (2**61, True)])
def test_a_second_word_takes_the_carry_when_the_first_could_reach_the_limit(second, carries):
    made = words((2**61, 2**61), (second, second))
    assert (made._high is not None) is carries
    assert made._bound == (2**32 + second if carries else 2**62 - 1)
    assert number(made) == made.diagonal() == 2**61 + second


SIZES = (0, 1, -1, 2**32 - 1, 2**32, -(2**32), -(2**32) - 1, 2**61, -(2**61))


@pytest.mark.parametrize("term", SIZES)
@pytest.mark.parametrize("count", [1, 9])
def test_words_are_split_into_a_high_and_a_low_one(term, count):
    made = words(*[(term, 2**61)] * count)
    high, low = made.split()
    assert (int(high[0, 0]), int(low[0, 0])) == divmod(count * term, 2**32)
    assert made.diagonal() == count * term
    low[:] = high[:] = 7
    assert number(made) == count * term


def test_words_merge_with_the_bounds_of_both():
    few, many = words((5, 10)), words((2**61, 2**61), (2**61, 2**61))
    few.merge(words((6, 20)))
    assert (number(few), few._bound, few._high) == (11, 30, None)
    few.merge(many)
    assert (number(few), few._bound) == (2**62 + 11, 2**32 + many._bound)
    many.merge(words((-7, 100)))
    assert (number(many), many._bound) == (2**62 - 7, 2**32 + 2**61 + 100)
    few.add_high(np.array([[-4]]))
    assert (number(few), few._bound) == (2**62 + 11 - 2**34, 2**32)


def test_words_of_a_file_are_added_with_a_bound_for_each_of_them():
    exact = holding(7 - 3 * 2**32)
    assert exact._panels[0]._bound == 2**32 + 2**32
    exact.add_words(np.array([[2]]), np.array([[1]]))
    assert value(exact) == [[8 - 2**32]]


@pytest.mark.parametrize(
    "total", [0, 1, -1, 2**61 - 1, -(2**61), 9 * 2**61 + 12345, -9 * 2**61 - 54321, 2**93]
)
@pytest.mark.parametrize("bits", [0, 1, 5, 31, 32, 33, 63, 94, 95, 200])
def test_shifting_down_is_division_rounded_down(total, bits):
    exact = holding(total)
    shifted = exact.shifted_down(bits)
    assert value(shifted) == [[total >> bits]]
    # It carries before it could overflow.
    for _ in range(2):
        shifted.add(np.array([[2**61]]), 2**61)
    assert value(shifted) == [[(total >> bits) + 2**62]]
    assert value(exact) == [[total]]


DROPPED = [
    *((2**62 - 1, 0, 0), (2**62, 0, 1), (-(2**62), 0, 0), (-(2**62) - 1, 0, 1)),
    *((2**63 - 1, 0, 1), (2**63, 0, 2), (0, 2**62 - 1, 0), (0, 2**62, 1), (0, -(2**62) + 1, 0)),
    *((0, -(2**62), 1), (2**94 - 1, 0, 32), (-(2**94), 0, 32), (5, 2**94 - 1, 32)),
    (2**70 + 2**8, 2**69, 9),
]


@pytest.mark.parametrize(("entry", "room", "dropped"), DROPPED)
def test_as_many_bits_are_dropped_as_the_largest_entry_takes(entry, room, dropped):
    for shift in (0, 2**33 - 12345, -77):
        exact = holding(entry - shift)
        assert plus(exact, [[shift]], room_for=room) == ([[entry >> dropped]], dropped)
        assert value(exact) == [[entry - shift]]


@pytest.mark.parametrize(
    ("entry", "room"), [(2**94, 0), (-(2**94) - 1, 0), (0, 2**94), (0, -(2**94))]
)
def test_a_bit_more_than_the_format_holds_is_refused(entry, room):
    with pytest.raises(NumericError, match="fewer bits"):
        plus(holding(entry), [[0]], room_for=room)


@pytest.mark.parametrize(
    ("bound", "taken"), [(-1, False), (0, True), (2**62 - 1, True), (2**62, False)]
)
def test_what_could_overflow_is_refused(bound, taken):
    for add in (ExactSum(1).add, ExactSum(1).add_gram):
        if taken:
            add(np.zeros((1, 1)), bound)
        else:
            with pytest.raises(NumericError, match="smaller blocks"):
                add(np.zeros((1, 1)), bound)


def test_a_pickled_sum_goes_on_where_it_was():
    exact = summed([[[LARGE, 0], [0, 1]]] * 3)
    copy = pickle.loads(pickle.dumps(exact))
    assert copy == exact
    assert copy._panels[0]._bound == exact._panels[0]._bound
    for each in (copy, exact):
        each.add(np.array([[LARGE, 0], [0, 1]]), LARGE)
    assert value(copy) == value(exact) == [[4 * LARGE, 0], [0, 4]]


@pytest.mark.parametrize(
    ("dimension", "panels"),
    [
        (1, [(0, 1)]),
        (1024, [(0, 1024)]),
        (1025, [(0, 512), (512, 1024), (1024, 1025)]),
        (1536, [(0, 512), (512, 1024), (1024, 1536)]),
    ],
)
def test_panels_share_the_rows_out(dimension, panels):
    assert exact_module._panels(dimension) == panels
    kept = sum((stop - start) * (dimension - start) for start, stop in panels)
    assert packed_entries(dimension) == kept
    assert panel_entries(dimension) == panels[0][1] * dimension


D = 7


@contextmanager
def cut(rows):
    """Cut into panels of this many rows whatever is larger than one row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_module, "_WHOLE", 1)
        patch.setattr(exact_module, "_PANEL_ROWS", rows)
        yield


def symmetric(random, size):
    upper = np.triu(random.integers(-size, size, size=(D, D)))
    return upper + np.triu(upper, 1).T


@pytest.mark.parametrize("total", [0, 1, -1, 2**61 - 1, -9 * 2**61 - 54321, 2**90 - 1, -(2**90)])
@pytest.mark.parametrize("factor", [1, 3, 15, 16])
def test_a_multiple_is_exact(total, factor):
    exact = holding(total)
    multiple = exact.times(factor)
    assert value(multiple) == [[total * factor]]
    multiple.add(np.array([[2**61]]), 2**61)
    assert value(multiple) == [[total * factor + 2**61]]
    assert value(exact) == [[total]]
    assert ExactSum(3).times(factor) == ExactSum(3)


def everything(terms, size, noise):
    """All that can be asked of a sum, as plain numbers."""
    made = summed(terms, size, D)
    merged = summed(terms[:1], size, D)
    merged.merge(made)
    merged.merge(pickle.loads(pickle.dumps(made)))
    copied = ExactSum(D)
    copied.add_words(*made.words())
    assert copied == made
    assert merged != made
    shifted = [made.shifted_down(bits).words() for bits in (0, 1, 31, 32, 40)]
    shifted.append(made.times(5).words())
    matrix, dropped = merged.plus(noise, room_for=2**70)
    asked = (made.words(), merged.to_float(), matrix, *shifted)
    return made.trace(), dropped, [np.array(each).tolist() for each in asked]


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize(("size", "count"), [(10**6, 3), (LARGE, 9)])
def test_panels_answer_like_a_whole_matrix(rows, size, count):
    terms = [symmetric(np.random.default_rng(seed), size) for seed in range(count)]
    noise = symmetric(np.random.default_rng(99), 2**40)
    whole = everything(terms, size, noise)
    with cut(rows):
        assert everything(terms, size, noise) == whole


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(["C", "F"]))
def test_a_panelled_product_is_the_integer_product(seed, n_rows, order):
    block = np.random.default_rng(seed).integers(-(2**20), 2**20, (n_rows, D))
    for rows in (1, 3, D):
        total = ExactSum(D)
        with cut(rows):
            total.add_gram(np.asarray(block, dtype=np.float64, order=order), n_rows << 40)
            assert (total.words()[1] + (total.words()[0] << 32) == block.T @ block).all()


@pytest.mark.parametrize("left_out", [[], [0, 3, 511, 512, 1099], range(300, 900), range(512)])
def test_a_product_at_the_real_panel_size_is_exact(left_out):
    block = np.random.default_rng(0).integers(-(2**20), 2**20, (40, 1100))
    block[:, left_out] = 0
    places = np.setdiff1d(np.arange(1100), left_out)
    total = ExactSum(1100)
    total.add_gram(block[:, places].astype(np.float64), 40 << 40, places)
    total.add_gram(block.astype(np.float64), 40 << 40)
    high, low = total.words()
    assert ((high << 32) + low == 2 * block.T @ block).all()


def test_large_sums_take_half_a_matrix_and_empty_ones_nothing():
    assert packed_entries(10_000) < 0.53 * 10_000**2
    empty = ExactSum(10_000)
    empty.merge(ExactSum(10_000))
    assert empty.trace() == 0
    assert len(pickle.dumps(empty)) < 1000
    assert empty.shifted_down(1)._panels is None
    zeros = summed([np.zeros((D, D))], 1, D)
    assert ExactSum(D) == zeros == ExactSum(D)
    assert not np.any(ExactSum(D).words())


_WIDE = """
import sys
X = np.random.default_rng(0).standard_normal((2000, 10_000), dtype=np.float32)
made = []
options = {"norm_bound": 200.0, "threads": 2, "memory_limit": float(sys.argv[1])}
work = lambda: made.append(dpcov.moments(X, **options))
measured["peak"] = peak(work)
few = dpcov.moments(X[:, :40] , norm_bound=200.0)
high, low = made[0].strata[0].sscp.words()
measured["same"] = bool((low[:40, :40] == few.strata[0].sscp.words()[1]).all())
measured["rows"] = made[0].n_rows
"""


@pytest.mark.slow
def test_ten_thousand_features_are_gathered_within_the_memory_stated():
    found = measured(_WIDE, "2")
    assert found["same"]
    assert found["rows"] == 2000
    assert found["peak"] < 2 * 2**30
