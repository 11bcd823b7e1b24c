"""Release noisy eigenvalues on the eigenvectors of an independently noised matrix.

Guarantee : rho-zCDP, (epsilon, delta)-DP through it, or epsilon-DP.  Numerics : idealized.
    Proof : separate.md.
Sensitivity : Sorted eigenvalues of the sscp of rows in the unit ball, k rows per person: l2 sqrt(2)
    k (replace-one), k (add-remove-one); l1 2 k and k; all attained.  The matrix: the same numbers
    in Frobenius and nuclear norm.
Utility : With probability at least 1 - beta the error of the sscp is at most 2 sqrt(trace *
    ||matrix noise||_2) + ||eigenvalue noise||_2, with the norms bounded at beta / 2 each.
References : Dong, Liang, Yi (2022), Algorithm 1, Theorem 1, Appendix I; Amin et al. (2019).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from dpcov.data.exact.moments import Clip
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    MatrixNoise,
    Shape,
    additive_noise,
    eigenvalues,
    matrix_noise,
)
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.file.statistics import NoisyStatistics, Post
from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array, compose, eigh

Rule = Literal["monotone", "clip", "raw"]


@dataclass(frozen=True, kw_only=True)
class SeparateNoise:
    """Noise on the eigenvalues, and on the matrix whose eigenvectors are taken."""

    values: AdditiveNoise
    matrix: MatrixNoise


def separate_noise(cost: Cost, problem: Problem, shape: Shape) -> SeparateNoise:
    """Half of a part of the budget for the eigenvalues, half for the eigenvectors."""
    half = part_of(cost, Fraction(1, 2))
    values = additive_noise(half, eigenvalues(problem))
    return SeparateNoise(values=values, matrix=matrix_noise(half, problem, shape))


def separate_sscp(
    sscp: Array, noise: SeparateNoise, *, rule: Rule, trace_bound: float, entropy: Entropy
) -> Array:
    """Estimate the **sensitive** sscp of rows in the unit ball, given a bound on its trace.

    The bound is public, or private already; the rule mends the noisy eigenvalues with it.
    """
    # Two releases of one table, each at its part of the budget; the rest is post-processing.
    values = np.linalg.eigvalsh(sscp)
    noisy_values = values + noise.values.draw(len(values), entropy)
    vectors = eigh(sscp + noise.matrix.draw(len(values), entropy)).vectors
    return compose(mend_spectrum(noisy_values, trace_bound, rule), vectors)


def mend_spectrum(values: Array, trace_bound: float, rule: Rule) -> Array:
    """Apply a rule to noisy eigenvalues in ascending order."""
    if rule == "raw":
        return values
    if rule == "clip":
        return np.clip(values, 0.0, trace_bound)
    # Both project on convex sets that hold the truth if the bound does, so neither adds error; the
    # projection on the simplex shifts and cuts, so it keeps the order.
    return capped_simplex_projection(isotonic_regression(values).x, trace_bound)


@dataclass(frozen=True, kw_only=True)
class SeparateCalibration(counts.CountingCalibration):
    """Noise for rows in the unit ball."""

    noise: SeparateNoise


@dataclass(frozen=True, kw_only=True)
class Separate(Mechanism[SeparateCalibration]):
    """Noisy eigenvalues on the eigenvectors of an independently noised matrix.

    Parameters
    ----------
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it (Dong 5.1).
    eigenvalues : {"monotone", "clip", "raw"}, default="monotone"
        Post-processing of the noisy eigenvalues: the nearest ordered spectrum with no negative
        value and trace at most its bound, each clipped to [0, trace bound] as in the published
        code of Dong, Liang, Yi, or none as in their paper.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
    """

    name = "separate"
    summary = "noisy eigenvalues on the eigenvectors of a noisy matrix; error follows the trace"
    paper = "Dong, Liang, Yi (2022), Algorithm 1"
    promises = (ZCDP, PureDP, ApproxDP)
    states_noise = False

    clip: Clip = 1.0
    eigenvalues: Rule = "monotone"
    noise: Shape = "isotropic"

    def calibrate(self, problem: Problem, budget: Budget) -> SeparateCalibration:
        """Split the budget: row count, eigenvalues, eigenvectors (separate.md, Theorem 1)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        return SeparateCalibration(**stated, noise=separate_noise(rest, problem, self.noise))

    def draw(
        self, ask: Ask, calibration: SeparateCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw eigenvalues and eigenvectors, and put them together."""
        moments = ask(self.question(problem))
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        sscp = separate_sscp(
            finished.sscp_of(moments),
            calibration.noise,
            rule=self.eigenvalues,
            trace_bound=counts.public_rows(problem, row_count),
            entropy=entropy,
        )
        post: Post = "none" if self.eigenvalues == "raw" else "psd"
        return finished.finish(sscp, problem, row_count, clip=self.clip, post=post)
