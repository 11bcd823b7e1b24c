"""Exact means over the spectra of nuclear-norm noise, by quadrature of Pfaffians.

E w(x_1) ... w(x_d) is up to a constant the Pfaffian of the skew moments <w f_j, sign * w f_k> of
the functions f_j that span the law (de Bruijn 1955); an odd d adds the integrals of w f.
"""

import numpy as np

from dpcov.noise import freud, log_gas

INTEGRALS = freud.integrals_within(freud.NODES)


class Law:
    """The functions that span a law, on its panels."""

    def __init__(self, dimension, *, half_line=False):
        gas = log_gas.prepare(dimension, half_line=half_line)
        self.points, self.dimension = freud.panel_nodes(gas.edges), dimension
        self.functions = gas.table[..., :dimension]
        self.half_lengths = 0.5 * np.diff(gas.edges)[:, None]
        self.intensity = np.linalg.solve(freud.TO_LEGENDRE, gas.profile[..., None])[..., 0]

    def mean_sum(self, power):
        """E sum |x_i|**power, from the one-point intensity."""
        weights = self.half_lengths * freud.WEIGHTS
        return float(np.sum(weights * self.intensity * np.abs(self.points) ** power))

    def moments(self, weight, first, second):
        """Skew moments of x**first w f_j with x**second w f_k."""
        left, right = (
            self.functions * (weight * self.points**power)[:, :, None] for power in (first, second)
        )
        sums = np.cumsum(self.half_lengths * (freud.WEIGHTS @ right), axis=0)
        below = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])[:, None]
        below = below + self.half_lengths[:, :, None] * (INTEGRALS @ right)
        left = left * (self.half_lengths * freud.WEIGHTS)[:, :, None]
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


def gauge_means(dimension, *, reach=None, nodes=96):
    """Acceptance rate, E sum x**2 and E (sum x)**2 of the gauge law."""
    # The law is the nuclear one times exp(-|t|), t = sum x: the mean of exp(i u t) over a Cauchy u.
    law = Law(dimension)
    start, _, spread = law.means(np.ones_like(law.points))
    reach = reach or 9.0 / np.sqrt(spread) + 4.0
    points, weights = np.polynomial.legendre.leggauss(nodes)
    totals = np.zeros(3)
    for u, weight in zip(0.5 * reach * (1.0 + points), 0.5 * reach * weights, strict=True):
        logarithm, squares, squared_sum = law.means(np.exp(1j * u * law.points))
        share = 2.0 / np.pi * weight / (1.0 + u * u) * np.exp(logarithm - start)
        totals += share * np.array([1.0, squares.real, squared_sum.real])
    return totals[0], totals[1] / totals[0], totals[2] / totals[0]
