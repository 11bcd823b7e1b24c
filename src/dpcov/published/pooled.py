"""The groups of a release, estimated together: small groups borrow strength from all others.

Contract: reads a release only and costs nothing.  Derived in docs/several.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import msgspec
import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.digits import with_error
from dpcov.published.estimate.correlation_noise import UNKNOWN_CORRELATION
from dpcov.published.estimate.inhabited import inhabited
from dpcov.published.estimate.levels import with_psd_correlations
from dpcov.published.estimate.pooling import GroupMoments, PooledMoments, Reading, pool_moments
from dpcov.published.estimate.present import moment_of
from dpcov.published.estimate.scaled_down import MOST_LOST, mean_error
from dpcov.published.estimate.stretch import SKEW
from dpcov.published.estimate.unit import Part, UnitEstimate
from dpcov.published.file.archive import Arrays, member_records
from dpcov.published.file.columns import centers_of, half_ranges_of, of_kind
from dpcov.published.file.manifest import GEOMETRY_WAS_GIVEN, POOLED, Manifest
from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array, Places, correlation_of, symmetrize
from dpcov.published.reading.base import BaseRelease
from dpcov.published.words.design import design_of, known_design, weighting_of
from dpcov.published.words.numbers import WITHIN, unknown
from dpcov.published.words.words import rows_within

# A number of rows below so many standard deviations of its noise is taken to be that many.
_CLEAR_COUNT = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledGroups:
    """Estimates of all groups together, in original units.

    Attributes
    ----------
    names : tuple of str
        The groups.
    counts : (G,) float64
        Noisy numbers of rows.
    means, mean_std : (G, p) float64
        And the standard deviations of their errors: of noise, of which rows were sampled, and of
        what pulling a group toward the others does to it.
    covariances, covariance_std : (G, p, p) float64
        Around each group's own mean.
    correlations, correlation_std : (G, p, p) float64
        And the standard deviations of their errors.  NaN where the noise leaves no variance.
    """

    names: tuple[str, ...]
    counts: Array
    means: Array
    mean_std: Array
    covariances: Array
    covariance_std: Array
    correlations: Array
    correlation_std: Array


def most_distinct(found: PooledGroups, correlation: Array, most: int) -> list[int]:
    """Places of the groups whose correlations differ most from these, (p, p), in their order."""
    apart = np.nan_to_num(found.correlations) - np.nan_to_num(correlation)
    farthest = np.argsort(-np.sum(apart**2, axis=(1, 2)), kind="stable")[:most]
    return sorted(farthest.tolist())


def pool_groups(release: BaseRelease) -> PooledGroups:
    """Estimate all groups of a release together; UsageError where there is nothing to pool."""
    if len(release.group_names) < 2 or not release.has_intercept:
        raise UsageError(
            "Groups are estimated together where a release has several and means are known. "
            "Release with by=COLUMN (--by COLUMN) and intercept = true."
        )
    places = _places(release)
    # What holds rows of all groups together may hold some of each, also where its noise hides them:
    # what is left of a group would have little noise, and not its rows.
    strata = inhabited(release.unit).parts
    longest = max(strata, key=lambda part: part.largest_trace, default=None)
    parts = [release.group(name) for name in release.group_names]
    facts = [_moments(part, places, release.unit, longest) for part in parts]
    known = {key: np.array([own[key] for own in facts]) for key in facts[0]}
    effects = np.array([_design_effect(part, release) for part in parts])
    groups = GroupMoments(**known, worth=known["counts"] / effects)
    back = release.frame.on(places).back
    made = pool_moments(
        groups, _covariance_of_rows(release, places, back), _reading(release, places, back)
    )
    found = zip(parts, made.covariances, made.kept.tolist(), strict=True)
    covariances = np.array([_with_own(*own) for own in found])
    given_back = np.array([_given_back(release, part) for part in parts])
    return _in_original_units(release, groups, made, covariances, given_back)


def _in_original_units(
    release: BaseRelease,
    groups: GroupMoments,
    made: PooledMoments,
    covariances: Array,
    given_back: Array,
) -> PooledGroups:
    """Estimates and their errors with what scaling rows down took; ``covariances`` are encoded."""
    lower, upper = np.array([column.bounds for column in release.features]).T
    centers, units = _encoded(release)
    factors, unsure, parts, whole, moved, errors = given_back.swapaxes(0, 1)
    means = np.clip(centers + units * made.means + moved, lower, upper)
    spreads = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0)) * units * factors
    pulled = mean_error(release.statistics.lost, parts, whole, groups.counts[:, None])
    pulled = np.hypot(pulled, errors) * spreads
    reach = np.maximum(upper - means, means - lower) / WITHIN
    errors = np.minimum(np.hypot(units * np.sqrt(made.mean_variances), pulled), reach)
    within = _within_bounds(release, means, spreads)
    # A noisy mean near a bound makes a spread small, and its error no smaller.
    scales = (units * factors * each for each in (within, np.maximum(within, 1.0)))
    products, of_errors = (each[:, :, None] * each[:, None, :] for each in scales)
    found = covariances * products
    doubts = found * (unsure[:, :, None] + unsure[:, None, :]) / 2
    return PooledGroups(
        names=release.group_names,
        counts=groups.counts,
        means=means,
        mean_std=np.where(unknown(release), reach, errors),
        covariances=found,
        covariance_std=np.hypot(np.sqrt(made.covariance_variances) * of_errors, doubts),
        # In encoded units, in which variances compare.
        correlations=np.array([*map(correlation_of, covariances)]),
        correlation_std=np.array([*map(_relative_to, np.sqrt(made.by_correlations), covariances)]),
    )


def _encoded(release: BaseRelease) -> tuple[Array, Array]:
    """Centers and units of the features as they are encoded, (p,) each."""
    columns = [release.encoded_features[place] for place in release.shown]
    return centers_of(columns), half_ranges_of(columns)


def _given_back(release: BaseRelease, part: BaseRelease) -> Array:
    """What scaling rows down took of a group's columns, (6, p).

    Factors of deviations, deviations of their squares, lost parts of variances, variances before,
    over those that are read, what means get back, and its error.  Where nothing tells of a group,
    what tells of all rows; or what all columns lost on average.
    """
    shown, lost = release.shown, min(release.statistics.lost, MOST_LOST)
    are_numbers = of_kind(release.features, "numeric")
    average = are_numbers * lost / (1 - lost)
    parts, whole = release.lost_parts[shown], release.whole_variances[shown]
    found = np.array([np.ones(len(shown)), average, parts, whole, *np.zeros((2, len(shown)))])
    for each in (release, part):
        if each.stretch is not None:
            told = ~np.isnan(each.stretch.lost[shown])
            own = each.stretch.factors, SKEW * each.stretch.unsure
            of_means = each.stretch.moved, each.moved_stds
            known = np.array([*own, each.lost_parts, each.whole_variances, *of_means])[:, shown]
            found[:, told] = known[:, told]
    return found


def _within_bounds(release: BaseRelease, means: Array, spreads: Array) -> Array:
    """What deviations, (G, p), are multiplied by, so that bounds allow them (Popoviciu 1935).

    Those of yes-or-no columns and levels follow from their means.
    """
    lower, upper = np.array([column.bounds for column in release.features]).T
    of_two = np.sqrt(np.maximum((upper - means) * (means - lower), 0.0))
    known = np.minimum(spreads, (upper - lower) / 2)
    known = np.where(release.two_valued[release.shown], of_two, known)
    return np.where(spreads > 0, known / np.where(spreads > 0, spreads, 1.0), 1.0)


def _places(release: BaseRelease) -> Places:
    """Places in a row of what is pooled: not of indicators that noise alone may have made."""
    kept = ~of_kind(release.manifest.columns, "missing")
    if release.presence is not None:
        kept[1 + release.presence.used] = True
    # All, where a map mixes them.
    if release.frame.back[np.ix_(kept, ~kept)].any():
        kept[:] = True
    return np.flatnonzero(kept)


def _covariance_of_rows(release: BaseRelease, places: Places, back: Array) -> Array:
    """Where noise was added; missing values are zeros, as they are encoded."""
    units = half_ranges_of(release.restored_features)
    found = release.covariance_matrix(indicators=True) / np.outer(units, units)
    presence, present = release.presence, release.pairwise
    if presence is not None and present is not None:
        # Values less their means, where present, are not correlated with what is missing.
        marks = of_kind(release.encoded_features, "missing")
        spread = np.where(marks[:, None] | marks, 0.0, found * present.shares)
        spread[np.ix_(marks, marks)] = with_psd_correlations(found[np.ix_(marks, marks)])
        undo = np.linalg.inv(presence.centered(present, np.eye(1 + len(units)))[:, 1:])
        found = undo @ spread @ undo.T
    features = places[1:] - 1
    undo = np.linalg.inv(back[1:, 1:])
    return np.asarray(undo @ found[np.ix_(features, features)] @ undo.T)


def _reading(release: BaseRelease, places: Places, back: Array) -> Reading:
    """How features are read from rows at ``places``, to which ``back`` leads."""
    shown = np.flatnonzero(~of_kind(release.encoded_features, "missing"))
    p, own = len(shown), np.ix_(shown, shown)
    values = back[np.searchsorted(places, shown + 1)]
    presence, found = release.presence, release.pairwise
    if presence is None or found is None:
        always = np.eye(1, len(places)) + np.zeros((p, 1))
        return Reading(values, always, np.ones((p, p)), np.zeros((p, p)), np.full((p, p), True))
    present, apart = np.diagonal(found.shares)[shown], (found.means - found.mean[:, None])[own]
    known = found.shares[own] > 0
    # Of what hardly any row has, no variance is known, either.
    known &= (known.sum(axis=0) > 1) | (p == 1)
    return Reading(
        values=values,
        present=presence.rows[shown][:, places] @ back,
        together=found.shares[own] / np.outer(present, present),
        between=apart * apart.T,
        known=known,
    )


def _with_own(group: BaseRelease, pooled: Array, kept: float) -> Array:
    # A group that keeps all of its distance from the others is best read alone: its own estimate
    # knows how noise spreads over directions, which entry by entry nothing tells.
    try:
        own = group.correlation_matrix()
    # The noise hides its number of rows.
    except ReleaseError:
        return pooled
    together = correlation_of(pooled)
    mixed = together + kept * (own - together)
    deviations = np.sqrt(np.diagonal(pooled))
    return np.where(np.isfinite(mixed), np.outer(deviations, deviations) * mixed, pooled)


def _relative_to(errors: Array, covariance: Array) -> Array:
    """Errors of covariances as those of correlations, (p, p)."""
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = errors / np.outer(deviations, deviations)
    np.fill_diagonal(found, 0.0)
    return np.minimum(found, UNKNOWN_CORRELATION)


def _moments(
    group: BaseRelease, places: Places, all_rows: UnitEstimate, longest: Part | None
) -> dict[str, Any]:
    """Those of one group, divided by a number of rows that is clear of its noise."""
    unit = inhabited(group.unit, 0.0 if longest is None else longest.largest_trace)
    whole = group.unit.n_rows
    if unit.noise is None:
        raise UsageError(
            "This release does not publish the law of its noise. Use group(name), without pooling."
        )
    noise = sqrt(group.unit.count_variance) * whole
    rows = max(whole, _CLEAR_COUNT * noise, 1.0)
    intercept, divisor = group.public_intercept, (noise / rows) ** 2
    if intercept is None:
        least = _CLEAR_COUNT * sqrt(unit.noise.diagonal)
        intercept, rows = max(float(unit.matrix[0, 0]), least, 1e-300), whole
        divisor = unit.noise.diagonal / intercept**2
    scale, variance = whole / rows / intercept, unit.noise.off_diagonal
    # The intercept tells what part of the rows is left.
    if unit.matrix[0, 0] < intercept / 2:
        variance += _left_out(group.unit, all_rows, longest)
    matrix = unit.matrix[np.ix_(places, places)] * scale
    mean = matrix[0, 1:]
    return {
        "means": mean,
        "covariances": matrix[1:, 1:] - np.outer(mean, mean),
        "variances": variance * scale**2,
        "counts": rows,
        "count_variances": divisor,
    }


def _design_effect(group: BaseRelease, release: BaseRelease) -> float:
    """That of weights and of several rows of a person; of all rows where noise hides a group's."""
    if weighting_of(group) is None:
        return float(group.guarantee.rows_per_person)
    return (known_design(group) or design_of(release)).effect


def _left_out(group: UnitEstimate, all_rows: UnitEstimate, longest: Part | None) -> float:
    """Variance, off the diagonal, of the longest stratum where it is not among a group's.

    Its trace was within the noise, and so may be most rows of the group.
    """
    law = all_rows.noise
    if longest is None or law is None or not law.diagonal:
        return 0.0
    if any(own.largest_trace >= longest.largest_trace for own in group.parts):
        return 0.0
    share = longest.diagonal_variance / law.diagonal
    return law.off_diagonal * share * (all_rows.n_rows / group.n_rows) ** 2


def told_groups(release: BaseRelease, found: PooledGroups, most: int) -> Iterator[tuple[str, ...]]:
    """Of every group its name, rows and the ``most`` first means, ± what holds 95 of 100 errors."""
    within = WITHIN * found.mean_std
    for name, means, halves in zip(found.names, found.means, within, strict=True):
        pairs = zip(means[:most].tolist(), halves.tolist(), strict=False)
        told = (" ± ".join(with_error(*pair)) for pair in pairs)
        yield name, rows_within(release.group(name)), *told


def pooled_facts(release: BaseRelease, name: str, made: PooledGroups) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of one group's pooled estimate, as a finished matrix."""
    place, group = made.names.index(name), release.group(name)
    centers, units = _encoded(release)
    mean, bound = (made.means[place] - centers) / units, release.manifest.norm_bound
    moment = moment_of(mean, made.covariances[place] / np.outer(units, units))
    arrays: Arrays = {"second_moment": symmetrize(moment) / bound**2}
    if isfinite(group.n_rows):
        arrays["row_count"] = np.array([round(group.n_rows)], dtype=np.int64)
    note = f"{POOLED} {release.fingerprint[:12]}"
    notes = (note, *[GEOMETRY_WAS_GIVEN] * group.manifest.geometry_was_given)
    stated = NoisyStatistics(layout="estimate", arrays=arrays, post="none", notes=notes)
    # A part of a combination that nobody paid for is not hidden behind the others.
    is_paid = group.manifest.combined and group.manifest.is_charged
    manifest = msgspec.structs.replace(
        group.manifest,
        # The moments are those over the values that are present already.
        columns=tuple(column for column in group.manifest.columns if column.kind != "missing"),
        intercept_is_public=False,
        statistics=stated.record,
        members=member_records(arrays),
        combined=(),
        pooled=True,
        also_spent=group.manifest.charges if is_paid else (),
    )
    return manifest, arrays
