from fractions import Fraction
from math import ceil, isqrt

import numpy as np
import pytest

import dpcov
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.gaussian import Gaussian, GaussianCalibration, even_variance, symmetric_noise
from dpcov.mechanisms.laplace import Laplace, LaplaceCalibration, symmetric_laplace
from dpcov.mechanisms.nuclear import Nuclear
from dpcov.mechanisms.projection import Projection
from dpcov.mechanisms.thresholding import Thresholding
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.convert import sqrt_down
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.file.statistics import PostOptions
from tests.data.reading import gather
from tests.mechanisms.chosen import choose, problem

ENTROPY = SeededEntropy(0)
ROWS = np.array([[0.5, 0.25], [0.75, 0.0]])
BITS = 6
SSCP = 4**BITS * ROWS.T @ ROWS
PROMISE = ZCDP(rho=Fraction(1))


def gathered(clip=1.0):
    """Moments of rows that are ROWS in units of the clip norm."""
    return gather([clip * ROWS], 2, MomentsSpec(bits=BITS, clip=clip))


@pytest.mark.parametrize("squared", [Fraction(1), Fraction(7, 3), Fraction(10**9)])
def test_variances_are_even_and_just_large_enough(squared):
    budget = ApproxDP(epsilon=Fraction(1, 2), delta=Fraction(1, 10**5))
    analytic = gaussian_noise_multiplier(budget.epsilon, budget.delta) ** 2
    assert even_variance(squared, ZCDP(rho=Fraction(1, 8))) == 2 * ceil(2 * squared)
    assert even_variance(squared, budget) == 2 * ceil(squared * analytic / 2)
    with pytest.raises(AssertionError):
        even_variance(squared, PureDP(epsilon=Fraction(1)))


@pytest.mark.parametrize("weight", [None, Fraction(1, 4)])
def test_the_largest_variance_that_can_be_drawn_is_drawn(weight):
    largest, options = LARGEST_STD**2 * (weight or 1), {"smallest_weight": weight} if weight else {}
    assert even_variance(Fraction(largest), ZCDP(rho=Fraction(1, 2)), **options) == largest
    with pytest.raises(BudgetError, match="too much noise"):
        even_variance(Fraction(largest + 1), ZCDP(rho=Fraction(1, 2)), **options)


def test_isotropic_noise_has_half_the_variance_off_the_diagonal(monkeypatch):
    drawn = choose(
        monkeypatch,
        "dpcov.mechanisms.gaussian.rounded_gaussian",
        lambda variance, size: np.arange(1, size + 1) * variance,
    )
    assert symmetric_noise(3, 10, ENTROPY).tolist() == [[10, 5, 10], [5, 20, 15], [10, 15, 30]]
    assert symmetric_noise(2, 10, ENTROPY, off_diagonal=10).tolist() == [[10, 10], [10, 20]]
    assert drawn.asked == [(5, 3), (10, 3), (10, 1), (10, 2)]
    assert symmetric_noise(1, 10, ENTROPY).dtype == np.int64


@pytest.mark.parametrize("noise", ["isotropic", "upper-triangle"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_gaussian_variances_are_those_of_the_theorems(noise, neighbors):
    made = Gaussian(bits=BITS, noise=noise).calibrate(
        problem(3, neighbors, 3), dpcov.Budget(rho="0.3")
    )
    public, isotropic = neighbors == "replace-one", noise == "isotropic"
    squared = (2 if public else 1 + Fraction(1, 16)) * Fraction(9 * 16**BITS)
    variance = 2 * ceil(squared / Fraction("0.6") / 2)
    assert made == GaussianCalibration(
        promise=ZCDP(rho=Fraction("0.3")),
        noise_multiplier=sqrt_down(Fraction(variance) / squared),
        diagonal_variance=variance,
        off_diagonal_variance=variance // 2 if isotropic else variance,
        trace_variance=variance if public and isotropic else None,
        row_count_variance=None if public else 16 * Fraction(variance, 16**BITS),
    )


@pytest.mark.parametrize("trace_variance", [None, 60])
@pytest.mark.parametrize("row_count_variance", [None, Fraction(5, 2)])
def test_gaussian_draws_are_added_and_described(monkeypatch, trace_variance, row_count_variance):
    matrix = choose(
        monkeypatch,
        "dpcov.mechanisms.gaussian.symmetric_noise",
        lambda d, variance, off_diagonal: np.array([[3, 1], [1, 2]]),
    )
    numbers = choose(
        monkeypatch,
        "dpcov.mechanisms.gaussian.rounded_gaussian",
        lambda variance, size: np.array([-7, 99])[:size],
    )
    calibration = GaussianCalibration(
        promise=PROMISE,
        diagonal_variance=60,
        off_diagonal_variance=30,
        trace_variance=trace_variance,
        row_count_variance=row_count_variance,
    )
    mechanism = Gaussian(bits=BITS, clip=0.5)
    made = mechanism.draw(Ask.saved(gathered(0.5)), calibration, problem(2), ENTROPY)
    np.testing.assert_array_equal(made.arrays["sscp"], np.add(SSCP, [[3, 1], [1, 2]]))
    assert matrix.asked == [(2, 60, 30)]
    asked = {"trace": trace_variance, "row_count": row_count_variance}
    exact = {"trace": np.trace(SSCP), "row_count": 2}
    for name, variance in asked.items():
        released = made.arrays[name].tolist() if name in made.arrays else None
        assert released == (None if variance is None else [exact[name] - 7])
    assert numbers.asked == [(v, 1) for v in (trace_variance, row_count_variance) if v is not None]
    law = made.noise
    assert (law.diagonal_variance, law.off_diagonal_variance) == ("60", "30")
    assert law.trace_variance == (None if trace_variance is None else "60")
    assert law.row_count_variance == (None if row_count_variance is None else "2.5")
    assert (made.layout, made.lattice_bits) == ("sscp", BITS)
    assert (made.radius, made.dropped_bits) == (0.5, 0)


def test_a_long_trace_drops_low_bits_of_the_matrix_too(monkeypatch):
    monkeypatch.setattr(
        "dpcov.mechanisms.gaussian.symmetric_noise",
        lambda *_, off_diagonal: np.zeros((2, 2), dtype=np.int64),
    )
    monkeypatch.setattr(
        "dpcov.mechanisms.gaussian.rounded_gaussian", lambda *_: np.array([2**62, 0])
    )
    calibration = GaussianCalibration(
        promise=PROMISE, diagonal_variance=60, off_diagonal_variance=30, trace_variance=60
    )
    made = Gaussian(bits=BITS).draw(Ask.saved(gathered()), calibration, problem(2), ENTROPY)
    assert made.dropped_bits > 0
    np.testing.assert_array_equal(made.arrays["sscp"], SSCP.astype(int) >> made.dropped_bits)
    assert made.arrays["trace"].tolist() == [(2**62 + int(np.trace(SSCP))) >> made.dropped_bits]


def test_laplace_scales_are_those_of_the_theorem():
    for k in (1, 3):
        epsilon = Fraction("0.7")
        made = Laplace(bits=BITS).calibrate(
            problem(3, "add-remove-one", k), dpcov.Budget(epsilon=epsilon)
        )
        assert made.scale == ceil(4**BITS * 2 * k / (epsilon * Fraction(19, 20)))
        assert made.row_count == PureDP(epsilon=epsilon / 20)
        assert made.promise == PureDP(epsilon=epsilon)
        public = Laplace(bits=BITS).calibrate(problem(4, k=k), dpcov.Budget(epsilon=epsilon))
        # sqrt(d**2 / 2 + d + 1) = sqrt(13) for d = 4.
        exact = 4**BITS * k * Fraction(isqrt(13 * 10**40), 10**20) / epsilon
        assert (public.scale, public.row_count) == (ceil(exact), None)


def test_the_largest_laplace_noise_that_can_be_drawn_is_drawn():
    least = Fraction(4**BITS, LARGEST_STD)
    made = Laplace(bits=BITS).calibrate(problem(1), dpcov.Budget(epsilon=least))
    assert made.scale == LARGEST_STD
    with pytest.raises(BudgetError, match="too much noise"):
        Laplace(bits=BITS).calibrate(
            problem(1), dpcov.Budget(epsilon=least * (1 - Fraction(1, 10**18)))
        )


@pytest.mark.parametrize("count_scale", [None, Fraction(3, 2)])
def test_laplace_draws_are_added_and_described(monkeypatch, count_scale):
    def ten_times(scale, size):
        return np.arange(1, size + 1) * 10

    drawn = choose(monkeypatch, "dpcov.mechanisms.laplace.discrete_laplace", ten_times)
    counted = choose(monkeypatch, "dpcov.mechanisms.blocks.counts.discrete_laplace", ten_times)
    cost = None if count_scale is None else PureDP(epsilon=1 / count_scale)
    calibration = LaplaceCalibration(promise=PROMISE, scale=50, rho=None, row_count=cost)
    made = Laplace(bits=BITS, clip=0.5).draw(
        Ask.saved(gathered(0.5)), calibration, problem(2), ENTROPY
    )
    np.testing.assert_array_equal(made.arrays["sscp"], np.add(SSCP, [[10, 20], [20, 30]]))
    assert drawn.asked == [(50, 3)]
    assert counted.asked == ([(count_scale, 1)] if count_scale else [])
    assert ("row_count" in made.arrays) == (count_scale is not None)
    if count_scale is not None:
        assert made.arrays["row_count"].tolist() == [12]
    law = made.noise
    assert (law.diagonal_variance, law.off_diagonal_variance) == ("5000", "5000")
    assert law.row_count_variance == (None if count_scale is None else "4.5")
    assert (made.layout, made.lattice_bits) == ("sscp", BITS)
    assert (made.radius, made.dropped_bits) == (0.5, 0)
    assert symmetric_laplace(3, 1, ENTROPY).tolist() == [[10, 20, 30], [20, 40, 50], [30, 50, 60]]


OPTIONS = {"bits": BITS, "clip": 0.5}
UPPER = {**OPTIONS, "noise": "upper-triangle"}
APPROX = dpcov.Budget(epsilon="0.5", delta="1e-6")
PROJECTED = Projection(**OPTIONS, trace="public"), "projection", PostOptions(trace="public")


@pytest.mark.parametrize(
    ("budget", "plain", "other", "post", "options"),
    [
        (dpcov.Budget(rho=1), Gaussian(**OPTIONS), *PROJECTED),
        (dpcov.Budget(epsilon=1), Laplace(**OPTIONS), *PROJECTED),
        *(
            (
                APPROX,
                Gaussian(**UPPER),
                Thresholding(**UPPER, gamma=gamma, rule="soft"),
                "threshold",
                PostOptions(rule="soft", gamma=gamma),
            )
            for gamma in (None, 2)
        ),
    ],
)
def test_mechanisms_that_only_read_their_noise_otherwise_draw_the_same(
    budget, plain, other, post, options
):
    public = problem(2, n_rows=2)
    assert other.moments_spec(public) == plain.moments_spec(public) == MomentsSpec(**OPTIONS)
    calibration = plain.calibrate(public, budget)
    assert other.calibrate(public, budget) == calibration
    first, second = (
        each.draw(Ask.saved(gathered(0.5)), calibration, public, SeededEntropy(3))
        for each in (plain, other)
    )
    np.testing.assert_array_equal(first.arrays["sscp"], second.arrays["sscp"])
    assert first.noise == second.noise
    assert (second.post, second.post_options, second.radius) == (post, options, 0.5)


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (Gaussian(clip=0.5), dpcov.Budget(rho=100)),
        (Laplace(clip=0.5), dpcov.Budget(epsilon=20)),
        (Nuclear(clip=0.5), dpcov.Budget(epsilon=20)),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_rows_within_a_clip_have_their_own_moments(mechanism, budget):
    rows = np.tile([[0.3, 0.3], [0.1, -0.4]], (50_000, 1))
    made = dpcov.second_moment(rows, norm_bound=1, budget=budget, mechanism=mechanism)
    np.testing.assert_allclose(made.second_moment("none"), rows.T @ rows / 1e5, atol=1e-4)
    assert made.unit.noise.diagonal < 1e-9
