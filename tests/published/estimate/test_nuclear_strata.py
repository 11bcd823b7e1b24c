import dataclasses

import numpy as np
import pytest

from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.nuclear_strata import _needed, shrink_nuclear_strata
from dpcov.published.estimate.unit import Part

TRACE_STD = 3.0


def observed(truth, scale, seed, trace_std=TRACE_STD):
    entropy = SeededEntropy(seed)
    trace = np.trace(truth) + trace_std * scale * np.random.default_rng(seed).normal()
    return Part(
        matrix=truth + symmetric_nuclear_noise(len(truth), scale, entropy),
        diagonal_variance=scale**2,
        nuclear_scale=scale,
        trace=float(trace),
        trace_variance=(trace_std * scale) ** 2,
    )


def noise_size(d, scale=1.0):
    return scale * np.sqrt(ullman.mean_square(d))


def shape_of(d, kind, seed=0):
    random = np.random.default_rng(seed)
    spectrum = {
        "flat": np.ones(d),
        "decaying": 1 / np.arange(1, d + 1.0),
        "rank one": np.eye(d)[0],
    }[kind]
    basis = np.linalg.qr(random.normal(size=(d, d)))[0]
    return (basis * (spectrum / np.linalg.norm(spectrum))) @ basis.T


def mean_error(truths, scales, repeats):
    errors, expected = [], []
    for seed in range(repeats):
        strata = [
            observed(truth, scale, 97 * seed + i)
            for i, (truth, scale) in enumerate(zip(truths, scales, strict=True))
        ]
        result = shrink_nuclear_strata(strata)
        errors.append(np.sum((result.matrix - sum(truths)) ** 2))
        expected.append(result.expected_squared_error)
    return np.mean(errors), np.mean(expected)


@pytest.mark.parametrize("kind", ["flat", "decaying", "rank one"])
@pytest.mark.parametrize(
    ("d", "signal"), [(1, 8.0), (2, 8.0), (10, 1.0), (10, 3.0), (40, 1.0), (40, 3.0)]
)
def test_one_stratum_is_better_than_its_noise_and_than_zero(kind, signal, d):
    truth = signal * noise_size(d) * shape_of(d, kind)
    error, expected = mean_error([truth], [1.0], 150 if d < 3 else 30)
    trivial = min(noise_size(d) ** 2, np.sum(truth**2))
    assert error < trivial * (1.4 if d < 3 else 1.0)
    assert 0.4 < (expected + 0.05 * noise_size(d) ** 2) / (error + 0.05 * noise_size(d) ** 2) < 2.5


def test_an_outer_stratum_borrows_the_shape_of_a_clear_one():
    d = 20
    shape = shape_of(d, "decaying")
    alike = [40 * noise_size(d, 1 / 4) * shape, 2 * noise_size(d) * shape]
    error, _ = mean_error(alike, [1 / 4, 1.0], 15)
    alone, _ = mean_error(alike[1:], [1.0], 15)
    assert error < 0.3 * alone


def test_a_stratum_of_another_shape_keeps_its_own():
    d = 20
    truths = [
        40 * noise_size(d, 1 / 4) * shape_of(d, "rank one", 1),
        3 * noise_size(d) * shape_of(d, "rank one", 2),
    ]
    error, _ = mean_error(truths, [1 / 4, 1.0], 15)
    alone, _ = mean_error(truths[1:], [1.0], 15)
    assert error < 1.3 * alone


def test_empty_outer_strata_cost_little():
    d = 10
    truth = 5 * noise_size(d, 1 / 16) * shape_of(d, "decaying")
    empty = np.zeros((d, d))
    error, _ = mean_error([empty, empty, truth], [1.0, 1 / 4, 1 / 16], 40)
    alone, _ = mean_error([truth], [1 / 16], 40)
    assert error < 1.5 * alone


def test_pure_noise_is_estimated_as_zero():
    d, zeros = 15, 0
    for seed in range(20):
        result = shrink_nuclear_strata([observed(np.zeros((d, d)), 2.0, seed)])
        zeros += not np.any(result.matrix)
    assert zeros == 20


@pytest.mark.parametrize(("signal", "limit"), [(1.1, 0.95), (1.6, 0.75)])
def test_a_faint_direction_is_found_where_the_trace_is_known(signal, limit):
    # In units of the faintest visible eigenvalue; a trace that is not known better than a direction leaves it at zero.
    d = 13
    truth = signal * ullman.weakest_visible(d) * shape_of(d, "rank one")
    errors = {}
    for trace_std in (np.sqrt(2.0), 10.0):
        made = [
            shrink_nuclear_strata([observed(truth, 1.0, seed, trace_std)]).matrix
            for seed in range(30)
        ]
        errors[trace_std] = np.mean(
            [np.linalg.norm(each - truth) for each in made]
        ) / np.linalg.norm(truth)
    assert errors[np.sqrt(2.0)] < limit < errors[10.0]


def test_more_is_asked_for_where_a_false_alarm_costs_more():
    costs = [0.1, 2.0, 4.0, 30.0, 100.0, 1e6]
    needed = [_needed(cost) for cost in costs]
    assert needed == sorted(needed)
    assert needed[:2] == [2.0, 2.0]
    assert needed[-1] == 3.5
    for cost, deviations in zip(costs[1:-1], needed[1:-1], strict=True):
        assert cost * np.exp(-(deviations**2) / 2) == pytest.approx(2 * np.exp(-2))


def test_what_cannot_be_there_is_not_estimated():
    loud = observed(400 * shape_of(4, "flat"), 1.0, 0)
    assert np.any(shrink_nuclear_strata([loud]).matrix)
    bounded = dataclasses.replace(loud, largest_trace=1.0)
    assert not np.any(shrink_nuclear_strata([bounded]).matrix)


def test_the_estimate_is_positive_semidefinite_and_follows_units():
    truth = 2 * noise_size(8) * shape_of(8, "decaying")
    strata = [observed(truth, 1.0, 0), observed(truth / 4, 0.25, 1)]
    result = shrink_nuclear_strata(strata)
    assert np.linalg.eigvalsh(result.matrix).min() >= -1e-9 * np.abs(result.matrix).max()
    larger = shrink_nuclear_strata(
        Part(
            matrix=64 * each.matrix,
            diagonal_variance=64**2,
            nuclear_scale=64 * each.nuclear_scale,
            trace=64 * each.trace,
            trace_variance=64**2 * each.trace_variance,
        )
        for each in strata
    )
    assert larger.matrix == pytest.approx(64 * result.matrix, rel=1e-6)
    assert larger.expected_squared_error == pytest.approx(
        64**2 * result.expected_squared_error, rel=1e-6
    )
