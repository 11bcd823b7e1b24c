"""Noise against signal, stratum by stratum.

Contract: reads a release only.  Signal sizes are unbiased in the square, and zero where the noise hides
everything.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpcov.published.base import BaseRelease
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.entry_noise import DEVIATIONS, seems_inhabited
from dpcov.published.estimate.post import Part, UnitEstimate

SHOWN = 12
NOISIEST_SHOWN = 3
"""Strata that are shown even if their trace is noise."""


@dataclass(frozen=True, kw_only=True)
class StratumRow:
    """One published matrix: which rows it is made of, and its Frobenius norm without and of the noise.

    ``clear`` says whether its trace tells that there are rows in it.
    """

    label: str
    signal: float
    noise: float
    n_above: int
    clear: bool


def stratum_rows(release: BaseRelease, unit: UnitEstimate) -> tuple[tuple[StratumRow, ...], int]:
    """Return the strata worth showing, the noisiest first, and how many are left out."""
    bound = release.manifest.norm_bound**2
    parts = unit.parts or _whole(unit)
    labels = _labels(release, len(parts))
    order = sorted(range(len(parts)), key=lambda index: -parts[index].diagonal_variance)
    rows = [_row(parts[index], labels[index], bound) for index in order]
    shown = [row for place, row in enumerate(rows) if row.clear or place < NOISIEST_SHOWN][:SHOWN]
    return tuple(shown), len(rows) - len(shown)


def _whole(unit: UnitEstimate) -> tuple[Part, ...]:
    """The matrix as one part where its noise is known but not isotropic."""
    if unit.noise_variance is None or unit.off_diagonal_variance is None or not np.any(unit.matrix):
        return ()
    part = Part(
        matrix=unit.matrix,
        diagonal_variance=2 * unit.off_diagonal_variance,
        trace=None,
        trace_variance=None,
    )
    return (part,)


def _row(part: Part, label: str, bound: float) -> StratumRow:
    d = len(part.matrix)
    if part.nuclear_scale is None:
        noise = sqrt(part.diagonal_variance * d * (d + 1) / 2)
        edge = sqrt(2 * d * part.diagonal_variance)
    else:
        noise = part.nuclear_scale * sqrt(ullman.mean_square(d))
        edge = part.nuclear_scale * ullman.edge(d)
    level = edge + DEVIATIONS * sqrt(part.diagonal_variance)
    return StratumRow(
        label=label,
        signal=sqrt(max(0.0, float(np.sum(part.matrix**2)) - noise**2)) * bound,
        noise=noise * bound,
        n_above=int(np.sum(np.linalg.eigvalsh(part.matrix) > level)),
        clear=seems_inhabited(part),
    )


def _labels(release: BaseRelease, count: int) -> list[str]:
    """Which rows a matrix is made of: their length, and their group where the release has groups."""
    arrays = release.statistics.arrays
    if "first_shell" not in arrays:
        return ["all rows"] * count
    shells = release.statistics.arrays["trace"].size // release.statistics.n_groups
    radius, labels = release.manifest.norm_bound * release.statistics.radius, []
    for place, (first, last) in enumerate(
        zip(arrays["first_shell"], arrays["last_shell"], strict=True)
    ):
        upper = radius * 2.0 ** -int(first)
        innermost = int(last) == shells - 1
        length = f"length {upper * _inner(first, last):.3g} to {upper:.3g}"
        if innermost:
            length = f"length up to {upper:.3g}" if first else "all rows"
        if "outermost_shell" in arrays and arrays["outermost_shell"][place] < first:
            length += f", and up to {radius * 2.0 ** -int(arrays['outermost_shell'][place]):.3g} shortened to it"
        group = (
            f"{release.group_names[int(arrays['group'][place])]}, "
            if "group" in arrays and release.group_names
            else ""
        )
        labels.append(group + length)
    return labels


def _inner(first: int, last: int) -> float:
    return float(2.0 ** (int(first) - int(last) - 1))
