"""The numbers of a page, computed once from a release.

Contract: reads a release only, deterministically; what cannot be known is None, with a sentence
that says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.base import BaseRelease
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    clear_of_noise,
    correlation_noise,
    deviation_noise,
    largest_noise_eigenvalue,
    mean_noise,
    noise_of,
    read_with,
    seems_inhabited,
)
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.unit import Part, UnitEstimate, centered, unit_estimate
from dpcov.published.linalg.symmetric import Array, correlation_of, eigenvalues

ALL_ROWS = "all rows"
STRATA_SHOWN = 12
# Strata that are shown even if their trace is noise.
NOISIEST_SHOWN = 3


class Spectrum(NamedTuple):
    """Eigenvalues in decreasing order, before and after post-processing; the edge of the noise.

    ``n_above`` components stand two deviations above the edge; None where the noise is not known.
    """

    noisy: Array
    estimate: Array
    edge: float | None = None
    n_above: int | None = None


class StratumRow(NamedTuple):
    """One published matrix: which rows it is made of, and Frobenius norms of signal and noise.

    The signal is unbiased in the square, and zero where the noise hides everything; ``clear`` says
    whether its trace tells that there are rows in it.
    """

    label: str
    signal: float
    noise: float
    n_above: int
    clear: bool


class Estimates(NamedTuple):
    """Correlations, (d, d), means and deviations in original units, (d,), and their noise if known.

    Without an intercept there are no means, and everything is about zero.
    """

    correlation: Array
    correlation_noise: Array | None
    means: Array | None
    mean_noise: Array | None
    deviations: Array
    deviation_noise: Array | None
    spectrum: Spectrum


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupNumbers:
    """What a page shows of all rows, or of one group.

    ``estimates`` is None where the noise hides too much; ``problem`` says why.  ``size`` is the
    Frobenius norm of the second moment in encoded units, beside its expected errors before and
    after shrinkage.
    """

    index: int
    name: str
    release: BaseRelease
    estimates: Estimates | None
    problem: str | None
    strata: tuple[StratumRow, ...]
    n_strata_left_out: int
    size: float
    error_before: float | None
    error_after: float | None


def numbers_by_group(release: BaseRelease) -> Iterator[GroupNumbers]:
    """Numbers of all rows, then those of every group."""
    yield group_numbers(0, ALL_ROWS, release)
    for place, name in enumerate(release.group_names, start=1):
        yield group_numbers(place, name, release.group(name))


def group_numbers(index: int, name: str, release: BaseRelease) -> GroupNumbers:
    """Compute what a page shows of a release, or of a group of it."""
    unit = unit_estimate(release.statistics, release.manifest.n_rows)
    strata, left_out = stratum_rows(release, unit)
    estimates, problem = None, None
    try:
        estimates = _estimates(release, unit)
    # Noise can hide what an estimate needs; the page says so and shows the rest.
    except (ReleaseError, UsageError) as error:
        problem = str(error)
    post = release.statistics.post
    return GroupNumbers(
        index=index,
        name=name,
        release=release,
        estimates=estimates,
        problem=problem,
        strata=strata,
        n_strata_left_out=left_out,
        size=float(np.linalg.norm(release.second_moment())),
        error_before=release.expected_error(),
        error_after=release.expected_error(post) if find_post(post).drops_empty else None,
    )


def _estimates(release: BaseRelease, unit: UnitEstimate) -> Estimates:
    # In encoded units first: that is where the law of the noise is known.
    half_ranges = release.half_ranges
    means, encoded = None, np.zeros(len(half_ranges))
    kept = read_with(unit, release.statistics.post)
    if release.has_intercept:
        means = release.mean()
        encoded = (means - release.centers) / half_ranges
        covariance = release.covariance() / np.outer(half_ranges, half_ranges)
        noisy = centered(kept, release.public_intercept)[2]
    else:
        covariance, noisy = release.second_moment(), kept.matrix * release.manifest.norm_bound**2
    noise, mean_law = noise_of(release, None), noise_of(release)
    variances = np.maximum(np.diagonal(covariance), 0.0)
    noise_on_deviations = noise_on_correlations = None
    if noise is not None:
        noise_on_deviations = deviation_noise(encoded, variances, noise) * half_ranges
        noise_on_correlations = correlation_noise(encoded, covariance, noise)
    return Estimates(
        correlation=correlation_of(covariance),
        correlation_noise=noise_on_correlations,
        means=means,
        mean_noise=None if mean_law is None else mean_noise(encoded, mean_law) * half_ranges,
        deviations=np.sqrt(variances) * half_ranges,
        deviation_noise=noise_on_deviations,
        spectrum=spectrum(noisy, covariance, noise=noise, means=encoded),
    )


def spectrum(noisy: Array, estimate: Array, *, noise: MomentNoise | None, means: Array) -> Spectrum:
    """Eigenvalues of a (d, d) matrix before and after post-processing, with the edge of its noise.

    Encoded units; ``means``, (d,), is what was subtracted, relative to an intercept of 1.
    """
    values, after = (eigenvalues(matrix)[::-1] for matrix in (noisy, estimate))
    if noise is None:
        return Spectrum(values, after)
    law = noise, np.ones(len(means)), means
    n_above = int(np.sum(after > clear_of_noise(*law)))
    return Spectrum(values, after, edge=largest_noise_eigenvalue(*law), n_above=n_above)


def stratum_rows(release: BaseRelease, unit: UnitEstimate) -> tuple[tuple[StratumRow, ...], int]:
    """Return the strata worth showing, the noisiest first, and how many are left out."""
    bound, parts, off_diagonal = (
        release.manifest.norm_bound**2,
        unit.parts,
        unit.off_diagonal_variance,
    )
    if not parts and off_diagonal is not None and np.any(unit.matrix):
        # One matrix whose noise is known but not isotropic.
        parts = (Part(matrix=unit.matrix, diagonal_variance=2 * off_diagonal),)
    rows = [_stratum_row(part, _label(release, place), bound) for place, part in enumerate(parts)]
    rows = [
        rows[place] for place in np.argsort([-p.diagonal_variance for p in parts], kind="stable")
    ]
    shown = [row for rank, row in enumerate(rows) if row.clear or rank < NOISIEST_SHOWN]
    return tuple(shown[:STRATA_SHOWN]), len(rows) - len(shown[:STRATA_SHOWN])


def _stratum_row(part: Part, label: str, bound: float) -> StratumRow:
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
