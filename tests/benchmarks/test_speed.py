"""The speed benchmarks measure what they say, whoever else uses the machine."""

import dpcov
from benchmarks.speed import scaling


def test_the_exponent_is_the_slope_of_a_power_law():
    assert abs(scaling.exponent((1, 10, 100), [2.0, 2.0 * 10**1.3, 2.0 * 100**1.3]) - 1.3) < 1e-12


def test_the_busiest_thread_is_timed_and_moments_are_those_of_the_rows():
    scaling.spent.clear()
    X = scaling.rows_of(70_000, 8)
    assert scaling.gather(X, threads=2) == dpcov.moments(X, norm_bound=1.0, threads=1)
    assert 1 <= len(scaling.spent) <= 2
    assert min(scaling.spent.values()) > 0
