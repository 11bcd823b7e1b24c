"""Coupled noise changes neither law nor estimate; it makes the ratio of two mechanisms steady."""

import numpy as np
import pytest

from benchmarks.accuracy import coupled
from benchmarks.accuracy.report import ratio_error
from tests.statistical.goodness import assert_mean_square

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


@pytest.mark.parametrize("rho", [1.0])
def test_the_ratio_is_steadier_than_with_independent_noise(rho):
    ours, plain = coupled.errors(ROWS, rho, 60)
    assert ours.shape == plain.shape == (60,)
    independent = ratio_error(ours, np.roll(plain, 1))
    assert ratio_error(ours, plain) < 0.7 * independent


def test_the_command_prints_every_cell(capsys):
    coupled.main(["--columns", "1", "--rows", "100", "--repetitions", "3"])
    told = capsys.readouterr().out
    assert told.count("d=1 n=100") == 8
    assert "8 cells" in told
