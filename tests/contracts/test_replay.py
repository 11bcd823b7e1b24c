"""What is published follows from noisy and public numbers; noise hides what it is paid for."""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.geometry import Geometry, Scale
from dpcov.mechanisms.blocks import counts
from dpcov.mechanisms.geometry import lengths, search
from dpcov.mechanisms.geometry.budget_split import one_gaussian
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.guarantee import NEIGHBORS
from tests.contracts.replay import recorded

LEVELS = tuple("xyz")
SCHEMA = dpcov.Schema(
    columns={
        **{name: dpcov.Numeric(lower=-100, upper=100) for name in "abcd"},
        "level": dpcov.Categorical(categories=LEVELS),
        "flag": dpcov.Boolean(),
        "group": dpcov.Categorical(categories=("g", "h")),
    }
)
N = 600


def table(seed, n=N, spread=1.0):
    """Three columns that are alike, with far values, and one mostly zero; some values missing."""
    rng = np.random.default_rng(seed)
    a, b, c, d = spread * rng.standard_t(3, size=(4, n))
    columns = {
        "a": pa.array(a, mask=rng.random(n) < 0.05),
        "b": a + b / 100,
        "c": np.where(rng.random(n) < 0.1, c, 0.0),
        "d": 3 + a + d / 100,
        "level": rng.choice([*LEVELS, "none of these"], size=n),
        "flag": rng.random(n) < 0.3,
        "group": rng.choice(["g", "h"], size=n),
    }
    return pa.table(columns)


TABLE = table(0)
# Rows far from all others, at zero, and without a value.
CELLS = {name: [100.0, -100.0, 0.0, None] for name in "abcd"}
CELLS |= {"level": ["x", "y", "x", None], "flag": [True, False, True, None]}
CELLS["group"] = ["g", "h", "g", None]
EXTREME = pa.table(CELLS, TABLE.schema)

KNOWN = Geometry(columns={name: Scale(center=1.0, scale=2.0) for name in "abc"}, norm_bound=3.0)
# At these budgets so few rows are surveyed.
BUDGETS = {
    "rho": dpcov.Budget(rho=20),
    "delta": dpcov.Budget(epsilon=10, delta="1e-6"),
    "pure": dpcov.Budget(epsilon=50),
}
CASES = [
    (kind, options)
    for kind in BUDGETS
    for options in (
        {},
        {"by": "group"},
        {"geometry": KNOWN},
        {"geometry": "schema"},
        {"mechanism": "nuclear" if kind == "pure" else "gaussian"},
    )
    if not (kind == "pure" and "by" in options)
]
every_case = pytest.mark.parametrize(
    ("neighbors", "kind", "options"),
    [(neighbors, *case) for neighbors in NEIGHBORS for case in CASES],
    ids=lambda value: "-".join(value) or "default" if isinstance(value, dict) else value,
)


def made(rows, neighbors, kind, options, earlier=None):
    """A release, without what tells when it was made, and its run."""
    terms = {"neighbors": neighbors, "budget": BUDGETS[kind], "accept_large_delta": True}
    entropy = SeededEntropy(0)
    with recorded(earlier) as run:
        release = dpcov.release(rows, schema=SCHEMA, threads=1, entropy=entropy, **terms, **options)
    assert run.entropies and all(each is entropy for each in run.entropies)
    arrays = {name: array.tolist() for name, array in release.statistics.arrays.items()}
    return (arrays, msgspec.structs.replace(release.manifest, created="")), run


def check_same(neighbors, kind, options):
    """Rows that have nothing in common, and under add-remove-one another number of them."""
    first, run = made(TABLE, neighbors, kind, options)
    n_rows = N if neighbors == "replace-one" else N // 7
    second, again = made(table(1, n_rows, 20.0), neighbors, kind, options, run)
    assert len(run.steps) == len(again.steps) and run.questions == again.questions
    assert first == second


def check_losses(neighbors, kind, options):
    """Of all extreme rows, one in place of the other or of none."""
    promise = BUDGETS[kind].promise
    most = promise.epsilon if kind == "pure" else one_gaussian(promise).rho
    first = pa.concat_tables([TABLE, EXTREME[:1]])
    _, run = made(first, neighbors, kind, options)
    others = [TABLE]
    if neighbors == "replace-one":
        others = [pa.concat_tables([TABLE, EXTREME[place : place + 1]]) for place in (1, 2, 3)]
    totals = []
    for other in others:
        losses = run.losses(made(other, neighbors, kind, options, run)[1])
        assert all(loss <= law.paid * (1 + 1e-9) for law, loss in losses if law.paid is not None)
        totals.append(sum(loss for _, loss in losses))
    assert most / 2 < max(totals) <= most * (1 + 1e-9)


@every_case
def test_other_rows_with_the_same_noisy_numbers_make_the_same_release(neighbors, kind, options):
    check_same(neighbors, kind, options)


@every_case
def test_noise_hides_a_row_at_the_price_that_is_charged(neighbors, kind, options):
    check_losses(neighbors, kind, options)


def test_a_look_at_exact_counts_is_noticed(monkeypatch):
    plain = search.find_lengths

    def peeking(ask, geometry, *given):
        longest = np.flatnonzero(ask(lengths.question(geometry)).counts[0])[-1]
        found = plain(ask, geometry, *given)
        return replace(found, energy=found.energy * (1 + longest / lengths.CELLS))

    monkeypatch.setattr(search, "find_lengths", peeking)
    with pytest.raises(AssertionError):
        check_same("replace-one", "rho", {})


def test_half_of_the_noise_is_noticed(monkeypatch):
    plain = counts.squared_noise_scale
    monkeypatch.setattr(counts, "squared_noise_scale", lambda *given: plain(*given) / 4)
    with pytest.raises(AssertionError):
        check_losses("add-remove-one", "rho", {})


def test_noise_that_may_repeat_in_a_later_round_is_noticed(monkeypatch):
    plain = search.Search.whitened

    def whitened(self, calibration, geometry, usual, spreads=None):
        # The first matrix has no spreads of an earlier one.
        drawn_by = self if spreads is None else replace(self, entropy=SeededEntropy(1))
        return plain(drawn_by, calibration, geometry, usual, spreads)

    monkeypatch.setattr(search.Search, "whitened", whitened)
    with pytest.raises(AssertionError):
        made(TABLE, "replace-one", "rho", {})
