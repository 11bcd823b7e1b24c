from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    NUCLEAR_EDGE,
    LostParts,
    MomentNoise,
    covariance_noise,
    deviation_noise,
    mean_noise,
    total_noise,
)
from dpcov.published.estimate.inhabited import inhabited
from dpcov.published.estimate.levels import without_hidden
from dpcov.published.estimate.noise_edge import bulk_edge, largest_noise_eigenvalue
from dpcov.published.estimate.scaled_down import error_at
from dpcov.published.estimate.unit import EntryNoise, Part, Source, UnitEstimate, unit_estimate
from dpcov.published.linalg.symmetric import correlation_of
from dpcov.published.reading.encoded import noise_of
from dpcov.published.words.numbers import group_numbers
from tests.published.estimate.noises import noise
from tests.report.examples import make
from tests.statistical.goodness import GoodnessError, assert_mean_square, mean_square_samples

MEANS = np.array([0.5, -0.3, 0.1])
COVARIANCE = np.array([[0.3, 0.1, -0.05], [0.1, 0.2, 0.08], [-0.05, 0.08, 0.25]])
INTERCEPT = 0.4
STD = 2e-5
PLAIN = np.eye(4)[1:]
MAPPED = np.array([[0.2, 1.5, 0.4, 0.0], [-0.3, 0.5, 0.8, 0.3], [0.1, 0.0, -0.6, 1.2]])


def noisy_estimates(
    count, intercept_is_noisy, trace_is_merged=False, features=PLAIN, off_diagonal=0.5, counted=0.0
):
    """Errors of means, deviations, correlations and covariances from noisy second moments.

    Features and the intercept are so many times those that noise was added to.  Entries off the
    diagonal have a variance of their own, ``off_diagonal`` times that on it.  An intercept without
    this noise may have that of a number of rows, ``counted``.
    """
    rng = np.random.default_rng(0)
    row = np.r_[1.0, MEANS]
    moment = np.outer(row, row)
    moment[1:, 1:] += COVARIANCE
    drawn = rng.normal(size=(count, 4, 4)) * STD
    # Variance STD**2 on the diagonal, half of it off.
    drawn = (drawn + drawn.transpose(0, 2, 1)) / 2
    drawn *= np.sqrt(2 * off_diagonal) * (1 - np.eye(4)) + np.eye(4)
    if trace_is_merged:
        excess = rng.normal(size=count) * STD - np.trace(drawn, axis1=1, axis2=2)
        drawn += excess[:, None, None] / 5 * np.eye(4)
    if not intercept_is_noisy:
        drawn[:, 0, 0] = counted * rng.normal(size=count)
    back = np.vstack([np.eye(1, 4), features])
    noisy = INTERCEPT * moment + back @ drawn @ back.T
    divisor = noisy[:, :1, 0]
    means = noisy[:, 0, 1:] / divisor
    covariance = noisy[:, 1:, 1:] / divisor[:, :, None] - means[:, :, None] * means[:, None, :]
    deviations = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    correlation = covariance / deviations[:, :, None] / deviations[:, None, :]
    exact = np.sqrt(np.diagonal(COVARIANCE))
    truth = MEANS, exact, COVARIANCE / np.outer(exact, exact), COVARIANCE
    found = means, deviations, correlation, covariance
    return [each - true for each, true in zip(found, truth, strict=True)]


def law(intercept_is_noisy, trace_is_merged=False, factor=1.0):
    variance = (factor * STD) ** 2
    return MomentNoise(
        entries=EntryNoise(
            diagonal=variance * (1 - trace_is_merged / 5),
            off_diagonal=variance / 2,
            between_diagonals=-trace_is_merged * variance / 5,
        ),
        intercept=INTERCEPT,
        intercept_is_noisy=intercept_is_noisy,
        features=np.eye(1 + len(MEANS))[1:],
    )


def assert_spreads(errors, stated_law):
    """Errors have the spreads that the law states, also of totals; those of correlations."""
    of_means = mean_noise(MEANS, stated_law)
    of_deviations = deviation_noise(MEANS, np.diagonal(COVARIANCE), stated_law)
    stated = correlation_noise(MEANS, COVARIANCE, stated_law)
    of_covariances = covariance_noise(MEANS, COVARIANCE, stated_law)
    for k, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        assert_mean_square(errors[0][:, k], of_means[k] ** 2)
        assert_mean_square(errors[1][:, k], of_deviations[k] ** 2)
        assert_mean_square(errors[2][:, i, j], stated[i, j] ** 2)
        assert_mean_square(errors[3][:, i, j], of_covariances[i, j] ** 2)
    weights = np.array([0.0, 0.8, -0.6])
    of_total = total_noise(float(weights @ MEANS), weights, stated_law)
    assert_mean_square(errors[0] @ weights, of_total**2)
    return stated


@pytest.mark.parametrize("trace_is_merged", [False, True])
@pytest.mark.parametrize("intercept_is_noisy", [False, True])
def test_the_closed_form_is_the_spread_of_noisy_estimates(intercept_is_noisy, trace_is_merged):
    errors = noisy_estimates(mean_square_samples(), intercept_is_noisy, trace_is_merged)
    assert_spreads(errors, law(intercept_is_noisy, trace_is_merged))


@pytest.mark.parametrize("intercept_is_noisy", [False, True])
def test_the_closed_form_holds_where_rows_were_mapped(intercept_is_noisy):
    errors = noisy_estimates(mean_square_samples(), intercept_is_noisy, features=MAPPED)
    stated_law = replace(law(intercept_is_noisy), features=MAPPED)
    stated = assert_spreads(errors, stated_law)
    # Some features alone have the law that they have among all.
    some = correlation_noise(MEANS[1:], COVARIANCE[1:, 1:], stated_law.on(np.array([1, 2])))
    assert some[0, 1] == pytest.approx(stated[1, 2])


@pytest.mark.parametrize("features", [PLAIN, MAPPED])
@pytest.mark.parametrize("intercept_is_noisy", [False, True])
@pytest.mark.parametrize("off_diagonal", [0.25, 1.0])
def test_diagonal_entries_have_a_variance_of_their_own(off_diagonal, intercept_is_noisy, features):
    errors = noisy_estimates(
        mean_square_samples(), intercept_is_noisy, features=features, off_diagonal=off_diagonal
    )
    entries = EntryNoise(diagonal=STD**2, off_diagonal=off_diagonal * STD**2, between_diagonals=0.0)
    assert_spreads(errors, replace(law(intercept_is_noisy), entries=entries, features=features))


def test_noise_on_the_number_of_rows_is_on_all_that_is_divided_by_it():
    errors = noisy_estimates(mean_square_samples(), False, counted=3 * STD)
    assert_spreads(errors, replace(law(False), count_variance=(3 * STD) ** 2))


def test_correlations_count_what_their_own_columns_lost():
    lost = np.array([0.0, 0.0, 0.5])
    counted = replace(law(False), bias=1.0, lost=LostParts(lost, 5_000.0))
    found = correlation_noise(MEANS, COVARIANCE, counted)
    alone = correlation_noise(MEANS, COVARIANCE, law(False))
    taken = error_at(correlation_of(COVARIANCE), *np.ix_(lost, lost), 5_000)
    assert found[0, 1] == pytest.approx(alone[0, 1])
    assert found[0, 2] == pytest.approx(np.hypot(alone[0, 2], taken[0, 2]))
    assert found[0, 2] > 1.2 * alone[0, 2]
    np.testing.assert_array_equal(np.diagonal(found), 0.0)
    # Of some features, and of combinations, of which it is not known what they lost.
    some = correlation_noise(MEANS[1:], COVARIANCE[1:, 1:], counted.on(np.array([1, 2])))
    assert some[0, 1] == pytest.approx(found[1, 2])
    assert counted.mapped(np.eye(3)).lost is None
    # Where values are missing, of as many rows as both columns are in.
    thinned = replace(counted, shares=np.full((3, 3), 0.1))
    few = error_at(correlation_of(COVARIANCE), *np.ix_(lost, lost), 500)
    without = correlation_noise(
        MEANS, COVARIANCE, replace(thinned, lost=LostParts(0 * lost, 5_000.0))
    )
    more = correlation_noise(MEANS, COVARIANCE, thinned)
    assert more[0, 2] == pytest.approx(np.hypot(without[0, 2], few[0, 2]))


def test_no_correlation_is_stated_to_err_by_more_than_where_nothing_is_known():
    found = correlation_noise(MEANS, COVARIANCE, law(True, factor=1e5))
    np.testing.assert_array_equal(found, 1 - np.eye(3))


@pytest.mark.parametrize("features", [PLAIN, MAPPED])
def test_far_means_do_not_hide_the_noise_beside_them(features):
    for far in (1e9, 1e60):
        means, known = far * MEANS, replace(law(False), intercept=1.0, features=features)
        steep = np.sum(features[:, 1:] ** 2, axis=1)
        expected = STD * np.sqrt(steep / 2)
        np.testing.assert_allclose(mean_noise(means, known), expected, rtol=1e-6)
        # By d(M_ii - m_i²), in which the error of the mean has the largest part.
        found = np.diagonal(covariance_noise(means, COVARIANCE, known))
        np.testing.assert_allclose(found, 2 * np.abs(means) * expected, rtol=1e-6)


def test_a_covariance_that_shows_is_kept_where_a_variance_does_not():
    """Of a column with missing values; the correlation itself may be anything."""
    law, means = isotropic(2, 0.5), np.zeros(2)
    seen, rarely = np.array([[100.0, 9.0], [9.0, 1.0]]), np.array([False, True])
    np.testing.assert_array_equal(without_hidden(seen, means, law, rarely), seen)
    assert correlation_noise(means, seen, law)[0, 1] == 1.0
    louder = replace(law, entries=EntryNoise(diagonal=100.0, off_diagonal=50.0))
    assert without_hidden(seen, means, louder, rarely)[0, 1] == 0.0


def test_errors_stay_within_what_is_stated_where_noise_nearly_hides_a_variance():
    """Columns with any variance, of correlation 0.9 with the first, whose noise is small."""
    rng, held, p = np.random.default_rng(0), [], 400
    entries = EntryNoise(diagonal=1.0, off_diagonal=0.5)
    for _ in range(20):
        true = np.append(100.0, rng.uniform(0, 7, size=p))
        seen = np.diag(true + rng.normal(size=p + 1))
        seen[0, 1:] = 0.9 * np.sqrt(true[1:] * true[0]) + np.sqrt(0.5) * rng.normal(size=p)
        seen[1:, 0] = seen[0, 1:]
        noise = MomentNoise(entries=entries, features=np.eye(p + 2)[1:])
        stated = correlation_noise(np.zeros(p + 1), seen, noise)[0, 1:]
        own, wrong = np.diagonal(seen)[1:], np.abs(correlation_of(seen)[0, 1:] - 0.9)
        held += list((wrong <= 1.96 * stated)[(own > DEVIATIONS) & (own < DEVIATIONS + 1)])
        # Of less than a deviation nothing is known.
        np.testing.assert_array_equal(stated[(own > 0) & (own <= 1)], 1.0)
    assert len(held) > 1000
    assert np.mean(held) > 0.93


def test_eigenvalues_of_mapped_noise_end_where_they_are_said_to():
    """A spectrum of noise through a map, and through the turned diagonal matrix, is the same."""
    random, p = np.random.default_rng(1), 60
    turn = np.linalg.qr(random.normal(size=(p, p)))[0]
    widths = random.uniform(0.2, 2.0, size=p)
    features = np.column_stack([np.zeros(p), turn * widths])
    mapped = replace(law(False), features=features)
    ones, zeros, plain = np.ones(p), np.zeros(p), np.eye(1 + p)[1:]
    unmapped = replace(law(False), features=plain)
    assert bulk_edge(mapped, ones) == pytest.approx(bulk_edge(unmapped, widths), rel=1e-6)
    drawn = random.normal(size=(p, p)) * STD
    seen = features[:, 1:] @ ((drawn + drawn.T) / 2) @ features[:, 1:].T / INTERCEPT
    largest = np.abs(np.linalg.eigvalsh(seen)).max()
    assert largest == pytest.approx(largest_noise_eigenvalue(mapped, ones, zeros), rel=0.2)


def test_a_tenth_more_noise_a_forgotten_intercept_or_trace_would_be_noticed():
    means, _, correlation, _ = noisy_estimates(mean_square_samples(), True)
    for factor in (1.1, 0.9):
        wrong = correlation_noise(MEANS, COVARIANCE, law(True, factor=factor))
        with pytest.raises(GoodnessError):
            assert_mean_square(correlation[:, 0, 1], wrong[0, 1] ** 2)
    with pytest.raises(GoodnessError):
        assert_mean_square(means[:, 0], mean_noise(MEANS, law(False))[0] ** 2)
    _, deviations, _, _ = noisy_estimates(mean_square_samples(), False, trace_is_merged=True)
    forgotten = deviation_noise(MEANS, np.diagonal(COVARIANCE), law(False))
    with pytest.raises(GoodnessError):
        assert_mean_square(deviations[:, 2], forgotten[2] ** 2)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_a_page_states_the_noise_of_repeated_releases_in_original_units(neighbors):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.uniform(0, 30, size=10_000) for name in "ab"})
    # Means near a bound, where centering adds noise.
    columns = {"a": dpcov.Numeric(lower=-90, upper=30), "b": dpcov.Numeric(lower=0, upper=40)}
    terms = {"schema": dpcov.Schema(columns=columns), "budget": dpcov.Budget(rho="0.1")}
    terms |= {"mechanism": "gaussian", "neighbors": neighbors}
    moments = dpcov.checkpoint(table, **terms)
    count, found = mean_square_samples(scale_error=0.5), []
    for seed in range(count):
        made = dpcov.release(moments, entropy=dpcov.SeededEntropy(seed), **terms)
        found.append((made.mean_vector()[0], made.correlation_matrix("none")[0, 1]))
    means, correlations = np.array(found).T
    estimates = group_numbers(made).estimates
    widened = np.sqrt(count / (count - 1))
    assert_mean_square((means - means.mean()) * widened, estimates.mean_noise[0] ** 2)
    stated = estimates.correlation_noise[0, 1]
    assert_mean_square((correlations - correlations.mean()) * widened, stated**2)


def test_the_diagonal_has_no_noise_and_vanished_variances_are_unknown():
    covariance, two = np.diag([1.0, 0.0]), law(False).on(np.array([0, 1]))
    found = correlation_noise(np.zeros(2), covariance, two)
    assert found[0, 0] == 0.0
    assert np.isnan(found[1, 1])
    assert np.isnan(found[0, 1])
    assert np.isnan(deviation_noise(np.zeros(2), np.diagonal(covariance), two)[1])


def test_every_source_keeps_its_part_of_the_noise_of_strata_that_show():
    shows = {"matrix": np.eye(2), "trace": 1.0, "trace_variance": 1e-4}
    hidden = {"matrix": np.eye(2), "trace": 0.1, "trace_variance": 1.0}
    parts = (
        Part(**shows, diagonal_variance=6.0, by_source=(4.0, 2.0)),
        Part(**hidden, diagonal_variance=4.0, by_source=(1.0, 3.0)),
    )
    noises = EntryNoise(5.0, 2.5), EntryNoise(5.0, 2.0)
    unit = UnitEstimate(
        matrix=2 * np.eye(2),
        n_rows=100,
        noise=EntryNoise(10.0, 5.0),
        parts=parts,
        parts_may_be_empty=True,
        sources=tuple(Source(noise=each, back=np.eye(2)) for each in noises),
    )
    found = inhabited(unit)
    assert found.parts == parts[:1] and found.noise.diagonal == 6.0
    kept = [source.noise.diagonal for source in found.sources]
    assert kept == pytest.approx([4 / 5 * 5.0, 2 / 5 * 5.0])


def test_the_noise_of_empty_strata_does_not_count():
    names = tuple(f"x{k}" for k in range(200))
    made = make(names, 4000, epsilon="50", entropy=dpcov.SeededEntropy(0))
    unit = unit_estimate(made.statistics, made.manifest.n_rows)
    part = replace(
        unit.parts[0], diagonal_variance=1.0, trace=0.5, trace_variance=1.0, matrix=np.eye(201)
    )
    padded = replace(
        unit,
        parts=(*unit.parts, part),
        noise=EntryNoise(unit.noise.diagonal + 1, unit.noise.off_diagonal + 0.5),
        matrix=unit.matrix + np.eye(201),
    )
    kept, expected = inhabited(padded), inhabited(unit)
    np.testing.assert_allclose(kept.matrix, expected.matrix)
    assert kept.noise.diagonal == pytest.approx(expected.noise.diagonal)
    assert kept.noise.off_diagonal == pytest.approx(expected.noise.diagonal / 2)
    assert group_numbers(made).estimates.spectrum.n_above >= 20


def largest_eigenvalue(scales, shifts, draws=4):
    """Of noise on a covariance: the mean over draws, each within two percent of it."""
    rng = np.random.default_rng(1)
    center = scales[:, None] * np.hstack([-shifts[:, None], np.eye(len(scales))])
    noises = (center @ noise(len(scales) + 1, 1.0, rng) @ center.T for _ in range(draws))
    return np.mean([np.linalg.eigvalsh(each)[-1] for each in noises])


def isotropic(p, variance=1.0):
    return MomentNoise(entries=EntryNoise(2 * variance, variance), features=np.eye(1 + p)[1:])


RANGES = {
    "one": np.ones(250),
    "many": np.random.default_rng(1).uniform(1, 3, 250),
    "two": np.repeat([1.0, 4.0], 125),
}
# On the safe side where few columns dominate.
HEAVY = np.random.default_rng(1).lognormal(size=300), np.r_[[10.0] * 3, np.ones(297)]


@pytest.mark.parametrize("mean_square", [0.0, 0.9, 4.0, 10.0])
@pytest.mark.parametrize("ranges", RANGES)
def test_the_largest_eigenvalue_of_noise_is_where_it_is_said_to_be(ranges, mean_square):
    scales, shifts = RANGES[ranges], np.full(250, np.sqrt(mean_square / 250))
    stated = largest_noise_eigenvalue(isotropic(250), scales, shifts)
    assert stated == pytest.approx(largest_eigenvalue(scales, shifts), rel=0.08)
    if not mean_square:
        assert bulk_edge(isotropic(250), scales) == stated
        assert bulk_edge(isotropic(250, 0.0), scales) == 0.0
        for few in HEAVY:
            assert 1 < bulk_edge(isotropic(300), few) / largest_eigenvalue(few, np.zeros(300)) < 3


@pytest.mark.parametrize("mechanism", ["nuclear", "stratified-nuclear"])
def test_nuclear_noise_has_its_own_edge(mechanism):
    made = make(("a", "b", "c", "d"), budget=dpcov.Budget(epsilon=1), mechanism=mechanism)
    nuclear, ones = noise_of(made), np.ones(4)
    gaussian = replace(nuclear, edge_factor=1.0)
    assert bulk_edge(nuclear, ones) == pytest.approx(NUCLEAR_EDGE * bulk_edge(gaussian, ones))
