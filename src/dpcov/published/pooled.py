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
from dpcov.published.estimate.entry_noise import inhabited
from dpcov.published.estimate.pooling import GroupMoments, pool_moments
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
    groups = [_moments(release.group(name)) for name in release.group_names]
    back, p = release.frame.back, len(release.features)
    # Beside the intercept.
    linear = np.eye(p) if back is None else back[1:, 1:]
    shift = np.zeros(p) if back is None else back[1:, 0]
    units = release.half_ranges
    undo = np.linalg.inv(linear)
    whole = undo @ (release.covariance() / np.outer(units, units)) @ undo.T
    made = pool_moments(GroupMoments.of(groups), np.asarray(whole), linear)
    covariances = [
        _with_own(release.group(name), pooled, kept)
        for name, pooled, kept in zip(release.group_names, made.covariances, made.kept, strict=True)
    ]
    lower, upper = np.array([column.bounds for column in release.features]).T
    means = release.centers + units * (made.means + shift)
    return PooledGroups(
        names=release.group_names,
        counts=np.array([group.counts[0] for group in groups]),
        means=np.clip(means, lower, upper),
        mean_std=units * np.sqrt(made.mean_variances),
        covariances=np.array(covariances) * np.outer(units, units),
        covariance_std=np.sqrt(made.covariance_variances) * np.outer(units, units),
    )


def _with_own(group: "BaseRelease", pooled: Array, kept: float) -> Array:
    # A group that keeps all of its distance from the others is best read alone: its own estimate
    # knows how noise spreads over directions, which entry by entry nothing tells.
    try:
        own = group.covariance() / np.outer(group.half_ranges, group.half_ranges)
    # The noise hides its number of rows.
    except ReleaseError:
        return pooled
    return np.asarray(pooled + kept * (own - pooled))


def _moments(group: "BaseRelease") -> GroupMoments:
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
    mean = unit.matrix[0, 1:] * scale
    return GroupMoments(
        means=mean[None],
        covariances=(unit.matrix[1:, 1:] * scale - np.outer(mean, mean))[None],
        variances=np.array([unit.off_diagonal_variance * scale**2]),
        counts=np.array([rows]),
        count_variances=np.array([(noise / rows) ** 2]),
    )


def pooled_facts(release: "BaseRelease", name: str, made: PooledGroups) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of one group's pooled estimate, as a finished matrix."""
    place, group = made.names.index(name), release.group(name).manifest
    units, bound = release.half_ranges, release.manifest.norm_bound
    mean = np.append(1.0, (made.means[place] - release.centers) / units)
    moment = np.outer(mean, mean)
    moment[1:, 1:] += made.covariances[place] / np.outer(units, units)
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
        intercept_is_public=False,
        statistics=statistics,
        members={key: member_record(array) for key, array in arrays.items()},
        combined=(),
    )
    return manifest, arrays
