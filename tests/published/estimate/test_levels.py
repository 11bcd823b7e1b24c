"""Levels: what everybody knows of them is exact, blocks of noise go, blocks of signal stay."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov import Budget, Categorical, Numeric, Schema
from dpcov.noise.entropy import SeededEntropy
from dpcov.published import base
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.levels import divergence, positive, quiet, sources_of, with_known
from dpcov.published.estimate.unit import Part, UnitEstimate

RNG = np.random.default_rng(0)


def level(source, name, scale=1.0):
    where = {"center": 0.0, "half_range": scale, "lower": 0.0, "upper": 1.0}
    return EncodedColumn(name=f"{source}={name}", source=source, kind="category", **where)


def number(name):
    return EncodedColumn(name=name, source=name, kind="numeric", center=0.0, half_range=1.0)


def missing(source):
    name = f"{source} (missing)"
    return EncodedColumn(
        name=name, source=source, kind="missing", center=0.0, half_range=0.5, lower=0.0, upper=1.0
    )


COLUMNS = [level("a", "x", 0.3), level("a", "y"), missing("a"), number("b"), missing("b")]


def encoded(n):
    """Levels x and y, neither, or missing; a number that is missing at times."""
    kind, absent = RNG.integers(0, 4, n), RNG.random(n) < 0.3
    scales = np.array([column.half_range for column in COLUMNS])
    value = np.where(absent, 0.0, RNG.normal(size=n) + kind)
    return np.column_stack([kind == 0, kind == 1, kind == 2, value, absent]) / scales


def test_what_is_known_is_the_covariance_of_the_rows():
    rows = encoded(500)
    true = np.cov(rows.T, ddof=0)
    within = np.zeros_like(true)
    for places in sources_of(COLUMNS):
        within[np.ix_(places, places)] = 1
    # The number's own variance and pairs of two columns are not known; they stay.
    within[3, 3] = 0
    found = with_known(true + (1 - within) * 0.5 + within * 7.0, rows.mean(axis=0), COLUMNS)
    assert found == pytest.approx(true + (1 - within) * 0.5)


def test_a_mean_beyond_what_a_level_can_have_makes_no_negative_variance():
    found = with_known(np.eye(5), np.array([-0.1, 1.3, 0.1, 0.0, 0.1]), COLUMNS)
    assert found[0, 0] == found[1, 1] == 0.0


def unit_of(matrix, std):
    part = Part(matrix=matrix, diagonal_variance=2 * std**2)
    return UnitEstimate(matrix=matrix, n_rows=100.0, parts=(part,))


def test_the_divergence_of_a_linear_estimate_is_its_slope_times_the_noise():
    d, std = 60, 0.1
    slopes = RNG.uniform(0, 1, (d, d))
    slopes = (slopes + slopes.T) / 2
    found = divergence(lambda unit: (unit.matrix, slopes * unit.matrix), unit_of(np.eye(d), std))
    off = ~np.eye(d, dtype=bool)
    assert found[off].mean() == pytest.approx(std**2 * slopes[off].mean(), rel=0.05)
    assert np.diagonal(found).mean() == pytest.approx(
        2 * std**2 * slopes.diagonal().mean(), rel=0.2
    )


def test_blocks_of_noise_go_and_blocks_of_signal_stay():
    columns = [level(source, str(place)) for source in "abc" for place in range(8)]
    std, signal = 0.1, np.zeros((24, 24))
    signal[:8, 8:16] = RNG.normal(size=(8, 8))
    # One level of a is related to nothing.
    signal[0] = 0
    signal += signal.T
    noise = RNG.normal(size=(24, 24)) * std / np.sqrt(2)
    noisy = signal + noise + noise.T
    shared = np.full((24, 24), std**2)
    found = quiet(noisy, noisy, shared, np.ones(24), columns)
    assert found == pytest.approx(found.T)
    assert np.linalg.norm(found[:16, 16:]) < 0.5 * np.linalg.norm(noisy[:16, 16:])
    assert np.linalg.norm(found[0, 8:16]) < 0.5 * np.linalg.norm(noisy[0, 8:16])
    assert np.linalg.norm(found[1:8, 8:16] - signal[1:8, 8:16]) < 1.4 * std * np.sqrt(56)


def test_single_numbers_are_left_alone():
    columns = [number("a"), number("b")]
    matrix = np.array([[1.0, 0.01], [0.01, 1.0]])
    assert quiet(matrix, matrix, np.ones((2, 2)), np.ones(2), columns) == pytest.approx(matrix)


def test_the_nearest_positive_matrix_keeps_variances():
    matrix = np.array([[4.0, 2.0, -2.0], [2.0, 1.0, 1.0], [-2.0, 1.0, 0.0]])
    found = positive(matrix)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert np.diagonal(found) == pytest.approx([4.0, 1.0, 0.0])
    psd = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert positive(psd) == pytest.approx(psd)


def made(seed, n=6_000):
    """Two related columns of levels, a third that is not, and a number."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=n)
    codes = {}
    for name, pull, size in (("a", 1.0, 9), ("b", 1.0, 7), ("c", 0.0, 12)):
        tilt = np.linspace(-1, 1, size)
        codes[name] = (pull * np.outer(factor, tilt) + rng.gumbel(size=(n, size))).argmax(axis=1)
    labels = {name: [f"v{place}" for place in range(max(code) + 1)] for name, code in codes.items()}
    schema = Schema(
        columns={name: Categorical(categories=each) for name, each in labels.items()}
        | {"x": Numeric(lower=-10, upper=10)}
    )
    table = {name: np.array(labels[name])[code] for name, code in codes.items()}
    hot = [code == place for name, code in codes.items() for place in range(len(labels[name]))]
    value = factor + rng.normal(size=n)
    rows = np.column_stack([*hot, value])
    return pa.table(table | {"x": value}), schema, np.corrcoef(rows.T)


@pytest.mark.parametrize("budget", [{"epsilon": 1, "delta": Fraction(1, 10**6)}, {"epsilon": 4}])
@pytest.mark.parametrize("geometry", ["private", "schema"])
def test_blocks_are_better_than_shrinking_all_alike(budget, geometry, monkeypatch):
    before, after = [], []
    for seed in range(3):
        table, schema, truth = made(seed)
        release = dpcov.release(
            table,
            schema=schema,
            budget=Budget(**budget),
            geometry=geometry,
            entropy=SeededEntropy(seed),
        )
        sources = np.array([column.source for column in release.features])
        apart = sources[:, None] != sources
        after.append(np.linalg.norm((release.correlation_matrix() - truth)[apart]))
        with monkeypatch.context() as patch:
            patch.setattr(base, "has_blocks", lambda columns: False)
            alike = dpcov.Release(release.manifest, release.statistics.arrays).correlation_matrix()
        before.append(np.linalg.norm((alike - truth)[apart]))
        share = release.mean_vector()[:9]
        assert np.diagonal(release.covariance_matrix("shrink"))[:9] == pytest.approx(
            share * (1 - share)
        )
        assert np.linalg.eigvalsh(release.covariance_matrix()).min() > -1e-9
    assert np.mean(after) < 0.85 * np.mean(before)


def test_reading_twice_gives_the_same_numbers():
    table, schema, _ = made(0, 2_000)
    release = dpcov.release(
        table, schema=schema, budget=Budget(rho="0.1"), entropy=SeededEntropy(0)
    )
    again = dpcov.Release(release.manifest, release.statistics.arrays)
    assert np.array_equal(release.covariance(), again.covariance())
