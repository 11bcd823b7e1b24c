"""The summary of a regression is that of least squares on the rows, where noise is small."""

from time import process_time

import numpy as np
import pyarrow as pa
import pytest
import statsmodels.api as sm

import dpcov
from dpcov.analysis import PrivateLinearRegression, PrivateRidge, mean_intervals
from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.intervals import explained
from dpcov.analysis.intervals.inference import r2_interval
from dpcov.analysis.problems import NoiseWarning, UnknownNoiseError
from tests.docs.test_blocks import SCHEMA, patients
from tests.releases import released as released_within
from tests.releases import released_of
from tests.report.examples import UNHELPFUL_NAMES, unhelpful

FEATURES = ["age", "dose", "smoker"]


def release(**terms):
    table = patients(20_000, 0)
    return dpcov.release(table, schema=SCHEMA, entropy=dpcov.SeededEntropy(0), **terms)


@pytest.fixture(scope="module")
def precise():
    return release(budget=dpcov.Budget(rho=1000))


@pytest.fixture(scope="module")
def noisy():
    return release(budget=dpcov.Budget(epsilon=1, delta="1e-6"))


@pytest.fixture(scope="module")
def exact():
    frame = patients(20_000, 0).to_pandas()
    return sm.OLS(frame["recovery"], sm.add_constant(frame[FEATURES].astype(float))).fit()


def numbers(summary):
    """Lines of the printed table, as numbers by name."""
    lines = str(summary).split("-" * 20)[-1].splitlines()
    found = {}
    for line in lines:
        name, *cells = line.rsplit(maxsplit=6)
        if len(cells) == 6 and cells[0].lstrip("-")[:1].isdigit():
            found[name] = np.array(cells, dtype=float)
    return found


def r_squared(summary):
    return float(next(value for name, value in summary.facts if name.startswith("R²")))


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateRidge])
def test_with_little_noise_it_is_the_summary_of_the_rows(precise, exact, kind):
    summary = kind.from_release(precise, target="recovery", features=FEATURES).summary()
    found = numbers(summary)
    assert list(found) == ["(intercept)", *FEATURES]
    for name, ours in zip(["const", *FEATURES], found.values(), strict=True):
        coefficient, std, sampling, privacy, lower, upper = ours
        assert coefficient == pytest.approx(exact.params[name], abs=0.2 * exact.bse[name])
        # Sampling counts that errors may vary with the features.
        assert sampling == pytest.approx(exact.bse[name], rel=0.25)
        assert privacy < sampling and std == pytest.approx(np.hypot(sampling, privacy), rel=1e-3)
        assert [lower, upper] == pytest.approx(list(exact.conf_int().loc[name]), abs=std)
    assert r_squared(summary) == pytest.approx(exact.rsquared, abs=0.005)
    assert summary.r2 == pytest.approx((r_squared(summary),), abs=0.0005)


def test_r_squared_of_a_noisy_ridge_is_that_of_new_rows(noisy):
    model = PrivateRidge.from_release(noisy, target="recovery", features=FEATURES)
    fresh = patients(50_000, 9).to_pandas().astype({"smoker": float})
    expected = model.score(fresh[FEATURES], fresh["recovery"])
    assert r_squared(model.summary()) == pytest.approx(expected, abs=0.03)
    fixed = PrivateRidge.from_release(
        noisy, target="recovery", features=FEATURES, alpha=model.alpha_
    )
    assert r_squared(fixed.summary()) == r_squared(model.summary())


@pytest.fixture(scope="module")
def related():
    """A table of 9 numbers and a column of levels, and how the last number is made of them."""

    def drawn(seed, n, weight):
        rng = np.random.default_rng(seed)
        numbers = rng.normal(size=(n, 9))
        kinds = rng.integers(0, 3, n)
        numbers[:, 8] += weight * (numbers[:, 0] + (kinds == 2))
        table = {f"x{i}": column for i, column in enumerate(numbers.T)}
        return pa.table({**table, "kind": np.array(["a", "b", "c"])[kinds]})

    return drawn


def released(table, seed, budget=None, **more):
    columns = {f"x{i}": dpcov.Numeric(lower=-6, upper=6) for i in range(9)}
    columns["kind"] = dpcov.Categorical(categories=("a", "b", "c"))
    schema = dpcov.Schema(columns=columns, missing="never", **more)
    budget = budget or dpcov.Budget(epsilon=1, delta="1e-6")
    return dpcov.release(table, schema=schema, budget=budget, entropy=dpcov.SeededEntropy(seed))


@pytest.mark.parametrize(("n", "weight", "most"), [(5_000, 0.0, 0.004), (10_000, 0.7, 0.01)])
def test_intervals_of_r_squared_hold_also_where_nothing_is_related(related, n, weight, most):
    """With what noise does on average the first estimates are 0.01 on average, beyond zero."""
    explained = weight**2 * (1 + 2 / 9)
    truth = explained / (explained + 1)
    held, estimates = [], []
    for seed in range(20):
        line = r2_interval(released(related(seed, n, weight), seed), "x8")
        estimates.append(line.estimate - truth)
        held.append(line.lower <= truth <= line.upper)
        assert line.upper - line.lower < 0.2
    # 95 % of 20 are 19, with a deviation of 1.
    assert sum(held) >= 16
    assert abs(np.mean(estimates)) < most


def test_the_interval_of_a_ridge_is_for_what_its_penalty_gives(related):
    table = related(1, 20_000, 0.7)
    made = released(table, 1)
    rows = table.to_pandas()
    X = np.column_stack([rows[f"x{i}"] for i in range(8)] + [rows.kind == k for k in "abc"])
    columns = {column.name: column for column in made.restored_features}
    names = [f"x{i}" for i in range(8)] + [f"kind={k}" for k in "abc"]
    X = (X - X.mean(axis=0)) / [columns[name].half_range for name in names]
    y = rows.x8 - rows.x8.mean()
    for alpha in (0.0, 0.1, 2.0):
        # The rows' own, whose levels a penalty draws to their mean, whichever is left out.
        ridge = np.linalg.pinv(X.T @ X / len(y) + alpha * np.eye(11)) @ (X.T @ y / len(y))
        explained = 1 - np.mean((y - X @ ridge) ** 2) / np.mean(y**2)
        line = r2_interval(made, "x8", alpha=alpha, sampling=False)
        assert line.lower < explained < line.upper and line.upper - line.lower < 0.1
        assert line.estimate == pytest.approx(explained, abs=0.03)


def test_r_squared_without_sampling_has_no_error_of_sampling(related):
    """Simulations of the noise alone were others, and their difference was told as sampling."""
    line = r2_interval(released(related(1, 5_000, 0.7), 1), "x8", sampling=False)
    assert line.sampling_std == 0 < line.privacy_std
    assert line.upper - line.lower == pytest.approx(2 * 1.96 * line.privacy_std, rel=1e-3)


def test_where_noise_hides_a_feature_r_squared_may_be_anything(related):
    line = r2_interval(released(related(2, 250, 0.7), 2), "x8")
    assert (line.lower, line.upper) == (0.0, 1.0)


def test_r_squared_counts_rows_of_one_person_once(related):
    """It was that of as many independent rows: too large, and its penalty too small."""
    people, names = 2_000, [f"x{i}" for i in range(8)]
    table = related(3, people, 0.7).take(np.repeat(np.arange(people), 5))
    made = released(table, 3, budget=dpcov.Budget(rho=50), rows_per_person=5)
    once, line = (r2_interval(made, "x8", names, design_effect=k) for k in (1.0, None))
    assert line.sampling_std / once.sampling_std == pytest.approx(np.sqrt(5), rel=0.2)
    assert line.estimate < once.estimate
    model = PrivateRidge.from_release(made, target="x8", features=names)
    (problem,), alphas = model._problems, model.alphas_
    expected = ridge_path.risks(problem, problem.moment, alphas, people)
    np.testing.assert_allclose(model._own_risks([problem], alphas)[0], expected)


def test_where_rows_are_worth_none_the_penalty_is_the_largest(related):
    """All risks are infinite then, and the smallest penalty was taken."""
    people = 500
    made = released(related(3, people, 0.7), 3, dpcov.Budget(rho=100), rows_per_person=people)
    with pytest.warns(NoiseWarning):
        model = PrivateRidge.from_release(made, target="x8", features=["x0", "x1"])
    assert np.isinf(model._own_risks(model._problems, model.alphas_)).all()
    assert model.alpha_ == model.alphas_[-1]


def test_what_summaries_of_all_penalties_leave_open_is_the_larger_of_two_risks(noisy):
    terms = {"target": ["recovery", "age"], "features": ["dose", "smoker"]}
    auto = PrivateRidge.from_release(noisy, **terms)
    chosen = [auto.alphas_.tolist().index(alpha) for alpha in auto.alpha_]
    assert chosen[0] != chosen[1]
    scales = [[goal.half_range**2] for goal in auto._goals]
    own = auto._own_risks(auto._problems, auto.alphas_) * scales
    larger = np.maximum(auto.risk_path_, own)
    unit = (1 - np.array(auto.summary().r2)) / larger[[0, 1], chosen]
    for place in (0, 40):
        fixed = PrivateRidge.from_release(noisy, alpha=auto.alphas_[place], **terms)
        np.testing.assert_array_equal(fixed.risk_path_, auto.risk_path_)
        left = 1 - np.array(fixed.summary().r2)
        np.testing.assert_allclose(left, unit * larger[:, place], rtol=1e-9)


def test_noise_alone_explains_little_in_a_summary():
    """R² of columns that nothing relates was above 0.1 in 8 of 20 such releases, and up to 0.78."""
    names, found = [f"x{i}" for i in range(8)], []
    columns = {name: dpcov.Numeric(lower=-6, upper=6) for name in names}
    columns["kind"] = dpcov.Categorical(categories=("a", "b", "c", "d"))
    schema = dpcov.Schema(columns=columns, missing="never")
    terms = {"schema": schema, "budget": dpcov.Budget(epsilon=0.3, delta="1e-6")}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        numbers = rng.normal(size=(20_000, 8))
        kinds = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, 20_000)]
        table = pa.table({**dict(zip(names, numbers.T, strict=True)), "kind": kinds})
        entropy = dpcov.SeededEntropy(seed)
        made = dpcov.release(table, entropy=entropy, geometry="schema", **terms)
        found += PrivateRidge.from_release(made, target="x0").summary().r2
    assert max(found) < 0.1


@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_a_summary_makes_up_no_noise_beyond_that_of_the_fit(noisy, monkeypatch, alpha):
    model = PrivateRidge.from_release(noisy, target="recovery", features=FEATURES, alpha=alpha)
    made_up, original = [], dpcov.Release.noise_probes
    monkeypatch.setattr(
        dpcov.Release, "noise_probes", lambda *given: made_up.append(given) or original(*given)
    )
    assert 0 < r_squared(model.summary()) < 1
    assert not made_up


def test_it_says_what_the_model_and_its_intervals_say(noisy):
    model = PrivateRidge.from_release(noisy, target="recovery")
    summary, table = model.summary(level=0.9, sampling=False), model.conf_int(0.9, sampling=False)
    found = numbers(summary)
    for name, coefficient in zip(model.get_encoded_names(), model.coef_, strict=True):
        row = table[name]
        ends = [row.std_error, row.sampling_std, row.privacy_std, row.lower, row.upper]
        np.testing.assert_allclose(found[name], [coefficient, *ends], rtol=1e-3)
    told = str(summary)
    assert str(noisy.guarantee) in told and noisy.fingerprint[:12] in told
    assert "[0.05" in told and "Reference category: ward=north." in told and "Penalty" in told
    assert repr(summary) == told
    (ends,) = summary.r2_intervals
    assert f"R², 90 % interval  {ends.lower:.3f} to {ends.upper:.3f}" in told


def test_several_targets_have_a_table_each_and_a_model_may_lack_an_intercept(noisy):
    two = PrivateLinearRegression.from_release(
        noisy, target=["recovery", "pressure"], features=FEATURES
    )
    told = str(two.summary())
    assert "coefficients for recovery" in told and "coefficients for pressure" in told
    through = PrivateLinearRegression.from_release(
        noisy, target="recovery", features=FEATURES, fit_intercept=False
    )
    assert list(numbers(through.summary())) == FEATURES
    # Its R² is that of packages for such models: not of what is around the mean.
    assert "R², in the release, about zero" in str(through.summary())
    # No interval is given for that one.
    assert through.summary().r2_intervals == () and "no interval says" in str(through.summary())
    assert len(two.summary().r2_intervals) == 2


def test_hostile_names_stay_text():
    target = UNHELPFUL_NAMES[0]
    told = PrivateRidge.from_release(unhelpful(), target=target).summary()
    assert "<script" not in told._repr_html_().lower()
    assert all(letter.isprintable() or letter == "\n" for letter in str(told))


def test_a_name_makes_no_line_of_its_own_in_a_table_of_intervals():
    """A name with a line break forged a line, and a control code reached the terminal."""
    names = ("a\nage  50  49  51", "b\x1b[2J")
    rows = pa.table({name: np.linspace(-1, 1, 400) for name in names})
    columns = {name: dpcov.Numeric(lower=-1, upper=1, unit="\n") for name in names}
    told = str(mean_intervals(released_of(columns, rows, rho=1, wildcards=False)))
    assert len(told.splitlines()) == 5
    assert all(letter.isprintable() or letter == "\n" for letter in told)


def test_without_a_law_of_the_noise_there_are_no_standard_errors():
    rows = pa.table({name: np.linspace(-1, 1, 400) ** k for k, name in enumerate("ab", 1)})
    columns = dict.fromkeys("ab", dpcov.Numeric(lower=-1, upper=1))
    made = released_of(columns, rows, rho=1, mechanism="separate")
    model = PrivateLinearRegression.from_release(made, target="a")
    with pytest.raises(UnknownNoiseError):
        model.summary()


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_of_a_target_without_variance_nothing_is_explained(alpha):
    rows = np.random.default_rng(3).normal(size=100)
    table = pa.table({"a": rows, "k": np.zeros(100, dtype=bool)})
    columns = {"a": dpcov.Numeric(lower=-5, upper=5), "k": dpcov.Boolean()}
    terms = {"geometry": "schema", "accept_large_delta": True}
    empty = 0
    for seed in range(4):
        found = released_of(columns, table, seed, **terms)
        summary = PrivateRidge.from_release(found, target="k", alpha=alpha).summary()
        r2, ends = (line for line in str(summary).splitlines() if line.startswith("R²"))
        assert "nan" not in r2 and ends.endswith("0.000 to 1.000")
        empty += r2.split()[-1] == "–"
        assert np.isnan(summary.r2[0]) == (r2.split()[-1] == "–")
    assert empty


def test_nothing_is_simulated_where_the_release_leaves_r_squared_undefined(monkeypatch):
    """Of 300 features that took 4 seconds and 0.6 GB, for an interval from 0 to 1."""
    rows = np.random.default_rng(0).normal(size=(5_000, 60)).clip(-6, 6)
    made = released_within(rows, -6, 6, rho=1, geometry="schema")
    assert np.linalg.eigvalsh(made.correlation("none"))[0] < 0
    monkeypatch.delattr(explained, "spectrum_of")
    line = r2_interval(made, "x59")
    assert (line.lower, line.upper) == (0.0, 1.0)


def test_r_squared_of_many_features_is_simulated_within_seconds():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 300))
    rows[:, -1] += rows[:, :5].sum(axis=1)
    rows = rows.clip(-6, 6)
    made = released_within(rows, -6, 6, rho=1000, geometry="schema")
    start = process_time()
    line = r2_interval(made, "x299", sampling=False)
    assert process_time() - start < 20
    covariance = np.cov(rows.T)
    along = covariance[:-1, -1]
    explained = along @ np.linalg.solve(covariance[:-1, :-1], along) / covariance[-1, -1]
    assert line.lower < explained < line.upper < line.lower + 0.2
