"""The numbers of a page, computed once from a release.

Contract: reads a release only, deterministically; what cannot be known is None, with a sentence
that says why.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.base import BaseRelease
from dpcov.published.estimate.entry_noise import (
    correlation_noise,
    deviation_noise,
    hidden_variance,
    mean_noise,
    noise_of,
    read_with,
)
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.spectrum import Spectrum, spectrum
from dpcov.published.estimate.unit import UnitEstimate, centered, unit_estimate
from dpcov.published.linalg.symmetric import Array, correlation_of
from dpcov.published.stratum_table import ALL_ROWS, StratumRow, stratum_rows


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Frobenius norm of the second moment, and expected errors before and after shrinkage.

    All are in encoded units.
    """

    size: float
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Means and standard deviations in original units, with their noise if known, (d,) each."""

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
        errors=Errors(
            size=float(np.linalg.norm(release.second_moment())),
            before=release.expected_error(),
            after=release.expected_error(post) if find_post(post).drops_empty else None,
        ),
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
        correlation=correlation_of(covariance, least=hidden_variance(noise)),
        correlation_noise=noise_on_correlations,
        table=Table(
            means=means,
            mean_noise=None if mean_law is None else mean_noise(encoded, mean_law) * half_ranges,
            deviations=np.sqrt(variances) * half_ranges,
            deviation_noise=noise_on_deviations,
        ),
        spectrum=spectrum(noisy, covariance, noise=noise, means=encoded),
    )
