import numpy as np
import pytest

from dpcov.published.estimate.pooling import GroupMoments, _spread, pool_moments, pull


def noisy_groups(spread, seed=0, groups=40, entries=30):
    rng = np.random.default_rng(seed)
    truth = spread * rng.normal(size=(groups, entries))
    variances = np.repeat(rng.uniform(0.2, 2.0, size=(groups, 1)), entries, axis=1)
    return truth, truth + np.sqrt(variances) * rng.normal(size=truth.shape), variances


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 5.0])
def test_pulling_never_loses_and_knows_its_error(spread):
    # Mean squares of 1,200 numbers: a standard deviation is 4 %.
    truth, noisy, variances = noisy_groups(spread)
    found = pull(noisy, variances, np.zeros(30))
    error, alone = np.mean((found.values - truth) ** 2), np.mean((noisy - truth) ** 2)
    assert error < 1.02 * alone
    best = np.mean(spread**2 * variances / (spread**2 + variances))
    assert error < best + 0.1 * alone
    assert error == pytest.approx(np.mean(found.variances), rel=0.25, abs=0.05)


def test_groups_that_are_alike_are_their_mean():
    _, noisy, variances = noisy_groups(0.0, groups=100)
    found = pull(noisy, variances, np.zeros(30))
    assert np.mean(found.kept) < 0.1


def test_entries_in_which_groups_differ_are_told_from_others():
    spread = np.where(np.arange(30) < 3, 5.0, 0.1)
    _, noisy, variances = noisy_groups(spread)
    kept = pull(noisy, variances, np.zeros(30)).kept.mean(axis=0)
    assert kept[:3].min() > 0.9 and kept[3:].max() < 0.5


def test_the_spread_of_a_mapped_matrix_is_that_of_draws():
    rng = np.random.default_rng(1)
    back, own = rng.normal(size=(3, 3)), rng.uniform(0.5, 2, size=(3, 3))
    own = (own + own.T) / 2
    drawn = np.triu(rng.normal(size=(40_000, 3, 3))) * np.sqrt(own)
    drawn = drawn + np.triu(drawn, 1).transpose(0, 2, 1)
    found = np.var(back @ drawn @ back.T, axis=0)
    assert np.allclose(_spread(back, own), found, rtol=0.06)


def test_neither_the_order_of_groups_nor_the_unit_of_columns_matters():
    rng, p = np.random.default_rng(2), 3
    facts = {
        "means": rng.normal(size=(6, p)) / 5,
        "covariances": np.array([np.cov(rng.normal(size=(p, 50))) for _ in range(6)]),
        "variances": rng.uniform(0.001, 0.01, size=6),
        "counts": rng.uniform(100, 1000, size=6),
        "count_variances": np.full(6, 1e-4),
    }
    order, whole = rng.permutation(6), np.eye(p) + 0.2
    made = pool_moments(GroupMoments(**facts), whole, np.eye(p))
    turned = {name: value[order] for name, value in facts.items()}
    again = pool_moments(GroupMoments(**turned), whole, np.diag([1.0, 10.0, 100.0]))
    units = np.array([1.0, 10.0, 100.0])
    assert np.allclose(again.means, made.means[order] * units)
    assert np.allclose(again.covariances, made.covariances[order] * np.outer(units, units))
    assert np.all(np.linalg.eigvalsh(made.covariances) > -1e-12)
