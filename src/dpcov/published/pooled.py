"""The groups of a release, estimated together: small groups borrow strength from all others.

Contract: reads a release only and costs nothing.  Derived and measured in docs/several.md.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.estimate.entry_noise import Places, inhabited
from dpcov.published.estimate.levels import positive
from dpcov.published.estimate.pooling import GroupMoments, PooledMoments, pool_moments
from dpcov.published.estimate.present import moment_of
from dpcov.published.file import Arrays, member_record
from dpcov.published.linalg.symmetric import Array, correlation_of
from dpcov.published.manifest import Manifest, StatisticsRecord

if TYPE_CHECKING:
    from dpcov.published.base import BaseRelease

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
    """

    names: tuple[str, ...]
    counts: Array
    means: Array
    mean_std: Array
    covariances: Array
    covariance_std: Array

    @cached_property
    def correlations(self) -> Array:
        """Of every group, (G, p, p)."""
        return np.array([correlation_of(each) for each in self.covariances])

    @cached_property
    def correlation_std(self) -> Array:
        """Standard deviations of the errors of correlations, to first order, (G, p, p)."""
        spread = np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = self.covariance_std / (spread[:, :, None] * spread[:, None, :])
        own = np.diagonal(relative, axis1=1, axis2=2) ** 2
        square = relative**2 + self.correlations**2 / 4 * (own[:, :, None] + own[:, None, :])
        found: Array = np.sqrt(square)
        found[:, range(found.shape[1]), range(found.shape[1])] = 0.0
        return found


def pool_groups(release: "BaseRelease") -> PooledGroups:
    """Estimate all groups of a release together; UsageError where there is nothing to pool."""
    if len(release.group_names) < 2 or not release.has_intercept:
        raise UsageError(
            "Groups are estimated together where a release has several and means are known. "
            "Release with by=COLUMN and intercept = true."
        )
    places = _places(release)
    groups = [_moments(release.group(name), places) for name in release.group_names]
    back, features = release.frame.on(places).back, places[1:] - 1
    # Beside the intercept.
    linear = np.eye(len(features)) if back is None else back[1:, 1:]
    undo, own = np.linalg.inv(linear), np.ix_(features, features)
    whole = undo @ _covariance_of_rows(release)[own] @ undo.T
    made = pool_moments(GroupMoments.of(groups), np.asarray(whole), linear)
    read = [_over_present(release, places, made, group) for group in range(len(groups))]
    means, mean_variances, pooled, variances = map(np.array, zip(*read, strict=True))
    covariances = [
        _with_own(release.group(name), *found)
        for name, *found in zip(release.group_names, pooled, made.kept, strict=True)
    ]
    lower, upper = np.array([column.bounds for column in release.features]).T
    units = release.half_ranges
    return PooledGroups(
        names=release.group_names,
        counts=np.array([group.counts[0] for group in groups]),
        means=np.clip(release.centers + units * means, lower, upper),
        mean_std=units * np.sqrt(mean_variances),
        covariances=np.array(covariances) * np.outer(units, units),
        covariance_std=np.sqrt(variances) * np.outer(units, units),
    )


def _places(release: "BaseRelease") -> Places:
    """Places in a row of what is pooled: not of indicators that noise alone may have made."""
    kept = np.array([column.kind != "missing" for column in release.manifest.columns])
    if release.presence is not None:
        kept[1 + np.setdiff1d(release.presence.indicators, [-1])] = True
    back = release.frame.back
    # All, where a map mixes them.
    if back is not None and back[np.ix_(kept, ~kept)].any():
        kept[:] = True
    return np.flatnonzero(kept)


def _covariance_of_rows(release: "BaseRelease") -> Array:
    """Where missing values are zeros, as they are encoded; indicators included."""
    units = np.array([column.half_range for column in release.encoded_features])
    found = release.covariance_matrix(indicators=True) / np.outer(units, units)
    presence, present = release.presence, release.pairwise
    if presence is None or present is None:
        return found
    # Values less their means, where present, are not correlated with what is missing.
    marks = np.array([column.kind == "missing" for column in release.encoded_features])
    spread = np.where(marks[:, None] | marks, 0.0, found * present.shares)
    spread[np.ix_(marks, marks)] = positive(found[np.ix_(marks, marks)])
    undo = np.linalg.inv(presence.centered(present)[:, 1:])
    return np.asarray(undo @ spread @ undo.T)


def _over_present(
    release: "BaseRelease", places: Places, made: PooledMoments, group: int
) -> tuple[Array, Array, Array, Array]:
    """Mean and covariance of one group's features, each with the variances of its errors."""
    features, all_of_them = places[1:] - 1, release.encoded_features
    mean, covariance = np.zeros(len(all_of_them)), np.zeros((len(all_of_them),) * 2)
    back = release.frame.back
    mean[features] = made.means[group] + (0.0 if back is None else back[places[1:], 0])
    covariance[np.ix_(features, features)] = made.covariances[group]
    shown = np.flatnonzero([column.kind != "missing" for column in all_of_them])
    own = np.ix_(shown, shown)
    if release.presence is None:
        errors = made.errors(group, np.eye(len(features)))
        return mean, errors[0], covariance, errors[1]
    moment = moment_of(mean, covariance)
    found = release.presence.moments(moment)
    # Values less their means, where present: what is known of products with indicators was used
    # before, in all groups together, and here it would undo the pulling.
    centered, apart = release.presence.centered(found), found.means - found.mean[:, None]
    around = centered @ moment @ centered.T / found.shares - apart * apart.T
    errors = made.errors(group, centered[np.ix_(shown, places[1:])])
    present, pairs = np.diagonal(found.shares)[shown], found.shares[own]
    # Values of one column, and of some pairs, are missing together: fewer rows than by chance.
    fewer = np.maximum(1.0, pairs / np.outer(present, present))
    return (
        found.mean[shown],
        errors[0] / present**2,
        positive(around[own]),
        errors[1] * fewer / pairs**2,
    )


def _with_own(group: "BaseRelease", pooled: Array, kept: float) -> Array:
    # A group that keeps all of its distance from the others is best read alone: its own estimate
    # knows how noise spreads over directions, which entry by entry nothing tells.
    try:
        own = group.covariance_matrix() / np.outer(group.half_ranges, group.half_ranges)
    # The noise hides its number of rows.
    except ReleaseError:
        return pooled
    return np.asarray(pooled + kept * (own - pooled))


def _moments(group: "BaseRelease", places: Places) -> GroupMoments:
    """Those of one group, divided by a number of rows that is clear of its noise."""
    unit, whole = inhabited(group.unit), group.unit.n_rows
    if unit.off_diagonal_variance is None:
        raise UsageError("This release does not publish the law of its noise. Use group(name).")
    noise = sqrt(group.unit.count_variance) * whole
    rows = max(whole, _CLEAR_COUNT * noise, 1.0)
    intercept = group.public_intercept
    if intercept is None:
        least = _CLEAR_COUNT * sqrt(unit.noise_variance or 0.0)
        intercept, rows = max(float(unit.matrix[0, 0]), least, 1e-300), whole
    scale = whole / rows / intercept
    matrix = unit.matrix[np.ix_(places, places)] * scale
    mean = matrix[0, 1:]
    return GroupMoments(
        means=mean[None],
        covariances=(matrix[1:, 1:] - np.outer(mean, mean))[None],
        variances=np.array([unit.off_diagonal_variance * scale**2]),
        counts=np.array([rows]),
        count_variances=np.array([(noise / rows) ** 2]),
    )


def pooled_facts(release: "BaseRelease", name: str, made: PooledGroups) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of one group's pooled estimate, as a finished matrix."""
    place, group = made.names.index(name), release.group(name).manifest
    units, bound = release.half_ranges, release.manifest.norm_bound
    mean = (made.means[place] - release.centers) / units
    moment = moment_of(mean, made.covariances[place] / np.outer(units, units))
    arrays: Arrays = {"second_moment": (moment + moment.T) / 2 / bound**2}
    if "row_count" in release.group(name).statistics.arrays:
        arrays["row_count"] = release.group(name).statistics.arrays["row_count"]
    note = f"estimated together with the other groups of release {release.fingerprint[:12]}"
    statistics = StatisticsRecord(
        layout="estimate",
        lattice_bits=0,
        dropped_bits=0,
        radius=1.0,
        post="none",
        noise=None,
        notes=(note,),
    )
    manifest = msgspec.structs.replace(
        group,
        # The moments are those over the values that are present already.
        columns=tuple(column for column in group.columns if column.kind != "missing"),
        intercept_is_public=False,
        statistics=statistics,
        members={key: member_record(array) for key, array in arrays.items()},
        combined=(),
    )
    return manifest, arrays
