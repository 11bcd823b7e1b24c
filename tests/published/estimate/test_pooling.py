import numpy as np
import pytest

from dpcov.published.estimate.pooling import (
    GroupMoments,
    Reading,
    _common,
    _within,
    pool_moments,
    pull,
)


def noisy_groups(spread, seed=0, groups=40, entries=30):
    rng = np.random.default_rng(seed)
    truth = spread * rng.normal(size=(groups, entries))
    variances = np.repeat(rng.uniform(0.2, 2.0, size=(groups, 1)), entries, axis=1)
    return truth, truth + np.sqrt(variances) * rng.normal(size=truth.shape), variances


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 5.0])
def test_pulling_never_loses_and_knows_its_error(spread):
    # Mean squares of 1,200 numbers: a standard deviation is 4 %.
    truth, noisy, variances = noisy_groups(spread)
    found = pull(noisy, variances, np.zeros(30), np.zeros_like(noisy))
    error, alone = np.mean((found.values - truth) ** 2), np.mean((noisy - truth) ** 2)
    assert error < 1.02 * alone
    best = np.mean(spread**2 * variances / (spread**2 + variances))
    assert error < best + 0.1 * alone
    # How much groups differ is not known, so that errors of groups that are alike seem larger.
    said = np.mean(found.variances)
    assert error < 1.3 * said and said < max(1.3 * error, 0.1 * alone)


def test_groups_that_are_alike_are_their_mean():
    _, noisy, variances = noisy_groups(0.0, groups=100)
    found = pull(noisy, variances, np.zeros(30), np.zeros_like(noisy))
    assert np.mean(found.kept) < 0.1


def test_entries_in_which_groups_differ_are_told_from_others():
    spread = np.where(np.arange(30) < 3, 5.0, 0.1)
    _, noisy, variances = noisy_groups(spread)
    kept = pull(noisy, variances, np.zeros(30), np.zeros_like(noisy)).kept.mean(axis=0)
    assert kept[:3].min() > 0.9 and kept[3:].max() < 0.5


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_few_groups_that_differ_clearly_keep_their_own(groups, seed):
    """Beside a group of other values, which is nearly empty."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((groups + 1, 6))
    truth[0, 0], truth[1, 0] = 0.8, -0.8
    variances = np.full(truth.shape, 1e-6)
    variances[-1] = 10.0
    noisy = truth + np.sqrt(variances) * rng.normal(size=truth.shape)
    found = pull(noisy, variances, np.zeros(6), np.zeros_like(noisy))
    np.testing.assert_allclose(found.values[:-1, 0], truth[:-1, 0], atol=0.01)


def test_variances_inside_of_groups_are_one_deviation_above_what_is_seen():
    """So that one of six is too small, as of normal numbers.  Half of a variance is between."""
    rng, groups, draws = np.random.default_rng(2), 40, 4000
    rows, noise = rng.dirichlet(np.full(groups, 5.0)), rng.uniform(0.01, 0.05, size=(groups, 1))
    means = rng.normal(size=groups)
    means *= np.sqrt(0.5 / (rows @ means**2))
    apart = means[:, None] + np.sqrt(noise) * rng.normal(size=(groups, draws))
    found = _within(apart, np.broadcast_to(noise, apart.shape), rows, np.full(groups, 0.2)) * 0.8
    assert np.mean(found < 0.5) == pytest.approx(0.16, abs=0.05)


def reading(back):
    """Features that are always present: ``back``, (p, p), times the features of a row."""
    p = len(back)
    values, present = np.hstack([np.zeros((p, 1)), back]), np.eye(1, p + 1) + np.zeros((p, 1))
    return Reading(values, present, np.ones((p, p)), np.zeros((p, p)), np.ones((p, p), dtype=bool))


def test_a_group_of_which_nothing_is_known_gets_what_others_have_in_common():
    # Nine tables that are alike, and a tenth that is noise: it takes no part in the common matrix.
    rng, p = np.random.default_rng(4), 4
    truth = 0.5 + 0.5 * np.eye(p)
    variances = np.array([1e-4] * 9 + [1e4])
    noise = np.triu(rng.normal(size=(10, p, p))) * np.sqrt(variances)[:, None, None]
    covariances = truth + noise + np.triu(noise, 1).transpose(0, 2, 1)
    groups = GroupMoments(
        means=np.zeros((10, p)),
        covariances=covariances,
        variances=variances,
        counts=np.full(10, 1e6),
        count_variances=np.full(10, 1e-9),
        worth=np.full(10, 1e6),
    )
    made = pool_moments(groups, truth, reading(np.eye(p)))
    deviations = np.sqrt(np.diagonal(made.covariances, axis1=1, axis2=2))
    correlations = made.covariances / deviations[:, :, None] / deviations[:, None, :]
    assert made.kept[-1] < 1e-3
    assert np.abs(correlations - truth).max() < 0.05


def test_what_groups_that_are_alike_have_in_common_is_weighed_by_their_noise():
    """Equal weights would leave an error of 0.2 √40 / 50."""
    rng, p = np.random.default_rng(1), 3
    truth, metric = 0.5 + 0.5 * np.eye(p), np.diag([1.0, 2.0, 0.5])
    variances = np.repeat([1e-6, 0.04], [10, 40])
    units = np.outer(np.diagonal(metric), np.diagonal(metric)) + metric**2
    noise = variances[:, None, None] * units
    drawn = np.triu(rng.normal(size=(50, p, p))) * np.sqrt(noise)
    within = truth + drawn + np.triu(drawn, 1).transpose(0, 2, 1)
    every = np.ones((p, p), dtype=bool)
    found, shares = _common(within, noise, np.full((50, p, p), 1e-9), metric, every)
    assert np.abs(found - truth).max() < 0.005
    assert shares[10:].sum(axis=0).max() < 0.01


@pytest.mark.parametrize("noise_std", [1e-4, 0.05])
def test_groups_far_apart_err_as_their_own_rows_do(noise_std):
    """Means lie at 0, 1, ..., 5 of columns whose spread in a group is one: 240 groups, 1,000 rows.

    A standard deviation of a mean square is 9 %.
    """
    p, n, errors = 2, 1000, []
    rng, truth = np.random.default_rng(5), np.array([[1.0, 0.6], [0.6, 1.0]])
    for _ in range(40):
        places = np.arange(6.0)[:, None] * [1.0, -1.0]
        rows = places[:, None] + rng.multivariate_normal(np.zeros(p), truth, size=(6, n))
        noise = noise_std * rng.normal(size=(6, p, p))
        noise = np.tril(noise) + np.tril(noise, -1).transpose(0, 2, 1)
        noise[:, [0, 1], [0, 1]] *= np.sqrt(2)
        means = rows.mean(axis=1) + noise_std * rng.normal(size=(6, p))
        moments = np.einsum("gni,gnj->gij", rows, rows) / n + noise
        groups = GroupMoments(
            means=means,
            covariances=moments - means[:, :, None] * means[:, None, :],
            variances=np.full(6, noise_std**2),
            counts=np.full(6, float(n)),
            count_variances=np.full(6, 1e-9),
            worth=np.full(6, float(n)),
        )
        whole = np.cov(rows.reshape(-1, p).T)
        made = pool_moments(groups, whole, reading(np.eye(p)))
        of_variances = made.covariances[:, 0, 0] - 1, made.covariance_variances[:, 0, 0]
        of_means = made.means[:, 0] - places[:, 0], made.mean_variances[:, 0]
        # Groups have one correlation, but each a spread of its own, of which both columns' count.
        of_pairs = made.covariances[:, 0, 1] - 0.6, made.covariance_variances[:, 0, 1]
        errors.append([error**2 / said for error, said in (of_variances, of_means, of_pairs)])
    squares = np.mean(errors, axis=(0, 2))
    assert np.all(squares < 1.3) and squares[1] > 0.3 and squares[2] > 0.1


def test_neither_the_order_of_groups_nor_the_unit_of_columns_matters():
    rng, p = np.random.default_rng(2), 3
    facts = {
        "means": rng.normal(size=(6, p)) / 5,
        "covariances": np.array([np.cov(rng.normal(size=(p, 50))) for _ in range(6)]),
        "variances": rng.uniform(0.001, 0.01, size=6),
        "counts": rng.uniform(100, 1000, size=6),
        "count_variances": np.full(6, 1e-4),
        "worth": rng.uniform(50, 1000, size=6),
    }
    order, whole = rng.permutation(6), np.eye(p) + 0.2
    made = pool_moments(GroupMoments(**facts), whole, reading(np.eye(p)))
    turned = {name: value[order] for name, value in facts.items()}
    again = pool_moments(GroupMoments(**turned), whole, reading(np.diag([1.0, 10.0, 100.0])))
    units = np.array([1.0, 10.0, 100.0])
    assert np.allclose(again.means, made.means[order] * units)
    assert np.allclose(again.covariances, made.covariances[order] * np.outer(units, units))
    assert np.all(np.linalg.eigvalsh(made.covariances) > -1e-12)
