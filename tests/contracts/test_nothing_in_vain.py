"""Whatever is typed: a release whose file can be read back, or an error before anything is charged."""

import dataclasses
import typing
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.errors import DpcovError
from tests.contracts.test_mechanisms import BUDGETS, CASES, TOTALS

X = np.random.default_rng(0).normal(size=(60, 3)) / 4
NUMBERS = [
    *(0, 1, 2, 3, -1, 0.5, 2.0, 1e-300, 2.2e-308, 5e-324, -0.0, 1e-9, 1 - 2**-53, 1e308),
    *(float("nan"), float("inf"), -float("inf"), 10**400, -(10**400), Fraction(1, 10**400)),
    *(Fraction(1, 3), Fraction(2), Decimal("0.5"), Decimal("sNaN"), Decimal("1e-9999"), 0.5j),
    *(np.int64(2), np.uint8(20), np.float64(0.5), np.float32(0.1), np.float16(0.5), np.longdouble(0.5)),
]
OTHERS = [
    *(None, True, False, np.True_, "1", "", b"1", "\ud800", np.str_("0.5")),
    *(np.array(0.5), np.array(2), np.array([0.5]), np.arange(2), np.empty(0), [], [2], {}, object(), print),
]


def guises(value):
    """The same value as other types that people hold it in."""
    if isinstance(value, bool):
        return [value, np.bool_(value), int(value)]
    if isinstance(value, str):
        return [value, np.str_(value), value.upper(), value.encode()]
    if isinstance(value, int | float):
        return [value, np.asarray(value)[()], np.float32(value), Fraction(value), Decimal(value), str(value)]
    return [value]


def hostile(mechanism, option):
    """Values for an option: strange ones, and the good ones (its default, its words) in strange types."""
    hint = typing.get_type_hints(mechanism)[option.name]
    good = [option.default, *(word for word in typing.get_args(hint) if isinstance(word, str))]
    return [*NUMBERS, *OTHERS, *(guise for value in good for guise in guises(value))]


OPTIONS = [
    pytest.param(*case.values, option, id=f"{case.id}-{option.name}")
    for case in CASES
    for option in dataclasses.fields(case.values[0])
]


@pytest.mark.parametrize(("mechanism", "neighbors", "kind", "option"), OPTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_option_is_a_release_or_refused_before_the_charge(mechanism, neighbors, kind, option, tmp_path):
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create(
        "people",
        TOTALS[kind]
        if 0
        else dpcov.Budget(rho=1000)
        if kind.__name__ == "ZCDP"
        else dpcov.Budget(epsilon=100, **({"delta": "0.5"} if kind.__name__ == "ApproxDP" else {})),
        neighbors,
    )
    faults = []
    for value in hostile(mechanism, option):
        before = len(ledger.entries("people"))
        try:
            made = dpcov.second_moment(
                X,
                norm_bound=1.0,
                budget=BUDGETS[kind],
                mechanism=mechanism.name,
                neighbors=neighbors,
                ledger=ledger,
                dataset="people",
                **{option.name: value},
            )
            made.save(tmp_path / "made.dpcov", overwrite=True)
            assert dpcov.load(tmp_path / "made.dpcov") == made
            assert np.isfinite(made.second_moment()).all()
        except DpcovError as error:
            if len(ledger.entries("people")) != before:
                faults.append((repr(value), type(value).__name__, repr(error)))
        except Exception as error:
            faults.append(
                (repr(value), type(value).__name__, repr(error), len(ledger.entries("people")) - before)
            )
    assert faults == []
