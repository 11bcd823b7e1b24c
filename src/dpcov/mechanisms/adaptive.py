"""Release second moments clipped at a privately chosen norm, with the better of two mechanisms.

Guarantee : rho-zCDP, (epsilon, delta)-DP through it, or epsilon-DP.  Numerics : idealized.
    Proof : adaptive.md.  Private input : moments of all norm shells, gathered in one pass.
Sensitivity : For k rows per person and rows clipped to r: number of rows longer than any radius k,
    trace r**2 k, bound on the clipping bias r**2 k (monotone); matrix and eigenvalues as in
    separate.md, times r**2.
Utility : Error of the order of the best noise + bias over all dyadic clip norms (Theorem 2).
References : Dong, Liang, Yi (2022), Algorithm 2 and Appendix I, with the queries of the search
    divided by the squared radius.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Annotated, Literal

import numpy as np

from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import clip_search, counts, finished
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    MatrixNoise,
    Shape,
    additive_noise,
    affordable_epsilon,
    matrix_noise,
    scalar,
)
from dpcov.mechanisms.blocks.clip_search import Candidates, Search, choose_clip, private_radius
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.blocks.tail_bounds import FAILURE_PROBABILITY
from dpcov.mechanisms.separate import (
    Rule,
    SeparateNoise,
    mend_spectrum,
    separate_noise,
    separate_sscp,
)
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.options import Between
from dpcov.published.linalg.symmetric import compose, eigh

Constants = Literal["theory", "tuned"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Everything in which ``theory`` and ``tuned`` differ.

    Weights split the budget between radius, trace, search of a clip norm, and matrix.  Bounds on
    errors fail with ``failure_probability``; ``separate_factor`` multiplies the bound on the error
    of separate noise.
    """

    with_radius: tuple[int, int, int, int]
    without_radius: tuple[int, int, int, int]
    search: Search
    failure_probability: float
    separate_factor: float


RULES: dict[Constants, Rules] = {
    "theory": Rules(
        with_radius=(1, 1, 2, 4),
        without_radius=(0, 1, 2, 4),
        search="balance",
        failure_probability=FAILURE_PROBABILITY / 2,
        separate_factor=1.0,
    ),
    "tuned": Rules(
        with_radius=(1, 1, 4, 18),
        without_radius=(0, 1, 2, 9),
        search="marginal",
        # A bound that fails with this probability is about the expected size.
        failure_probability=0.9,
        # The bound is a worst case over all spectra; on the papers' synthetic tables the error
        # is 0.02 to 0.25 of it.
        separate_factor=0.3,
    ),
}


@dataclass(frozen=True, kw_only=True)
class AdaptiveCalibration(counts.CountingCalibration):
    """What the searches of a radius (if any) and of a clip norm cost, and noise in the unit ball.

    One of ``together`` and ``separately`` is drawn, for the final matrix.
    """

    radius_epsilon: Fraction | None
    trace: AdditiveNoise
    search_epsilon: Fraction
    together: MatrixNoise
    separately: SeparateNoise


@dataclass(frozen=True, kw_only=True)
class Adaptive(Mechanism[AdaptiveCalibration]):
    """Clip at a privately chosen norm, then add noise to the matrix or to eigenvalues and vectors.

    Parameters
    ----------
    constants : {"theory", "tuned"}, default="theory"
        ``theory``: the paper's split of the budget, and proven bounds on the noise.  ``tuned``:
        three quarters of the budget for the matrix, and typical errors, as in the published code.
    radius : bool, default=True
        Whether to search for a radius that holds nearly all rows first; worth it where the norm
        bound may be far too large.
    shells : int, default=32
        Number of dyadic clip norms: 1, 1/2, ..., 2**-(shells - 1) of the norm bound.
    eigenvalues : {"monotone", "clip", "raw"}, default="monotone"
        Post-processing of the eigenvalues, with the private trace as bound; as in ``separate``.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
    """

    name = "adaptive"
    summary = "private choice of clip norm and of gaussian or separate; error follows the tail"
    paper = "Dong, Liang, Yi (2022), Algorithm 2"
    promises = (ZCDP, PureDP, ApproxDP)
    states_noise = False

    constants: Constants = "theory"
    radius: bool = True
    shells: Annotated[int, Between(1, 64)] = 32
    eigenvalues: Rule = "monotone"
    noise: Shape = "isotropic"

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """All shells, with the moments of the rows divided by their norm."""
        return MomentsSpec(bits=self.bits, shells=self.shells, normalized=True)

    def calibrate(self, problem: Problem, budget: Budget) -> AdaptiveCalibration:
        """Split the budget (adaptive.md, Theorem 1)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        rules = RULES[self.constants]
        weights = rules.with_radius if self.radius else rules.without_radius
        radius, trace, search, matrix = (
            part_of(rest, Fraction(weight, sum(weights))) for weight in weights
        )
        return AdaptiveCalibration(
            **stated,
            radius_epsilon=affordable_epsilon(radius) if self.radius else None,
            trace=additive_noise(trace, scalar(problem)),
            search_epsilon=affordable_epsilon(search),
            together=matrix_noise(matrix, problem, self.noise),
            separately=separate_noise(matrix, problem, self.noise),
        )

    def draw(
        self, ask: Ask, calibration: AdaptiveCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Find radius, trace and clip norm, each from what was drawn before; then release."""
        moments = ask(self.question(problem))
        # Each step is private given what was drawn before, so the parts of the budget add up.
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        rows = counts.public_rows(problem, row_count)
        first = self._first_shell(moments, calibration, problem, entropy)
        trace = _trace_bound(moments, calibration.trace, first, rows, entropy)
        choice = choose_clip(
            clip_search.shell_counts(moments),
            self._candidates(calibration, trace, first, problem.n_features),
            search=RULES[self.constants].search,
            epsilon=calibration.search_epsilon,
            rows_per_person=problem.rows_per_person,
            entropy=entropy,
        )
        unit, sscp = 4.0**-choice.shell, clip_search.clipped_sscp(moments, choice.shell)
        bound = min(trace / unit, rows)
        if choice.separately:
            noise, kind = calibration.separately, "eigenvalues and eigenvectors separately"
            rule = self.eigenvalues
            final = separate_sscp(sscp, noise, rule=rule, trace_bound=bound, entropy=entropy)
        else:
            kind, noisy = "the matrix", sscp + calibration.together.draw(len(sscp), entropy)
            values, vectors = eigh(noisy)
            final = compose(mend_spectrum(values, bound, self.eigenvalues), vectors)
        notes = (
            f"rows were first clipped to 2^-{first} of the norm bound",
            f"clip norm 2^-{choice.shell} of the norm bound",
            f"noise was added to {kind}",
        )
        return finished.finish(final * unit, problem, row_count, clip=1.0, post="psd", notes=notes)

    def _first_shell(
        self, moments: Moments, calibration: AdaptiveCalibration, problem: Problem, entropy: Entropy
    ) -> int:
        # The smallest norm that holds nearly all rows; the norm bound without a search.
        if calibration.radius_epsilon is None:
            return 0
        # Radii are searched from the smallest, shells are counted from the largest.
        outliers = clip_search.outlier_counts(clip_search.shell_counts(moments))[::-1]
        found = private_radius(
            outliers.tolist(),
            epsilon=calibration.radius_epsilon,
            beta=FAILURE_PROBABILITY / 8,
            rows_per_person=problem.rows_per_person,
            entropy=entropy,
        )
        return self.shells - 1 - found

    def _candidates(
        self, calibration: AdaptiveCalibration, trace: float, first: int, dimension: int
    ) -> Candidates:
        # Errors of both mechanisms at all clip norms, given a private bound on the trace.
        rules, separately = RULES[self.constants], calibration.separately
        beta, norms = rules.failure_probability, 2.0 ** -np.arange(first, self.shells, dtype=float)
        turned = 2.0 * sqrt(trace * separately.matrix.spectral_bound(dimension, beta / 2))
        values = separately.values.norm_bound(dimension, beta / 2)
        return Candidates(
            shells=range(first, self.shells),
            together=norms**2 * calibration.together.frobenius_bound(dimension, beta),
            separately=rules.separate_factor * (norms * turned + norms**2 * values),
        )


def _trace_bound(
    moments: Moments, noise: AdditiveNoise, first: int, rows: int, entropy: Entropy
) -> float:
    # A private upper bound on the trace of the clipped rows' sscp (blocks.md, Lemma 1).
    unit = 4.0**-first
    scaled = replace(noise, scale=noise.scale * unit)
    noisy = clip_search.clipped_trace(moments, first) + float(scaled.draw(1, entropy)[0])
    # No row is longer than the radius, so the public bound may be the smaller one.
    return max(0.0, min(noisy + scaled.upper_bound(FAILURE_PROBABILITY / 8), rows * unit))
