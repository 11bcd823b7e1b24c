import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.data.exact import ExactSum
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


def test_sums_beyond_one_word_keep_every_bit():
    terms = [[[LARGE - 1, -LARGE], [3, LARGE]]] * 100
    exact = summed(terms)
    assert value(exact) == [[100 * (LARGE - 1), -100 * LARGE], [300, 100 * LARGE]]


def test_different_sums_are_not_equal():
    assert summed([[[1, 0], [0, 1]]]) != summed([[[1, 0], [0, 2]]])
    assert summed([[[LARGE, 0], [0, 1]]] * 8) != summed([[[LARGE, 0], [0, 1]]] * 9)


def test_float_terms_are_taken_exactly():
    exact = ExactSum(1)
    exact.add(np.array([[2.0**53 - 1]]), 2**53)
    assert exact.trace() == 2**53 - 1


@pytest.mark.parametrize("bound", [-1, 2**62])
def test_a_bound_that_could_overflow_is_refused(bound):
    with pytest.raises(NumericError):
        ExactSum(1).add(np.zeros((1, 1), dtype=np.int64), bound)


@given(matrices(small), matrices(small))
def test_plus_adds_noise_without_dropping_small_numbers(term, noise):
    matrix, dropped = plus(summed([term]), noise)
    assert dropped == 0
    assert matrix == total([term, noise])


@given(st.lists(matrices(large), min_size=1, max_size=30), matrices(large), st.integers(-(2**80), 2**80))
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


def test_more_than_the_format_holds_is_refused():
    exact = summed([[[1, 0], [0, 1]]])
    with pytest.raises(NumericError, match="too large"):
        plus(exact, [[0, 0], [0, 0]], room_for=2**95)


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
