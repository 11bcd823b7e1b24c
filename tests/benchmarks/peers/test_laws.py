import numpy as np
import pytest
from scipy.special import i0, i1

from benchmarks.peers import laws
from benchmarks.peers.laws import judge

SIZE = 20_000
GENERATOR_SEED = 5


def on_circle(concentration, *, inverted, size=SIZE):
    """Rejection from the angular central Gaussian law on the circle, with the acceptance as asked for."""
    generator = np.random.default_rng(GENERATOR_SEED)
    width = 1 - concentration + np.sqrt((concentration - 1) ** 2 + 2 * concentration)
    omega = np.array([1.0, 1 + 2 * concentration / width])
    proposals = generator.normal(size=(40 * size, 2)) / np.sqrt(omega)
    squares = proposals**2 / (proposals**2).sum(axis=1, keepdims=True)
    form = squares @ omega
    density = np.exp(-concentration * squares[:, 1])
    kept = density / form if inverted else density * form
    limit = 1.0 if inverted else np.exp(-(2 - width) / 2) ** -1 * (width / 2) ** -1
    accepted = squares[generator.random(len(kept)) * limit < kept, 0]
    assert len(accepted) >= size
    return accepted[:size]


def test_means_on_the_circle_are_those_of_bessel_functions_and_of_the_known_bug():
    right, inverted = laws.bingham(5.0), laws.inverted_bingham(5.0)
    assert right.mean_of[2] == pytest.approx((1 + i1(2.5) / i0(2.5)) / 2, abs=1e-6)
    assert right.mean_of[2] == pytest.approx(0.8825, abs=5e-5)
    assert inverted.mean_of[2] == pytest.approx(0.965, abs=5e-4)


def test_a_right_bingham_sampler_is_acquitted():
    verdict = judge(on_circle(5.0, inverted=False), laws.bingham(5.0), laws.inverted_bingham(5.0))
    assert verdict.follows
    assert verdict.measured == pytest.approx(0.8825, abs=0.01)


def test_an_inverted_acceptance_is_caught_and_named():
    verdict = judge(on_circle(5.0, inverted=True), laws.bingham(5.0), laws.inverted_bingham(5.0))
    assert not verdict.follows
    assert verdict.instead == "Bingham with the acceptance inverted"
    assert verdict.measured == pytest.approx(0.965, abs=0.01)


def test_another_wrong_sampler_is_caught_without_a_name():
    verdict = judge(np.full(SIZE, 0.5), laws.bingham(5.0), laws.inverted_bingham(5.0))
    assert not verdict.follows
    assert verdict.instead == ""


@pytest.mark.parametrize("factor", [1.0, 0.8, 1.25])
@pytest.mark.parametrize(
    ("law", "draw"),
    [
        (laws.laplace(2.0), lambda generator: generator.laplace(scale=2.0, size=SIZE)),
        (laws.gaussian(3.0), lambda generator: generator.normal(scale=3.0, size=SIZE)),
    ],
)
def test_noise_with_a_wrong_scale_is_caught(law, draw, factor):
    samples = factor * draw(np.random.default_rng(GENERATOR_SEED))
    assert judge(samples, law).follows is (factor == 1.0)


def test_bounded_laplace_is_the_conditioned_law_and_honors_epsilon():
    epsilon, sensitivity = 1.0, 2.0
    law = laws.bounded_laplace(epsilon, sensitivity, 0.5)
    scale = float(law.text.rsplit(" ", 1)[1])
    draws = np.random.default_rng(GENERATOR_SEED).laplace(loc=0.5, scale=scale, size=3 * SIZE)
    assert judge(draws[draws >= 0], law).follows
    assert not judge(np.maximum(draws, 0), law).follows
    grid = np.linspace(0, 30, 3001)
    rises = [
        np.diff(laws.bounded_laplace(epsilon, sensitivity, value).cdf(grid)) for value in (0.0, 2.0)
    ]
    assert epsilon - 0.005 < np.abs(np.log(rises[0] / rises[1])).max() <= epsilon + 1e-9
