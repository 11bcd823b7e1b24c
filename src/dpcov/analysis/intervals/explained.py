"""Give an interval for R², the part of a target's variance that a regression explains.

Sampling and noise of the covariance are simulated, as for functions of it (docs/inference.md).
What they do to R² on average is taken out: features that nothing relates seem to explain a little.
"""

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from dpcov.analysis.features import Coding
from dpcov.analysis.intervals.eigenvalues import scale_of, spectrum_of
from dpcov.analysis.intervals.functions import LEAST, UNDEFINED, line_around, near
from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval
from dpcov.published.linalg.symmetric import Array, Places

_DRAWS = 200


@dataclass(frozen=True, eq=False)
class Fit:
    """A regression of the last of several columns: what is fitted, (q, p), and its penalty."""

    directions: Array
    alpha: float

    def explained(self, covariances: Array) -> Array:
        """R² for covariances of all columns, (n, p + 1, p + 1); NaN where it is undefined, (n,)."""
        F = self.directions
        among, along = F @ covariances[:, :-1, :-1] @ F.T, F @ covariances[:, :-1, -1:]
        penalized = among + self.alpha * np.eye(len(F))
        least, *_, largest = np.linalg.eigvalsh(penalized)[:, [0, -1]].T
        usable = (least > LEAST * largest) & (covariances[:, -1, -1] > 0)
        found = np.full(len(covariances), nan)
        slopes = np.linalg.solve(penalized[usable], along[usable])
        # Of 2 w's - w'Aw with (A + alpha) w = s.
        explained = np.sum(slopes * (along[usable] + self.alpha * slopes), axis=(1, 2))
        found[usable] = explained / covariances[usable, -1, -1]
        return found


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
    spectrum = spectrum_of(law.restored, used, scale, normalized=True, draws=_DRAWS)
    # Levels that hold all rows tell their reference.
    fit = Fit(coding.directions @ coding.contrasts.T / scale[:-1], alpha)
    seen = spectrum.covariance
    (estimate,) = fit.explained(seen[None])
    # Against each noise its opposite: what is linear leaves no bias.
    privacy, both = (
        fit.explained(seen + np.concatenate([noise, -noise]))
        for noise in (spectrum.noise, spectrum.noise + spectrum.sampled)
    )
    if np.isnan(estimate) or np.isnan([privacy, both]).mean(axis=1).max() > UNDEFINED:
        return unknown
    both, privacy = (each[~np.isnan(each)] for each in (both, privacy))
    unbiased = float(2 * estimate - near(both).mean())
    return line_around(name, unbiased, both, privacy, law.reaches()[0]).clipped(0.0, 1.0)
