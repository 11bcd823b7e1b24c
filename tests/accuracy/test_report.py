"""Ratios, their errors and the summary."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.accuracy import coupled, report
from benchmarks.accuracy.measure import Measurement
from benchmarks.accuracy.report import points, ratio_error
from benchmarks.papers.results import standard_error
from tests.statistical.goodness import assert_mean_square


def measurement(
    contestant, errors, *, role="rival", population="p", oracle=math.nan, group="g", d=5
):
    values = np.array(errors, dtype=float)
    return Measurement(
        group=group,
        population=population,
        d=d,
        budget="rho=1",
        contestant=contestant,
        role=role,
        error=float(values.mean()),
        relative=float(values.mean()),
        standard_error=standard_error(values),
        repetitions=len(values),
        oracle=oracle,
        errors=tuple(values),
    )


def test_a_point_compares_ours_with_the_best_rival_and_with_improved_ones():
    rivals = [measurement(name, [error, error]) for name, error in (("a", 2.0), ("b", 4.0))]
    improved = measurement("c", [0.8, 0.8], role="improved")
    reference = measurement("G-3", [0.1, 0.1], role="reference")
    ours = measurement("auto", [1.0, 1.0], role="ours", oracle=0.5)
    (point,) = points([ours, *rivals, improved, reference])
    assert (point.ratio, point.best_rival, point.oracle) == (0.5, "a", 2.0)
    assert (point.improved, point.best_improved) == (1.25, "c")


def test_a_copy_that_was_dropped_after_lucky_draws_is_not_the_best():
    lucky = replace(measurement("copy", [1.5, 1.5]), dropped=True)
    ours = measurement("auto", [1.0] * 3, role="ours")
    (point,) = points([ours, measurement("a", [1.5, 1.5, 3.0]), lucky])
    assert (point.best_rival, point.ratio) == ("a", 0.5)


def test_a_rival_that_ties_with_zero_counts_as_zero():
    ours, rival = measurement("auto", [1.0], role="ours"), measurement("a", [1.0])
    assert points([ours, rival, measurement("zero", [1.001])])[0].best_rival == "zero"


def test_one_column_has_no_distance_to_the_oracle():
    ours = measurement("auto", [1.0], role="ours", oracle=1e-9, d=1)
    assert math.isnan(points([ours, measurement("a", [1.0])])[0].oracle)


def test_the_error_of_a_ratio_is_that_of_simulated_ratios():
    generator = np.random.default_rng(5)
    ours, best = generator.normal(2, 0.2, (4000, 20)), generator.normal(4, 0.4, (4000, 20))
    spread = np.std(ours.mean(axis=1) / best.mean(axis=1))
    paired = np.mean([ratio_error(a, b) for a, b in zip(ours, best, strict=True)])
    unequal = np.mean([ratio_error(a, b) for a, b in zip(ours, best[:, :10], strict=True)])
    assert paired == pytest.approx(spread, rel=0.05)
    assert unequal == pytest.approx(spread * 1.5**0.5, rel=0.05)


def test_the_summary_counts_apart_where_zero_is_best():
    found = points(
        m
        for population, rival, ours in (("p", "a", 2.0), ("q", "a", 0.5), ("r", "zero", 4.0))
        for m in (
            measurement("auto", [ours] * 3, role="ours", population=population, oracle=ours / 2),
            measurement(rival, [1.0] * 3, population=population),
        )
    )
    cells = " | ".join(report.summary(found, 1.0)[-1].split(" | ")[1:6])
    assert cells == "3 | 1.587 | 2: 1.000, 2.000, 1 (1) | 1: 4.000, 4.000, 1 (1) | 2.000, 2.000"


def test_a_ratio_above_the_limit_within_the_noise_is_marked_as_such():
    ours = measurement("auto", [1.0, 1.4, 1.2], role="ours")
    (point,) = points([ours, measurement("a", [1.0, 0.9, 1.2])])
    assert point.above(1.0)
    assert not point.significantly_above(1.0)
    assert "above 1, within the noise" in report.table([point], 1.0)
    assert replace(point, uncertainty=0.01).significantly_above(1.0)


ROWS = np.random.default_rng(0).normal(size=(400, 2)) / 8


def test_both_mechanisms_see_one_noise_at_their_own_scale():
    first, second = coupled.Noise(3, 5), coupled.Noise(3, 5)
    once, again = (
        first.symmetric(3, 10**12, None),
        second.symmetric(3, 4 * 10**12, None, off_diagonal=2),
    )
    np.testing.assert_allclose(again, 2 * once, atol=2)
    assert np.any(first.symmetric(3, 10**12, None) != once)


def test_the_noise_has_the_stated_variances():
    drawn = [coupled.Noise(3, repetition).symmetric(3, 10**12, None) for repetition in range(4000)]
    matrices = np.array(drawn, dtype=float)
    assert_mean_square(matrices[:, 0, 1], 10**12 / 2)
    assert_mean_square(matrices[:, 1, 1], 10**12)


def test_the_ratio_is_steadier_than_with_independent_noise():
    # Rows near the norm bound, so that shells are not fitted and both draw one matrix.
    rows = ROWS / np.linalg.norm(ROWS, axis=1).max()
    ours, plain = coupled.errors(rows, 1.0, 60)
    assert ours.shape == plain.shape == (60,)
    independent = ratio_error(ours, np.roll(plain, 1))
    assert ratio_error(ours, plain) < 0.7 * independent


def test_the_command_prints_every_cell(capsys):
    coupled.main(["--columns", "1", "--rows", "100", "--repetitions", "3"])
    told = capsys.readouterr().out
    assert told.count("d=1 n=100") == 8
    assert "8 cells" in told
