import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.data import exact as exact_module
from dpcov.data.exact import ExactSum, _Words, packed_entries, panel_entries
from dpcov.errors import NumericError

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


def plus(exact, noise, **options):
    matrix, dropped = exact.plus(np.array(noise, dtype=np.int64), **options)
    return [[int(x) for x in row] for row in matrix], dropped


small = st.integers(-(10**6), 10**6)
large = st.integers(-LARGE, LARGE)


def matrices(numbers):
    return st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=2, max_size=2)


@given(st.lists(matrices(small | large), max_size=12))
def test_sum_equals_python_integers(terms):
    exact = summed(terms)
    assert value(exact) == total(terms)
    assert exact.trace() == total(terms)[0][0] + total(terms)[1][1]


@given(st.lists(matrices(large), min_size=1, max_size=12), st.data())
def test_any_order_and_any_tree_is_equal(terms, data):
    order = data.draw(st.permutations(terms))
    parts = [summed([term]) for term in order]
    while len(parts) > 1:
        merged = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(merged)
    assert parts[0] == summed(terms)
    assert value(parts[0]) == total(terms)


@given(st.lists(matrices(small), max_size=5), st.lists(matrices(large), min_size=4, max_size=8))
def test_one_word_and_two_words_merge_both_ways(few, many):
    left, right = summed(few, 10**6), summed(many)
    left.merge(right)
    other, more = summed(many), summed(few, 10**6)
    other.merge(more)
    assert left == other
    assert value(left) == total(few + many)


def test_different_sums_are_not_equal():
    assert summed([[[1, 0], [0, 1]]]) != summed([[[1, 0], [0, 2]]])
    assert summed([[[LARGE, 0], [0, 1]]] * 8) != summed([[[LARGE, 0], [0, 1]]] * 9)


def test_float_terms_are_taken_exactly():
    exact = ExactSum(1)
    exact.add(np.array([[2.0**53 - 1]]), 2**53)
    assert exact.trace() == 2**53 - 1


@given(matrices(small), matrices(small))
def test_plus_adds_noise_without_dropping_small_numbers(term, noise):
    matrix, dropped = plus(summed([term]), noise)
    assert dropped == 0
    assert matrix == total([term, noise])


@given(
    st.lists(matrices(large), min_size=1, max_size=30),
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
    noise = [[0, 0], [0, 0]]
    moved = [[-entry for entry in row] for row in shift]
    first = plus(summed(terms), noise)
    assert plus(summed([*terms, shift]), moved) == first


@given(st.lists(matrices(large), min_size=1, max_size=6))
def test_to_float_is_close(terms):
    expected = np.array(total(terms), dtype=object).astype(np.float64)
    np.testing.assert_allclose(summed(terms).to_float(), expected, rtol=1e-15, atol=2.0**20)


@settings(max_examples=20)
@given(matrices(st.integers(10**5, 10**6)))
def test_repr_is_sealed(term):
    text = repr(summed([term]))
    assert "<sensitive>" in text
    assert not any(str(entry) in text for row in term for entry in row)


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
    assert number(made) == 2**61 + second
    assert made.diagonal() == 2**61 + second


@pytest.mark.parametrize(
    "term", [0, 1, -1, 2**32 - 1, 2**32, -(2**32), -(2**32) - 1, 2**61, -(2**61)]
)
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


def test_high_words_are_added_in_their_unit():
    made = words((-5, 10))
    made.add_high(np.array([[3]]))
    assert (number(made), made._bound) == (3 * 2**32 - 5, 2**32)
    made.add_high(np.array([[-4]]))
    assert number(made) == -(2**32) - 5


@pytest.mark.parametrize(
    "total", [0, 1, -1, 2**61 - 1, -(2**61), 9 * 2**61 + 12345, -9 * 2**61 - 54321, 2**93]
)
@pytest.mark.parametrize("bits", [0, 1, 5, 31, 32, 33, 63, 94, 95, 200])
def test_shifting_down_is_division_rounded_down(total, bits):
    high, low = divmod(total, 2**32)
    exact = ExactSum(1)
    exact.add_words(np.array([[high]]), np.array([[low]]))
    shifted = exact.shifted_down(bits)
    assert value(shifted) == [[total >> bits]]
    shifted.add(np.array([[2**61]]), 2**61)
    shifted.add(np.array([[2**61]]), 2**61)
    assert value(shifted) == [[(total >> bits) + 2**62]]
    assert value(exact) == [[total]]


def test_what_was_shifted_down_carries_before_it_could_overflow():
    shifted = words((2**61, 2**61), (2**61, 2**61)).shifted_down(32)
    assert shifted._bound == 2**62 - 1
    assert words((2**61, 2**61)).shifted_down(31)._bound == 2**32
    assert ExactSum(3).shifted_down(1)._panels is None


@pytest.mark.parametrize(
    ("entry", "room", "dropped"),
    [
        (2**62 - 1, 0, 0),
        (2**62, 0, 1),
        (-(2**62), 0, 0),
        (-(2**62) - 1, 0, 1),
        (2**63 - 1, 0, 1),
        (2**63, 0, 2),
        (0, 2**62 - 1, 0),
        (0, 2**62, 1),
        (0, -(2**62) + 1, 0),
        (0, -(2**62), 1),
        (2**94 - 1, 0, 32),
        (-(2**94), 0, 32),
        (5, 2**94 - 1, 32),
        (2**70 + 2**8, 2**69, 9),
    ],
)
def test_as_many_bits_are_dropped_as_the_largest_entry_takes(entry, room, dropped):
    for shift in (0, 2**33 - 12345, -77):
        high, low = divmod(entry - shift, 2**32)
        exact = ExactSum(1)
        exact.add_words(np.array([[high]]), np.array([[low]]))
        assert plus(exact, [[shift]], room_for=room) == ([[entry >> dropped]], dropped)
        assert value(exact) == [[entry - shift]]


@pytest.mark.parametrize(
    ("entry", "room"), [(2**94, 0), (-(2**94) - 1, 0), (0, 2**94), (0, -(2**94))]
)
def test_a_bit_more_than_the_format_holds_is_refused(entry, room):
    high, low = divmod(entry, 2**32)
    exact = ExactSum(1)
    exact.add_words(np.array([[high]]), np.array([[low]]))
    with pytest.raises(NumericError, match="fewer bits"):
        plus(exact, [[0]], room_for=room)


@pytest.mark.parametrize("bound", [0, 1, 2**62 - 1])
def test_bounds_up_to_the_limit_are_taken(bound):
    exact = ExactSum(1)
    exact.add(np.zeros((1, 1), dtype=np.int64), bound)
    exact.add_gram(np.zeros((2, 1)), bound)
    assert exact.trace() == 0


@pytest.mark.parametrize("bound", [-1, 2**62])
def test_a_product_whose_bound_could_overflow_is_refused(bound):
    with pytest.raises(NumericError, match="smaller blocks"):
        ExactSum(1).add_gram(np.zeros((1, 1)), bound)


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
    assert {1: 1, 1025: 512 * 1025 + 512 * 513 + 1}.get(dimension, kept) == kept


def test_a_sum_equals_only_a_sum():
    exact = summed([[[1, 0], [0, 1]]])
    assert (exact == "sum") is False
    assert exact != ExactSum(3)
    assert exact == summed([[[1, 0], [0, 1]]])
    with pytest.raises(TypeError, match="unhashable"):
        hash(exact)


def test_a_pickled_sum_goes_on_where_it_was():
    exact = summed([[[LARGE, 0], [0, 1]]] * 3)
    copy = pickle.loads(pickle.dumps(exact))
    assert copy == exact
    assert copy._panels[0]._bound == exact._panels[0]._bound
    for each in (copy, exact):
        each.add(np.array([[LARGE, 0], [0, 1]]), LARGE)
    assert value(copy) == [[4 * LARGE, 0], [0, 4]]
    assert copy == exact
    assert pickle.loads(pickle.dumps(ExactSum(2)))._panels is None


def test_words_are_added_with_a_bound_for_each_of_them():
    exact = ExactSum(1)
    exact.add_words(np.array([[-3]]), np.array([[7]]))
    assert exact._panels[0]._bound == 2**32 + 2**32
    exact.add_words(np.array([[2]]), np.array([[1]]))
    assert value(exact) == [[8 - 2**32]]
