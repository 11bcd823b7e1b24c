"""Values that are missing neither bias what a release says nor leave its intervals too short."""

import numpy as np
import pandas as pd
import pytest

import dpcov
from benchmarks.analyst.missing import LINES, SETTINGS
from dpcov.analysis import (
    PrivateCorrelation,
    PrivateRidge,
    coefficient_intervals,
    correlation_intervals,
    mean_intervals,
)

R = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
NAMES, MEANS = ["x0", "x1", "x2"], np.array([0.0, 1.0, 7.0])
COLUMNS = {
    name: dpcov.Numeric(lower=mean - 6, upper=mean + 8)
    for name, mean in zip(NAMES, MEANS, strict=True)
}
SLOPES = np.linalg.solve(R[1:, 1:], R[1:, 0])


def rows(share, seed, n=4_000):
    rng = np.random.default_rng(seed)
    found = MEANS + rng.multivariate_normal(np.zeros(3), R, size=n)
    found[rng.random(found.shape) < share] = np.nan
    return pd.DataFrame(found, columns=NAMES)


def released(share, seed, missing="indicator", rho="0.5", **options):
    schema = dpcov.Schema(columns=COLUMNS, missing=missing)
    budget, entropy = dpcov.Budget(rho=rho), dpcov.SeededEntropy(seed)
    return dpcov.release(
        rows(share, seed), schema=schema, budget=budget, entropy=entropy, **options
    )


@pytest.mark.parametrize("geometry", ["schema", "private"])
def test_pairs_are_unbiased_and_the_center_is_not(geometry):
    def off(missing):
        found = [released(0.4, seed, missing, "2", geometry=geometry) for seed in range(8)]
        return np.abs(np.mean([made.correlation_matrix() - R for made in found], axis=0)).max()

    assert off("indicator") < 0.05 < 0.15 < off("center")


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_intervals_hold_the_truth(share):
    """Those that took every row for a complete one would be half as wide, and fail."""
    held = {"means": [], "correlations": [], "coefficients": []}
    for seed in range(25):
        made = released(share, seed, rho="5")
        truths = {
            "means": (mean_intervals(made), MEANS),
            "correlations": (correlation_intervals(made), R[np.triu_indices(3, 1)]),
            "coefficients": (coefficient_intervals(made, "x0"), [-SLOPES @ MEANS[1:], *SLOPES]),
        }
        for kind, (table, truth) in truths.items():
            held[kind] += list((table.lower <= truth) & (truth <= table.upper))
            assert np.all(np.isfinite(table.upper - table.lower))
    # At 95 %, 75 trials: fewer come once in a thousand.
    assert all(np.mean(found) > 0.85 for found in held.values())


def test_indicators_are_features_only_where_they_are_named():
    made = released(0.4, 0)
    assert made.feature_names == tuple(NAMES)
    assert made.correlation().shape == (3, 3) and made.correlation(indicators=True).shape == (6, 6)
    assert len(PrivateCorrelation.from_release(made).correlation_) == 3
    named = PrivateCorrelation.from_release(made, features=["x0", "x1 (missing)"])
    assert list(named.get_encoded_names()) == ["x0", "x1 (missing)"]
    shares = made.missing()
    assert set(shares) == set(NAMES)
    assert all(abs(share - 0.4) < 5 * noise + 0.03 for share, noise in shares.values())
    assert all(0.3 < column.missing < 0.5 for column in made.diagnose().columns)


def test_coefficients_are_those_of_rows_without_missing_values():
    made = released(0.4, 1, rho="50")
    model = PrivateRidge.from_release(made, target="x0")
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.12)
    new = pd.DataFrame({"x1": [np.nan], "x2": [np.nan]})
    assert model.predict(new)[0] == pytest.approx(made.mean_vector()[0], abs=0.1)


def test_missing_at_random_has_no_intervals():
    model = PrivateRidge.from_release(released(0.1, 0), target="x0", missing="at-random")
    with pytest.raises(ValueError, match="pairwise"):
        model.conf_int()


def test_bias_is_below_the_noise_on_nhanes_and_intervals_hold():
    found = pd.read_csv(LINES).set_index(["share", "how", "reading"])
    settings = {index[:2] for index in found.index}
    assert settings == {(share, how) for share, how in SETTINGS}
    for share, how in settings:
        line = found.loc[share, how, "pairwise" if how == "MCAR" else "at-random"]
        assert line["bias"] < line["noise"]
        assert line["mean_bias"] < line["mean_noise"]
        held = found.loc[share, how, "pairwise"]
        assert held["correlations"] > 0.95
        assert held["coefficients"] > 0.95
        assert (held["means"] > 0.93) == ((share, how) != (0.4, "MAR by age"))
    # What is put at the center has more bias than noise at 40 %.
    center = found.loc[0.4, "MCAR", "center"]
    assert center["bias"] > 2 * center["noise"]
