"""Synthetic rows keep to the public bounds and have the release's moments."""

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov import Boolean, Budget, Categorical, Numeric, Schema
from dpcov.errors import ReleaseError, UsageError
from dpcov.noise.entropy import SeededEntropy
from dpcov.published import synthetic
from dpcov.published.synthetic import _GRID as GRID
from dpcov.published.synthetic import Copula
from dpcov.published.synthetic import _beta_quantiles as beta_quantiles
from tests.analysis.conftest import released as made_release

SCHEMA = Schema(
    missing="never",
    columns={
        "age": Numeric(lower=0, upper=100),
        "income": Numeric(lower=0, upper=10, missing="indicator"),
        "ill": Boolean(),
        "city": Categorical(categories=("a", "b", "c=d")),
    },
)


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    wealth = rng.normal(size=n)
    income = np.clip(np.exp(0.8 * wealth + 0.5 * rng.normal(size=n)), 0, 10)
    place = np.clip((wealth + 1.5 + rng.normal(size=n)).astype(int), 0, 3)
    return pa.table(
        {
            "age": np.clip(45 + 15 * wealth + 5 * rng.normal(size=n), 0, 100),
            "income": pa.array(income, mask=rng.uniform(size=n) < 0.2),
            "ill": wealth + rng.normal(size=n) > 1,
            "city": np.array(["a", "b", "c=d", "elsewhere"])[place],
        }
    )


@pytest.fixture(scope="module")
def release():
    return made_release(table(), 1, 1, schema=SCHEMA)


def test_rows_have_the_tables_columns_and_keep_to_bounds_and_categories(release):
    rows = release.sample(5000, seed=1)
    assert rows.column_names == ["age", "income", "ill", "city"]
    age, income = (np.array(rows[name].drop_null()) for name in ("age", "income"))
    assert 0 <= age.min() <= age.max() <= 100
    assert 0 <= income.min() <= income.max() <= 10
    assert 0.15 < rows["income"].null_count / 5000 < 0.25
    assert rows["ill"].type == pa.bool_() and len(rows["ill"].unique()) == 2
    assert set(rows["city"].to_pylist()) == {"a", "b", "c=d", None}
    assert release.sample(5000, seed=1).equals(rows) and not release.sample(5000).equals(rows)


def worst_correlation_error(copula, encoded):
    found = np.corrcoef(encoded, rowvar=False)
    return np.max(np.abs(found - copula.wanted) * copula.is_free)


def test_means_deviations_and_correlations_are_the_releases(release):
    copula = Copula(release, np.random.default_rng(2))
    encoded = copula.draw(20_000)
    shown = [column.kind != "missing" for column in copula.columns]
    # Of what is present: values are hidden afterwards.
    rows = (encoded * copula.scales + copula.centers)[:, shown]
    stds = np.sqrt(np.diagonal(release.covariance_matrix()))
    assert np.all(np.abs(rows.mean(axis=0) - release.mean_vector()) < 0.03 * stds)
    np.testing.assert_allclose(rows.std(axis=0), stds, rtol=0.05)
    assert worst_correlation_error(copula, encoded) < 0.06


def test_logits_of_more_levels_than_trial_rows_can_tell_keep_shares(monkeypatch):
    """Fitted to those rows alone, shares were 0.2 off, and correlations worse than zeros."""
    rng, levels = np.random.default_rng(0), [f"level {k}" for k in range(30)]
    common, rows = rng.normal(size=(5_000, 1)), {}
    for name in "abcdef":
        odds = common * rng.normal(size=30) - np.log(np.arange(1, 31))
        chosen = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)
        rows[name] = np.array(levels)[chosen]
    schema = Schema(columns=dict.fromkeys(rows, Categorical(categories=levels)), missing="never")
    made = made_release(pa.table(rows), 1, 1, schema=schema)
    monkeypatch.setattr(synthetic, "_TRIAL_ROWS", (300, 300))
    copula = Copula(made, np.random.default_rng(2))
    encoded = copula.draw(20_000)
    assert np.abs(np.mean(encoded > 0, axis=0) - copula._shares).max() < 0.08
    found, wanted = (
        each[copula.is_free] for each in (np.corrcoef(encoded, rowvar=False), copula.wanted)
    )
    assert np.linalg.norm(found - wanted) < np.linalg.norm(wanted)


def test_rows_without_correlations_would_be_noticed(release, monkeypatch):
    """The planted copula that leaves the latent correlations out is seen."""
    monkeypatch.setattr(Copula, "_adjusted", lambda copula: np.eye(len(copula._free)))
    copula = Copula(release, np.random.default_rng(2))
    assert worst_correlation_error(copula, copula.draw(20_000)) > 0.3


def test_latent_correlations_are_those_of_columns_without_levels_alone(release, monkeypatch):
    """A matrix with thousands of levels took most of the time."""
    sizes, root = [], synthetic._root
    monkeypatch.setattr(
        synthetic, "_root", lambda latent: sizes.append(len(latent)) or root(latent)
    )
    copula = Copula(release, np.random.default_rng(2))
    assert set(sizes) == {sum(column.kind != "category" for column in copula.columns)}
    assert len(copula.columns) > max(sizes)


def exact_errors(frame, schema):
    """Of a release with next to no noise: share by share, and correlations of columns."""
    made = dpcov.release(frame, schema=schema, budget=Budget(rho=1000), entropy=SeededEntropy(5))
    copula = Copula(made, np.random.default_rng(1))
    encoded = copula.draw(100_000)
    is_level = [column.kind == "category" for column in copula.columns]
    shares = (encoded * copula.scales + copula.centers - copula.mean)[:, is_level].mean(axis=0)
    found = np.corrcoef(encoded, rowvar=False)
    return np.abs(shares), np.abs(found - copula.wanted)[copula.is_free]


@pytest.mark.parametrize("is_first", [True, False])
def test_levels_that_go_with_a_number_keep_shares_and_correlations(is_first):
    rng = np.random.default_rng(0)
    level = rng.choice(4, 20_000)
    data = {"k": np.array(list("pqrs"))[level], "x": level + 0.3 * rng.normal(size=20_000)}
    columns = {"k": Categorical(categories=tuple("pqrs")), "x": Numeric(lower=-2, upper=5)}
    names = ("k", "x") if is_first else ("x", "k")
    schema = Schema(columns={name: columns[name] for name in names}, missing="never")
    shares, correlations = exact_errors(pa.table({name: data[name] for name in names}), schema)
    assert shares.max() < 0.01
    # A beta distribution has no four groups apart.
    assert correlations.max() < 0.07


def test_categories_that_go_together_and_rare_levels_keep_shares_and_correlations():
    rng = np.random.default_rng(0)
    health = rng.normal(size=20_000)
    data = {"x": health + rng.normal(size=20_000)}
    columns = {"x": Numeric(lower=-6, upper=6)}
    for name, cuts in {"k": [-1, 0, 1, 2], "m": [-2.5, 0.5], "r": [2.8]}.items():
        place = np.searchsorted(cuts, health + 0.7 * rng.normal(size=20_000))
        data[name] = np.array(list("abcde"))[place]
        # The first is not listed.
        columns[name] = Categorical(categories=tuple("abcde")[1 : len(cuts) + 1])
    shares, correlations = exact_errors(pa.table(data), Schema(columns=columns, missing="never"))
    assert shares.max() < 0.006
    assert correlations.max() < 0.02


def test_what_noise_makes_of_columns_that_lack_nothing_bends_no_correlations():
    """Correlations of such rows were 0.05 away from the release's."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 20)) @ rng.normal(size=(20, 20))
    names = [f"x{place}" for place in range(20)]
    schema = Schema(columns={name: Numeric(lower=-100, upper=100) for name in names})
    made = made_release(pa.table(dict(zip(names, values.T, strict=True))), "0.04", 3, schema=schema)
    found = np.corrcoef([column.fill_null(0) for column in made.sample(20_000, seed=1).columns])
    assert np.sqrt(np.mean((found - made.correlation_matrix()) ** 2)) < 0.02


def test_constant_columns_stay_constant():
    schema = Schema(columns={"x": Numeric(lower=0, upper=1), "y": Numeric(lower=0, upper=1)})
    rng = np.random.default_rng(0)
    data = pa.table({"x": np.full(5000, 0.25), "y": rng.uniform(size=5000)})
    made = made_release(data, 100, 3, schema=schema)
    rows = made.sample(1000, seed=1)
    assert np.array(rows["x"]).std() < 0.05
    assert np.array(rows["x"]).mean() == pytest.approx(0.25, abs=0.02)
    assert made.sample(1).num_rows == 1


def test_impossible_requests_are_refused(release):
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(UsageError, match="whole number"):
            release.sample(wrong)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    plain = dpcov.second_moment(rows, norm_bound=3, budget=Budget(rho=1))
    with pytest.raises(ReleaseError):
        plain.sample(5)


@pytest.mark.parametrize("upper", [1e2, 1e4, 1e9])
def test_bounds_that_are_far_too_wide_change_no_row(upper):
    """Laws are tabulated where values are, and not between the bounds."""
    rng = np.random.default_rng(0)
    x = rng.normal(50, 10, size=20_000)
    rows = pa.table({"x": x, "y": 0.07 * (x - 50) + 0.7 * rng.normal(size=len(x))})
    columns = {"x": Numeric(lower=0, upper=upper), "y": Numeric(lower=-9, upper=9)}
    schema = Schema(columns=columns, missing="never")
    made = made_release(rows, 4, 1, schema=schema, geometry="private")
    drawn = made.sample(20_000, seed=1).to_pandas()
    stds = np.sqrt(np.diagonal(made.covariance_matrix()))
    np.testing.assert_allclose(drawn.std(), stds, rtol=0.05)
    assert np.all(np.abs(drawn.mean() - made.mean_vector()) < 0.05 * stds)
    assert abs(drawn.corr().iloc[0, 1] - made.correlation_matrix()[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("a", "b"), [(0.01, 0.02), (0.5, 0.5), (2, 5), (19, 3e8), (0.3, 1e12), (1e5, 1e9), (3e6, 3e6)]
)
def test_quantiles_are_those_of_the_law(a, b):
    found = np.interp(np.random.default_rng(1).normal(size=400_000), GRID, beta_quantiles(a, b))
    assert np.mean(found) == pytest.approx(a / (a + b), rel=0.02)
    assert np.std(found) == pytest.approx(np.sqrt(a * b / (a + b + 1)) / (a + b), rel=0.02)
