"""Give an interval for R², the part of a target's variance that a regression explains.

Sampling and noise of the covariance are simulated, as for functions of it (docs/inference.md).
What they do to R² on average is taken out: features that nothing relates seem to explain a little.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, nan

import numpy as np
from scipy.linalg import solve_triangular

from dpcov.analysis.features import Coding
from dpcov.analysis.intervals.eigenvalues import covariance_of, scale_of, spectrum_of
from dpcov.analysis.intervals.functions import LEAST, UNDEFINED, line_around, near
from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval
from dpcov.published.linalg.symmetric import Array, Places

# Simulations, fewer where they have so many numbers together, but some.
_DRAWS, _NUMBERS, _LEAST_DRAWS = 200, 16_000_000, 40


@dataclass(frozen=True, eq=False)
class Fit:
    """A regression of the last of several columns: what is fitted, (q, p), and its penalty."""

    directions: Array
    alpha: float

    def explained(self, covariance: Array) -> float:
        """R² for a covariance of all columns, (p + 1, p + 1); NaN where it is undefined."""
        F, whole = self.directions, float(covariance[-1, -1])
        penalized = F @ covariance[:-1, :-1] @ F.T + self.alpha * np.eye(len(F))
        try:
            root = np.linalg.cholesky(penalized)
        except np.linalg.LinAlgError:
            return nan
        pivots = np.square(np.diagonal(root))
        if not (whole > 0 and pivots.min() > LEAST * pivots.max()):
            return nan
        # Of 2 w's - w'Aw with (A + alpha) w = s.
        half = solve_triangular(root, F @ covariance[:-1, -1], lower=True)
        slopes = solve_triangular(root, half, lower=True, trans="T")
        return float(half @ half + self.alpha * (slopes @ slopes)) / whole

    def around(self, covariance: Array, errors: Iterable[Array]) -> Array:
        """R² with each error and with its opposite, so that what is linear leaves no bias."""
        return np.array([self.explained(covariance + s * x) for x in errors for s in (1, -1)])


def explained_line(
    law: MomentLaw, kept: Places, target: int, coding: Coding, alpha: float
) -> Interval:
    """That of the regression of a target on features of which ``kept`` have a coefficient.

    From 0 to 1 where noise hides a variance, or may hide a direction of the features.
    """
    name, used = law.columns[target + 1].name, np.append(kept, target)
    scale = scale_of(law, used, "correlation")
    unknown = Interval(name, 0.0, 1.0, sampling_std=inf, privacy_std=inf)
    if not np.isfinite(scale).all() or law.hardly_together(used + 1):
        return unknown
    # Levels that hold all rows tell their reference.
    fit = Fit(coding.directions @ coding.contrasts.T / scale[:-1], alpha)
    seen = covariance_of(law.restored, used, scale)
    estimate = fit.explained(seen)
    if np.isnan(estimate):
        return unknown
    draws = int(np.clip(_NUMBERS // len(used) ** 2, _LEAST_DRAWS, _DRAWS))
    spectrum = spectrum_of(law.restored, used, scale, normalized=True, draws=draws)
    privacy = fit.around(seen, spectrum.noise)
    both = fit.around(seen, map(np.add, spectrum.noise, spectrum.sampled))
    undefined = max(np.isnan(each).mean() for each in (privacy, both))
    if undefined > UNDEFINED:
        return unknown
    both, privacy = (each[~np.isnan(each)] for each in (both, privacy))
    unbiased = float(2 * estimate - near(both).mean())
    return line_around(name, unbiased, both, privacy, law.reaches()[0]).clipped(0.0, 1.0)
