"""Samplers that follow their laws are acquitted, wrong ones caught, and the known bug named."""

import numpy as np
import pytest
from scipy.special import i0, i1

from benchmarks.peers import laws
from benchmarks.peers.laws import judge

SIZE = 20_000
LAW, BUG = laws.bingham(5.0), laws.inverted_bingham(5.0)


def generator():
    return np.random.default_rng(5)


def on_circle(concentration, *, inverted):
    """Rejection from the angular central Gaussian law, with the acceptance as asked for."""
    draw = generator()
    width = 1 - concentration + np.sqrt((concentration - 1) ** 2 + 2 * concentration)
    omega = np.array([1.0, 1 + 2 * concentration / width])
    proposals = draw.normal(size=(40 * SIZE, 2)) / np.sqrt(omega)
    squares = proposals**2 / (proposals**2).sum(axis=1, keepdims=True)
    form = squares @ omega
    density = np.exp(-concentration * squares[:, 1])
    kept = density / form if inverted else density * form
    limit = 1.0 if inverted else np.exp(-(2 - width) / 2) ** -1 * (width / 2) ** -1
    accepted = squares[draw.random(len(kept)) * limit < kept, 0]
    assert len(accepted) >= SIZE
    return accepted[:SIZE]


def test_means_on_the_circle_are_those_of_bessel_functions_and_of_the_known_bug():
    assert LAW.mean_of[2] == pytest.approx((1 + i1(2.5) / i0(2.5)) / 2, abs=1e-6)
    assert LAW.mean_of[2] == pytest.approx(0.8825, abs=5e-5)
    assert BUG.mean_of[2] == pytest.approx(0.965, abs=5e-4)


@pytest.mark.parametrize(
    ("inverted", "mean", "instead"),
    [(False, 0.8825, ""), (True, 0.965, "Bingham with the acceptance inverted")],
)
def test_a_right_sampler_is_acquitted_and_an_inverted_acceptance_named(inverted, mean, instead):
    verdict = judge(on_circle(5.0, inverted=inverted), LAW, BUG)
    assert verdict.follows is not inverted
    assert verdict.measured == pytest.approx(mean, abs=0.01)
    assert verdict.instead == instead


def test_another_wrong_sampler_is_caught_without_a_name():
    verdict = judge(np.full(SIZE, 0.5), LAW, BUG)
    assert not verdict.follows
    assert verdict.instead == ""


@pytest.mark.parametrize("factor", [1.0, 0.8, 1.25])
def test_noise_with_a_wrong_scale_is_caught(factor):
    laplace, normal = generator().laplace(scale=2.0, size=SIZE), generator().normal(size=SIZE)
    assert judge(factor * laplace, laws.laplace(2.0)).follows is (factor == 1.0)
    assert judge(factor * 3.0 * normal, laws.gaussian(3.0)).follows is (factor == 1.0)


def test_bounded_laplace_is_the_conditioned_law_and_honors_epsilon():
    epsilon, sensitivity = 1.0, 2.0
    law = laws.bounded_laplace(epsilon, sensitivity, 0.5)
    scale = float(law.text.rsplit(" ", 1)[1])
    draws = generator().laplace(loc=0.5, scale=scale, size=3 * SIZE)
    assert judge(draws[draws >= 0], law).follows
    assert not judge(np.maximum(draws, 0), law).follows
    grid = np.linspace(0, 30, 3001)
    ends = (laws.bounded_laplace(epsilon, sensitivity, value).cdf(grid) for value in (0.0, 2.0))
    first, second = map(np.diff, ends)
    assert epsilon - 0.005 < np.abs(np.log(first / second)).max() <= epsilon + 1e-9
