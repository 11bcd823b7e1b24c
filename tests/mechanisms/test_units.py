"""An intercept that counts more beside the features of a table with levels."""

import msgspec
import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis import PrivateRidge
from dpcov.data.exact.linear import LinearMap
from dpcov.data.geometry import Geometry
from dpcov.mechanisms.geometry import table_facts
from dpcov.mechanisms.geometry.budget_split import BudgetSplit
from dpcov.noise.entropy import SeededEntropy

RNG = np.random.default_rng(11)
N, LEVELS = 6_000, tuple("abcdefghijklmnopqrstuvwxyz"[:20])
PLACES = RNG.choice(len(LEVELS), N, p=np.arange(1, 21) / 210)
SIZE = RNG.standard_t(4, N) + PLACES / 10
TABLE = pd.DataFrame(
    {
        "size": np.clip(SIZE, -20, 20),
        "other": np.clip(SIZE + RNG.normal(size=N), -25, 25),
        "where": pd.Categorical.from_codes(PLACES, LEVELS).astype(str),
    }
)
SCHEMA = dpcov.Schema(
    columns={
        "size": dpcov.Numeric(lower=-20, upper=20),
        "other": dpcov.Numeric(lower=-25, upper=25),
        "where": dpcov.Categorical(categories=LEVELS),
    },
    missing="never",
)
SHARES = np.bincount(PLACES, minlength=len(LEVELS)) / N


def release(seed, **more):
    given = {"schema": SCHEMA, "budget": dpcov.Budget(epsilon=1, delta="1e-6")} | more
    return dpcov.release(TABLE, entropy=SeededEntropy(seed), **given)


def errors(seeds):
    """Root mean squares of shares' and of correlations' errors."""
    shares, others = [], []
    truth = np.corrcoef(TABLE["size"], TABLE["other"])[0, 1]
    for seed in seeds:
        made = release(seed)
        shares.append(made.mean_vector()[2:] - SHARES)
        others.append(made.correlation_matrix()[0, 1] - truth)
    return np.sqrt(np.mean(np.square(shares))), np.sqrt(np.mean(np.square(others)))


def test_shares_are_known_better_and_correlations_as_well(monkeypatch):
    shares, others = errors(range(12))
    monkeypatch.setattr(table_facts, "_PER_LEVEL", 0.0)
    plain_shares, plain_others = errors(range(12))
    # With a squared intercept of 1 + 20/16: about 2/3, of 240 errors each.
    assert shares < 0.8 * plain_shares
    assert others < 1.15 * plain_others


@pytest.fixture(scope="module", params=["map", "no map"])
def geometry(request):
    made = release(3)
    # Few rows are longer.
    found = Geometry.of(made.manifest.columns, 4.4)
    if request.param == "map":
        linear = np.eye(3 + len(LEVELS))[:, 1:]
        linear[1, 1] = 0.5
        found = Geometry(
            columns=found.columns, norm_bound=found.norm_bound, linear=LinearMap.nearest(linear.T)
        )
    return found


def test_rows_and_reach_are_the_same_in_other_units(geometry):
    budget = dpcov.Budget(rho=1000)
    one, other = (
        release(2, geometry=each, budget=budget) for each in (geometry, geometry.in_units(3.0))
    )
    assert other.manifest.norm_bound < one.manifest.norm_bound / 2
    np.testing.assert_allclose(other.correlation_matrix(), one.correlation_matrix(), atol=7e-3)
    rows = TABLE.head(200).assign(size=np.linspace(-20, 20, 200), where="t")
    first, second = (
        PrivateRidge.from_release(each, target="other", alpha=1e-6).predict(rows)
        for each in (one, other)
    )
    # Penalties are in the units; the farthest values are moved alike.
    np.testing.assert_allclose(second, first, atol=0.1)
    assert first[0] == pytest.approx(first[1], abs=1e-9)


def test_one_unit_is_no_unit(geometry):
    assert geometry.in_units(1.0) is geometry


def test_a_map_that_rounding_would_make_singular_keeps_its_unit(geometry, monkeypatch):
    monkeypatch.setattr(LinearMap, "can_be_undone", False)
    assert (geometry.in_units(3.0) is geometry) == (geometry.linear is not None)


@pytest.mark.parametrize("follows_correlations", [True, False])
def test_losses_are_counted_as_far_in_other_units(follows_correlations, monkeypatch):
    if not follows_correlations:
        monkeypatch.setattr(BudgetSplit, "with_first", lambda *given: None)
    budget = dpcov.Budget(epsilon=4, delta="1e-6")
    made = release(3, budget=budget)
    monkeypatch.setattr(table_facts, "_PER_LEVEL", 0.0)
    plain = release(3, budget=budget)
    has_first = any("takes correlations out" in note for note in made.statistics.notes)
    assert has_first == follows_correlations
    assert made.manifest.norm_bound < plain.manifest.norm_bound
    # Of one row at most, in squared units of the column.
    most, plain_most = (
        each.statistics.losses.most * each.manifest.columns[1].half_range ** 2
        for each in (made, plain)
    )
    assert most == pytest.approx(plain_most, rel=1e-9)


def test_sums_of_weights_are_rarely_hidden(monkeypatch):
    """Of rows with weights an eighth of their upper bound, as surveys have them."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(2_000, 10)), columns=list("abcdefghij"))
    table["w"] = np.minimum(rng.lognormal(-0.35, 0.84, 2_000), 8)
    columns = {name: dpcov.Numeric(lower=-10, upper=10) for name in "abcdefghij"}
    terms = {
        "schema": dpcov.Schema(
            columns={**columns, "w": dpcov.Numeric(lower=0, upper=8)},
            weights=dpcov.Weights(column="w", upper=8),
        ),
        "budget": dpcov.Budget(epsilon=1, delta="1e-6"),
    }

    def readable():
        made = (dpcov.release(table, entropy=SeededEntropy(seed), **terms) for seed in range(12))
        return sum(each.knows_means for each in made)

    now = readable()
    monkeypatch.setattr(table_facts, "_PER_WEIGHTED", 0.0)
    assert readable() + 3 <= now
    assert now >= 11


def test_without_an_intercept_features_are_divided_by_nothing(monkeypatch):
    """There is none that could count more, neither for levels nor for weights."""
    schema = msgspec.structs.replace(SCHEMA, intercept=False)
    made = release(1, schema=schema)
    monkeypatch.setattr(table_facts, "_PER_LEVEL", 9.0)
    monkeypatch.setattr(table_facts, "_PER_WEIGHTED", 9.0)
    assert any("scales of the columns were found" in note for note in made.statistics.notes)
    again = release(1, schema=schema)
    assert again.manifest.columns == made.manifest.columns
    assert again.second_moment().tolist() == made.second_moment().tolist()
