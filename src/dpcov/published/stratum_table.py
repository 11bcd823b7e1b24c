"""Noise against signal, stratum by stratum.

Contract: reads a release only.  Signal sizes are unbiased in the square, and zero where the noise
hides everything.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpcov.published.base import BaseRelease
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.entry_noise import DEVIATIONS, seems_inhabited
from dpcov.published.estimate.unit import Part, UnitEstimate

ALL_ROWS = "all rows"
SHOWN = 12
# Strata that are shown even if their trace is noise.
NOISIEST_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class StratumRow:
    """One published matrix: which rows it is made of, and Frobenius norms of signal and noise.

    ``clear`` says whether its trace tells that there are rows in it.
    """

    label: str
    signal: float
    noise: float
    n_above: int
    clear: bool


def stratum_rows(release: BaseRelease, unit: UnitEstimate) -> tuple[tuple[StratumRow, ...], int]:
    """Return the strata worth showing, the noisiest first, and how many are left out."""
    bound, parts, off_diagonal = (
        release.manifest.norm_bound**2,
        unit.parts,
        unit.off_diagonal_variance,
    )
    if not parts and unit.noise_variance is not None and off_diagonal is not None:
        # One matrix whose noise is known but not isotropic.
        whole = Part(matrix=unit.matrix, diagonal_variance=2 * off_diagonal)
        parts = (whole,) if np.any(unit.matrix) else ()
    rows = [_row(part, _label(release, place), bound) for place, part in enumerate(parts)]
    noisiest = sorted(range(len(parts)), key=lambda place: -parts[place].diagonal_variance)
    shown = [
        rows[place]
        for rank, place in enumerate(noisiest)
        if rows[place].clear or rank < NOISIEST_SHOWN
    ][:SHOWN]
    return tuple(shown), len(rows) - len(shown)


def _row(part: Part, label: str, bound: float) -> StratumRow:
    d, variance, scale = len(part.matrix), part.diagonal_variance, part.nuclear_scale
    noise, edge = sqrt(variance * d * (d + 1) / 2), sqrt(2 * d * variance)
    if scale is not None:
        noise, edge = scale * sqrt(ullman.mean_square(d)), scale * ullman.edge(d)
    level = edge + DEVIATIONS * sqrt(variance)
    return StratumRow(
        label=label,
        # The noise adds its own energy to the square; less than none is zero.
        signal=sqrt(max(0.0, float(np.sum(part.matrix**2)) - noise**2)) * bound,
        noise=noise * bound,
        n_above=int(np.sum(np.linalg.eigvalsh(part.matrix) > level)),
        clear=seems_inhabited(part),
    )


def _label(release: BaseRelease, place: int) -> str:
    arrays = release.statistics.arrays
    if "first_shell" not in arrays:
        return ALL_ROWS
    first, last = int(arrays["first_shell"][place]), int(arrays["last_shell"][place])
    radius = release.manifest.norm_bound * release.statistics.radius
    upper, lower = radius * 2.0**-first, radius * 2.0 ** (-last - 1)
    label = f"length {lower:.3g} to {upper:.3g}"
    if last == arrays["trace"].size // release.statistics.n_groups - 1:
        label = f"length up to {upper:.3g}" if first else ALL_ROWS
    outermost = int(arrays["outermost_shell"][place]) if "outermost_shell" in arrays else first
    if outermost < first:
        label += f", and up to {radius * 2.0**-outermost:.3g} shortened to it"
    if "group" in arrays and release.group_names:
        label = f"{release.group_names[int(arrays['group'][place])]}, {label}"
    return label
