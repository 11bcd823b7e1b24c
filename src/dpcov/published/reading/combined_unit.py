"""The average of several releases: of one table, weighted by their noise, or of disjoint tables.

Contract: the order of the releases changes nothing, and shares do not depend on the noise of the
matrices: the average is unbiased, and its noise has a known law.  Derived in docs/several.md.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np

from dpcov.errors import UsageError
from dpcov.published.estimate.frame import mapped_squares
from dpcov.published.estimate.inhabited import seems_inhabited
from dpcov.published.estimate.present import Presence
from dpcov.published.estimate.scaled_down import correlation_error
from dpcov.published.estimate.unit import EntryNoise, Part, Source, UnitEstimate, unit_estimate
from dpcov.published.file.columns import centers_of, half_ranges_of
from dpcov.published.linalg.symmetric import Array, symmetrize
from dpcov.published.reading.record import ReleaseRecord

_GEOMETRY = (
    "Make the later release in the geometry of the first one (geometry=, --geometry FIRST.dpcov)."
)
# Variances of neighboring norm shells differ by this factor.
_SHELL = 16.0


Members = Sequence[ReleaseRecord]


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """An estimate, its share in the average, and its place in the common coordinates.

    ``base`` is the variance of its noise in a first shell.  ``forth``, (d, d), leads to the common
    coordinates, ``back`` to encoded rows in the common unit; None: they differ by a factor alone.
    ``scale`` is the ratio of squared units.
    """

    unit: UnitEstimate
    share: float
    base: float
    scale: float = 1.0
    forth: Array | None = None
    back: Array | None = None

    @property
    def factor(self) -> float:
        """What matrices are multiplied by."""
        return self.share * self.scale

    @property
    def noise_gain(self) -> float:
        """E ‖F N F'‖² over E ‖N‖²: of isotropic noise in the common coordinates, to its own."""
        if self.forth is None:
            return 1.0
        d = len(self.forth)
        return mapped_squares(self.forth) / (d * (d + 1))

    @property
    def longest(self) -> float:
        """The largest factor on squared lengths in the common coordinates."""
        return 1.0 if self.forth is None else float(np.linalg.norm(self.forth, 2)) ** 2

    def move(self, matrix: Array) -> Array:
        """A matrix in common coordinates, times the share."""
        if self.forth is None:
            return self.factor * matrix
        return self.factor * symmetrize(self.forth @ matrix @ self.forth.T)


def shares(variances: Sequence[float]) -> list[float]:
    """Parts of the average, inversely proportional to variances; they add up to one."""
    precision = 1 / np.array(variances, dtype=np.float64)
    return [float(each) for each in precision / precision.sum()]


def merged(members: Sequence[Weighted]) -> UnitEstimate:
    """Σ w_i Y_i, and its law: variances are Σ w_i² v_i."""
    units, d = [member.unit for member in members], len(members[0].unit.matrix)
    noises = [m.unit.noise.times(m.factor**2 * m.noise_gain) for m in members if m.unit.noise]
    moved = any(member.forth is not None for member in members)
    parts = _parts(members) if all(unit.parts for unit in units) else ()
    return UnitEstimate(
        matrix=sum((m.move(m.unit.matrix) for m in members), np.zeros((d, d))),
        n_rows=units[0].n_rows,
        noise=EntryNoise(*map(sum, zip(*noises, strict=True))),
        laplace_part=max(unit.laplace_part for unit in units),
        noise_is_nuclear=any(unit.noise_is_nuclear for unit in units),
        parts=parts,
        joint_trace=None if moved else _joint_trace(members, len(parts)),
        parts_may_be_empty=any(unit.parts_may_be_empty for unit in units),
        trace_bound=max(map(_trace_bound, members)),
        sources=tuple(map(_source, members)) if moved else (),
    )


def _trace_bound(member: Weighted) -> float:
    return member.unit.trace_bound * member.scale * member.longest


def _source(member: Weighted) -> Source:
    assert member.unit.noise is not None and member.back is not None
    return Source(member.unit.noise.times(member.factor**2), member.back)


def _parts(members: Sequence[Weighted]) -> tuple[Part, ...]:
    # Any parts may be added up: with one share a member, the means of the sums are positive
    # semidefinite and add up to the truth.  Those of like noise lose least.
    found = defaultdict[tuple[int, int], list[Part]](list)
    for place, member in enumerate(members):
        seen = defaultdict[int, int](int)
        for part in member.unit.parts:
            level = round(log(member.base / part.diagonal_variance, _SHELL))
            found[level, seen[level]].append(_moved(part, member, place, len(members)))
            seen[level] += 1
    return tuple(Part.sum_of(found[key]) for key in sorted(found))


def _moved(part: Part, member: Weighted, place: int, count: int) -> Part:
    variance = member.factor**2 * member.noise_gain * part.diagonal_variance
    trace, trace_variance = part.trace, part.trace_variance
    known = member.forth is None and trace is not None and trace_variance is not None
    reach = max(trace or 0.0, 0.0) / 2 + sqrt(trace_variance or 0.0)
    return Part(
        matrix=member.move(part.matrix),
        diagonal_variance=variance,
        trace=member.factor * (trace or 0.0) if known else None,
        trace_variance=member.factor**2 * (trace_variance or 0.0) if known else None,
        largest_trace=member.factor * part.largest_trace if known else inf,
        is_empty=not known and not seems_inhabited(part),
        reach=0.0 if known else member.factor * member.longest * reach,
        by_source=tuple(variance * (i == place) for i in range(count)),
    )


def _joint_trace(members: Sequence[Weighted], count: int) -> float | None:
    # Σ_s tr S_s / noise_std_s of every member, in the units of the merged parts: known where every
    # member has all ``count`` of them, and their noises are the same multiple of those.
    first, factors = [part.diagonal_variance for part in members[0].unit.parts], list[float]()
    for member in members:
        own = [part.diagonal_variance for part in member.unit.parts]
        if member.unit.joint_trace is None or len(own) != count or not all([*own, *first]):
            return None
        ratios = np.array(own) / first
        if not np.allclose(ratios, ratios[0], rtol=1e-6):
            return None
        factors.append(member.factor * sqrt(ratios[0]))
    total = sum(f * (m.unit.joint_trace or 0.0) for f, m in zip(factors, members, strict=True))
    return total / sqrt(sum(factor**2 for factor in factors))


def combined_unit(members: Members, disjoint: bool) -> UnitEstimate:
    """The average of the members' second moments, divided by one number of rows."""
    # The first source of noise has the coordinates in which it is known what lengths lost.
    reference = reference_of(members)
    members = [reference, *(member for member in members if member is not reference)]
    if disjoint:
        rows, count_variance, weights = _united(members)
        placed = _placed(members, None)
    else:
        averaged, count_variance = _rows(members)
        placed = _placed(members, averaged)
        weights, rows = shares(_variances(members, placed)), placed[0].unit.n_rows
    weighted = [replace(each, share=share) for each, share in zip(placed, weights, strict=True)]
    return replace(merged(weighted), n_rows=rows, count_variance=count_variance)


def _united(members: Members) -> tuple[float, float, list[float]]:
    """The number of all rows, its variance relative to its square, and the part of each table."""
    # Where sites are nearly empty, numbers that are one at least would add up to more.
    counts, variances = noisy_counts(members)
    rows = max(1.0, float(counts.sum()))
    return rows, float(variances.sum()) / rows**2, [m.unit.n_rows / rows for m in members]


def weights_of(members: Members, disjoint: bool) -> list[float]:
    """What part every member has of the average."""
    if not disjoint:
        return shares(_variances(members, _placed(members, None)))
    # Every row of every table counts once.
    counts = [member.unit.n_rows for member in members]
    return [count / sum(counts) for count in counts]


def noise_parts(members: Members) -> list[float]:
    """What part of the noise of united tables comes from every one: of its variance."""
    weights, placed = weights_of(members, disjoint=True), _placed(members, None)
    terms = zip(weights, members, placed, strict=True)
    noise = [weight**2 * _noise(member, each) for weight, member, each in terms]
    return [each / sum(noise) for each in noise]


def reference_of(members: Members) -> ReleaseRecord:
    """Whose geometry the combination has: a found one, of the largest budget, the oldest first."""
    return min(
        members,
        key=lambda member: (
            all(column.lower is None for column in member.encoded_features),
            _base(member) * member.manifest.norm_bound**4,
        ),
    )


def _placed(members: Members, rows: float | None) -> list[Weighted]:
    reference = reference_of(members)
    same = all(same_coordinates(reference, member) for member in members)
    placed = []
    for member in members:
        # Of the same rows: a noisy number of them is averaged too.
        unit = member.unit if rows is None else unit_estimate(member.statistics, rows)
        scale = (member.manifest.norm_bound / reference.manifest.norm_bound) ** 2
        found = Weighted(unit=unit, share=1.0, base=_first_shell(member, unit), scale=scale)
        placed.append(found if same else _mapped(found, member, reference))
    return placed


def _mapped(found: Weighted, member: ReleaseRecord, reference: ReleaseRecord) -> Weighted:
    """The same in the coordinates of the reference."""
    back = encoded_map(member, reference) @ member.frame.back
    forth = np.linalg.inv(reference.frame.back) @ back
    unit = _with_public_intercept(member, found.unit)
    return replace(found, unit=unit, forth=forth, back=back)


def encoded_map(member: ReleaseRecord, reference: ReleaseRecord) -> Array:
    """From rows as one release encodes them to rows as another does, (d, d).

    A missing value is zero in both, so that centers shift only the values that are present.
    """
    own, to = member.manifest.columns, reference.manifest.columns
    found = np.diag(half_ranges_of(own) / half_ranges_of(to))
    shift = (centers_of(own) - centers_of(to)) / half_ranges_of(to)
    if reference.has_intercept:
        presence = Presence.of(member.encoded_features)
        present = np.eye(1, len(found)) if presence is None else presence.rows
        found[1:] += shift[1:, None] * present
    elif shift.any():
        raise UsageError(f"Without an intercept their centers have to be the same. {_GEOMETRY}")
    return found


def _with_public_intercept(member: ReleaseRecord, unit: UnitEstimate) -> UnitEstimate:
    known = member.public_intercept
    if known is None:
        return unit
    matrix = unit.matrix.copy()
    more, matrix[0, 0] = known - matrix[0, 0], known
    parts = list(unit.parts)
    if parts:
        own = parts[0].matrix.copy()
        own[0, 0] += more
        parts[0] = replace(parts[0], matrix=own)
    return replace(unit, matrix=matrix, parts=tuple(parts))


def _variances(members: Members, placed: Sequence[Weighted]) -> list[float]:
    # Of noise, and of what scaling rows down took from one member and not from others, of entries
    # that are about one in units of the reference.
    facts = [(_lost(member, members), member.unit.n_rows) for member in members]
    errors = correlation_error(*np.array(facts).T)
    unit = reference_of(members).manifest.norm_bound ** -2
    return [
        _noise(member, each) + (more * unit) ** 2
        for member, each, more in zip(members, placed, errors - errors.min(), strict=True)
    ]


def _noise(member: ReleaseRecord, placed: Weighted) -> float:
    # Variance of an entry off the diagonal in the common coordinates.
    return _base(member) * placed.scale**2 * placed.noise_gain


def _lost(member: ReleaseRecord, members: Members) -> float:
    """The part that scaling rows down took of one: the average of all that were scaled alike."""
    alike = [
        other.statistics.lost
        for other in members
        if other.manifest.norm_bound == member.manifest.norm_bound
        and same_coordinates(member, other)
    ]
    return sum(alike) / len(alike)


def _rows(members: Members) -> tuple[float | None, float]:
    """The average of noisy numbers of rows, and its variance relative to its square."""
    counts, variances = noisy_counts(members)
    if not np.all(variances > 0):
        return None, max(member.unit.count_variance for member in members)
    weights = np.array(shares(variances.tolist()))
    rows = max(1.0, float(weights @ counts))
    return rows, float(weights**2 @ variances) / rows**2


def noisy_counts(members: Members) -> tuple[Array, Array]:
    """Numbers of rows, as noisy as they are, and the variances of their noise."""
    counts, variances = [], []
    for member in members:
        unit, arrays = member.unit, member.statistics.arrays
        is_private = member.manifest.n_rows is None and "row_count" in arrays
        counts.append(float(arrays["row_count"].sum()) if is_private else unit.n_rows)
        variances.append(unit.count_variance * unit.n_rows**2)
    return np.array(counts), np.array(variances)


def _base(member: ReleaseRecord) -> float:
    """Variance of an entry off the diagonal that the budget alone decides, up to a factor."""
    unit, noise = member.unit, member.statistics.noise
    assert noise is not None
    ratio = int(noise.off_diagonal_variance) / int(noise.diagonal_variance)
    if len(unit.parts) == 1:
        return unit.parts[0].diagonal_variance * ratio
    return _first_shell(member, unit) * ratio / member.statistics.radius**4


def _first_shell(member: ReleaseRecord, unit: UnitEstimate) -> float:
    # Variance of a diagonal entry of the outermost norm shell.
    statistics, noise = member.statistics, member.statistics.noise
    assert noise is not None
    step = statistics.radius**2 / 4.0**statistics.lattice_bits / unit.n_rows
    return float(noise.diagonal_variance) * step**2


def same_coordinates(one: ReleaseRecord, other: ReleaseRecord) -> bool:
    """Whether noise was added in the same coordinates, up to the norm bound, a common factor."""
    same = one.manifest.columns == other.manifest.columns
    return same and np.array_equal(one.frame.back, other.frame.back)
