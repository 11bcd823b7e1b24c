"""The numbers of a page, computed once from a release.

Promise: reads a release only, deterministically; what cannot be known is None, with a sentence that says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.artifact import Release
from dpcov.errors import ReleaseError, UsageError
from dpcov.estimate import UnitEstimate, centered, unit_estimate
from dpcov.report.entry_noise import MomentNoise, correlation_noise, deviation_noise, mean_noise
from dpcov.report.spectrum import Spectrum, spectrum
from dpcov.report.strata import CLEAR_TRACE, StratumRow, stratum_rows

Array = NDArray[np.float64]

ALL_ROWS = "all rows"


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Frobenius norm of the second moment in encoded units, and expected errors before and after shrinkage."""

    size: float
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Means and standard deviations in original units, with the noise on them where it is known, shape (d,) each."""

    means: Array | None
    mean_noise: Array | None
    deviations: Array
    deviation_noise: Array | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Correlations with the noise on them, (d, d), the table of features, and the spectrum.

    Without an intercept everything is about zero instead of the means.
    """

    correlation: Array
    correlation_noise: Array | None
    table: Table
    spectrum: Spectrum


@dataclass(frozen=True, kw_only=True, eq=False)
class PartNumbers:
    """What a page shows of all rows, or of one group.

    ``estimates`` is None where the noise hides too much; ``problem`` says why.
    """

    index: int
    name: str
    release: Release
    estimates: Estimates | None
    problem: str | None
    strata: tuple[StratumRow, ...]
    n_strata_left_out: int
    errors: Errors


def parts_of(release: Release) -> Iterator[PartNumbers]:
    """Numbers of all rows, then those of every group."""
    yield part_numbers(0, ALL_ROWS, release)
    for place, name in enumerate(release.group_names):
        yield part_numbers(place + 1, name, release.group(name))


def part_numbers(index: int, name: str, release: Release) -> PartNumbers:
    """Compute what a page shows of a release, or of a group of it."""
    unit = unit_estimate(release.statistics, release.manifest.n_rows)
    strata, left_out = stratum_rows(release, unit)
    estimates, problem = None, None
    try:
        estimates = _estimates(release, unit)
    except (ReleaseError, UsageError) as error:
        problem = str(error)
    return PartNumbers(
        index=index,
        name=name,
        release=release,
        estimates=estimates,
        problem=problem,
        strata=strata,
        n_strata_left_out=left_out,
        errors=_errors(release),
    )


def _errors(release: Release) -> Errors:
    return Errors(
        size=float(np.linalg.norm(release.second_moment())),
        before=release.expected_error(),
        after=release.expected_error("shrink") if release.statistics.post == "shrink" else None,
    )


def _estimates(release: Release, unit: UnitEstimate) -> Estimates:
    """In encoded units first: that is where the law of the noise is known."""
    columns = [column for column in release.manifest.columns if column.kind != "intercept"]
    half_ranges = np.array([column.half_range for column in columns])
    units, scale = np.outer(half_ranges, half_ranges), release.manifest.norm_bound**2
    kept = inhabited(unit) if release.statistics.post == "shrink" else unit
    if release.has_intercept:
        centers = np.array([column.center for column in columns])
        encoded = (release.mean() - centers) / half_ranges
        public = release.manifest.norm_bound**-2.0 if release.manifest.intercept_is_public else None
        covariance, noisy = release.covariance() / units, centered(kept, public)[1]
    else:
        encoded = np.zeros(len(columns))
        covariance, noisy = release.second_moment() / scale, kept.matrix
    noise, mean_law = _moment_noise(release, kept), _moment_noise(release, unit)
    variances = np.diagonal(covariance)
    deviations = np.sqrt(np.where(variances > 0, variances, np.nan))
    table = Table(
        means=release.mean() if release.has_intercept else None,
        mean_noise=None if mean_law is None else mean_noise(encoded, mean_law) * half_ranges,
        deviations=np.nan_to_num(deviations)
        * half_ranges
        * (1.0 if release.has_intercept else np.sqrt(scale)),
        deviation_noise=_spread(
            encoded, variances, noise, half_ranges if release.has_intercept else np.sqrt(scale)
        ),
    )
    return Estimates(
        correlation=covariance / np.outer(deviations, deviations),
        correlation_noise=None if noise is None else correlation_noise(encoded, covariance, noise),
        table=table,
        spectrum=spectrum(
            noisy,
            covariance,
            unit=kept,
            means=encoded,
            intercept=1.0 if noise is None else noise.intercept,
        ),
    )


def inhabited(unit: UnitEstimate) -> UnitEstimate:
    """The same without strata whose trace is noise: shrinkage estimates them as zero, so their noise does not count."""
    parts = tuple(
        part
        for part in unit.parts
        if part.trace is None or part.trace > CLEAR_TRACE * sqrt(part.trace_variance or 0.0)
    )
    if not unit.parts_may_be_empty or not parts or not unit.noise_variance:
        return unit
    diagonal = sum(part.diagonal_variance for part in parts)
    return replace(
        unit,
        parts=parts,
        matrix=np.sum([part.matrix for part in parts], axis=0),
        noise_variance=diagonal,
        off_diagonal_variance=(unit.off_diagonal_variance or 0.0) * (diagonal / unit.noise_variance),
    )


def _spread(means: Array, variances: Array, noise: MomentNoise | None, units: Array | float) -> Array | None:
    return None if noise is None else np.asarray(deviation_noise(means, variances, noise) * units)


def _moment_noise(release: Release, unit: UnitEstimate) -> MomentNoise | None:
    """Law of the noise on entries of the second moment of rows in the unit ball."""
    if unit.noise_variance is None or unit.off_diagonal_variance is None:
        return None
    intercept = 1.0
    if release.has_intercept:
        public = release.manifest.intercept_is_public
        intercept = release.manifest.norm_bound**-2.0 if public else float(unit.matrix[0, 0])
    return MomentNoise(
        diagonal=unit.noise_variance,
        off_diagonal=unit.off_diagonal_variance,
        intercept=intercept,
        intercept_is_noisy=release.has_intercept and not release.manifest.intercept_is_public,
    )
