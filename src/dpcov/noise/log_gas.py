"""Draw d points exactly from two repulsive laws, those of the spectra of nuclear-norm noise.

On the line the density is prod_{i<j} |x_i - x_j| exp(-sum |x_i|); on the half line it is
prod_{i<j} |x_i^2 - x_j^2| exp(-sum x_i).

Contract: in real arithmetic the output law is the stated one, with no burn-in and no
discretization, after O(d^3) operations in expectation.  Proof: ``docs/nuclear-noise.md``.  To
rounding, the functions p_j(x) exp(-|x|) (Freud weight) are orthonormal on the real line, and
Gauss-Legendre quadrature on a panel integrates every product of two of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from scipy.linalg import qr, solve_triangular

from dpcov.errors import NumericError
from dpcov.noise.continuous import Floats, uniforms
from dpcov.noise.entropy import Entropy

# Proposals examined together: enough for matrix products, few enough to stay in cache.
LARGEST_BLOCK = 128
# A law of so many points is tabulated anew, given those drawn, once this part of them is left.
SMALLEST_STAGED, STAGE_RATIO = 64, 6
# An intensity above its proven bound by more than this is a numerical failure, not rounding.
RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-6, 1e-8
INACCURATE = (
    "The noise law lost its accuracy; nothing was released. Give a delta, or use the mechanism "
    "nuclear with noise='wishart'."
)
# Nodes per panel.
ORDER = 16
# Panel length in mean distances between zeros: 16 nodes then integrate products to rounding.
ZEROS_PER_PANEL = 1.5
# Beyond the zeros the functions vary like exp(-|x|), which 16 nodes resolve over this length.
LONGEST_PANEL = 4.0
# The recurrence grows by less than 1e60 over this many steps, so nothing overflows in between.
STEPS_PER_RESCALING = 16

NODES, WEIGHTS = legendre.leggauss(ORDER)
TO_LEGENDRE = np.linalg.inv(legendre.legvander(NODES, ORDER - 1)).astype(np.float64)
ANTIDERIVATIVES = legendre.legint(TO_LEGENDRE, lbnd=-1, axis=0).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class LogGas:
    """The Pfaffian kernel K(x, y) = F(x) kernel F(y)' - [[0, 0], [0, sign(y - x)]] of one law.

    F(x) has the rows f(x) and (integral of sign(y - x) f(y) dy), f being the functions that span
    the law; an odd number of them has a partner that is zero on the line and lives on an atom at
    infinity.  On every panel, ``table`` holds f at the nodes, ``left`` the integral of f up to it
    and ``profile`` the Legendre coefficients of the one-point intensity; ``total`` integrates f.
    """

    dimension: int
    edges: Floats
    table: Floats
    left: Floats
    total: Floats
    kernel: Floats
    profile: Floats


@dataclass(frozen=True, kw_only=True)
class _Proposals:
    """Independent draws from intensity / dimension, and what deciding on them takes.

    Rows 2 i and 2 i + 1 of ``features`` are f and its signed integral at point i; ``heights`` is
    the intensity and ``levels`` is uniform on (0, 1).
    """

    points: Floats
    features: Floats
    heights: Floats
    levels: Floats


@lru_cache(maxsize=2)
def prepare(dimension: int, half_line: bool) -> LogGas:
    """Tabulate the law on the line, or the one on the half line."""
    coefficients = recurrence(2 * dimension - 1 if half_line else dimension)
    edges = half_line_panels(len(coefficients))
    if not half_line:
        edges = np.concatenate([-edges[:0:-1], edges])
    functions = orthonormal_functions(panel_nodes(edges).ravel(), coefficients)
    if half_line:
        functions = np.sqrt(2.0) * functions[:, ::2]
    table = np.zeros((len(edges) - 1, ORDER, dimension + dimension % 2))
    table[:, :, :dimension] = functions.reshape(-1, ORDER, dimension)
    return _tabulated(dimension, edges, table)


def sample(gas: LogGas, entropy: Entropy) -> Floats:
    """Return the points of one draw in increasing order."""
    # Points enter one by one.  Given those drawn, the next has density intensity(x | drawn) over
    # the number left, at most intensity(x): the law is strongly Rayleigh.  So proposals from the
    # intensity are kept with probability intensity(x | drawn) / intensity(x).
    found: list[Floats] = []
    while True:
        size = gas.dimension
        left = size // (2 * STAGE_RATIO) * 2 if size >= SMALLEST_STAGED else 0
        drawn = _Drawn(gas)
        while drawn.count < size - left:
            needed = (size - left - drawn.count) * size / (size - drawn.count)
            block = _propose(gas, min(math.ceil(needed) + 8, LARGEST_BLOCK), entropy)
            drawn.extend(block, size - left)
        found.append(drawn.points[: size - left])
        if left == 0:
            return np.sort(np.concatenate(found))
        gas = _conditioned(gas, found[-1], drawn.features[: 2 * drawn.count : 2, :size])


def _tabulated(dimension: int, edges: Floats, table: Floats) -> LogGas:
    """Return the law that functions span, given their values at the nodes of every panel."""
    half_lengths = 0.5 * np.diff(edges)[:, None]
    left = np.zeros((len(edges), table.shape[2]))
    np.cumsum(half_lengths * (WEIGHTS @ table), axis=0, out=left[1:])
    inside = integrals_within(NODES) @ table
    inside *= half_lengths[:, :, None]
    inside += left[:-1, None]
    signed = _signed(left[-1], inside, dimension)
    weights = half_lengths * WEIGHTS
    kernel = _kernel(table, signed, weights, left[-1], dimension)
    intensity = np.einsum("pqm,pqm->pq", _product(table, kernel), signed)
    # The intensity integrates to the number of points; NaN fails this comparison too.
    if not abs(float(np.sum(weights * intensity)) - dimension) < RELATIVE_SLACK:
        raise NumericError(INACCURATE)
    return LogGas(
        dimension=dimension,
        edges=edges,
        table=table,
        left=left[:-1],
        total=left[-1],
        kernel=kernel,
        profile=intensity @ TO_LEGENDRE.T,
    )


def _conditioned(gas: LogGas, points: Floats, values: Floats) -> LogGas:
    """Return the law of the remaining even number of points, given some points and f at them."""
    edges = np.sort(np.concatenate([gas.edges, points]))
    parents = np.searchsorted(gas.edges[1:-1], edges[:-1], side="right")
    half_lengths = 0.5 * np.diff(gas.edges)[parents, None]
    offsets = (panel_nodes(edges) - gas.edges[parents, None]) / half_lengths - 1.0
    # The functions that vanish at the given points span it, a sign changing at each point.
    vanishing = np.zeros((len(gas.total), gas.dimension - len(points)))
    vanishing[: gas.dimension] = qr(values.T, check_finite=False)[0][:, len(points) :]
    functions = _product(gas.table, vanishing)
    signs = (-1.0) ** np.searchsorted(np.sort(points), edges[:-1], side="right")
    weights = interpolation(np.clip(offsets, -1.0, 1.0))
    table = (signs[:, None, None] * weights) @ functions[parents]
    return _tabulated(gas.dimension - len(points), edges, table)


def _product(table: Floats, matrix: Floats) -> Floats:
    # In one go: numpy would multiply panel by panel.
    return np.asarray(table.reshape(-1, len(matrix)) @ matrix).reshape(*table.shape[:2], -1)


def _signed(total: Floats, below: Floats, dimension: int) -> Floats:
    """Return the integral of sign(y - x) f(y) dy from that of f below x."""
    signed: Floats = total - 2.0 * below
    if dimension % 2:
        # The partner's atom lies above every x.
        signed[..., -1] = 1.0
    return signed


def _kernel(
    table: Floats, signed: Floats, weights: Floats, total: Floats, dimension: int
) -> Floats:
    """Invert the skew moments <f_j, signed f_k>; an odd dimension borders them by ``total``."""
    size = len(total)
    moments = (table * weights[:, :, None]).reshape(-1, size).T @ signed.reshape(-1, size)
    if dimension % 2:
        moments[-1, :-1] = -total[:-1]
    inverse = np.linalg.inv(0.5 * (moments - moments.T)).T
    return np.asarray(0.5 * (inverse - inverse.T))


def _propose(gas: LogGas, count: int, entropy: Entropy) -> _Proposals:
    """Draw from intensity / dimension, by rejection under a constant on every panel."""
    half_lengths = 0.5 * np.diff(gas.edges)
    # Legendre polynomials stay within [-1, 1], so the coefficients bound the intensity.
    bounds = np.abs(gas.profile).sum(axis=1)
    cumulative = np.cumsum(half_lengths * bounds)
    position, place, height, levels = uniforms(4 * count, entropy).reshape(4, count)
    panels = np.searchsorted(cumulative[:-1], position * cumulative[-1], side="right")
    offsets = 2.0 * place - 1.0
    values = legendre.legvander(offsets, ORDER)
    intensity = np.einsum("ij,ij->i", values[:, :-1], gas.profile[panels])
    kept = height * bounds[panels] < intensity
    panels, offsets, values = panels[kept], offsets[kept], values[kept]
    # f and its integral from the left end of the panel, both by interpolation within the panel.
    weights = np.stack([values[:, :-1] @ TO_LEGENDRE, values @ ANTIDERIVATIVES], axis=1)
    features = weights @ gas.table[panels]
    below = gas.left[panels] + half_lengths[panels, None] * features[:, 1]
    features[:, 1] = _signed(gas.total, below, gas.dimension)
    return _Proposals(
        points=gas.edges[panels] + half_lengths[panels] * (1.0 + offsets),
        features=features.reshape(-1, len(gas.kernel)),
        heights=intensity[kept],
        levels=levels[kept],
    )


class _Drawn:
    """The points drawn so far and the block LDL' factor of their kernel matrix.

    Rows 2 l and 2 l + 1 belong to point l.  For point i of a block and component a of its features,
    column 2 i + a of ``columns`` holds K_l((x_i, a), (y_l, b)), K_l given the first l points.
    """

    def __init__(self, gas: LogGas) -> None:
        self.gas = gas
        self.count = 0
        self.points = np.zeros(gas.dimension)
        self.pivots = np.ones(gas.dimension)
        self.features = np.zeros((2 * gas.dimension, len(gas.kernel)))
        self.factor = np.eye(2 * gas.dimension)

    def extend(self, block: _Proposals, wanted: int) -> None:
        """Examine the proposals in order until as many are accepted as wanted."""
        images = block.features @ self.gas.kernel
        columns = self._columns(block, images)
        intensity = self._intensity(block, images, columns)
        bounds = (1.0 + RELATIVE_SLACK) * block.heights + ABSOLUTE_SLACK
        thresholds = block.levels * block.heights
        start = 0
        while self.count < wanted:
            if np.any(intensity[start:] > bounds[start:]):
                raise NumericError(INACCURATE)
            accepted = np.flatnonzero(thresholds[start:] < intensity[start:])
            if not len(accepted):
                return
            chosen = start + int(accepted[0])
            start = chosen + 1
            pair = self._admit(block, images, columns, chosen, float(intensity[chosen]))
            above, below = pair[0::2], pair[1::2]
            change = above[:, 1] * below[:, 0] - above[:, 0] * below[:, 1]
            intensity[start:] += change / self.pivots[self.count - 1]

    def _columns(self, block: _Proposals, images: Floats) -> Floats:
        # For all proposals, by a triangular recursion; rows of later points stay zero.
        used = 2 * self.count
        columns = np.zeros((2 * self.gas.dimension, len(images)))
        if used:
            raw = self.features[:used] @ images.T
            raw[1::2, 1::2] -= np.sign(self.points[: self.count, None] - block.points)
            columns[:used] = solve_triangular(
                self.factor[:used, :used], raw, lower=True, unit_diagonal=True, check_finite=False
            )
        return columns

    def _intensity(self, block: _Proposals, images: Floats, columns: Floats) -> Floats:
        used = 2 * self.count
        even, odd = columns[0:used:2], columns[1:used:2]
        change = odd[:, 0::2] * even[:, 1::2] - even[:, 0::2] * odd[:, 1::2]
        unconditional: Floats = np.einsum("ij,ij->i", images[0::2], block.features[1::2])
        return unconditional + (1.0 / self.pivots[: self.count]) @ change

    def _admit(
        self, block: _Proposals, images: Floats, columns: Floats, chosen: int, pivot: float
    ) -> Floats:
        """Condition on one proposal; return K_k(., y) for those after it, and store it."""
        used, own, later = 2 * self.count, slice(2 * chosen, 2 * chosen + 2), 2 * chosen + 2
        pivots = self.pivots[: self.count, None]
        multipliers = np.empty((used, 2))
        multipliers[0::2] = -columns[1:used:2, own] / pivots
        multipliers[1::2] = columns[0:used:2, own] / pivots
        pair: Floats = images[later:] @ block.features[own].T
        pair += columns[:used, later:].T @ multipliers
        pair[1::2, 1] -= np.sign(block.points[chosen] - block.points[chosen + 1 :])
        columns[used : used + 2, later:] = pair.T
        self.factor[used : used + 2, :used] = -multipliers.T
        self.features[used : used + 2] = block.features[own]
        self.points[self.count], self.pivots[self.count] = block.points[chosen], pivot
        self.count += 1
        return pair


def half_line_panels(count: int) -> Floats:
    """Return edges of panels from 0 to where the first ``count`` functions are below rounding."""
    edge = 0.5 * np.pi * count
    limit = edge * (1.0 + (30.0 / count) ** (2 / 3)) + 45.0
    edges = [0.0]
    while edges[-1] < limit:
        # Zeros have density arccosh(edge / x) count / (pi edge) (Ullman); 0.3 is in the first gap.
        zeros = count / (np.pi * edge) * np.arccosh(max(edge / (edges[-1] + 0.3), 1.0))
        edges.append(edges[-1] + ZEROS_PER_PANEL / max(zeros, ZEROS_PER_PANEL / LONGEST_PANEL))
    return np.array(edges)


def panel_nodes(edges: Floats) -> Floats:
    """Return the Gauss-Legendre nodes of every panel, one row per panel."""
    return edges[:-1, None] + np.diff(edges)[:, None] * (0.5 + 0.5 * NODES)


def recurrence(count: int) -> Floats:
    """Return b_0 = 0, b_1, ... of x p_j = b_{j+1} p_{j+1} + b_j p_{j-1} (Stieltjes' procedure)."""
    edges = half_line_panels(count)
    # Twice the half-line quadrature: the weight exp(-2|x|) is even, so no diagonal term arises.
    weights = np.outer(np.diff(edges), WEIGHTS).ravel()
    coefficients = np.zeros(count)

    def norm(degree: int, unnormalized: Floats) -> float:
        coefficients[degree] = np.sqrt(weights @ unnormalized**2)
        return float(coefficients[degree])

    _three_term(panel_nodes(edges).ravel(), count, norm)
    return coefficients


def orthonormal_functions(points: Floats, coefficients: Floats) -> Floats:
    """Return p_j(x) exp(-|x|), points in rows and degrees in columns."""
    return _three_term(points, len(coefficients), lambda degree, _: float(coefficients[degree]))


def interpolation(offsets: Floats) -> Floats:
    """Return weights q with q . f(NODES) = f(offset), offsets in [-1, 1], on a new last axis."""
    return np.asarray(legendre.legvander(offsets, ORDER - 1) @ TO_LEGENDRE)


def integrals_within(offsets: Floats) -> Floats:
    """Return weights q with q . f(NODES) = integral of f from -1 to the offset, a row each."""
    return np.asarray(legendre.legvander(offsets, ORDER) @ ANTIDERIVATIVES)


def _three_term(points: Floats, count: int, coefficient: Callable[[int, Floats], float]) -> Floats:
    result = np.empty((count, len(points)))
    # Mantissas run beside a logarithm: exp(-|x|) alone underflows before the products do.
    logarithm = -np.abs(points)
    previous, current, last = np.zeros_like(points), np.ones_like(points), 0.0
    result[0] = np.exp(logarithm)
    for degree in range(1, count):
        raw = points * current - last * previous
        last = coefficient(degree, raw * np.exp(logarithm))
        previous, current = current, raw / last
        if degree % STEPS_PER_RESCALING == 0:
            size = np.maximum(np.abs(previous), np.abs(current))
            previous, current, logarithm = previous / size, current / size, logarithm + np.log(size)
        result[degree] = current * np.exp(logarithm)
    return result.T
