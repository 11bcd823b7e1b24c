"""Exact means over the spectra of nuclear-norm noise, by quadrature of Pfaffians.

E w(x_1) ... w(x_d) is up to a constant the Pfaffian of the skew moments <w f_j, sign * w f_k> of
the functions f_j that span the law (de Bruijn 1955); an odd d adds the integrals of w f.
"""

import numpy as np
import pytest

from dpcov.noise import log_gas
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise, symmetric_nuclear_spectrum
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.nuclear_law import entry_variances

INTEGRALS = log_gas.integrals_within(log_gas.NODES)


class Law:
    """The functions that span a law on panels, inside [-largest, largest] if that is given."""

    def __init__(self, dimension, *, half_line=False, largest=None):
        gas = log_gas.prepare(dimension, half_line=half_line)
        edges = gas.edges
        if largest is not None:
            smallest = 0.0 if half_line else -largest
            inside = edges[(edges > smallest) & (edges < largest)]
            edges = np.concatenate([[smallest], inside, [largest]])
        parents = np.searchsorted(gas.edges[1:-1], edges[:-1], side="right")
        self.points = log_gas.panel_nodes(edges)
        offsets = (
            2.0 * (self.points - gas.edges[parents, None]) / np.diff(gas.edges)[parents, None] - 1.0
        )
        self.functions = (
            log_gas.interpolation(np.clip(offsets, -1.0, 1.0)) @ gas.table[parents][..., :dimension]
        )
        self.half_lengths = 0.5 * np.diff(edges)[:, None]
        self.dimension = dimension
        self.intensity = log_gas.interpolation(offsets) @ np.linalg.solve(
            log_gas.TO_LEGENDRE, gas.profile[parents][..., None]
        )

    def mean_sum(self, power):
        """E sum |x_i|**power, from the one-point intensity."""
        weights = self.half_lengths * log_gas.WEIGHTS
        return float(np.sum(weights * self.intensity[..., 0] * np.abs(self.points) ** power))

    def moments(self, weight, first, second):
        """Skew moments of x**first w f_j with x**second w f_k."""
        left, right = (
            self.functions * (weight * self.points**power)[:, :, None] for power in (first, second)
        )
        sums = np.cumsum(self.half_lengths * (log_gas.WEIGHTS @ right), axis=0)
        below = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])[:, None]
        below = below + self.half_lengths[:, :, None] * (INTEGRALS @ right)
        left = left * (self.half_lengths * log_gas.WEIGHTS)[:, :, None]
        d = self.dimension
        found = np.zeros((d + d % 2, d + d % 2), dtype=left.dtype)
        found[:d, :d] = left.reshape(-1, d).T @ (sums[-1] - 2.0 * below).reshape(-1, d)
        if d % 2:
            # Half of it at either order: callers add both.
            border = left.sum(axis=(0, 1)) if second == 0 else 0.0 * sums[-1]
            found[:d, d], found[d, :d] = border, -border
        return found

    def means(self, weight):
        """Logarithm of the Pfaffian, means of sum x**2 and (sum x)**2, all points weighted."""
        plain = self.moments(weight, 0, 0)
        once = self.moments(weight, 1, 0) + self.moments(weight, 0, 1)
        twice = self.moments(weight, 2, 0) + self.moments(weight, 0, 2)
        middle = self.moments(weight, 1, 1)
        inverse = np.linalg.inv(plain)
        change = inverse @ once
        squares = 0.5 * np.trace(inverse @ twice)
        crossed = (
            np.trace(inverse @ middle)
            - 0.5 * np.trace(change @ change)
            + (0.5 * np.trace(change)) ** 2
        )
        return 0.5 * np.linalg.slogdet(plain)[1], squares, squares + crossed


def second_moments(dimension):
    """E sum x**2 and E (sum x)**2 of the nuclear law."""
    law = Law(dimension)
    return law.means(np.ones_like(law.points))[1:]


def gauge_means(dimension, *, nodes=96):
    """Acceptance rate, E sum x**2 and E (sum x)**2 of the gauge law."""
    # The law is the nuclear one times exp(-|t|), t = sum x: the mean of exp(i u t) over a Cauchy u.
    law = Law(dimension)
    start, _, spread = law.means(np.ones_like(law.points))
    reach = 9.0 / np.sqrt(spread) + 4.0
    points, weights = np.polynomial.legendre.leggauss(nodes)
    totals = np.zeros(3)
    for u, weight in zip(0.5 * reach * (1.0 + points), 0.5 * reach * weights, strict=True):
        logarithm, squares, squared_sum = law.means(np.exp(1j * u * law.points))
        share = 2.0 / np.pi * weight / (1.0 + u * u) * np.exp(logarithm - start)
        totals += share * np.array([1.0, squares.real, squared_sum.real])
    return totals[0], totals[1] / totals[0], totals[2] / totals[0]


def mean_largest(dimension, *, half_line=False, nodes=40):
    """E max |x_i|, from P(all |x_i| <= t) = Pfaffian on [-t, t] over Pfaffian."""
    middle = 0.5 * np.pi * dimension * (2 if half_line else 1)
    low, high = (
        max(0.0, middle - 8.0 * np.cbrt(middle) - 2.0),
        middle + 14.0 * np.cbrt(middle) + 10.0,
    )
    points, weights = np.polynomial.legendre.leggauss(nodes)
    half = 0.5 * (high - low)
    whole = _log_pfaffian(Law(dimension, half_line=half_line))
    below = [
        np.exp(
            _log_pfaffian(Law(dimension, half_line=half_line, largest=low + half * (1.0 + x)))
            - whole
        )
        for x in points
    ]
    return low + half * float(weights @ (1.0 - np.array(below)))


def _log_pfaffian(law):
    return 0.5 * np.linalg.slogdet(law.moments(np.ones_like(law.points), 0, 0))[1]


def test_means_that_are_known_exactly():
    assert second_moments(1) == pytest.approx((2, 2))
    assert second_moments(2) == pytest.approx((25 / 3, 20 / 3))
    assert second_moments(3) == pytest.approx((150 / 7, 96 / 7))
    assert mean_largest(2) == pytest.approx(7 / 3)
    for d in (2, 7, 40):
        assert Law(d).mean_sum(1) == pytest.approx(d * (d + 1) / 2)
        assert Law(d, half_line=True).mean_sum(1) == pytest.approx(d**2)


def test_means_agree_with_draws():
    entropy = SeededEntropy(3)
    nuclear = np.array([symmetric_nuclear_spectrum(5, 1.0, entropy) for _ in range(2_000)])
    accepted = np.exp(-np.abs(nuclear.sum(axis=1)))
    rate, squares, squared_trace = gauge_means(5)
    assert np.mean(np.sum(nuclear**2, axis=1)) == pytest.approx(Law(5).mean_sum(2), rel=0.05)
    assert np.mean(accepted) == pytest.approx(rate, rel=0.15)
    assert np.average(np.sum(nuclear**2, axis=1), weights=accepted) == pytest.approx(
        squares, rel=0.15
    )
    assert np.average(nuclear.sum(axis=1) ** 2, weights=accepted) == pytest.approx(
        squared_trace, rel=0.3
    )


@pytest.mark.parametrize("dimension", [2, 3, 4, 10, 40, 100])
def test_constants_of_the_estimator_are_the_exact_ones(dimension):
    squares, squared_trace = second_moments(dimension)
    assert ullman.mean_square(dimension) == pytest.approx(squares, rel=0.003)
    assert ullman.trace_variance(dimension) == pytest.approx(squared_trace, rel=0.008)


def exact_variances(squares, squared_trace, d):
    off_diagonal = (squares - squared_trace / d) / ((d - 1) * (d + 2))
    return squares / d - (d - 1) * off_diagonal, off_diagonal


# Mean squares of the gauge law, and of its trace: over orders and signs of the eigenvalues they are
# sums of integrals of polynomials.
GAUGE = {2: (109 / 28, 8 / 7), 3: (14, 61 / 42), 4: (1135381 / 33946, 55939 / 33946)}


@pytest.mark.parametrize("dimension", [2, 3, 4, 9, 10, 11, 30])
def test_variances_of_entries_are_the_exact_ones(dimension):
    d = dimension
    nuclear = exact_variances(*second_moments(d), d)
    assert entry_variances("nuclear", d) == pytest.approx(nuclear, rel=0.01)
    gauge = exact_variances(*(GAUGE.get(d) or gauge_means(d, nodes=160)[1:]), d)
    assert entry_variances("gauge", d) == pytest.approx(gauge, rel=2e-4 if d in GAUGE else 0.01)
    square = Law(d, half_line=True).mean_sum(2) / d**2
    assert entry_variances("square", d) == pytest.approx((square, square / 2), rel=0.01)


def test_variances_of_wishart_noise_are_those_of_draws():
    entropy = SeededEntropy(4)
    noise = np.array([symmetric_nuclear_noise(3, 1.0, entropy, "wishart") for _ in range(4_000)])
    seen = np.mean(noise[:, 0, 0] ** 2), np.mean(noise[:, 0, 1] ** 2)
    assert entry_variances("wishart", 3) == pytest.approx(seen, rel=0.15)


@pytest.mark.parametrize("shape", ["square", "nuclear", "gauge", "wishart"])
def test_one_entry_is_laplace_noise(shape):
    assert entry_variances(shape, 1)[0] == pytest.approx(0.5 if shape == "gauge" else 2.0, rel=0.01)
