"""Attacks on the last bits of noisy numbers: they break naive noise and learn nothing from ours.

Mironov (2012), On significance of the least significant bits for differential privacy; Jin,
McMurtry, Rubinstein, Ohrimenko (2022), Are we there yet? Timing and floating-point attacks on
differential privacy systems.

Both ask whether the noise generator can have made the released number from a guessed value at all.
"""

import numpy as np
import pytest
from scipy import stats

from dpcov.data.exact.moments import DEFAULT_BITS, Moments
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.laplace import Laplace
from dpcov.noise.entropy import SystemEntropy
from dpcov.privacy.budget import Budget
from tests.attacks import naive
from tests.audit.bounds import clopper_pearson, lower_bound_of_event
from tests.statistical.goodness import ALPHA, POWER, assert_same_law

N_FEATURES = 250
TRIALS = N_FEATURES * (N_FEATURES + 1) // 2
RUNS = 4_000
LOW_BITS = 8
EXACT = (0.0, (3001 / 2**20) ** 2)
"""Two values of one entry, an odd number of lattice units apart; noise is far larger."""

LARGEST_ADVANTAGE = 0.06
"""What :func:`assert_no_advantage` finds with probability POWER in TRIALS releases of a table."""


def noisy_copies(mechanism, budget, entry):
    """Integers of one release whose exact value is ``entry`` in every place, in lattice units.

    A table of one row with all entries alike has moments that are alike too: one release of d
    columns shows d (d + 1) / 2 independent noisy copies of one number.
    """
    problem = Problem(n_features=N_FEATURES, neighbors="replace-one", n_rows=1)
    moments = Moments(N_FEATURES, mechanism.moments_spec(problem))
    moments.add(np.full((1, N_FEATURES), entry**0.5))
    calibration = mechanism.calibrate(problem, budget)
    made = mechanism.draw(Ask.saved(moments), calibration, problem, SystemEntropy())
    return made.arrays["sscp"][np.triu_indices(N_FEATURES)], calibration


def laplace_can_make(released, guess, scale):
    """Whether some 53-bit uniform number gives exactly the released number for this guess."""
    noise = released - guess
    nearest = np.round(np.exp(-np.abs(noise) / scale) / naive.RESOLUTION)
    found = np.zeros(released.shape, dtype=bool)
    for step in range(-4, 5):
        uniform = np.clip(nearest + step, 1, 2**53 - 1) * naive.RESOLUTION
        found |= guess + np.sign(noise) * naive.laplace_of(uniform, scale) == released
    return found


def polar_can_make(released, guess, scale):
    """Whether some point of the polar method's lattice gives exactly the released pair."""
    noise = (released - guess) / scale
    radius = np.square(noise).sum(axis=1)
    square = np.exp(-0.5 * radius)
    points = noise * np.sqrt(square / radius)[:, None]
    lattice, found = 2.0 * naive.RESOLUTION, np.zeros(len(released), dtype=bool)
    for first in range(-2, 3):
        for second in range(-2, 3):
            tried = (np.round(points / lattice) + np.array([first, second])) * lattice
            found |= np.all(guess + scale * naive.polar_of(tried) == released, axis=1)
    return found


def test_naive_laplace_noise_shows_its_exact_value_in_its_last_bits():
    random = np.random.default_rng(1)
    first, second = (exact + naive.laplace(1.0, RUNS, random) for exact in (0.0, 1.0))
    impossible = [~laplace_can_make(each, 0.0, 1.0) for each in (first, second)]
    assert np.mean(impossible[0]) == 0
    # The noise has epsilon = 1; what is impossible under the first table happens under the second.
    assert np.mean(impossible[1]) > 0.3
    assert lower_bound_of_event(*impossible[::-1], lambda seen: seen) > 3


def test_naive_polar_noise_has_outputs_that_only_one_table_reaches():
    random = np.random.default_rng(2)
    exact = np.array([[0.0, 0.0], [1.0, 0.0]])
    first, second = (each + 2.0 * naive.polar_pairs(RUNS, random) for each in exact)
    impossible = [~polar_can_make(each, exact[0], 2.0) for each in (first, second)]
    assert np.mean(impossible[0]) < 0.01
    assert np.mean(impossible[1]) > 0.5
    assert lower_bound_of_event(*impossible[::-1], lambda seen: seen) > 2


def assert_no_advantage(first, second):
    """Equal probabilities of a guess under both tables: intervals of level ALPHA / 2 each meet."""
    limits = [clopper_pearson(int(each.sum()), each.size, ALPHA / 4) for each in (first, second)]
    assert max(low for low, _ in limits) <= min(high for _, high in limits)


def test_the_test_of_no_advantage_finds_a_small_one():
    """The declared power: two intervals of z(ALPHA / 4) errors and the guesses' own spread."""
    error = np.sqrt(0.25 / TRIALS)
    reach = error * (2 * stats.norm.isf(ALPHA / 4) + np.sqrt(2) * stats.norm.isf(1 - POWER))
    assert reach < LARGEST_ADVANTAGE
    first, second = np.random.default_rng(3).random((2, TRIALS))
    with pytest.raises(AssertionError):
        assert_no_advantage(first < 0.5, second < 0.5 + LARGEST_ADVANTAGE)


OURS = ((Laplace(), Budget(epsilon=1)), (Gaussian(), Budget(rho=1)))


@pytest.fixture(scope="module", params=OURS, ids=("laplace", "gaussian"))
def ours(request):
    """The mechanism's scale, and noisy copies of two exact values in units of one."""
    mechanism, budget = request.param
    made = [noisy_copies(mechanism, budget, value) for value in EXACT]
    calibration = made[0][1]
    scale = getattr(calibration, "scale", None) or calibration.diagonal_variance**0.5
    return float(scale) * 4.0**-mechanism.bits, [copies for copies, _ in made]


def test_the_last_bits_of_our_noise_are_alike_under_both_tables_and_all_reached(ours):
    first, second = (each % 2**LOW_BITS for each in ours[1])
    assert_same_law(first, second)
    assert np.unique(first).size == np.unique(second).size == 2**LOW_BITS


def test_the_attacks_guess_no_better_than_chance_against_ours(ours):
    scale, copies = ours
    first, second = (each * 4.0**-DEFAULT_BITS for each in copies)
    for guess in EXACT:
        for tried in {1.0, scale}:
            assert_no_advantage(*(laplace_can_make(each, guess, tried) for each in (first, second)))
        pairs = [each[: len(each) // 2 * 2].reshape(-1, 2) for each in (first, second)]
        assert_no_advantage(*(polar_can_make(each, guess, scale) for each in pairs))


@pytest.mark.parametrize("step", [1, 64])
def test_noise_on_a_coarser_grid_than_the_moments_would_be_seen(step):
    """The same test rejects noise in multiples of 2 or more: its power against a lattice leak."""
    random = np.random.default_rng(4)
    noise = random.integers(-(2**30), 2**30, size=(2, TRIALS)) * (2 * step)
    with pytest.raises(AssertionError):
        assert_same_law(noise[0] % 2**LOW_BITS, (noise[1] + 3001**2) % 2**LOW_BITS)
