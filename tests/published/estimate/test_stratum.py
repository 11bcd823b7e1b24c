import numpy as np
import pytest
from scipy import stats

from dpcov.published.estimate.strata import Stratum, with_joint_trace
from tests.published.estimate.noises import noise, stratum


def test_the_joint_trace_is_used_as_least_squares_would():
    generator, joint, d = np.random.default_rng(3), 2.5, 6
    strata = [
        stratum(noise(d, v, generator), v, trace, 50.0 * v)
        for v, trace in ((1.0, 4.0), (16.0, -3.0), (256.0, 90.0))
    ]
    rows = [*np.eye(3), *np.eye(3), np.ones(3)]
    own = [np.trace(s.matrix) / s.noise_std for s in strata]
    values = [*own, *(s.trace / s.noise_std for s in strata), joint]
    spread = np.array([d] * 3 + [s.trace_variance / s.noise_std**2 for s in strata] + [1.0])
    design = np.array(rows) / np.sqrt(spread)[:, None]
    solved = np.linalg.lstsq(design, np.array(values) / np.sqrt(spread), rcond=None)[0]
    deviations = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    found = with_joint_trace(strata, joint)
    for sharpened, mean, deviation in zip(found, solved, deviations, strict=True):
        trace, std = sharpened.best_trace()
        assert trace == pytest.approx(mean * sharpened.noise_std)
        assert std == pytest.approx(deviation * sharpened.noise_std)


def test_strata_without_traces_or_noise_are_left_as_they_are():
    assert with_joint_trace([], 1.0) == []
    for law in ((1.0,), (0.0, 2.0, 1.0), (1.0, 2.0, 0.0)):
        plain = stratum(np.eye(2), *law)
        assert with_joint_trace([plain], 5.0) == [plain]


@pytest.mark.parametrize("dimension", [1, 2, 8, 40])
def test_noise_stands_out_no_more_often_than_three_normal_numbers(dimension):
    # Size 1e-9 for the rate of false alarms at one standard deviation.
    generator, deviations, runs = np.random.default_rng(4), 1.0, 400
    guide = np.diag(np.arange(dimension, 0.0, -1.0))
    alarms = 0
    for _ in range(runs):
        noisy, trace = noise(dimension, 2.0, generator), 8.0 * generator.normal()
        alarms += stratum(noisy, 2.0, trace, 64.0).stands_out(deviations, lambda: guide)
    assert alarms <= stats.binom.isf(1e-9, runs, 3 * stats.norm.sf(deviations))


def test_each_kind_of_evidence_suffices():
    def nothing():
        return np.zeros((30, 30))

    def unwanted():
        raise AssertionError

    flat, spike = np.eye(30), np.diag([20.0, *[0.0] * 29])
    assert not stratum(np.zeros((30, 30)), 1.0).stands_out(3.0, lambda: flat)
    # No guide is made where the trace is enough.
    assert stratum(np.zeros((30, 30)), 1.0, 10.0, 1.0).stands_out(3.0, unwanted)
    assert stratum(spike - 20.0 * flat / 30, 1.0).stands_out(3.0, nothing)
    leaning = np.diag([5.0, -5.0, *[0.0] * 28])
    assert stratum(leaning, 1.0).stands_out(3.0, lambda: np.diag([1.0, *[0.0] * 29]))
    assert not stratum(leaning, 1.0).stands_out(3.0, lambda: flat)
    assert stratum(flat, 0.0).stands_out(9.0, nothing)
    assert not stratum(0.0 * flat, 0.0).stands_out(9.0, nothing)


@pytest.mark.parametrize("dimension", [1, 3, 40])
def test_the_risk_without_eigenvectors_is_that_of_the_shrunk_matrix(dimension):
    noisy = noise(dimension, 1.0, np.random.default_rng(8)) + np.diag(np.arange(float(dimension)))
    made = stratum(noisy, 1.0, 5.0, 2.0)
    risk = made.shrunk_risk()
    assert "system" not in made.__dict__
    assert risk == pytest.approx(made.shrunk.risk, rel=1e-9)


def test_pooling_adds_matrices_traces_and_variances():
    first, second = (stratum(k * np.eye(2), float(k), 2.0 * k, 5.0 * k) for k in (1, 2))
    pooled = Stratum.sum_of([first, second])
    np.testing.assert_array_equal(pooled.matrix, 3.0 * np.eye(2))
    assert (pooled.variance, pooled.trace, pooled.trace_variance) == (3.0, 6.0, 15.0)
    assert Stratum.sum_of([first, stratum(np.eye(2), 1.0)]).trace is None
