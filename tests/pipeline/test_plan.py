import itertools

import numpy as np
import pytest

import dpcov
from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import UsageError
from dpcov.mechanisms.stratified import Stratified
from dpcov.noise.entropy import SeededEntropy
from dpcov.pipeline.plan import predict as plan
from dpcov.pipeline.plan.predict import Assumption, left_for, noise_error, predict
from dpcov.privacy.guarantee import NEIGHBORS

RHO = dpcov.Budget(rho="0.1")


def assumption(**changes):
    return Assumption(**{"n_rows": 5000, "n_features": 6, "budget": RHO, "trace": 0.3} | changes)


def rows_like(assumed, generator):
    """Rows of equal length with about the assumed eigenvalues, in another basis."""
    d = assumed.n_features
    basis, _ = np.linalg.qr(generator.standard_normal((d, d)))
    shares = assumed.eigenvalues / assumed.trace
    # Every row is a signed basis vector; frequencies are the eigenvalues.
    counts = np.diff(np.round(np.cumsum(shares) * assumed.n_rows), prepend=0).astype(int)
    picks = np.repeat(np.arange(d), counts)
    return basis[picks] * np.sqrt(assumed.trace)


def measured_error(assumed, mechanism, repetitions, post=None):
    rows = rows_like(assumed, np.random.default_rng(99))
    truth = rows.T @ rows / len(rows)
    shells = {"shells": 32, "fineness": 4, "normalized": True} if mechanism == "stratified" else {}
    moments = dpcov.moments(rows, norm_bound=1.0, **shells)
    how = {"budget": assumed.budget, "mechanism": mechanism, "neighbors": assumed.neighbors}
    errors = []
    for seed in range(repetitions):
        made = dpcov.second_moment(moments, **how, entropy=SeededEntropy(10_000 + seed))
        errors.append(np.linalg.norm(made.second_moment(post) - truth))
    return float(np.mean(errors))


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("d", [1, 3, 12, 60])
def test_the_noise_formula_is_within_15_percent_of_the_measured_error(d, neighbors):
    assumed = assumption(n_features=d, neighbors=neighbors, trace=0.05)
    measured = measured_error(assumed, "gaussian", 400 // d + 10, post="none")
    # The formula is a root mean square; at d = 1 the mean of |normal| is sqrt(2 / pi) of it.
    shortfall = {1: np.sqrt(2 / np.pi), 3: 0.95}.get(d, 1.0)
    assert measured == pytest.approx(shortfall * noise_error(assumed), rel=0.15)


@pytest.mark.parametrize("mechanism", ["gaussian", "zero", "stratified"])
@pytest.mark.parametrize(("d", "trace"), [(4, 1.0), (4, 0.03), (40, 0.2)])
def test_predictions_are_within_15_percent_of_the_measured_error(mechanism, d, trace):
    assumed = assumption(n_features=d, trace=trace)
    (prediction,) = predict(assumed, [mechanism])
    measured = measured_error(assumed, mechanism, 12 if d == 40 else 100)
    assert prediction.error == pytest.approx(measured, rel=0.15)


EPSILON = dpcov.Budget(epsilon=1)


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [("projection", RHO), ("thresholding", RHO), ("laplace", EPSILON), ("nuclear", EPSILON)],
)
@pytest.mark.parametrize(("d", "n"), [(3, 5_000), (20, 20_000)])
def test_predictions_of_the_other_entrywise_and_matrix_noises_are_within_15_percent(
    mechanism, budget, d, n
):
    assumed = assumption(n_features=d, n_rows=n, budget=budget)
    (prediction,) = predict(assumed, [mechanism])
    measured = measured_error(assumed, mechanism, 60 if d == 3 else 10)
    assert prediction.error == pytest.approx(measured, rel=0.15)
    # A table of half as many rows is another prediction, and would be noticed.
    (wrong,) = predict(assumption(n_features=d, n_rows=n // 2, budget=budget), [mechanism])
    assert wrong.error != pytest.approx(measured, rel=0.15)


def correlated(n, p, seed):
    """Columns of normal values with a few common factors."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + rng.normal(size=(n, p))
    return 100 + 7 * rows / rows.std(axis=0)


@pytest.mark.parametrize("budget", [dpcov.Budget(epsilon=1, delta="1e-6"), dpcov.Budget(rho="0.3")])
@pytest.mark.parametrize(("n", "p"), [(20_000, 8), (50_000, 12)])
def test_the_error_in_a_private_geometry_is_predicted_whatever_the_bounds_are(n, p, budget):
    rows, errors = correlated(n, p, seed=p), []
    wide = dpcov.Numeric(lower=-50_000, upper=50_000)
    columns = {f"x{place}": wide for place in range(p)}
    schema = dpcov.Schema(columns=columns, missing="never")
    for seed in range(3):
        made = dpcov.release(rows, schema=schema, budget=budget, entropy=SeededEntropy(seed))
        size = np.linalg.norm(made.second_moment())
        errors.append(made.expected_error(made.statistics.post) / size)
    assumed = assumption(n_rows=n, n_features=p + 1, budget=budget, geometry="private")
    (prediction,) = predict(assumed, ["auto"])
    assert 2 / 3 < prediction.relative_error / np.mean(errors) < 1.5


def test_a_private_geometry_gets_no_prediction_where_no_survey_is_made():
    few = assumption(n_rows=50, geometry="private")
    assert left_for(few, Stratified()) is None
    assert [made.mechanism for made in predict(few)] == ["zero"]
    one = assumption(n_features=1, geometry="private")
    assert one.trace == 1
    assert left_for(assumption(), Stratified()) == RHO


def test_wide_tables_get_a_bound_that_holds():
    assumed = assumption(n_features=600, n_rows=50_000)
    (prediction,) = predict(assumed, ["gaussian"])
    assert prediction.kind == "bound"
    assert prediction.error == noise_error(assumed)
    assert 0.2 * prediction.error < measured_error(assumed, "gaussian", 1) < 1.02 * prediction.error


@pytest.mark.parametrize(
    "spec", [MomentsSpec(), MomentsSpec(shells=8, normalized=True), MomentsSpec(clip=0.25)]
)
@pytest.mark.parametrize(
    ("trace", "n_rows"), [(1.0, 10), (0.26, 1000), (0.25, 3_000_000), (1e-9, 77)]
)
def test_assumed_moments_are_those_of_rows_of_equal_length(spec, trace, n_rows):
    assumed = assumption(trace=trace, n_rows=n_rows)
    moments = assumed.moments(spec)
    row = np.array([[np.sqrt(trace)] + [0.0] * 5])
    how = {name: getattr(spec, name) for name in ("shells", "normalized", "clip")}
    one_row = dpcov.moments(row, norm_bound=1.0, **how)
    for found, stratum in zip(moments.strata, one_row.strata, strict=True):
        assert found.n_rows == n_rows * stratum.n_rows
        assert found.sscp.trace() == pytest.approx(n_rows * stratum.sscp.trace(), rel=0.02)
        if spec.normalized:
            normalized = n_rows * stratum.normalized.trace()
            assert found.normalized.trace() == pytest.approx(normalized, rel=1e-3)


@pytest.mark.parametrize("budget", [RHO, EPSILON, dpcov.Budget(epsilon=1, delta="1e-6")])
def test_every_budget_gets_predictions_and_zero_is_always_one(budget, monkeypatch):
    monkeypatch.setattr(plan, "_ENOUGH_VALUES", 1)  # one release each: names and kinds are tested
    found = {made.mechanism: made for made in predict(assumption(budget=budget))}
    assert found["zero"].relative_error == 1.0
    assert found["zero"].kind == "formula"
    assert {"auto", "projection"} <= set(found)
    assert all(prediction.error >= 0 for prediction in found.values())
    # Mechanisms that cannot keep the budget are left out.
    assert ("gaussian" in found) == (budget is not EPSILON)


def test_predictions_are_reproducible_and_fall_with_rows():
    counts = (500, 5_000, 50_000, 50_000)
    errors = [predict(assumption(n_rows=n), ["auto"])[0].error for n in counts]
    assert errors[2] == errors[3]
    assert all(before > after for before, after in itertools.pairwise(errors[:3]))


@pytest.mark.parametrize(
    "wrong", [{"geometry": "x"}, {"trace": 0.0}, {"trace": 1.5}, {"n_rows": 0}, {"n_features": 0}]
)
def test_impossible_assumptions_are_refused(wrong):
    with pytest.raises(UsageError):
        assumption(**wrong)
