"""The exponential mechanism: its law, what settles close calls, and sensitivity."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import chisquare

from dpcov.noise import choice
from dpcov.noise.choice import exponential_choice
from dpcov.noise.entropy import SeededEntropy

COSTS = np.array([5, 6, 7, 9, 5, 30])


def drawn(rate, size=20_000):
    """Numbers of draws of every place; few lanes at a time, which changes no law."""
    entropy = SeededEntropy(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "_BATCH", 64)
        found = [exponential_choice(COSTS, rate, entropy) for _ in range(size)]
    return np.bincount(found, minlength=len(COSTS))


drawn_once = cache(drawn)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 100)])
def test_places_are_drawn_in_proportion(rate):
    weights = np.exp(-float(rate) * COSTS)
    assert chisquare(drawn_once(rate), 20_000 * weights / weights.sum()).pvalue > 1e-4


def test_the_test_sees_another_rate():
    weights = np.exp(-0.55 * COSTS)
    assert chisquare(drawn_once(Fraction(1, 2)), 20_000 * weights / weights.sum()).pvalue < 1e-6


def test_rational_arithmetic_settles_every_call_alike(monkeypatch):
    expected = drawn(Fraction(1, 2), size=300)
    monkeypatch.setattr(choice, "FILTER_SLACK", 10.0)
    assert drawn(Fraction(1, 2), size=300).tolist() == expected.tolist()


def test_one_cheap_place_among_many_is_found():
    costs = np.full(2**16, 10_000)
    costs[777] = 0
    assert exponential_choice(costs, Fraction(1, 100), SeededEntropy(1)) == 777


@pytest.mark.parametrize("costs", [[4], [2**40, 2**40 + 1]])
def test_few_places_and_large_costs(costs):
    assert exponential_choice(np.array(costs), Fraction(50), SeededEntropy(1)) == 0
