import dataclasses

import numpy as np
import pytest

from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.nuclear_strata import (
    SIGNIFICANT_TRACE,
    _Observation,
    shrink_nuclear_strata,
)
from dpcov.published.estimate.unit import Part


def observed(truth, scale, seed, trace_std=3.0):
    trace = np.trace(truth) + trace_std * scale * np.random.default_rng(seed).normal()
    return Part(
        matrix=truth + symmetric_nuclear_noise(len(truth), scale, SeededEntropy(seed)),
        diagonal_variance=scale**2,
        nuclear_scale=scale,
        trace=float(trace),
        trace_variance=(trace_std * scale) ** 2,
    )


def noise_size(d, scale=1.0):
    return scale * np.sqrt(ullman.mean_square(d))


def shape_of(d, kind, seed=0):
    decaying = 1 / np.arange(1, d + 1.0)
    spectrum = {"flat": np.ones(d), "decaying": decaying, "rank one": np.eye(d)[0]}[kind]
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    return (basis * (spectrum / np.linalg.norm(spectrum))) @ basis.T


def mean_error(truths, scales, repeats):
    """Actual and expected squared error, on average."""
    found = []
    for seed in range(repeats):
        pairs = enumerate(zip(truths, scales, strict=True))
        strata = [observed(truth, scale, 97 * seed + i) for i, (truth, scale) in pairs]
        matrix, expected, _ = shrink_nuclear_strata(strata)
        found.append((np.sum((matrix - sum(truths)) ** 2), expected))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("kind", ["flat", "decaying", "rank one"])
@pytest.mark.parametrize(
    ("d", "signal"),
    [
        (1, 8.0),
        (2, 8.0),
        (10, 1.0),
        (10, 3.0),
        pytest.param(40, 1.0, marks=pytest.mark.thorough),
        pytest.param(40, 3.0, marks=pytest.mark.thorough),
    ],
)
def test_one_stratum_is_better_than_its_noise_and_than_zero(kind, signal, d):
    truth = signal * noise_size(d) * shape_of(d, kind)
    error, expected = mean_error([truth], [1.0], 400 if d < 3 else 30)
    trivial, slack = min(noise_size(d) ** 2, np.sum(truth**2)), 0.05 * noise_size(d) ** 2
    assert error < trivial * (1.4 if d < 3 else 1.0)
    assert expected + slack > 0.4 * (error + slack)
    # It is stated as no less than its own deviation.
    deviation = noise_size(d) ** 2 * min(1, np.sqrt(4 / d / (d + 1)))
    assert expected < 2.5 * error + 1.5 * deviation


CLEAR = 40 * noise_size(20, 1 / 4)


@pytest.mark.parametrize(
    ("clear", "outer", "limit"),
    [
        (shape_of(20, "decaying"), 2 * shape_of(20, "decaying"), 0.3),
        (shape_of(20, "rank one", 1), 3 * shape_of(20, "rank one", 2), 1.8),
    ],
    ids=["a shape is borrowed", "another shape is kept"],
)
def test_an_outer_stratum_borrows_the_shape_of_a_clear_one(clear, outer, limit):
    truths = [CLEAR * clear, noise_size(20) * outer]
    error, _ = mean_error(truths, [1 / 4, 1.0], 15)
    alone, _ = mean_error(truths[1:], [1.0], 15)
    assert error < limit * alone


def test_empty_outer_strata_cost_little():
    truth, empty = 5 * noise_size(10, 1 / 16) * shape_of(10, "decaying"), np.zeros((10, 10))
    error, _ = mean_error([empty, empty, truth], [1.0, 1 / 4, 1 / 16], 40)
    alone, _ = mean_error([truth], [1 / 16], 40)
    # Rarely one of them is not taken for empty; with all of their noise it is 250 times as large.
    assert error < 4 * alone


def test_pure_noise_is_estimated_as_zero():
    for seed in range(20):
        part = observed(np.zeros((15, 15)), 2.0, seed)
        assert not np.any(shrink_nuclear_strata([part]).matrix)


@pytest.mark.parametrize(("signal", "limit"), [(1.1, 0.95), (1.6, 0.85)])
def test_a_faint_direction_is_found_where_the_trace_is_known(signal, limit):
    # In units of the faintest visible eigenvalue; a trace not better known leaves it at zero.
    truth, errors = signal * 13 * shape_of(13, "rank one"), []
    for trace_std in (np.sqrt(2.0), 10.0):
        parts = (observed(truth, 1.0, seed, trace_std) for seed in range(30))
        made = [shrink_nuclear_strata([part]).matrix for part in parts]
        errors.append(np.mean([np.linalg.norm(each - truth) for each in made]))
    known, unknown = errors / np.linalg.norm(truth)
    assert known < limit < unknown


@pytest.mark.parametrize("times", [0.8, 1.2])
@pytest.mark.parametrize("reason", ["direction", "trace"])
def test_a_stratum_is_there_where_a_direction_or_the_trace_stands_out(reason, times):
    plausible = ullman.largest_plausible(5)
    direction = times * plausible * np.array([1, -0.5, -0.5, 0, 0])
    spread = times * SIGNIFICANT_TRACE * np.sqrt(ullman.trace_variance(5)) * np.ones(5) / 5
    part = Part(
        matrix=np.diag(direction if reason == "direction" else spread),
        diagonal_variance=1.0,
        nuclear_scale=1.0,
        trace=0.0,
        # So large that the diagonal is what is known of the trace.
        trace_variance=1e12,
        largest_trace=100.0,
    )
    assert _Observation(part).is_present(np.zeros((5, 5)), 0.0) == (times > 1)


@pytest.mark.parametrize("times", [0.95, 1.05])
@pytest.mark.parametrize(("cost", "needed"), [(None, 3.5), (0.5, 2.0), (10, 2.934), (1e6, 3.5)])
def test_a_known_shape_shows_by_more_deviations_the_more_a_false_alarm_costs(cost, needed, times):
    """√(4 + 2 log cost), from 2 to 3.5; the most where no other error is known."""
    shape = np.diag([1.0, 1.0, -1.0, -1.0, 0.0]) / 2
    part = Part(
        matrix=np.zeros((5, 5)),
        diagonal_variance=1.0,
        nuclear_scale=1.0,
        trace=0.0,
        trace_variance=1e12,
        largest_trace=100.0,
    )
    std = np.sqrt(_Observation(part).unit_variance)
    seen = _Observation(dataclasses.replace(part, matrix=times * needed * std * shape))
    known_error = 0.0 if cost is None else std / (2 * cost)
    assert seen.is_present(3 * shape, known_error) == (times > 1)


def test_what_cannot_be_there_is_not_estimated():
    loud = observed(400 * shape_of(4, "flat"), 1.0, 0)
    assert np.any(shrink_nuclear_strata([loud]).matrix)
    bounded = dataclasses.replace(loud, largest_trace=1.0)
    assert not np.any(shrink_nuclear_strata([bounded]).matrix)


def test_the_estimate_is_positive_semidefinite_and_follows_units():
    truth = 2 * noise_size(8) * shape_of(8, "decaying")
    strata = [observed(truth, 1.0, 0), observed(truth / 4, 0.25, 1)]
    matrix, expected, _ = shrink_nuclear_strata(strata)
    assert np.linalg.eigvalsh(matrix).min() >= -1e-9 * np.abs(matrix).max()
    larger = shrink_nuclear_strata(
        dataclasses.replace(
            each,
            matrix=64 * each.matrix,
            nuclear_scale=64 * each.nuclear_scale,
            trace=64 * each.trace,
            trace_variance=64**2 * each.trace_variance,
        )
        for each in strata
    )
    assert larger.matrix == pytest.approx(64 * matrix, rel=1e-6)
    assert larger.risk == pytest.approx(64**2 * expected, rel=1e-6)


@pytest.mark.parametrize("size", [30.0, 100.0, 300.0])
def test_the_expected_error_of_nearly_equal_eigenvalues_is_never_far_too_small(size):
    """The unbiased risk is as noisy as itself there: it was 10 times too small in a quarter."""
    d, ratios = 20, []
    for seed in range(40):
        normals = np.random.default_rng(seed).normal(size=(d, d))
        # Eigenvalues differ by about what noise would spread them.
        truth = size * np.eye(d) + (normals + normals.T) / 2
        found = shrink_nuclear_strata([observed(truth, 1.0, seed)])
        ratios.append(np.linalg.norm(found.matrix - truth) / np.sqrt(found.risk))
    assert max(ratios) < 4 and np.quantile(ratios, 0.9) < 3
    assert np.sqrt(np.mean(np.square(ratios))) < 2
