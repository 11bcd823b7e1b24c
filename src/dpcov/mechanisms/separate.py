"""Release eigenvalues and eigenvectors separately: noisy eigenvalues on the eigenvectors of a noisy matrix.

Privacy
-------
Guarantee : rho-zCDP, (epsilon, delta)-DP through it, or epsilon-DP.  Neighbors : replace-one (public n) or
    add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments.  Not protected : running time, memory.
Numerics : idealized.  Proof : separate.md.

Sensitivity
-----------
Sorted eigenvalues of the sscp of rows in the unit ball, k rows per person: l2 sqrt(2) k (replace-one), k
(add-remove-one); l1 2 k and k; all attained.  The matrix: the same numbers in Frobenius and nuclear norm.

Utility
-------
With probability at least 1 - beta the error of the sscp is at most
2 sqrt(trace * ||matrix noise||_2) + ||eigenvalue noise||_2, with the norms bounded at beta / 2 each.

References
----------
Dong, Liang, Yi (2022), Algorithm 1, Theorem 1 and Appendix I; Amin et al. (2019) for the eigenvalues.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar

import numpy as np

from dpcov.data.moments import DEFAULT_BITS, Bits, Clip, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Mechanism, Problem, Share
from dpcov.mechanisms.blocks import sensitivity
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, whole_cost
from dpcov.mechanisms.blocks.finished import (
    Cost,
    check_row_count,
    draw_row_count,
    finish,
    part_of,
    public_rows,
    row_count_share,
    sscp_of,
)
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise, Shape, matrix_noise
from dpcov.mechanisms.blocks.spectrum import Rule, mend_spectrum
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise, PureDP
from dpcov.published.linalg.symmetric import Array, compose, eigh
from dpcov.published.statistics import NoisyStatistics, Post


@dataclass(frozen=True, kw_only=True)
class SeparateNoise:
    """Noise on the eigenvalues, and on the matrix whose eigenvectors are taken; for rows in the unit ball."""

    values: AdditiveNoise
    matrix: MatrixNoise

    def error_bound(self, trace: float, dimension: int, beta: float) -> float:
        """Bound the Frobenius error with probability at least 1 - ``beta`` (separate.md, Theorem 2)."""
        turned = 2.0 * sqrt(trace * self.matrix.spectral_bound(dimension, beta / 2))
        return turned + self.values.norm_bound(dimension, beta / 2)


def separate_noise(
    cost: Cost, problem: Problem, shape: Shape, eigenvalue_share: Fraction
) -> SeparateNoise:
    """Split a part of the budget between eigenvalues and eigenvectors."""
    return SeparateNoise(
        values=additive_noise(part_of(cost, eigenvalue_share), sensitivity.eigenvalues(problem)),
        matrix=matrix_noise(part_of(cost, 1 - eigenvalue_share), problem, shape),
    )


def separate_sscp(
    sscp: Array, noise: SeparateNoise, *, rule: Rule, trace_bound: float, entropy: Entropy
) -> Array:
    """Estimate the sscp of rows in the unit ball: one eigenvalue problem, one eigendecomposition.

    Parameters
    ----------
    sscp : (d, d) float64
        **Sensitive.**
    noise : SeparateNoise
    rule : Rule
        Post-processing of the noisy eigenvalues.
    trace_bound : float
        Public, or private already.
    entropy : Entropy
    """
    values = np.linalg.eigvalsh(sscp)
    noisy_values = values + noise.values.draw(len(values), entropy)
    vectors = eigh(sscp + noise.matrix.draw(len(values), entropy)).vectors
    return compose(mend_spectrum(noisy_values, trace_bound, rule), vectors)


@dataclass(frozen=True, kw_only=True)
class SeparateCalibration(Calibration):
    """Noise for rows in the unit ball, and the part of the budget for a private row count."""

    noise: SeparateNoise
    row_count: Cost | None


@dataclass(frozen=True, kw_only=True)
class Separate(Mechanism[SeparateCalibration]):
    """Noisy eigenvalues on the eigenvectors of an independently noised matrix.

    Parameters
    ----------
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it (Dong 5.1).
    eigenvalues : {"monotone", "clip", "raw"}, default="monotone"
        Post-processing of the noisy eigenvalues: nearest possible spectrum, each clipped to [0, trace bound] as in
        the published code, or none as in the paper.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
    eigenvalue_share : float, default=0.5
        Part of the budget spent on the eigenvalues.
    bits : int, default=20
        Lattice resolution of an encoded row.
    """

    name: ClassVar[str] = "separate"
    summary: ClassVar[str] = (
        "noisy eigenvalues on the eigenvectors of a noisy matrix; error follows the trace"
    )
    paper: ClassVar[str] = "Dong, Liang, Yi (2022), Algorithm 1"
    numerics: ClassVar[Numerics] = "idealized"
    promises: ClassVar[tuple[type[Promise], ...]] = (ZCDP, PureDP, ApproxDP)

    clip: Clip = 1.0
    eigenvalues: Rule = "monotone"
    noise: Shape = "isotropic"
    eigenvalue_share: Share = 0.5
    bits: Bits = DEFAULT_BITS

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum of clipped rows."""
        return MomentsSpec(bits=self.bits, clip=self.clip)

    def calibrate(self, problem: Problem, budget: Budget) -> SeparateCalibration:
        """Split the budget: row count where it is private, eigenvalues, eigenvectors (separate.md, Theorem 1)."""
        self.check(problem, budget)
        whole, count = whole_cost(budget), row_count_share(problem)
        part = Fraction(str(self.eigenvalue_share))
        return SeparateCalibration(
            promise=budget.promise,
            noise=separate_noise(part_of(whole, 1 - count), problem, self.noise, part),
            row_count=check_row_count(problem, part_of(whole, count) if count else None),
        )

    def draw(
        self, ask: Ask, calibration: SeparateCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw eigenvalues and eigenvectors, and put them together."""
        moments = ask(self.question(problem))
        row_count = draw_row_count(moments, problem, calibration.row_count, entropy)
        sscp = separate_sscp(
            sscp_of(moments),
            calibration.noise,
            rule=self.eigenvalues,
            trace_bound=public_rows(problem, row_count),
            entropy=entropy,
        )
        post: Post = "none" if self.eigenvalues == "raw" else "psd"
        return finish(sscp, problem, row_count, clip=self.clip, post=post)
