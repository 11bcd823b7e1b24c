"""Average unbiased estimates of one second moment, each with noise of its own.

Contract: the shares do not depend on the noise of the matrices, so the average is unbiased and its
noise has a known law.  Derived in docs/several.md.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np

from dpcov.published.estimate.entry_noise import seems_inhabited
from dpcov.published.estimate.unit import EntryNoise, Part, Source, UnitEstimate
from dpcov.published.frame import mapped_squares
from dpcov.published.linalg.symmetric import Array, symmetrize

# Variances of neighboring norm shells differ by this factor.
_SHELL = 16.0


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
    return UnitEstimate(
        matrix=sum((m.move(m.unit.matrix) for m in members), np.zeros((d, d))),
        n_rows=units[0].n_rows,
        noise=EntryNoise(*map(sum, zip(*noises, strict=True))),
        laplace_part=max(unit.laplace_part for unit in units),
        noise_is_nuclear=any(unit.noise_is_nuclear for unit in units),
        parts=_parts(members) if all(unit.parts for unit in units) else (),
        joint_trace=None if moved else _joint_trace(members),
        parts_may_be_empty=any(unit.parts_may_be_empty for unit in units),
        trace_bound=max(map(_trace_bound, members)),
        sources=tuple(map(_source, members)) if moved else (),
    )


def _trace_bound(member: Weighted) -> float:
    longest = 1.0 if member.forth is None else float(np.linalg.norm(member.forth, 2)) ** 2
    return member.unit.trace_bound * member.scale * longest


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
    return Part(
        matrix=member.move(part.matrix),
        diagonal_variance=variance,
        trace=member.factor * (trace or 0.0) if known else None,
        trace_variance=member.factor**2 * (trace_variance or 0.0) if known else None,
        largest_trace=member.factor * part.largest_trace if known else inf,
        is_empty=not known and not seems_inhabited(part),
        by_source=tuple(variance * (i == place) for i in range(count)),
    )


def _joint_trace(members: Sequence[Weighted]) -> float | None:
    # Σ_s tr S_s / noise_std_s of every member, in the units of the merged parts: known where the
    # noises of all parts of a member are the same multiple of those.
    first, factors = [part.diagonal_variance for part in members[0].unit.parts], list[float]()
    for member in members:
        own = [part.diagonal_variance for part in member.unit.parts]
        if member.unit.joint_trace is None or len(own) != len(first) or not all([*own, *first]):
            return None
        ratios = np.array(own) / first
        if not np.allclose(ratios, ratios[0], rtol=1e-6):
            return None
        factors.append(member.factor * sqrt(ratios[0]))
    total = sum(f * (m.unit.joint_trace or 0.0) for f, m in zip(factors, members, strict=True))
    return total / sqrt(sum(factor**2 for factor in factors))
