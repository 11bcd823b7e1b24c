"""Exact draws of d points from two repulsive laws, those of the spectra of nuclear-norm noise.

On the line the density is prod_{i<j} |x_i - x_j| exp(-sum |x_i|); on the half line it is
prod_{i<j} |x_i^2 - x_j^2| exp(-sum x_i).

Promise: in real arithmetic the output law is the stated one, with no burn-in and no discretization, after
O(d^3 log d) operations in expectation.  Proof: ``docs/nuclear-noise.md``.  Knows nothing of matrices or privacy.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dpcov.errors import NumericError
from dpcov.noise import freud
from dpcov.noise.continuous import uniforms
from dpcov.noise.entropy import Entropy

Floats = NDArray[np.float64]

LARGEST_BLOCK = 256
"""Proposals examined together: enough for matrix products, few enough to stay in cache."""

RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-6, 1e-8
"""An intensity above its proven bound by more than this is a numerical failure, not rounding."""


@dataclass(frozen=True, kw_only=True)
class LogGas:
    """The Pfaffian kernel K(x, y) = F(x) kernel F(y)' - [[0, 0], [0, sign(y - x)]] of one law.

    F(x) has the rows f(x) and (integral of sign(y - x) f(y) dy), f being the functions that span the law.
    On every panel, ``table`` holds f at the nodes, ``left`` the integral of f up to the panel and ``profile`` the
    Legendre coefficients of the one-point intensity; ``total`` is the integral of f.
    """

    dimension: int
    half_line: bool
    coefficients: Floats
    edges: Floats
    table: Floats
    left: Floats
    total: Floats
    kernel: Floats
    profile: Floats


@dataclass(frozen=True, kw_only=True)
class _Proposals:
    """Independent draws from intensity / dimension, and what deciding on them takes.

    The first half of the rows of ``features`` is f, the second half its signed integral; ``heights`` is the intensity
    and ``levels`` is uniform on (0, 1).
    """

    points: Floats
    features: Floats
    heights: Floats
    levels: Floats


@lru_cache(maxsize=2)
def prepare(dimension: int, half_line: bool) -> LogGas:
    """Tabulate the law on the line, or the one on the half line."""
    coefficients = freud.recurrence(2 * dimension - 1 if half_line else dimension)
    edges = freud.half_line_panels(len(coefficients))
    if not half_line:
        edges = np.concatenate([-edges[:0:-1], edges])
    nodes = freud.panel_nodes(edges)
    table = _functions(nodes.ravel(), coefficients, half_line).reshape(*nodes.shape, -1)
    half_lengths = 0.5 * np.diff(edges)[:, None]
    left = np.zeros((len(edges), table.shape[2]))
    np.cumsum(half_lengths * np.einsum("q,pqm->pm", freud.WEIGHTS, table), axis=0, out=left[1:])
    inside = freud.integrals_within(freud.NODES) @ table
    signed = _signed(left[-1], left[:-1, None] + half_lengths[:, :, None] * inside, dimension)
    weights = half_lengths * freud.WEIGHTS
    kernel = _kernel(table, signed, weights, left[-1], dimension)
    intensity = np.einsum("pqm,pqm->pq", table @ kernel, signed)
    if not abs(float(np.sum(weights * intensity)) - dimension) < RELATIVE_SLACK:
        raise NumericError("The noise law lost its accuracy at this dimension; use law='wishart'.")
    return LogGas(
        dimension=dimension,
        half_line=half_line,
        coefficients=coefficients,
        edges=edges,
        table=table,
        left=left[:-1],
        total=left[-1],
        kernel=kernel,
        profile=intensity @ freud.TO_LEGENDRE.T,
    )


def sample(gas: LogGas, entropy: Entropy) -> Floats:
    """Return the points of one draw in increasing order.

    Points enter one by one.  Given those already drawn, the next one has density
    intensity(x | drawn) / (number left), and intensity(x | drawn) <= intensity(x): the law is strongly Rayleigh.
    So proposals from the unconditional intensity are accepted with probability intensity(x | drawn) / intensity(x).
    """
    drawn = _Drawn(gas)
    while drawn.count < gas.dimension:
        drawn.extend(_propose(gas, min(max(16, 2 * gas.dimension), LARGEST_BLOCK), entropy))
    return np.sort(drawn.points)


def _functions(points: Floats, coefficients: Floats, half_line: bool) -> Floats:
    """Evaluate the spanning functions; an odd number of them gets a partner that lives on an atom at infinity."""
    functions = freud.orthonormal_functions(points, coefficients)
    if half_line:
        functions = np.sqrt(2.0) * functions[:, ::2]
    padded = np.zeros((len(points), functions.shape[1] + functions.shape[1] % 2))
    padded[:, : functions.shape[1]] = functions
    return padded


def _signed(total: Floats, below: Floats, dimension: int) -> Floats:
    """Return the integral of sign(y - x) f(y) dy from that of f below x; the atom lies above every x."""
    signed: Floats = total - 2.0 * below
    if dimension % 2:
        signed[..., -1] = 1.0
    return signed


def _kernel(table: Floats, signed: Floats, weights: Floats, total: Floats, dimension: int) -> Floats:
    """Invert the skew moments <f_j, signed f_k>; for an odd dimension condition on the atom at infinity."""
    size = len(total)
    moments = (table * weights[:, :, None]).reshape(-1, size).T @ signed.reshape(-1, size)
    if dimension % 2:
        moments[-1, :-1] = -total[:-1]
    inverse = np.linalg.inv(0.5 * (moments - moments.T)).T
    kernel: Floats = 0.5 * (inverse - inverse.T)
    if dimension % 2 == 0:
        return kernel
    # Schur complement of the pair at the atom, where f = (0, ..., 0, 1) and its signed integral is -total.
    atom = np.eye(size)[-1]
    first, second = kernel @ atom, kernel @ (-total) - atom
    pivot = float(atom @ kernel @ (-total))
    return kernel + (np.outer(second, first) - np.outer(first, second)) / pivot


def _propose(gas: LogGas, count: int, entropy: Entropy) -> _Proposals:
    """Draw from intensity / dimension: a uniform point of a panel under the panel's bound is kept if it lies below."""
    half_lengths = 0.5 * np.diff(gas.edges)
    bounds = np.abs(gas.profile).sum(axis=1)  # Legendre polynomials stay within [-1, 1]
    cumulative = np.cumsum(half_lengths * bounds)
    position, place, height, levels = uniforms(4 * count, entropy).reshape(4, count)
    panels = np.searchsorted(cumulative[:-1], position * cumulative[-1], side="right")
    offsets = 2.0 * place - 1.0
    intensity = np.einsum("ij,ij->i", legendre.legvander(offsets, freud.ORDER - 1), gas.profile[panels])
    kept = height * bounds[panels] < intensity
    panels, offsets = panels[kept], offsets[kept]
    points = gas.edges[panels] + half_lengths[panels] * (1.0 + offsets)
    values = _functions(points, gas.coefficients, gas.half_line)
    inside = np.einsum("iq,iqm->im", freud.integrals_within(offsets), gas.table[panels])
    signed = _signed(gas.total, gas.left[panels] + half_lengths[panels, None] * inside, gas.dimension)
    return _Proposals(
        points=points, features=np.vstack([values, signed]), heights=intensity[kept], levels=levels[kept]
    )


class _Drawn:
    """The points drawn so far and the block LDL' factor of their kernel matrix.

    A pair of rows (2 l, 2 l + 1) belongs to point l.  For any x and both components a of its features, column (x, a)
    of ``columns`` holds K_l((x, a), (y_l, b)), K_l being the kernel conditioned on the first l points.
    """

    def __init__(self, gas: LogGas) -> None:
        self.gas = gas
        self.count = 0
        self.points = np.zeros(gas.dimension)
        self.pivots = np.ones(gas.dimension)
        self.features = np.zeros((2 * gas.dimension, len(gas.kernel)))
        self.factor = np.eye(2 * gas.dimension)

    def extend(self, block: _Proposals) -> None:
        """Examine the proposals in order and keep those that are accepted."""
        size = len(block.points)
        images = block.features @ self.gas.kernel
        columns = self._columns(block, images)
        intensity = self._intensity(block, images, columns)
        start = 0
        while self.count < self.gas.dimension:
            if np.any(intensity > (1.0 + RELATIVE_SLACK) * block.heights + ABSOLUTE_SLACK):
                raise NumericError(
                    "The noise law lost its accuracy; nothing was released. Use law='wishart'."
                )
            accepted = np.flatnonzero(block.levels[start:] * block.heights[start:] < intensity[start:])
            if not len(accepted):
                return
            chosen = start + int(accepted[0])
            pair = self._admit(block, images, columns, chosen, float(intensity[chosen]))
            above, below = pair[:size], pair[size:]
            intensity += (above[:, 1] * below[:, 0] - above[:, 0] * below[:, 1]) / self.pivots[self.count - 1]
            start = chosen + 1

    def _columns(self, block: _Proposals, images: Floats) -> Floats:
        """Solve the triangular recursion for all proposals; rows of later points stay zero."""
        used, size = 2 * self.count, len(block.points)
        columns = np.zeros((2 * self.gas.dimension, 2 * size))
        if used:
            raw = self.features[:used] @ images.T
            raw[1::2, size:] -= np.sign(self.points[: self.count, None] - block.points)
            columns[:used] = solve_triangular(
                self.factor[:used, :used], raw, lower=True, unit_diagonal=True, check_finite=False
            )
        return columns

    def _intensity(self, block: _Proposals, images: Floats, columns: Floats) -> Floats:
        """Return the one-point intensity given the points drawn."""
        used, size = 2 * self.count, len(block.points)
        even, odd = columns[0:used:2], columns[1:used:2]
        change = odd[:, :size] * even[:, size:] - even[:, :size] * odd[:, size:]
        unconditional: Floats = np.einsum("ij,ij->i", images[:size], block.features[size:])
        return unconditional + (1.0 / self.pivots[: self.count]) @ change

    def _admit(self, block: _Proposals, images: Floats, columns: Floats, chosen: int, pivot: float) -> Floats:
        """Condition on one proposal; return K_k(., y) for every proposal, and store it in ``columns``."""
        used, size = 2 * self.count, len(block.points)
        both = [chosen, size + chosen]
        own = columns[:used, both]
        multipliers = np.empty_like(own)
        multipliers[0::2] = -own[1::2] / self.pivots[: self.count, None]
        multipliers[1::2] = own[0::2] / self.pivots[: self.count, None]
        pair: Floats = images @ block.features[both].T + columns[:used].T @ multipliers
        pair[size:, 1] -= np.sign(block.points[chosen] - block.points)
        columns[used : used + 2] = pair.T
        self.factor[used : used + 2, :used] = -multipliers.T
        self.features[used : used + 2] = block.features[both]
        self.points[self.count], self.pivots[self.count] = block.points[chosen], pivot
        self.count += 1
        return pair
