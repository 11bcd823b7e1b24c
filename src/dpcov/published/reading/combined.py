"""Several releases of one table as one: what they must share, and what they promise.

Contract: every release stays in the file as it is, so that its fingerprint can be checked, and the
order in which releases are combined changes nothing.  Derived in docs/several.md.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from dpcov.errors import DpcovError, ReleaseError, UsageError
from dpcov.privacy.guarantee import Guarantee, Numerics
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.together import largest, spend_of, together
from dpcov.published.file.archive import Arrays, member_records
from dpcov.published.file.manifest import (
    Manifest,
    MechanismRecord,
    guarantee_record,
    read_guarantee,
)
from dpcov.published.file.stated import schemas_differ
from dpcov.published.file.statistics import StatisticsRecord
from dpcov.published.reading.combined_unit import (
    Members,
    combined_unit,
    noise_parts,
    noisy_counts,
    reference_of,
    weights_of,
)
from dpcov.published.reading.record import ReleaseRecord

MOST = 32


# What must be the same, and what to say where it is not: of schemas, where they differ.
_SAME = {
    "title": "Their tables have different titles.",
    "schema_toml": "",
    "n_rows": "Their tables have different numbers of rows.",
    "groups": "They have different groups.",
}
_ONE_TABLE = (
    "Only releases of one table can be combined. Those of tables without a common person can be "
    "united (--disjoint; in Python, unite), any two be compared (dpcov compare; in Python, "
    "difference_intervals), and groups that lie inside other groups add up by nest."
)
_ONE_SCHEMA = "Release every table with the same schema file."


def combined_facts(
    releases: Iterable[ReleaseRecord], *, disjoint: bool = False
) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of the combination; UsageError where they do not belong together.

    ``disjoint``: they are of different people, whose tables are put together.
    """
    releases = list(releases)
    if any(release.members and release.manifest.disjoint != disjoint for release in releases):
        raise UsageError(
            "Averages of releases of one table and unions of disjoint tables do not go together: "
            "neither can be made of the other. Unite one single release of every table, or combine "
            "single releases of one table."
        )
    members = sorted(
        (member for release in releases for member in release.members or (release,)),
        key=lambda member: (member.manifest.created, member.fingerprint),
    )
    _check(members, disjoint)
    last = members[-1].manifest
    arrays = {
        f"{place}.{name}": array
        for place, member in enumerate(members)
        for name, array in member.statistics.arrays.items()
    }
    names = {member.manifest.mechanism.name for member in members}
    manifest = msgspec.structs.replace(
        reference_of(members).manifest,
        created=last.created,
        disjoint=disjoint,
        n_rows=_counted(members, disjoint),
        software=last.software,
        mechanism=MechanismRecord(name=names.pop() if len(names) == 1 else "several", options={}),
        guarantee=guarantee_record(joint_guarantee(members, disjoint)),
        intercept_is_public=all(member.manifest.intercept_is_public for member in members),
        statistics=_statistics(members, disjoint),
        members=member_records(arrays),
        spent=None,
        warnings=tuple(sorted(_warnings(members, disjoint))),
        combined=tuple(member.manifest for member in members),
        also_spent=(),
    )
    return manifest, arrays


def _statistics(members: Members, disjoint: bool) -> StatisticsRecord:
    unit, weights = combined_unit(members, disjoint), weights_of(members, disjoint)
    posts = {member.statistics.post for member in members}
    return StatisticsRecord(
        layout="combined",
        lattice_bits=0,
        dropped_bits=0,
        radius=max(member.statistics.radius for member in members),
        post=posts.pop() if len(posts) == 1 else "shrink" if unit.parts else "psd",
        noise=None,
        notes=tuple(_notes(members, weights, disjoint)),
        lost=sum(w * each.statistics.lost for w, each in zip(weights, members, strict=True)),
    )


# What a combination states of its own; the rest is its reference's.
_OWN = (
    *("created", "disjoint", "n_rows", "software", "mechanism", "guarantee", "intercept_is_public"),
    *("statistics", "members", "spent", "also_spent", "warnings", "combined"),
)


def _counted(members: Members, disjoint: bool) -> int | None:
    counts = [member.manifest.n_rows for member in members]
    return sum(count or 0 for count in counts) if disjoint and all(counts) else counts[0]


def _warnings(members: Members, disjoint: bool) -> set[str]:
    found = {warning for member in members for warning in member.manifest.warnings}
    spent = [m.manifest.spent for m in members if m.manifest.spent is not None]
    entries = Counter((each.dataset, each.entry) for each in spent)
    for (dataset, entry), count in sorted(entries.items()):
        if not disjoint and count > 1:
            found.add(
                f"{count} of these releases were charged as entry {entry} of dataset {dataset!r}, "
                "so their ledgers are two, or one was copied or restored: no account counts all"
            )
    for (account, _), own in _accounts(members).items() if disjoint else ():
        if (count := len(own)) > 1:
            found.add(
                f"{count} of these releases were charged to an account called {account!r}, so "
                "their guarantees are added up: somebody may be in several of their tables"
            )
    opened = {(each.dataset, each.opened) for each in spent if each.opened is not None}
    for dataset, count in sorted(Counter(name for name, _ in opened).items()):
        if not disjoint and count > 1:
            found.add(f"{count} accounts called {dataset!r} were charged, so none counts all")
    apart = {
        _origin(m)
        for m in members
        if m.manifest.spent is None and m.manifest.n_rows is None
        if m.manifest.guarantee.neighbors == "replace-one"
    }
    if disjoint and len(apart) > 1:
        found.add(
            f"groups of {len(apart)} releases that no ledger was charged for: if those are of one "
            "table, they are of the same people, and do not keep this guarantee"
        )
    return found


def check_combined(manifest: Manifest, members: Members) -> None:
    """ReleaseError where members do not belong together, or promise less than the file states."""
    if not members:
        return
    try:
        _check(members, manifest.disjoint)
        found = joint_guarantee(members, manifest.disjoint)
    except DpcovError as problem:
        raise ReleaseError(
            f"The releases in this file are not of one table. {problem} Do not use this file."
        ) from None
    made = {name: getattr(manifest, name) for name in _OWN}
    if msgspec.structs.replace(reference_of(members).manifest, **made) != manifest:
        raise ReleaseError(
            "The file describes another table than the releases in it. Do not use it; combine them "
            "again."
        )
    if manifest.n_rows != _counted(members, manifest.disjoint):
        raise ReleaseError(
            "The file states another number of rows than the releases in it. Do not use it."
        )
    if not {w for member in members for w in member.manifest.warnings} <= set(manifest.warnings):
        raise ReleaseError(
            "The file leaves out warnings of the releases in it. Do not use it; combine them again."
        )
    stated = read_guarantee(manifest.guarantee)
    if not _covers(stated, found):
        raise ReleaseError(
            f"The file states {stated.promise}, but the releases in it promise no more than "
            f"{found.promise} together. Do not use it; combine the releases again."
        )


def _covers(stated: Guarantee, found: Guarantee) -> bool:
    # Numbers that are not smaller, for the same units.  A file may state more than need be.
    same = replace(stated, promise=found.promise, numerics=found.numerics) == found
    exact = stated.numerics != "exact" or found.numerics == "exact"
    pairs = zip(vars(stated.promise).values(), vars(found.promise).values(), strict=False)
    return (
        same
        and exact
        and type(stated.promise) is type(found.promise)
        and all(own >= least for own, least in pairs)
    )


def arrays_of(arrays: Arrays, place: int) -> Arrays:
    """Those of one member of a combination."""
    start = f"{place}."
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def _check(members: Members, disjoint: bool) -> None:
    if len(members) < 2:
        raise UsageError("Combining needs at least two releases. Name another one.")
    if len(members) > MOST:
        raise UsageError(f"At most {MOST} releases can be combined.")
    # Made again with the same seed it is the same noise, in another file.
    noisy = {tuple(sorted(r.sha256 for r in m.manifest.members.values())) for m in members}
    if min(len({member.fingerprint for member in members}), len(noisy)) < len(members):
        raise UsageError(
            "A release is among them twice. Averaging it with itself would claim noise to be "
            "smaller than it is. Name every release once."
        )
    first = members[0].manifest
    for member in members:
        manifest = member.manifest
        if manifest.is_pooled:
            raise UsageError(
                "A group that is estimated together with others does not say how its noise is "
                "distributed. Combine the releases that it is of, and read its group then."
            )
        for name, problem in _SAME.items():
            if getattr(manifest, name) != getattr(first, name) and not (
                disjoint and name in ("title", "n_rows")
            ):
                told = problem or f"{schemas_differ(first.schema_toml, manifest.schema_toml)}."
                raise UsageError(f"{told} {_ONE_SCHEMA if disjoint else _ONE_TABLE}")
        check_unit(manifest, first)
        paid = {record.dataset for record in (*manifest.charges, *first.charges)}
        if len(paid) > 1 and not disjoint:
            raise UsageError(f"They were charged to different datasets. {_ONE_TABLE}")
        if _meaning(manifest) != _meaning(first):
            raise UsageError(f"Their columns differ. {_ONE_SCHEMA if disjoint else _ONE_TABLE}")
        if member.statistics.noise is None:
            raise UsageError(
                f"The mechanism {manifest.mechanism.name} does not publish the law of its noise, "
                "so its weight is unknown. Combine releases of gaussian, stratified, laplace or "
                "nuclear mechanisms."
            )
        # No mechanism publishes such an estimate.
        if member.statistics.layout == "estimate" and "gaussian" in member.statistics.noise.family:
            raise UsageError(
                "A group that adds up with others repeats their noise. Combine the releases that "
                "it was made of."
            )
    if not disjoint:
        _refuse_other_counts(members)


def _refuse_other_counts(members: Members) -> None:
    counts, variances = noisy_counts(members)
    # Neither Gaussian nor Laplace noise is ever that large.
    far = np.abs(counts - counts[0]) > 30 * np.sqrt(variances + variances[0]) + 1
    if far.any():
        raise UsageError(f"{_SAME['n_rows']} {_ONE_TABLE}")


def check_unit(one: Manifest, other: Manifest) -> None:
    """UsageError where guarantees are for different units of privacy."""
    for name in ("neighbors", "rows_per_person"):
        if getattr(one.guarantee, name) != getattr(other.guarantee, name):
            raise UsageError(
                f"Their guarantees differ in {name}, so they have no common one. Release again "
                "with the same."
            )


def _meaning(manifest: Manifest) -> list[tuple[Any, ...]]:
    # What columns mean, in whatever geometry.
    return [(each.name, each.source, each.kind, each.missing_of) for each in manifest.columns]


def joint_guarantee(members: Members, disjoint: bool = False) -> Guarantee:
    """What releases promise together: of the same people, or of disjoint tables.

    Of tables that one account paid for somebody may be in several.
    """
    exact = all(member.guarantee.numerics == "exact" for member in members)
    if disjoint:
        accounts = [together([*own.values()]) for own in _accounts(members).values()]
        promise = largest([spend_of(each, "", is_gaussian=False) for each in accounts])
    else:
        promise = together([_spend(member) for member in members])
    numerics: Numerics = "exact" if exact else "idealized"
    return replace(members[0].guarantee, promise=promise, numerics=numerics)


def _spend(member: ReleaseRecord) -> Spend:
    noise, name = member.statistics.noise, member.manifest.mechanism.name
    normal = noise is not None and "gaussian" in noise.family
    return spend_of(member.guarantee.promise, name, is_gaussian=normal)


def _accounts(members: Members) -> dict[tuple[object, str | None], dict[object, Spend]]:
    """What every account paid for; what nobody paid for is an account of its own.

    Accounts are told apart by name, and by when they were opened where all of that name say it.
    """
    paid = [member.manifest.spent for member in members]
    unsaid = {each.dataset for each in paid if each is not None and each.opened is None}
    found = dict[tuple[object, str | None], dict[object, Spend]]()
    for place, (member, by) in enumerate(zip(members, paid, strict=True)):
        if by is None:
            found[place, None] = {0: _spend(member)}
            continue
        account = (by.dataset, None if by.dataset in unsaid else by.opened)
        # Groups of one release share its entry, and its guarantee is of all of them.
        found.setdefault(account, {})[by.entry, _origin(member)] = _spend(member)
    return found


def _origin(member: ReleaseRecord) -> tuple[object, ...]:
    """What tells a release from others, alike for its groups, as far as files tell them apart.

    Groups alone leave a public number of rows out.
    """
    manifest = member.manifest
    if manifest.n_rows is not None:
        return (member.fingerprint,)
    return manifest.created, manifest.norm_bound, manifest.columns


def _notes(members: Members, weights: Sequence[float], disjoint: bool) -> Iterable[str]:
    # Of united tables every row counts once, however large the noise of its table is.
    noise = noise_parts(members) if disjoint else [0.0] * len(members)
    for member, weight, part in zip(members, weights, noise, strict=True):
        of = f"of the rows, {100 * part:.0f} % of the noise: release" if disjoint else "of release"
        told = [f"{100 * weight:.0f} % {of} {member.fingerprint[:12]}"]
        told += [str(member.guarantee.promise), member.manifest.paid()]
        yield ", ".join(filter(None, told))
