"""Whatever is typed: a release that can be read back, or an error before anything is charged."""

import dataclasses
import math
import typing
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.errors import DpcovError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.options import Between
from tests.contracts.test_mechanisms import BUDGETS, CASES
from tests.privacy.spends import with_pragma

X = np.random.default_rng(0).normal(size=(60, 3)) / 4
SCHEMA = {name: dpcov.Numeric(lower=-1, upper=1) for name in ("x0", "x1", "x2")}
LARGEST = {
    PureDP: dpcov.Budget(epsilon=100),
    ZCDP: dpcov.Budget(rho=1000),
    ApproxDP: dpcov.Budget(epsilon=100, delta="0.9"),
}
STRANGE = [
    *(None, True, np.False_, "1", "", b"1", "\ud800", np.str_("0.5"), [], [2], {}, object(), print),
    *(0.5j, np.array(0.5), np.array(2), np.array([0.5]), np.arange(2), np.empty(0)),
    *(0, 1, 2, -1, 0.5, 2.0, -0.0, 1e-300, 2.2e-308, 5e-324, 1e308, math.nan, math.inf, -math.inf),
    *(10**400, -(10**400), Fraction(1, 10**400), Fraction(1, 3), Decimal("sNaN")),
    *(Decimal("1e-9999"), np.datetime64("2020-01-01"), np.int64(2), np.uint8(20), np.float64(0.5)),
    *(np.float32(0.1), np.float16(0.5), np.longdouble(0.5)),
]


def numbers_by_group(hint):
    """An annotation and everything inside it: ranges, words, None."""
    return [hint, *(part for inner in typing.get_args(hint) for part in numbers_by_group(inner))]


def edges(within):
    """The ends of a range and what lies beside them."""
    ends = [end for end in (within.low, within.high) if math.isfinite(end)]
    return [*ends, *(math.nextafter(end, side) for end in ends for side in (0, math.inf))]


def guises(value):
    """A good value as the types in which people may hold it."""
    if isinstance(value, str):
        return [value, np.str_(value), value.upper(), value.encode()]
    if value is None:
        return []
    kinds = (np.float32, Fraction, Decimal, str, int)
    return [value, np.asarray(value)[()], *(kind(value) for kind in kinds)]


def hostile(hint, default):
    """Values for an option: strange ones, and its default, words and range in strange types."""
    inside = numbers_by_group(hint)
    good = [default, *(part for part in inside if isinstance(part, str))]
    good += [edge for part in inside if isinstance(part, Between) for edge in edges(part)]
    return [*STRANGE, *(guise for value in good for guise in guises(value))]


def in_vain(values, release, ledger, tmp_path):
    """Values after which there is no readable release, nor an error and an untouched ledger."""
    found, paid = [], 0
    for value in values:
        try:
            made = release(value)
            made.save(tmp_path / "made.dpcov", overwrite=True)
            assert dpcov.load(tmp_path / "made.dpcov") == made
            assert np.isfinite(made.second_moment()).all()
            paid += 1
        except DpcovError as error:
            if any("IS spent" in note for note in getattr(error, "__notes__", ())):
                found.append((repr(value), error))
        except Exception as error:
            found.append((repr(value), error))
    entries = ledger.entries("people")
    assert len(entries) == paid or found
    assert all(entry.state == "committed" for entry in entries) or found
    return found


@pytest.fixture(autouse=True)
def a_ledger_that_does_not_wait_for_the_disk(monkeypatch):
    with_pragma(monkeypatch, "synchronous = OFF")


def option_cases():
    """Every option in every case; the quick run has the first case of each mechanism."""
    found = []
    for case in CASES:
        mechanism, neighbors, kind = case.values
        first = (neighbors, kind) == (mechanism.relations[0], mechanism.promises[0])
        for field in dataclasses.fields(mechanism):
            marks = [] if first else [pytest.mark.thorough]
            name = f"{case.id}-{field.name}"
            found.append(pytest.param(*case.values, field, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("mechanism", "neighbors", "kind", "field"), option_cases())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_option_of_a_mechanism_is_charged_in_vain(
    mechanism, neighbors, kind, field, ledger_for, tmp_path
):
    ledger = ledger_for(neighbors, kind, LARGEST)

    def release(value):
        facts = {"norm_bound": 1.0, "budget": BUDGETS[kind], "neighbors": neighbors}
        facts |= {"mechanism": mechanism.name, "ledger": ledger, "dataset": "people"}
        return dpcov.second_moment(X, **facts, **{field.name: value})

    hint = typing.get_type_hints(mechanism, include_extras=True)[field.name]
    assert in_vain(hostile(hint, field.default), release, ledger, tmp_path) == []


FACTS = {
    **{"neighbors": "replace-one", "n_rows": 60, "by": "x0", "engine": "local", "threads": 1},
    **{"memory_limit": 4.0, "mechanism": "gaussian", "dataset": "people", "entropy": None},
    **{"bits": 20, "epsilon": 1, "delta": 1e-6, "rho": 0.5, "rows_per_person": 2, "title": "a"},
    **{"intercept": True, "schema_bound": 1.5, "missing": "center", "lower": -1.0},
    **{"norm_bound": 2.0, "unit": 2},
}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_else_that_is_typed_is_charged_in_vain(name, ledger_for, tmp_path):
    ledger = ledger_for("replace-one", ApproxDP, LARGEST)

    def release(value):
        budget, facts, schema = {"epsilon": 1, "delta": 1e-6}, {}, {}
        if name in ("epsilon", "delta", "rho"):
            budget = {"rho": value} if name == "rho" else budget | {name: value}
        elif name in ("rows_per_person", "title", "intercept", "missing"):
            schema[name] = value
        elif name == "schema_bound":
            schema["norm_bound"] = value
        elif name not in ("lower", "norm_bound", "unit"):
            facts[name] = value
        facts = {"budget": dpcov.Budget(**budget), "ledger": ledger, "dataset": "people", **facts}
        if name in ("norm_bound", "unit"):
            option = {"unit": "rows_per_person"}.get(name, name)
            return dpcov.second_moment(X, **{"norm_bound": 1.0, option: value}, **facts)
        columns = SCHEMA | ({"x0": dpcov.Numeric(lower=value, upper=1)} if name == "lower" else {})
        return dpcov.release(X, schema=dpcov.Schema(columns=columns, **schema), **facts)

    assert in_vain([*STRANGE, *guises(FACTS[name])], release, ledger, tmp_path) == []
