"""The numbers of a page, computed once from a release.

Contract: reads a release only, deterministically; what cannot be known is None, with a sentence that says
why.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.base import BaseRelease
from dpcov.published.estimate.entry_noise import (
    correlation_noise,
    deviation_noise,
    inhabited,
    mean_noise,
    noise_of,
)
from dpcov.published.estimate.post import UnitEstimate, centered, unit_estimate
from dpcov.published.estimate.spectrum import Spectrum, spectrum
from dpcov.published.linalg.symmetric import correlation_of
from dpcov.published.stratum_table import StratumRow, stratum_rows

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
class GroupNumbers:
    """What a page shows of all rows, or of one group.

    ``estimates`` is None where the noise hides too much; ``problem`` says why.
    """

    index: int
    name: str
    release: BaseRelease
    estimates: Estimates | None
    problem: str | None
    strata: tuple[StratumRow, ...]
    n_strata_left_out: int
    errors: Errors


def numbers_by_group(release: BaseRelease) -> Iterator[GroupNumbers]:
    """Numbers of all rows, then those of every group."""
    yield group_numbers(0, ALL_ROWS, release)
    for place, name in enumerate(release.group_names):
        yield group_numbers(place + 1, name, release.group(name))


def group_numbers(index: int, name: str, release: BaseRelease) -> GroupNumbers:
    """Compute what a page shows of a release, or of a group of it."""
    unit = unit_estimate(release.statistics, release.manifest.n_rows)
    strata, left_out = stratum_rows(release, unit)
    estimates, problem = None, None
    try:
        estimates = _estimates(release, unit)
    except (ReleaseError, UsageError) as error:
        problem = str(error)
    return GroupNumbers(
        index=index,
        name=name,
        release=release,
        estimates=estimates,
        problem=problem,
        strata=strata,
        n_strata_left_out=left_out,
        errors=_errors(release),
    )


def _errors(release: BaseRelease) -> Errors:
    return Errors(
        size=float(np.linalg.norm(release.second_moment())),
        before=release.expected_error(),
        after=release.expected_error("shrink") if release.statistics.post == "shrink" else None,
    )


def _estimates(release: BaseRelease, unit: UnitEstimate) -> Estimates:
    """In encoded units first: that is where the law of the noise is known."""
    columns = [column for column in release.manifest.columns if column.kind != "intercept"]
    half_ranges = np.array([column.half_range for column in columns])
    kept = inhabited(unit) if release.statistics.post == "shrink" else unit
    if release.has_intercept:
        centers = np.array([column.center for column in columns])
        encoded = (release.mean() - centers) / half_ranges
        public = release.manifest.norm_bound**-2.0 if release.manifest.intercept_is_public else None
        covariance = release.covariance() / np.outer(half_ranges, half_ranges)
        noisy = centered(kept, public)[1]
    else:
        encoded = np.zeros(len(columns))
        covariance, noisy = release.second_moment(), kept.matrix * release.manifest.norm_bound**2
    noise, mean_law = noise_of(release, None), noise_of(release)
    variances = np.maximum(np.diagonal(covariance), 0.0)
    table = Table(
        means=release.mean() if release.has_intercept else None,
        mean_noise=None if mean_law is None else mean_noise(encoded, mean_law) * half_ranges,
        deviations=np.sqrt(variances) * half_ranges,
        deviation_noise=None
        if noise is None
        else deviation_noise(encoded, variances, noise) * half_ranges,
    )
    return Estimates(
        correlation=correlation_of(covariance),
        correlation_noise=None if noise is None else correlation_noise(encoded, covariance, noise),
        table=table,
        spectrum=spectrum(noisy, covariance, noise=noise, means=encoded),
    )
