"""The benchmark of guessed fourth moments: its coverage is that of simulated variances."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.analysis.populations import measurements
from benchmarks.analysis.tails import coverages


def population():
    rng = np.random.default_rng(1)
    columns = {"normal": rng.standard_normal(20_000), "heavy": rng.standard_t(5, 20_000)}
    return measurements("made", pd.DataFrame(columns), 0)


def test_normal_tails_without_outliers_are_covered_as_often_as_stated_and_heavy_ones_less():
    normal, heavy = coverages(population(), 0.0)
    # Bounds of five standard deviations leave an excess kurtosis of 6 / 25 to the bulk.
    assert normal == pytest.approx(0.962, abs=0.01)
    assert heavy < 0.85


def test_a_larger_share_covers_more_and_the_bounds_cover_all():
    shares = [coverages(population(), share) for share in (0.0, 0.05, 0.2, 1.0)]
    assert np.all(np.diff(shares, axis=0) > 0)
    assert min(shares[-1]) > 0.999
