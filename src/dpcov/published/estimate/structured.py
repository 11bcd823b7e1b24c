"""Estimate a noisy matrix that shares directions with an independent guide, or is sparse.

Contract: deterministic; each estimate comes with Stein's estimate of its squared error, so that
structure that is not there is noticed (docs/strata.md).
"""

import itertools

import numpy as np

from dpcov.published.estimate.threshold import choose_threshold
from dpcov.published.estimate.unit import Estimate
from dpcov.published.linalg.symmetric import Array, eigh

# Ratio of block boundaries: about (log₄ d)²/2 blocks, each costing two dimensions.
BLOCK_GROWTH = 4
# Added to the risk of a chosen threshold, in units of v·d: a standard deviation of that estimate,
# which is the least of many and therefore too low.
CHOICE_COST = 2.0

_EPS = float(np.finfo(np.float64).eps)


def guided_candidates(
    noisy: Array, *, off_diagonal_variance: float, guide: Array
) -> dict[str, Estimate]:
    """Estimate S from symmetric S + W and a positive semidefinite guide, independent of W.

    ``proportional`` is the nearest multiple of the guide; ``aligned`` adds what that leaves over,
    cut into blocks in the guide's eigenbasis, each shrunk by James and Stein's factor.
    """
    unit_variance, d = 2.0 * off_diagonal_variance, len(noisy)
    scale = max(0.0, float(np.vdot(noisy, guide)) / float(np.vdot(guide, guide)))
    scale_risk = 2.0 * unit_variance if scale > 0.0 else 0.0
    multiple = scale * guide
    rest = noisy - multiple
    risk = float(np.sum(rest**2)) - unit_variance * d * (d + 1) / 2 + scale_risk
    values, vectors = eigh(guide)
    shrunk = _shrink_blocks(rest, vectors[:, ::-1], _edges(values[::-1]), unit_variance)
    return {
        "proportional": Estimate(multiple, risk, scale),
        "aligned": Estimate(multiple + shrunk.matrix, shrunk.risk + scale_risk, scale),
    }


def sparse_candidate(
    noisy: Array, *, off_diagonal_variance: float, trace: float, trace_variance: float
) -> Estimate:
    """Estimate S by soft thresholding, with a diagonal drawn toward its mean, set by ``trace``."""
    d, v = len(noisy), off_diagonal_variance
    thresholded = choose_threshold(noisy, off_diagonal_variance=v, rules=("soft",))
    deviations = np.diagonal(noisy) - np.trace(noisy) / d
    factor, diagonal_risk = _james_stein(float(deviations @ deviations), d - 1.0, 2.0 * v)
    estimate = thresholded.matrix
    np.fill_diagonal(estimate, trace / d + factor * deviations)
    risk = thresholded.risk + CHOICE_COST * v * d + diagonal_risk + trace_variance / d
    return Estimate(estimate, risk)


def blended(first: Estimate, second: Estimate, off_diagonal_variance: float) -> Estimate:
    """Return the point of least estimated risk on the line from one estimate to the other."""
    # With D = second − first, Stein's risk at first + t·D is r₁ − (r₁ − r₂ + ‖D‖²)·t + ‖D‖²·t².
    change = second.matrix - first.matrix
    squared = float(np.vdot(change, change))
    slope = first.risk - second.risk + squared
    share = min(1.0, slope / (2.0 * squared)) if squared > 0.0 else 0.0
    # Fitting t costs one degree of freedom.
    risk = first.risk - slope * share + squared * share**2 + 4.0 * off_diagonal_variance
    if share <= 0.0 or risk >= first.risk:
        return first
    return Estimate(first.matrix + share * change, risk)


def _edges(values: Array) -> list[int]:
    # Blocks lie between indices 0, 1, 4, 16, ...: shared directions leave it in the leading ones.
    # Eigenvectors of equal values are arbitrary, and no edge may part them.
    d, apart = len(values), values[:-1] - values[1:] > len(values) * _EPS * values[0]
    powers = itertools.takewhile(lambda k: k < d, (BLOCK_GROWTH**n for n in itertools.count()))
    return [0, *(k for k in powers if apart[k - 1]), d]


def _shrink_blocks(
    matrix: Array, vectors: Array, edges: list[int], unit_variance: float
) -> Estimate:
    *leading, last = itertools.starmap(slice, itertools.pairwise(edges))
    # The last block on the diagonal, most of the matrix, is never made: its length is what the
    # others leave, and shrinking the whole by its factor leaves only the others to be corrected.
    rows = vectors[:, : last.start].T @ matrix @ vectors
    outside = float(np.sum(rows**2) + np.sum(rows[:, last] ** 2))
    size = (last.stop - last.start) * (last.stop - last.start + 1) / 2
    inside = max(0.0, float(np.sum(matrix**2)) - outside)
    rest, risk = _james_stein(inside, size, unit_variance)
    change = np.zeros_like(rows)
    # All pairs but the last block with itself.
    for piece, other in [*itertools.combinations_with_replacement([*leading, last], 2)][:-1]:
        block = rows[piece, other]
        # A block off the diagonal stands for its mirror image too; one on it is half of a sum.
        images = 1.0 if piece == other else 2.0
        size = len(block) * (len(block) + 1) / 2 if piece == other else float(block.size)
        factor, block_risk = _james_stein(images * float(np.sum(block**2)), size, unit_variance)
        change[piece, other] = images / 2.0 * (factor - rest) * block
        risk += block_risk
    half = vectors[:, : last.start] @ (change @ vectors.T)
    return Estimate(rest * matrix + half + half.T, risk)


def _james_stein(squared: float, size: float, unit_variance: float) -> tuple[float, float]:
    """Factor and unbiased risk for a block of ``size`` dimensions and this squared length."""
    # (1 − c)₊ with c = k·2v/q has, by Stein, the risk q·c² − 2v·k + 4v·(k − c(k − 2)) for c < 1.
    noise = size * unit_variance
    if squared <= noise:
        return 0.0, squared - noise
    cut = noise / squared
    return 1.0 - cut, squared * cut**2 - noise + 2.0 * unit_variance * (size - cut * (size - 2.0))
