"""Answers that must go together: a release of the same rows and noise in another form.

The sums of a release are those of columns in any order, of any sign: whoever writes a schema in
another order, or counts a column downward, reads the same.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.analysis import (
    PrivateLinearRegression,
    PrivatePCA,
    coefficient_intervals,
    correlation_intervals,
    mean_intervals,
    variance_intervals,
)
from dpcov.published.file.archive import member_records

NUMBERS = tuple("abcdefghijk")
LEVELS = tuple("xyz")
N = 1500
ORDER = ("e", "level", *"ckjif", "flag", *"ahgdb")
FLIPPED = {"b", "d", "e"}
TERMS = {
    "private": {"budget": dpcov.Budget(rho=1), "mechanism": "gaussian"},
    "strata": {"budget": dpcov.Budget(epsilon=2, delta="1e-6")},
    "schema": {"budget": dpcov.Budget(epsilon=8, delta="1e-6"), "geometry": "schema"},
    "pure": {"budget": dpcov.Budget(epsilon=8)},
}


def table():
    """Columns that go together; a and e have missing values."""
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=N), rng.normal(size=(len(NUMBERS), N))
    columns = dict(zip(NUMBERS, own + common + np.arange(len(NUMBERS))[:, None] / 3, strict=True))
    columns["a"] = pa.array(columns["a"], mask=rng.random(N) < 0.1)
    columns["e"] = pa.array(columns["e"], mask=rng.random(N) < 0.3)
    columns["level"] = rng.choice(LEVELS, size=N, p=[0.5, 0.3, 0.2])
    columns["flag"] = rng.random(N) < 1 / (1 + np.exp(-common))
    return pa.table(columns)


SCHEMA = dpcov.Schema(
    columns={
        **{name: dpcov.Numeric(lower=-10, upper=15) for name in NUMBERS},
        "level": dpcov.Categorical(categories=LEVELS, missing="never"),
        "flag": dpcov.Boolean(missing="never"),
    }
)
TABLE = table()


def moved(release, order=None, flipped=()):
    """The release of the table with columns in another order, and some of them times -1."""
    columns, arrays = release.manifest.columns, dict(release.statistics.arrays)
    order = order or dict.fromkeys(column.source for column in columns[1:])
    places = [0, *(k for name in order for k, c in enumerate(columns) if c.source == name)]
    signs = np.array([1 - 2 * (c.source in flipped and c.kind == "numeric") for c in columns])
    for name, start in (("sscp", 0), ("linear", 1)):
        if name in arrays:
            rows = np.array(places[start:])
            changed = arrays[name] * np.outer(signs[start:], signs)
            arrays[name] = changed[..., rows - start, :][..., places]
    numbers = [place for place, column in enumerate(columns) if column.kind == "numeric"]
    chosen = [numbers.index(place) for place in places if place in numbers]
    if "losses" in arrays:
        arrays["losses"] = arrays["losses"][chosen]
    manifest = msgspec.structs.replace(
        release.manifest,
        columns=tuple(_turned(columns[k]) if signs[k] < 0 else columns[k] for k in places),
        members=member_records(arrays),
    )
    return dpcov.Release(manifest, arrays)


def _turned(column):
    if column.lower is None:
        return replace(column, center=-column.center)
    return replace(column, center=-column.center, lower=-column.upper, upper=-column.lower)


def answers(release, flipped=()):
    """What a release says, by name, with columns as they were before some were flipped."""
    names = release.feature_names
    sign = dict.fromkeys(names, 1.0) | dict.fromkeys(flipped, -1.0)
    signs = np.array([sign[name] for name in names])
    found = dict(zip(names, signs * release.mean_vector(), strict=True))
    covariance = release.covariance_matrix() * np.outer(signs, signs)
    model = PrivateLinearRegression.from_release(release, target="c")
    found |= {
        f"slope {k}": b * sign[k]
        for k, b in zip(model.get_encoded_names(), model.coef_, strict=True)
    }
    found["intercept"] = model.intercept_
    for k, first in enumerate(names):
        for j, second in enumerate(names):
            found[f"covariance {' '.join(sorted((first, second)))}"] = covariance[k, j]
    tables = [mean_intervals(release), coefficient_intervals(release, "c")]
    tables += [correlation_intervals(release, partial=each) for each in (False, True)]
    tables += [
        correlation_intervals(release, partial=True, level=0.999),
        variance_intervals(release),
    ]
    for place, made in enumerate(tables):
        for row in made:
            parts = [part for part in row.name.split(", ") if part in sign]
            turn = np.prod([sign[part] for part in parts]) if made.what != "variances" else 1.0
            ends = sorted((turn * row.lower, turn * row.upper))
            found |= {
                f"{place} {made.what} {' '.join(sorted(parts)) or row.name} {k}": value
                for k, value in enumerate((turn * row.estimate, *ends, row.std_error))
            }
    return found


@pytest.mark.parametrize("name", TERMS)
def test_the_order_and_the_sign_of_columns_change_no_answer(name):
    """Partial correlations, the order of a pair, and shrinking within bounds depended on them."""
    made = dpcov.release(TABLE, schema=SCHEMA, entropy=dpcov.SeededEntropy(0), **TERMS[name])
    expected = answers(made)
    for found in (answers(moved(made, ORDER)), answers(moved(made, flipped=FLIPPED), FLIPPED)):
        assert found.keys() == expected.keys()
        values = np.array([(found[key], expected[key]) for key in expected]).T
        np.testing.assert_allclose(*values, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tails", ["moments", "bounded"])
def test_rows_of_an_array_in_other_units_are_read_in_those_units(tails):
    """Predictions, scores and the worst that bounds allow were those of values between -1 and 1."""
    rows, found = (
        np.random.default_rng(0).normal(size=(2000, 3)) @ [[1, 0, 0], [2, 1, 0], [0, 0, 1]],
        [],
    )
    for unit in (1.0, 64.0):
        terms = {"norm_bound": 9 * unit, "budget": dpcov.Budget(rho=5)}
        made = dpcov.second_moment(unit * rows, entropy=dpcov.SeededEntropy(0), **terms)
        model = PrivateLinearRegression.from_release(made, target="x0", fit_intercept=False)
        interval = model.conf_int(tails=tails)["x1"]
        scores = PrivatePCA.from_release(made, assume_centered=True).transform(unit * rows)
        predicted = model.predict(2 * unit * rows[:, 1:])
        assert np.abs(scores).max() > 3 * unit and 3 * unit < predicted.max() <= 9 * unit
        found.append([*(scores[:9] / unit).flat, *predicted / unit, interval.lower, interval.upper])
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


def test_the_worst_that_bounds_allow_does_not_depend_on_the_geometry():
    """It was that of values between -1 and 1, which a private geometry gives to few rows."""
    found = []
    for geometry in ("schema", "private"):
        terms = {"budget": dpcov.Budget(rho=1000), "entropy": dpcov.SeededEntropy(0)}
        made = dpcov.release(TABLE, schema=SCHEMA, geometry=geometry, **terms)
        lines = coefficient_intervals(made, "c", ["b", "d"], tails="bounded")
        partial = correlation_intervals(made, ["b", "c", "d"], partial=True, tails="bounded")
        found.append([*lines.sampling_std, *partial.sampling_std])
    np.testing.assert_allclose(*found, rtol=0.1)
