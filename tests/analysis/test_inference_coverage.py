"""95 % intervals contain the truth about 95 times in 100; naive ones fail the same check."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov.analysis.features import coding_of
from dpcov.analysis.intervals.coefficients import coefficient_lines
from dpcov.analysis.intervals.eigenvalues import spectrum_of
from dpcov.analysis.intervals.moments import correlation_lines, mean_lines, variance_lines
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.analysis.reading import half_range_map
from tests.analysis.conftest import released

ALPHA = 1e-9
REPETITIONS = 150
LEAST = 0.93
COVARIANCE = 0.09 * np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
MEANS = np.array([0.1, 0.0, -0.2])
SCHEMA = dpcov.Schema(
    missing="never",
    columns={name: dpcov.Numeric(lower=-1.5, upper=1.5) for name in ("x0", "x1", "x2")},
)
SETTINGS = {
    "gaussian": {"mechanism": "gaussian"},
    "stratified, n private": {"mechanism": "stratified", "neighbors": "add-remove-one"},
    "nuclear": {"mechanism": "stratified-nuclear", "budget": dpcov.Budget(epsilon=1)},
    # Less budget, so that what noise does shows beside the sampling.
    "private geometry": {"budget": dpcov.Budget(rho="0.0025"), "geometry": "private"},
}


def assert_covers(hits, level=LEAST):
    """Reject intervals that contain the truth with probability ``level`` only once in 10⁹."""
    significance = stats.binom.cdf(np.sum(hits), len(hits), level)
    assert significance >= ALPHA, f"{np.mean(hits):.3f} of the intervals contain the truth"


FOOLED = ("variance", "correlation", "coefficient")
"""Kinds that must fail the check when the noise is not counted."""


def intervals(law, made):
    others = np.array([1, 2])
    coding = coding_of(law.columns[1:], others, ())
    maps = half_range_map(made, centered=True)
    coefficients = coefficient_lines(law, maps, 0, others, coding, alpha=0.0, fit_intercept=True)
    return {
        "variance": variance_lines(law, np.arange(1))[0],
        "correlation": correlation_lines(law, np.arange(2))[0],
        "coefficient": coefficients[1],
    }


def other_intervals(law, made):
    places, scale = np.arange(3), made.half_ranges / 1.5
    spectrum = spectrum_of(law, places, scale, normalized=False, draws=60)
    return {
        "mean": mean_lines(law, places[:1])[0],
        "eigenvalue": spectrum.line(0, law.reaches()[0]),
    }


TRUTH = {
    "mean": MEANS[0],
    "variance": COVARIANCE[0, 0],
    "correlation": 0.6,
    "coefficient": np.linalg.solve(COVARIANCE[1:, 1:], COVARIANCE[1:, 0])[0],
    "eigenvalue": np.linalg.eigvalsh(COVARIANCE / 1.5**2)[-1],
}


def times(law, share, *names):
    """The same with these parts, as far as there are any, times ``share``."""
    parts = {name: getattr(law, name) for name in names}
    return replace(law, **{name: share * part for name, part in parts.items() if part is not None})


def covered(setting, n_rows):
    """Whether each interval holds the truth: with the noise, without it, and with half of it."""
    rng = np.random.default_rng(5)
    found = {name: {kind: [] for kind in TRUTH} for name in ("honest", "naive", "half")}
    bounded = []
    for seed in range(REPETITIONS):
        rows = rng.multivariate_normal(MEANS, COVARIANCE, size=n_rows)
        made = released(rows, "0.05", seed, schema=SCHEMA, **SETTINGS[setting])
        law = moment_law(made)
        for name, share in (("honest", 1), ("naive", 0), ("half", 1 / 9)):
            each = replace(
                law,
                noises=tuple(
                    times(noise, share, "off_diagonal", "diagonal", "between")
                    for noise in law.noises
                ),
                scaled=times(law.scaled, share, "lost", "lost_parts", "stretch_stds"),
            )
            more = other_intervals(law, made) if name == "honest" else {}
            for kind, line in (intervals(each, made) | more).items():
                found[name][kind].append(line.lower <= TRUTH[kind] <= line.upper)
                bounded += [np.isfinite(line.upper - line.lower)] if name == "honest" else []
    return found, np.mean(bounded)


@pytest.mark.parametrize("setting", SETTINGS)
def test_intervals_cover_the_truth_and_naive_ones_do_not(setting):
    is_private = setting == "private geometry"
    found, bounded = covered(setting, 10_000 if is_private else 3_000)
    # What scaling rows down may have taken leaves some intervals open.
    assert bounded > (0.75 if is_private else 0.95)
    for kind in TRUTH:
        assert_covers(found["honest"][kind])
    # There intervals count more than noise: a ninth of it all may hold the truth by chance.
    for name in ("naive",) if is_private else ("naive", "half"):
        for kind in FOOLED:
            with pytest.raises(AssertionError, match="contain the truth"):
                assert_covers(found[name][kind])


def test_the_check_accepts_93_and_rejects_70_percent():
    fewest = int(stats.binom.ppf(ALPHA, REPETITIONS, LEAST))
    assert stats.binom.cdf(fewest - 1, REPETITIONS, LEAST) < ALPHA
    assert stats.binom.sf(fewest, REPETITIONS, 0.6) < 1e-3
