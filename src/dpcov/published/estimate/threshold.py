"""Threshold the off-diagonal entries of a noisy symmetric matrix, at the least estimated risk.

Contract: deterministic, the diagonal is kept, and the threshold depends on the noisy entries and
the noise law alone.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpcov.published.estimate.unit import Estimate
from dpcov.published.linalg.symmetric import Array, symmetrize

Rule = Literal["hard", "soft"]
RULES: tuple[Rule, ...] = ("hard", "soft")

# How many hard thresholds there are to choose from.
GRID = 64


def threshold_matrix(matrix: ArrayLike, threshold: float, rule: Rule) -> Array:
    """Zero off-diagonal entries of at most ``threshold``; if soft, move the others toward zero."""
    noisy = symmetrize(matrix)
    kept = np.where(np.abs(noisy) > threshold, noisy, 0.0)
    if rule == "soft":
        kept -= np.sign(kept) * threshold
    np.fill_diagonal(kept, np.diagonal(noisy))
    return kept


def choose_threshold(
    matrix: ArrayLike, *, off_diagonal_variance: float, rules: tuple[Rule, ...] = RULES
) -> Estimate:
    """Threshold the symmetric part at the least estimated risk, of entries off the diagonal."""
    noisy = symmetrize(matrix)
    sizes = np.sort(np.abs(noisy[np.triu_indices(len(noisy), 1)]))
    choices = []
    for rule in rules:
        thresholds = _candidates(rule, sizes, off_diagonal_variance)
        risks = estimated_risks(rule, sizes, thresholds, off_diagonal_variance)
        best = int(np.argmin(risks))
        choices.append((2.0 * float(risks[best]), float(thresholds[best]), rule))
    risk, threshold, rule = min(choices, key=lambda choice: choice[0])
    return Estimate(threshold_matrix(noisy, threshold, rule), risk)


def universal_threshold(count: int, variance: float) -> float:
    """sqrt(2 v log m), above which noise alone rarely reaches (Donoho and Johnstone 1994)."""
    return math.sqrt(2.0 * variance * math.log(max(count, 2)))


def _candidates(rule: Rule, sizes: Array, v: float) -> Array:
    universal = universal_threshold(sizes.size, v)
    if rule == "hard":
        return np.linspace(0.0, universal, GRID)
    # The risk of soft thresholds is concave between entries, so only these can be optimal.
    return np.concatenate([[0.0], sizes[sizes < universal], [universal]])


def estimated_risks(rule: Rule, sizes: Array, thresholds: Array, v: float) -> Array:
    """Estimated risks of ``thresholds``, (k,), summed over entries with noise of variance ``v``.

    ``sizes``, (m,), are the absolute values of the entries, ascending.
    """
    # y + g(y) has the risk m v + E sum g(y)**2 + 2 v E sum g'(y) (Stein 1981): soft is
    # g = -min(|y|, t) sign(y); hard is g = -y where |y| <= t, whose jumps of t at -t and t add
    # 2 v t m f(t), f being the density of |y|, estimated by counting in a window.
    m, inside = sizes.size, _count(sizes, thresholds)
    squares = np.concatenate([[0.0], np.cumsum(sizes**2)])[inside.astype(np.intp)]
    common = m * v - 2.0 * v * inside + squares
    if rule == "soft":
        return np.asarray(common + (m - inside) * thresholds**2)
    half_width = math.sqrt(v) * max(m, 1) ** -0.2
    # Entries reflected at zero: |y| has no mass below it.
    near = _count(sizes, thresholds + half_width) - _count(sizes, thresholds - half_width)
    near += _count(sizes, half_width - thresholds)
    return np.asarray(common + v * thresholds * near / half_width)


def _count(sizes: Array, limits: Array) -> Array:
    # Sizes are not negative, so none lies below a negative limit.
    return np.where(limits < 0, 0, np.searchsorted(sizes, limits, side="right")).astype(np.float64)
