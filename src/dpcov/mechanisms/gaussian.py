"""Release second moments with Gaussian noise, isotropic or as in the papers.

Guarantee : rho-zCDP with rho = sensitivity**2 / (2 * noise_variance), or (epsilon, delta)-DP by the
    analytic Gaussian mechanism.  Numerics : exact.  Proof : gaussian.md.
Sensitivity : Frobenius norm of the sscp of rows in the unit ball: sqrt(2) k (replace-one), k
    (add-remove-one) for k rows per person; both attained for d >= 2.  The trace is free under
    replace-one (gaussian.md, Lemma 2).  The upper triangle alone, as a vector, has the same
    sensitivity (Lemma 4).
Utility : With noise_variance v on the diagonal and v/2 off it, E ||noise||_F**2 = v d (d + 1) / 2;
    the papers' noise, of variance v everywhere, has v d**2.
References : Dong, Liang, Yi (2022), 3.1; Wang, Xu, Yang (2019), (7); Balle, Wang (2018).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import DEFAULT_BITS, Bits, Clip
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks.finished import noise_law
from dpcov.noise.lattice import LARGEST_STD, rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.convert import sqrt_down
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise
from dpcov.published.file.statistics import Post

# Precision of the row count relative to a matrix entry: 3 % more noise on the matrix.
ROW_COUNT_WEIGHT = Fraction(1, 16)

NoiseShape = Literal["isotropic", "upper-triangle"]


@dataclass(frozen=True, kw_only=True)
class GaussianCalibration(Calibration):
    """Noise variances: integers in lattice units on the matrix and on the trace (replace-one).

    The row count of add-remove-one has a variance in rows.
    """

    diagonal_variance: int
    off_diagonal_variance: int
    trace_variance: int | None = None
    row_count_variance: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism[GaussianCalibration]):
    """Gaussian noise on the unnormalized second moments.

    Parameters
    ----------
    bits : int, default=20
        Lattice resolution of an encoded row.
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it: less noise, some
        bias (Dong 5.1).
    noise : {"isotropic", "upper-triangle"}, default="isotropic"
        ``upper-triangle`` is the papers' noise, of one variance on all entries on and above the
        diagonal; it comes without the free trace and has up to sqrt(2) times the error.
    """

    name = "gaussian"
    summary = "isotropic Gaussian noise on every entry, free private trace"
    paper = "Dong, Liang, Yi (2022), 3.1"
    numerics = "exact"
    promises = (ZCDP, ApproxDP)
    is_isotropic = True

    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0
    noise: NoiseShape = "isotropic"

    def suits(self, post: Post, promise: Promise) -> bool:
        """The papers' noise cannot be shrunk: rotations change it."""
        return self.noise == "isotropic" or post != "shrink"

    def calibrate(self, problem: Problem, budget: Budget) -> GaussianCalibration:
        """Smallest even integer variance that keeps the budget (gaussian.md, Theorems 1 and 2)."""
        self.check(problem, budget)
        # A row in the unit ball has lattice norm 2**bits, so the sscp moves by multiples of this.
        unit = 4**self.bits * problem.rows_per_person
        public_count = problem.neighbors == "replace-one"
        squared = Fraction(2 if public_count else 1 + ROW_COUNT_WEIGHT) * unit**2
        variance = even_variance(squared, budget.promise)
        isotropic = self.noise == "isotropic"
        count = Fraction(variance, 16**self.bits) / ROW_COUNT_WEIGHT
        return GaussianCalibration(
            promise=budget.promise,
            noise_multiplier=sqrt_down(Fraction(variance) / squared),
            diagonal_variance=variance,
            off_diagonal_variance=variance // 2 if isotropic else variance,
            trace_variance=variance if public_count and isotropic else None,
            row_count_variance=None if public_count else count,
        )

    def draw(
        self, ask: Ask, calibration: GaussianCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Add the noise to the integer moments of the single stratum."""
        (stratum,) = ask(self.question(problem)).strata
        diagonal, off_diagonal = calibration.diagonal_variance, calibration.off_diagonal_variance
        noise = symmetric_noise(problem.n_features, diagonal, entropy, off_diagonal=off_diagonal)
        trace, count = calibration.trace_variance, calibration.row_count_variance
        # Matrix and trace drop the same bits, so both are drawn before either is stored.
        noisy_trace = 0
        if trace is not None:
            noisy_trace = stratum.sscp.trace() + int(rounded_gaussian(trace, 1, entropy)[0])
        sscp, dropped = stratum.sscp.plus(noise, room_for=noisy_trace)
        arrays = {"sscp": sscp}
        if trace is not None:
            arrays["trace"] = np.array([noisy_trace >> dropped], dtype=np.int64)
        if count is not None:
            arrays["row_count"] = stratum.n_rows + rounded_gaussian(count, 1, entropy)
        return NoisyStatistics(
            layout="sscp",
            arrays=arrays,
            lattice_bits=self.bits,
            dropped_bits=dropped,
            radius=self.clip,
            noise=noise_law(
                "gaussian rounded to integers",
                diagonal_variance=diagonal,
                off_diagonal_variance=off_diagonal,
                trace_variance=trace,
                row_count=count,
            ),
        )


def even_variance(
    squared_sensitivity: Fraction, promise: Promise, *, smallest_weight: Fraction = Fraction(1)
) -> int:
    """Smallest even variance that keeps the promise, if draws of variance / weight can fit."""
    # (noise std / l2 sensitivity)**2 that the promise needs.
    if isinstance(promise, ZCDP):
        squared_multiplier = 1 / (2 * promise.rho)
    else:
        assert isinstance(promise, ApproxDP)
        squared_multiplier = gaussian_noise_multiplier(promise.epsilon, promise.delta) ** 2
    # Even, so that half of it is the exact variance of an off-diagonal entry.
    variance = 2 * ceil(squared_sensitivity * squared_multiplier / 2)
    if variance > LARGEST_STD**2 * smallest_weight:
        raise BudgetError("This budget needs too much noise. Use a larger one, or fewer bits.")
    return variance


def symmetric_noise(
    dimension: int, diagonal_variance: int, entropy: Entropy, *, off_diagonal: int | None = None
) -> NDArray[np.int64]:
    """Symmetric (d, d) integer noise, isotropic unless an off-diagonal variance is given."""
    noise = np.zeros((dimension, dimension), dtype=np.int64)
    above = np.triu_indices(dimension, 1)
    noise[above] = rounded_gaussian(off_diagonal or diagonal_variance // 2, len(above[0]), entropy)
    noise += noise.T
    np.fill_diagonal(noise, rounded_gaussian(diagonal_variance, dimension, entropy))
    return noise
