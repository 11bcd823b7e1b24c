"""Groups inside groups, such as regions in states: two releases of one table that add up.

Contract: reads two releases with a known law of their noise and costs nothing.  Derived in
docs/several.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec
import numpy as np

from dpcov.errors import UsageError
from dpcov.published.file.archive import Arrays, member_records
from dpcov.published.file.manifest import GEOMETRY_WAS_GIVEN, Manifest, guarantee_record
from dpcov.published.file.statistics import NoiseLaw
from dpcov.published.linalg.symmetric import Array, symmetrize
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.combined import check_unit, joint_guarantee
from dpcov.published.reading.combined_unit import same_coordinates

# Fine enough that rounding to the lattice is nothing beside the noise.
_LATTICE_BITS = 30

# What a release is made of.
Facts = tuple[Manifest, Arrays]


@dataclass(frozen=True)
class Sums:
    """Noisy sums over the rows of one group: moments (d, d), and how many rows there are.

    With the variances of an entry off the diagonal, and of the number.
    """

    moment: Array
    variance: float
    count: float
    count_variance: float

    @classmethod
    def of(cls, group: BaseRelease) -> Self:
        """Those of a group that is read as a release."""
        unit, n = group.unit, group.n_rows
        assert unit.noise is not None
        law = group.statistics.noise
        own = 0.0 if law is None else float(law.row_count_variance or 0.0)
        # As noisy as it is: of empty groups, numbers that are one at least add up to too many.
        count = float(group.statistics.arrays["row_count"].sum())
        return cls(unit.matrix * n, unit.noise.off_diagonal * n**2, count, own)


def reconcile(children: Sequence[Sums], parent: Sums) -> tuple[list[Sums], Sums]:
    """Least squares: the nearest sums, in units of their noise, that add up to the parent's.

    What is missing is divided in proportion to the variances, so that nobody's grows.
    """
    moments, variances, variance = _shared(
        np.array([child.moment for child in children]),
        np.array([child.variance for child in children]),
        parent.moment,
        parent.variance,
    )
    counts, of_counts, of_count = _shared(
        np.array([child.count for child in children]),
        np.array([child.count_variance for child in children]),
        np.array(parent.count),
        parent.count_variance,
    )
    whole = _whole(counts, of_counts)
    each = zip(moments, variances.tolist(), whole, of_counts.tolist(), strict=True)
    total = Sums(moments.sum(axis=0), variance, sum(whole), of_count)
    return [Sums(*own) for own in each], total


def _shared(
    children: Array, variances: Array, parent: Array, variance: float
) -> tuple[Array, Array, float]:
    """Numbers of k children, (k, ...), that add up, with their variances, and that of the sum."""
    total = variance + float(variances.sum())
    # Without noise there is nothing to divide.
    parts = variances / total if total > 0 else np.zeros(len(variances))
    left = variance * (1 - variance / total) if total > 0 else 0.0
    moved = children + np.multiply.outer(parts, parent - children.sum(axis=0))
    return moved, variances * (1 - parts), left


def _whole(counts: Array, variances: Array) -> list[float]:
    """Whole numbers of the same sum, one at least, so that they divide: the nearest, as above."""
    above, spread = counts - 1.0, variances + (1e-9 * variances.max() or 1.0)
    total = max(0.0, np.round(above.sum()))
    kept = np.full(len(counts), total > 0)
    found = np.zeros(len(counts))
    while kept.any():
        move = (total - above[kept].sum()) / spread[kept].sum()
        found = np.where(kept, above + move * spread, 0.0)
        if found.min() >= 0:
            break
        kept &= found > 0
    # Rounding sums so far keeps the last one.
    steps = np.diff(np.round(np.cumsum(found)), prepend=0.0)
    return [1.0 + float(step) for step in steps]


def nested_facts(
    children: BaseRelease, parents: BaseRelease, inside: Mapping[str, str]
) -> tuple[dict[str, Facts], dict[str, Facts]]:
    """Manifest and arrays of every group of both releases, by name.

    UsageError where they are not of one table in one geometry, or where a group has no place.
    """
    members = children, parents
    if children.fingerprint == parents.fingerprint:
        raise UsageError("A release has no second noise. Release the table again by larger groups.")
    _check(members)
    found: dict[str, Facts] = {}
    above: dict[str, Facts] = {}
    for name, own in _placed(children.group_names, parents.group_names, inside).items():
        sums = [Sums.of(children.group(child)) for child in own]
        parent = Sums.of(parents.group(name))
        _refuse_others(name, sums, parent)
        lower, upper = reconcile(sums, parent)
        for child, each in zip(own, lower, strict=True):
            found[child] = _facts(children.group(child), each, members)
        above[name] = _facts(parents.group(name), upper, members)
    return {name: found[name] for name in children.group_names}, above


def _placed(
    children: Sequence[str], parents: Sequence[str], inside: Mapping[str, str]
) -> dict[str, list[str]]:
    """Which groups lie in each of the parents; UsageError where one has no place."""
    elsewhere = [name for name in inside if name not in children]
    if elsewhere and set(elsewhere) <= set(parents) and set(inside.values()) <= set(children):
        raise UsageError(
            f"{elsewhere[0]!r} is a group of the second release. Give the release by smaller "
            "groups before it."
        )
    for name, holder in inside.items():
        # Its rows are in a group that is named, but not in one that would add up to it.
        if name not in children and holder in parents:
            raise UsageError(
                f"{name!r} lies in {holder!r}, but is no group of the first release. List it in "
                "the schema of that release, or correct the name."
            )
    # Such as the group of unlisted values.
    holders = {name: name for name in parents} | dict(inside)
    if unknown := [name for name in children if name not in holders]:
        raise UsageError(f"No group is named that holds {unknown[0]!r}. Name one for every group.")
    if missing := sorted({holders[name] for name in children} - set(parents)):
        raise UsageError(f"{missing[0]!r} is no group of the second release. Correct the name.")
    found = {name: [child for child in children if holders[child] == name] for name in parents}
    if empty := [name for name, own in found.items() if not own]:
        raise UsageError(f"No group lies in {empty[0]!r}. Name those that it consists of.")
    return found


def _refuse_others(name: str, children: Sequence[Sums], parent: Sums) -> None:
    # Gaussian noise is that large in one of 10^15 cases.
    off = abs(parent.count - sum(child.count for child in children))
    variance = parent.count_variance + sum(child.count_variance for child in children)
    if off > 8 * variance**0.5 + 1:
        raise UsageError(
            f"The groups that lie in {name!r} have {off:.0f} rows more or fewer than it has, which "
            "is more than noise. Say where every group lies, and name releases of one table."
        )


def _check(members: tuple[BaseRelease, BaseRelease]) -> None:
    for member in members:
        noise = member.statistics.noise
        if not member.group_names or member.members or noise is None:
            raise UsageError("Groups inside groups need two releases with by=COLUMN (--by COLUMN).")
        if "gaussian" not in noise.family:
            raise UsageError(
                "Only Gaussian noise can be divided by least squares. Release both with a delta, "
                "or in rho."
            )
    one, other = (member.manifest for member in members)
    check_unit(one, other)
    if one.norm_bound != other.norm_bound or not same_coordinates(*members):
        raise UsageError(
            "Their columns or geometries differ. Make one release in the geometry of the other "
            "(geometry=, --geometry FIRST.dpcov)."
        )
    # One of them may have been released without a ledger.
    paid = {record.dataset for record in (*one.charges, *other.charges)}
    if one.n_rows != other.n_rows or len(paid) > 1:
        raise UsageError("They are of different tables. Release one table twice.")


def _facts(group: BaseRelease, sums: Sums, members: Sequence[BaseRelease]) -> Facts:
    """A matrix with a known law of noise, as a release of its own."""
    statistics, n = group.statistics, sums.count
    step = statistics.radius**2 * 4.0**-_LATTICE_BITS
    off_diagonal = round(sums.variance / step**2)
    assert statistics.noise is not None
    law = NoiseLaw(
        family=statistics.noise.family,
        diagonal_variance=str(2 * off_diagonal),
        off_diagonal_variance=str(off_diagonal),
        row_count_variance=repr(sums.count_variance),
    )
    moment = sums.moment / n
    arrays: Arrays = {
        "second_moment": symmetrize(moment),
        "row_count": np.array([int(n)], dtype=np.int64),
    }
    arrays |= {k: statistics.arrays[k] for k in {"linear", "losses"} & set(statistics.arrays)}
    prints = " and ".join(member.fingerprint[:12] for member in members)
    note = f"adds up over groups inside groups, of releases {prints}: errors of groups go along"
    was_given = all(member.manifest.geometry_was_given for member in members)
    # What rows were encoded as, and lost, stays.
    record = msgspec.structs.replace(
        group.manifest.statistics,
        layout="estimate",
        lattice_bits=_LATTICE_BITS,
        dropped_bits=0,
        noise=law,
        notes=(note, *[GEOMETRY_WAS_GIVEN] * was_given),
    )
    charges = tuple(paid for member in members for paid in member.manifest.charges)
    manifest = msgspec.structs.replace(
        group.manifest,
        spent=charges[0] if charges else None,
        also_spent=charges[1:],
        statistics=record,
        members=member_records(arrays),
        guarantee=guarantee_record(joint_guarantee(members)),
        warnings=tuple(sorted({w for member in members for w in member.manifest.warnings})),
    )
    return manifest, arrays
