"""Release second moments with noise shaped like the nuclear norm.

Guarantee : epsilon-DP.  Proof : nuclear.md.  Numerics : idealized; samplers exact in real
    arithmetic, so no delta enters.
Sensitivity : Nuclear norm of the sscp: 2k (replace-one), k (add-remove-one) for k rows per person;
    both attained for d >= 2.
Utility : nuclear.md, section 3: the noise in Schatten norms, and a correction of Theorem 1.
References : d'Orsi, Novikov (2025), Algorithm 1; Hardt, Talwar (2010).
"""

from dataclasses import dataclass
from fractions import Fraction

import msgspec

from dpcov.data.exact.moments import DEFAULT_BITS, Clip, Moments
from dpcov.errors import UsageError
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import additive_noise, eigenvalues
from dpcov.mechanisms.blocks.cost import Cost
from dpcov.noise.nuclear import LARGEST_GAUGE_DIMENSION, nuclear_noise, symmetric_nuclear_noise
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate.nuclear_law import SymmetrizedShape, entry_variances
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics
from dpcov.published.linalg.symmetric import Array, symmetrize


@dataclass(frozen=True, kw_only=True)
class NuclearCalibration(counts.CountingCalibration):
    """Scale of the noise for rows in the unit ball."""

    scale: float


@dataclass(frozen=True, kw_only=True)
class Nuclear(Mechanism[NuclearCalibration]):
    """Additive noise of density exp(-epsilon ||Z||_* / 2) on the unnormalized second moments.

    Parameters
    ----------
    noise : {"square", "nuclear", "gauge", "wishart"}, default="square"
        Law of the noise.  ``square`` is the paper's, on all d x d matrices, symmetrized after it
        was added; the others live on symmetric matrices and are a fifth to three tenths smaller
        (docs/nuclear-noise.md).  ``nuclear`` is the most accurate in high dimension, ``gauge`` for
        up to about 10 features (replace-one only), ``wishart`` the fastest.
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it.
    """

    name = "nuclear"
    summary = "pure-DP noise shaped like the nuclear norm"
    paper = "d'Orsi, Novikov (2025), Algorithm 1"
    promises = (PureDP,)
    is_isotropic = True

    noise: SymmetrizedShape = "square"
    clip: Clip = 1.0

    def calibrate(self, problem: Problem, budget: Budget) -> NuclearCalibration:
        """Give the matrix all that the number of rows leaves (nuclear.md, Theorem 1)."""
        self.check(problem, budget)
        check_noise_shape(self.noise, problem)
        rest, stated = counts.set_row_count_aside(budget, problem)
        return NuclearCalibration(**stated, scale=nuclear_scale(rest, problem))

    def draw(
        self, ask: Ask, calibration: NuclearCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Add the noise."""
        moments, scale = ask(self.question(problem)), calibration.scale
        noisy = noisy_sscp(moments, scale, self.noise, entropy)
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        found = finished.finish(noisy, problem, row_count, clip=self.clip, post="psd")
        counted = counts.row_count_variance(problem, calibration.row_count)
        law = noise_law(self.noise, scale, problem.n_features, counted)
        return msgspec.structs.replace(found, lattice_bits=DEFAULT_BITS, noise=law)


def check_noise_shape(shape: SymmetrizedShape, problem: Problem) -> None:
    """Refuse the gauge law where it has no proof or no use."""
    if shape != "gauge":
        return
    if problem.neighbors != "replace-one":
        raise UsageError("noise='gauge' is for replace-one neighbors. Use noise='nuclear'.")
    if problem.n_features > LARGEST_GAUGE_DIMENSION:
        raise UsageError(
            f"noise='gauge' is for up to {LARGEST_GAUGE_DIMENSION} features; use noise='nuclear'."
        )


def noisy_sscp(moments: Moments, scale: float, shape: SymmetrizedShape, entropy: Entropy) -> Array:
    """Symmetric sscp with nuclear-norm noise of scale sensitivity / epsilon."""
    sscp = finished.sscp_of(moments)
    if shape == "square":
        # Symmetrizing after the noise is post-processing.
        return symmetrize(sscp + nuclear_noise(len(sscp), scale, entropy))
    return sscp + symmetric_nuclear_noise(len(sscp), scale, entropy, shape)


def nuclear_scale(cost: Cost, problem: Problem) -> float:
    """Sensitivity in nuclear norm, that of the eigenvalues in the l1 norm, over epsilon."""
    return additive_noise(cost, eigenvalues(problem)).scale


def noise_law(
    shape: SymmetrizedShape, scale: float, n_features: int, row_count: Fraction | None = None
) -> NoiseLaw:
    """State noise of this scale on the sscp of rows in the unit ball, in lattice units."""
    unit = scale * 4.0**DEFAULT_BITS
    diagonal, off_diagonal = entry_variances(shape, n_features)
    return finished.noise_law(
        f"nuclear norm, {shape}",
        row_count=row_count,
        diagonal_variance=round(diagonal * unit**2),
        off_diagonal_variance=round(off_diagonal * unit**2),
        scale=unit if shape == "nuclear" else None,
    )
