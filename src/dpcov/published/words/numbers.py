"""The numbers of a page, computed once from a release.

Contract: reads a release only, deterministically; what cannot be known is None, with a sentence
that says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError, UsageError, few_of
from dpcov.privacy.guarantee import NOTHING, costs_nothing
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    clear_of_pairs,
    deviation_noise,
    hidden_variance,
    mean_noise,
    total_noise,
)
from dpcov.published.estimate.inhabited import left_open, read_with
from dpcov.published.estimate.noise_edge import noise_levels
from dpcov.published.estimate.scaled_down import MOST_LOST
from dpcov.published.estimate.stretch import SKEW
from dpcov.published.file.columns import EncodedColumn, half_ranges_of, of_kind
from dpcov.published.linalg.symmetric import Array, Places, correlation_of, eigenvalues
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.encoded import noise_of

# Standard deviations of the noise in which 95 of 100 errors lie.
WITHIN = 1.96
# Share of rows from which levels are taken to be exhaustive, and hence collinear.
NEARLY_ALL = 0.9
# Said where a release states that nearly all was lost.
UNTOLD = "Scaling long rows down took nearly all spread, and it is not told how much"
HIDDEN_PRESENCE = "Hardly any row has a value, or the noise hides how many rows have a value"
# Pairs of features that a sentence names.
PAIRS_NAMED = 3


class Spectrum(NamedTuple):
    """Eigenvalues in decreasing order, before and after post-processing; the edge of the noise.

    ``n_above`` components stand two deviations above the edge; None where the noise is not known.
    """

    noisy: Array
    estimate: Array
    edge: float | None = None
    n_above: int | None = None


class Estimates(NamedTuple):
    """Correlations, (d, d), means, (d,), in original units, and their noise; what is known."""

    correlation: Array
    correlation_noise: Array | None
    # What 95 of 100 errors of a correlation are smaller than: of noise, and of post-processing,
    # which may move it as far.
    within: Array | None
    # Noise stds from zero that noise alone exceeds, at any pair, in one of twenty releases.
    clear: float
    means: Array | None
    mean_noise: Array | None
    deviations: Array
    deviation_noise: Array | None
    # Before post-processing, which makes no variance negative, and what noise alone makes of none.
    variances: Array
    hidden_variances: Array
    spectrum: Spectrum

    @property
    def hidden(self) -> Any:
        """Which correlations noise alone could make, (d, d) bool; none where it is not known."""
        if self.correlation_noise is None:
            return np.zeros(self.correlation.shape, dtype=bool)
        # Also those of a column that the noise hides: nothing is known of them, and they read 0.
        return ~(np.abs(self.correlation) > self.clear * self.correlation_noise)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupNumbers:
    """What a page shows of all rows, or of one group.

    ``estimates`` is None where the noise hides too much; ``problem`` says why.
    """

    index: int
    name: str
    release: BaseRelease
    estimates: Estimates | None = None
    problem: str = ""


def group_numbers(release: BaseRelease) -> GroupNumbers:
    """Compute what a page shows of a release, or of a group of it."""
    made = GroupNumbers(index=0, name="all rows", release=release)
    if costs_nothing(release.guarantee.promise):
        return replace(made, problem=NOTHING)
    try:
        return replace(made, estimates=_estimates(release))
    # Noise can hide what an estimate needs; the page says so and shows the rest.
    except (ReleaseError, UsageError) as error:
        return replace(made, problem=str(error))


def _estimates(release: BaseRelease) -> Estimates:
    # In encoded units first: that is where the law of the noise is known.
    units, law = release.half_ranges, noise_of(release, None)
    means, encoded = None, np.zeros(len(units))
    if release.has_intercept:
        means = release.mean_vector()
        encoded = (means - release.centers) / units
        covariance = release.covariance_matrix() / np.outer(units, units)
        noisy = release.noisy_covariance(release.statistics.post)
    else:
        kept = read_with(release.unit, release.statistics.post)
        covariance, noisy = release.second_moment(), release.frame.moment(kept.matrix, None)
        noisy = noisy * release.manifest.norm_bound**2
    hidden = hidden_variance(encoded, law)
    correlation = correlation_of(covariance, least=hidden)
    std = None if law is None else correlation_noise(encoded, covariance, law)
    variances = np.maximum(np.diagonal(covariance), 0.0)
    of_mean = None if means is None else _mean_errors(release, encoded, np.sqrt(variances), law)
    deviations, of_deviation = _deviations(release, encoded, variances, law)
    if of_mean is not None and of_deviation is not None:
        # The mean of yes or no tells its spread, and rare ones lose more than an average column.
        own, errors = _of_two_values(release, encoded, of_mean)
        told = (own > 0) & (variances >= np.maximum(hidden, np.finfo(float).tiny))
        deviations = np.where(told, own, deviations)
        of_deviation = np.where(told, errors, of_deviation)
        # No error is larger than the bounds allow.
        lowest, largest = ends_of(release.features)
        farthest = np.maximum(deviations, (largest - lowest) / 2 - deviations)
        of_mean = np.minimum(of_mean, reach_of(release.features, encoded))
        of_deviation = np.minimum(of_deviation, farthest / WITHIN)
    moved = correlation - correlation_of(noisy, least=hidden)
    return Estimates(
        correlation=correlation,
        correlation_noise=std,
        within=None if std is None else np.minimum(1.0, np.hypot(WITHIN * std, moved)),
        clear=clear_of_pairs(len(units), 1.0 if law is None else law.laplace_part),
        means=means,
        mean_noise=None if of_mean is None else of_mean * units,
        deviations=deviations * units,
        deviation_noise=None if of_deviation is None else of_deviation * units,
        variances=np.diagonal(noisy) * units**2,
        hidden_variances=hidden * units**2,
        spectrum=spectrum(noisy, covariance, noise=law, means=encoded),
    )


def _mean_errors(
    release: BaseRelease, means: Array, deviations: Array, law: MomentNoise | None
) -> Array | None:
    """Of noise, and of what scaling rows down did to means, (p,); None where it is not known."""
    mean_law = noise_of(release)
    if mean_law is None:
        return None
    rows = np.full(len(release.encoded_features), float(release.unit.n_rows))
    if law is not None and law.shares is not None:
        rows[release.shown] *= np.diagonal(law.shares)
    pulled = release.mean_errors(rows)[release.shown] * deviations
    pulled = np.where(unknown(release), reach_of(release.features, means), pulled)
    return np.asarray(np.hypot(mean_noise(means, mean_law), pulled))


def unknown(release: BaseRelease) -> NDArray[np.bool_]:
    """Features, (p,), whose means and spreads may be anything within the bounds."""
    return np.asarray((release.untold | release.hides_presence)[release.shown])


def ends_of(features: Sequence[EncodedColumn]) -> Array:
    """Smallest and largest encoded values, (2, p)."""
    return np.array([(column.lowest, column.largest) for column in features]).T


def reach_of(features: Sequence[EncodedColumn], means: Array) -> Array:
    """Deviations of which 95 % intervals of these encoded means, (..., p), reach both bounds."""
    lowest, largest = ends_of(features)
    return np.asarray(np.maximum(largest - means, means - lowest) / WITHIN)


def _deviations(
    release: BaseRelease, means: Array, variances: Array, law: MomentNoise | None
) -> tuple[Array, Array | None]:
    """Standard deviations, (p,), and their errors; None where the noise is not known."""
    deviations = np.sqrt(variances)
    if law is None:
        return deviations, None
    # Scaling rows down takes this part of all squared lengths, and so of an average variance.
    lost = min(release.statistics.lost, MOST_LOST)
    taken = deviations * (1 / np.sqrt(1 - lost) - 1)
    if release.stretch is not None:
        # Numbers have it back, as far as noise lets it be known: too little, rather than too much.
        unsure = deviations * SKEW * release.stretch.unsure[release.shown] / 2
        taken = np.where(of_kind(release.features, "numeric"), unsure, taken)
    taken = np.where(unknown(release), reach_of(release.features, means), taken)
    # Rows whose stratum is taken for noise add to variances, too.
    kept = read_with(release.unit, release.statistics.post)
    missed = deviations * left_open(release.unit, kept) / 2
    noise = deviation_noise(means, variances, law)
    return deviations, np.asarray(np.hypot(noise, np.hypot(taken, missed)))


def complete_columns(release: BaseRelease) -> frozenset[str]:
    """Table columns of whose levels nearly every row has one, as far as the noise lets see."""
    if not release.has_intercept:
        return frozenset()
    columns, means = release.restored_features, release.mean_vector(indicators=True)
    law, full = noise_of(release, indicators=True), set()
    for source in {column.source for column in columns if column.kind == "category"}:
        is_level = [each.source == source and each.kind == "category" for each in columns]
        share, noise = means[is_level].sum(), 0.0
        if law is not None:
            units = half_ranges_of(columns) * is_level
            noise = total_noise(float(share), units, law)
        if sum(is_level) > 1 and share + DEVIATIONS * noise > NEARLY_ALL:
            full.add(source)
    return frozenset(full)


def _of_two_values(release: BaseRelease, means: Array, errors: Array) -> tuple[Array, Array]:
    """Deviations of yes-or-no columns and their errors, by those of means; 0 for other columns."""
    features, two = release.features, release.two_valued[release.shown]
    lowest, largest = ends_of(features)
    found = np.sqrt(np.maximum((largest - means) * (means - lowest), 0.0)) * two
    # To second order, since a mean in the middle has no slope.
    slope = np.abs(lowest + largest - 2 * means)
    return found, (slope + errors) * errors / (
        2 * np.maximum(found, np.maximum(errors, 1e-300) / 2)
    )


def spectrum(noisy: Array, estimate: Array, *, noise: MomentNoise | None, means: Array) -> Spectrum:
    """Eigenvalues of a (d, d) matrix, in encoded units; ``means``, (d,), were subtracted."""
    values, after = (eigenvalues(matrix)[::-1] for matrix in (noisy, estimate))
    if noise is None:
        return Spectrum(values, after)
    edge, clear = noise_levels(noise, np.ones(len(means)), means)
    return Spectrum(values, after, edge, n_above=int(np.sum(after > clear)))


def told_of_rare_pairs(release: BaseRelease, places: Places) -> str:
    """Which of the features at these places hardly any row has both of; empty if there are none.

    The noise hides how those go together.
    """
    found = release.pairwise
    if found is None:
        return ""
    names = [release.restored_features[place].name for place in places]
    pairs = np.argwhere(np.triu(found.shares[np.ix_(places, places)] == 0))
    if not len(pairs):
        return ""
    named = [f"{names[first]!r} with {names[second]!r}" for first, second in pairs]
    return (
        "Too few rows have values of both features to say how they go together: "
        f"{few_of(named, PAIRS_NAMED)}."
    )
