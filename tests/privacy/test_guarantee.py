"""What a guarantee says in words: numbers as they are, or never smaller."""

from fractions import Fraction

import pytest

from dpcov.errors import BudgetError
from dpcov.privacy.guarantee import (
    NEIGHBORS,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    check_neighbors,
    costs_nothing,
    format_number,
)

SAID = {
    **{"1/8": "0.125", "99999": "99999", "100000": "1e+5", "1/10000": "0.0001", "1/100000": "1e-5"},
    **{"123456789012/1000": "1.23456789012e+8", "1/3": "0.333334", "2/3": "0.666667", "0": "0"},
    **{"1234567890123/1000": "1.23457e+9", "1/1048576": "9.53675e-7"},
    "12345678901234567890123456789/1000": "1.23457e+25",
    "0.1" + "0" * 60 + "1": "0.100001",
    "100000" + "0" * 60 + "1": "1.00001e+66",
}


@pytest.mark.parametrize(("value", "said"), SAID.items())
def test_numbers_are_exact_if_short_and_rounded_up_otherwise(value, said):
    assert format_number(Fraction(value)) == said
    assert Fraction(said) >= Fraction(value)


@pytest.mark.parametrize(("rows", "unit"), [(1, "one row"), (3, "up to 3 rows of one person")])
def test_a_guarantee_names_its_unit(rows, unit):
    half = ZCDP(rho=Fraction(1, 2))
    made = Guarantee(promise=half, neighbors="replace-one", rows_per_person=rows, numerics="exact")
    assert str(made) == f"(0.5)-zCDP, replace-one neighbors, unit: {unit}, numerics: exact"


def test_only_an_epsilon_of_zero_costs_nothing():
    zero, one = Fraction(0), Fraction(1)
    assert costs_nothing(PureDP(epsilon=zero))
    for promise in (PureDP(epsilon=one), ZCDP(rho=one), ApproxDP(epsilon=zero, delta=one / 2)):
        assert not costs_nothing(promise)


def test_relations_are_known_by_name():
    assert [check_neighbors(name) for name in NEIGHBORS] == ["replace-one", "add-remove-one"]
    with pytest.raises(BudgetError, match="replace-one, add-remove-one"):
        check_neighbors("one")


def test_promises_name_their_numbers():
    assert str(PureDP(epsilon=Fraction(1, 2))) == "(0.5)-DP"
    assert str(ZCDP(rho=Fraction(1, 3))) == "(0.333334)-zCDP"
    assert str(ApproxDP(epsilon=Fraction(3), delta=Fraction(1, 10**6))) == "(3, 1e-6)-DP"
