"""Arithmetic modulo 2**128 against Python's integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import DataError, NumericError
from dpcov.federated.residues import Residues, total

big = st.integers(-(2**127), 2**127 - 1)
small = st.integers(-(2**90), 2**90)


@given(st.lists(st.tuples(big, big), min_size=1, max_size=20))
def test_addition_and_negation_are_those_of_integers_modulo_2_128(pairs: list[tuple[int, int]]) -> None:
    first = Residues.from_integers([a for a, _ in pairs])
    second = Residues.from_integers([b for _, b in pairs])
    assert first + second == Residues.from_integers([a + b for a, b in pairs])
    assert -first == Residues.from_integers([-a for a, _ in pairs])


@given(st.lists(small, min_size=1, max_size=20))
def test_halves_bytes_and_integers_round_trip(numbers: list[int]) -> None:
    residues = Residues.from_integers(numbers)
    assert residues.integers() == numbers
    assert Residues.from_halves(*residues.halves()) == residues
    assert Residues.from_bytes(residues.to_bytes()) == residues


def test_int64_numbers_keep_their_sign() -> None:
    numbers = np.array([-1, 0, 1, -(2**63), 2**63 - 1])
    assert Residues.from_integers(numbers) == Residues.from_integers([int(number) for number in numbers])


def test_a_number_out_of_range_and_a_wrong_length_are_refused() -> None:
    with pytest.raises(NumericError, match="out of range"):
        Residues.from_integers([2**100]).halves()
    with pytest.raises(DataError, match="wrong length"):
        Residues.from_bytes(bytes(17))
    with pytest.raises(DataError, match="wrong length"):
        total([Residues.zeros(3)], 4)
