"""Exact second moments of encoded rows, in one pass.

Contract: every row contributes integers whose squared norm is at most ``4**bits``, and the gathered moments
are equal to the bit for any chunking, order, number of threads or merge tree.  Knows nothing of noise or
budgets; nothing in here may be printed.

Lattice (DESIGN section 5): a row z with norm at most 1 in shell s (radius 2**-s) becomes the integers
q = trunc(z * 2**(bits + s)).  A block is multiplied in float64 while its total energy sum(q**2) is at most 2**53:
every partial sum of products is then an integer below 2**53 in absolute value, so the product is exact in any
order of summation.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact import ExactSum
from dpcov.errors import DataError, NumericError
from dpcov.privacy.options import Between, make_plain

DEFAULT_BITS = 20
MAX_BITS = 24
Bits = Annotated[int, Between(4, MAX_BITS)]
Clip = Annotated[float, Between(2.0**-60, 1)]
_TILE_VALUES = 2**18
"""Values put into shells at a time: two megabytes, so that all the passes but the first stay in cache."""

_SORTED_VALUES = 2**23
"""Values sorted by stratum at a time, 64 MiB: few large products are faster than many small ones."""

_SURELY_SHORT = 0.999999
"""A row whose floating squared norm, in units of its shell, is at most this passes the check in integers: truncation
only shortens it, and rounding errors are below ``d * 2**-52``."""

_SMALLEST_ENERGY = 5.5e-40
"""From here down, a squared norm belongs to the last shell, however many there are; far from any power of four."""

FloatBlock = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MomentsSpec:
    """What a mechanism wants to be gathered; public.

    Parameters
    ----------
    shells : int
        Number of norm shells; shell s holds rows with norm in (2**-(s+1), 2**-s], the last one everything below.
    groups : int
        Number of public groups the strata are crossed with.
    normalized : bool
        Also gather the moments of the rows divided by their own norm, per stratum.
    bits : int
        Lattice resolution: a row of norm ``clip`` becomes integers of squared norm ``4**bits``.
    clip : float
        Rows longer than this fraction of the norm bound are scaled down to it.
    """

    shells: Annotated[int, Between(1, 64)] = 1
    groups: Annotated[int, Between(1, 10_000)] = 1
    normalized: bool = False
    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0

    def __post_init__(self) -> None:
        make_plain(self)

    @property
    def n_strata(self) -> int:
        """Shells times groups; stratum index = group * shells + shell."""
        return self.shells * self.groups


class StratumMoments:
    """Row count and moments of one stratum, in units of its own squared radius."""

    __slots__ = ("n_rows", "normalized", "sscp")

    def __init__(self, dimension: int, *, normalized: bool) -> None:
        self.n_rows = 0
        self.sscp = ExactSum(dimension)
        self.normalized = ExactSum(dimension) if normalized else None

    def __repr__(self) -> str:
        return "StratumMoments(<sensitive>)"

    def add(self, block: FloatBlock, bits: int) -> None:
        """Add lattice rows, at most ``2**(53 - 2 bits)`` of them; several threads may do so."""
        bound = len(block) << (2 * bits)
        self.sscp.add_gram(block, bound)
        if self.normalized is not None:
            self.normalized.add_gram(normalize(block, bits), bound)
        with self.sscp.lock:
            self.n_rows += len(block)

    def merge(self, other: "StratumMoments") -> None:
        """Add the rows of another stratum of the same shape."""
        self.n_rows += other.n_rows
        self.sscp.merge(other.sscp)
        if self.normalized is not None and other.normalized is not None:
            self.normalized.merge(other.normalized)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StratumMoments):
            return NotImplemented
        return (
            self.n_rows == other.n_rows
            and self.sscp == other.sscp
            and self.normalized == other.normalized
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class LatticeRows:
    """Rows as integers (held in float64) with their stratum; sensitive.

    Parameters
    ----------
    values : (n, d) float64
        Integer-valued, squared row norms at most ``4**bits``.
    strata : (n,) integer or None
        Stratum of each row; None when there is only one.
    """

    values: FloatBlock
    strata: NDArray[np.intp] | None

    def __repr__(self) -> str:
        return f"LatticeRows(n_features={self.values.shape[1]}, <sensitive>)"


class Moments:
    """Sensitive exact moments of one table; grows by :meth:`add`, combines by :meth:`merge`.

    Several threads may add at a time.  What is pickled is the exact state, so whoever gets the bytes gets the moments.

    Parameters
    ----------
    n_features : int
        Columns of the encoded rows.
    spec : MomentsSpec
        What to gather.
    norm_bound : float
        Public bound by which the rows were divided; kept so that estimates can be brought back to units.
    """

    def __init__(
        self, n_features: int, spec: MomentsSpec | None = None, *, norm_bound: float = 1.0
    ) -> None:
        if n_features < 1:
            raise DataError("There is no usable column; the schema must leave at least one.")
        self.n_features = n_features
        self.spec = spec or MomentsSpec()
        self.norm_bound = norm_bound
        # Sum of the digests of all rows modulo 2**64, where a question asks for it.
        self.digest = 0
        self.strata = [
            StratumMoments(n_features, normalized=self.spec.normalized)
            for _ in range(self.spec.n_strata)
        ]

    def __repr__(self) -> str:
        return f"Moments(n_features={self.n_features}, spec={self.spec}, <sensitive>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return (self._shape(), self.digest, self.strata) == (
            other._shape(),
            other.digest,
            other.strata,
        )

    __hash__ = None  # type: ignore[assignment]

    def _shape(self) -> tuple[int, MomentsSpec, float]:
        return self.n_features, self.spec, self.norm_bound

    @property
    def n_rows(self) -> int:
        """Exact number of rows: public under replace-one, sensitive under add-remove-one."""
        return sum(stratum.n_rows for stratum in self.strata)

    def add(
        self, rows: FloatBlock, groups: NDArray[np.intp] | None = None, *, overwrite: bool = False
    ) -> None:
        """Add encoded rows of norm at most 1 (longer ones are scaled down), optionally with group numbers.

        ``overwrite`` lets the rows' memory be used for the lattice, which saves a copy.
        """
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"Expected blocks of rows with {self.n_features} encoded columns.")
        step = self.block_rows
        if self.spec.n_strata > 1:
            step = max(step, _SORTED_VALUES // self.n_features)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            numbers = None if groups is None else groups[part]
            self.add_lattice(
                quantize(rows[part], self.spec, numbers, out=rows[part] if overwrite else None)
            )

    @property
    def block_rows(self) -> int:
        """Rows whose products are exact in float64 whatever they hold: 2**(53 - 2 bits)."""
        return int(2 ** (53 - 2 * self.spec.bits))

    def add_lattice(self, rows: LatticeRows) -> None:
        """Add quantized rows: one symmetric product per stratum and block."""
        if rows.strata is None:
            for start in range(0, len(rows.values), self.block_rows):
                self.strata[0].add(rows.values[start : start + self.block_rows], self.spec.bits)
            return
        for index, members in _by_stratum(rows.values, rows.strata, self.block_rows):
            self.strata[index].add(members, self.spec.bits)

    def watch(self, digest: int) -> None:
        """Add the digest of a block of rows; several threads may do so."""
        with self.strata[0].sscp.lock:
            self.digest = (self.digest + digest) % 2**64

    def merge(self, other: "Moments") -> None:
        """Add another table's moments; both must have been gathered in the same way."""
        if self._shape() != other._shape():
            raise DataError(
                "These moments were gathered with different columns, strata, bits or norm bounds."
            )
        self.watch(other.digest)
        for mine, theirs in zip(self.strata, other.strata, strict=True):
            mine.merge(theirs)

    def second_moment(self) -> FloatBlock:
        """Exact (up to float64) **sensitive** (d, d) matrix of E[x x'] with norms in the original units."""
        total = np.zeros((self.n_features, self.n_features))
        for index, stratum in enumerate(self.strata):
            total += stratum.sscp.to_float() * 4.0 ** -(self.spec.bits + index % self.spec.shells)
        return total * ((self.norm_bound * self.spec.clip) ** 2 / max(1, self.n_rows))


def gather(
    blocks: Iterable[FloatBlock],
    n_features: int,
    spec: MomentsSpec | None = None,
    *,
    norm_bound: float = 1.0,
) -> Moments:
    """Moments of a stream of encoded blocks."""
    moments = Moments(n_features, spec, norm_bound=norm_bound)
    for block in blocks:
        moments.add(block)
    return moments


def quantize(
    rows: FloatBlock,
    spec: MomentsSpec,
    groups: NDArray[np.intp] | None = None,
    out: FloatBlock | None = None,
) -> LatticeRows:
    """Turn encoded rows into lattice rows, each in the unit of its own shell.

    Truncation toward zero cannot lengthen a row; the squared norm is checked again in integers, and rows that
    exceed ``4**bits`` (clipped rows, rounding) are shortened until they pass.
    """
    values = np.empty_like(rows) if out is None else out
    shells = np.zeros(len(rows), dtype=np.intp) if spec.shells > 1 else None
    for tile in _tiles(rows.shape) if spec.shells > 1 else [slice(None)]:
        _quantize_tile(rows[tile], values[tile], None if shells is None else shells[tile], spec)
    if spec.groups > 1:
        if groups is None or len(groups) != len(rows):
            raise DataError("Grouped moments need the group of every row.")
        if len(groups) and not 0 <= groups.min() <= groups.max() < spec.groups:
            raise DataError(
                "A group number is out of range; count the groups from 0 and declare them all."
            )
        offset = groups * spec.shells
        return LatticeRows(values=values, strata=offset if shells is None else offset + shells)
    return LatticeRows(values=values, strata=shells)


def _tiles(shape: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, _TILE_VALUES // shape[1])
    return (slice(start, start + step) for start in range(0, shape[0], step))


def _quantize_tile(
    rows: FloatBlock, values: FloatBlock, shells: NDArray[np.intp] | None, spec: MomentsSpec
) -> None:
    surely_short = False
    if shells is None:
        np.multiply(rows, 2.0**spec.bits / spec.clip, out=values)
    else:
        clipped = rows if spec.clip == 1 else rows / spec.clip
        energies = _squared_norms(clipped)
        shells[:] = _shell_of(clipped, energies, spec.shells)
        all_shells = np.arange(spec.shells)
        surely_short = bool((energies <= np.ldexp(_SURELY_SHORT, -2 * all_shells)[shells]).all())
        np.multiply(
            rows, np.ldexp(1.0 / spec.clip, spec.bits + all_shells)[shells, None], out=values
        )
    np.trunc(values, out=values)
    if not surely_short:
        _shorten(values, spec.bits)


def _shell_of(rows: FloatBlock, energies: FloatBlock, shells: int) -> NDArray[np.intp]:
    """Shell s holds norms in (2**-(s+1), 2**-s]; zero rows and everything smaller go into the last one.

    Floating squared norms, whose last digits depend on the machine, decide where they are far enough from a power of
    four; `_exact_shell_of` measures the other rows, and differs from a squared norm by less than the margin: its
    entries, below ``2**bits``, lose less than 1 each, so that a norm of at least ``2**(bits - 1)`` loses less than
    ``sqrt(d)``.  Engines must agree on every row.
    """
    mantissa, power = np.frexp(np.maximum(energies, _SMALLEST_ENERGY))
    shell: NDArray[np.intp] = -power // 2
    margin = 2.0 ** (3 - _shell_bits(rows)) * math.sqrt(rows.shape[1])
    unsure = (energies < 0.5) & (np.abs(mantissa - 0.75) > 0.25 - margin)
    if len(places := np.flatnonzero(unsure)):
        shell[places] = _exact_shell_of(rows[places])
    return np.clip(shell, 0, shells - 1).astype(np.intp)


def _exact_shell_of(rows: FloatBlock) -> NDArray[np.intp]:
    """Shell of rows that are not tiny, their norms measured in integers relative to the largest entry."""
    _, exponent = np.frexp(np.abs(rows).max(axis=1))
    exponent = exponent - _shell_bits(rows)
    energy = _squared_norms(np.trunc(rows * np.ldexp(1.0, -exponent)[:, None]))
    _, power = np.frexp(energy)
    is_power = energy == np.ldexp(0.5, power)
    shell: NDArray[np.intp] = (is_power - power - 2 * exponent) // 2
    return shell


def _shell_bits(rows: FloatBlock) -> int:
    """Bits of an entry for which a sum of squares stays below 2**53."""
    n_features: int = rows.shape[1]
    return (53 - n_features.bit_length()) // 2


def _squared_norms(values: FloatBlock) -> FloatBlock:
    norms: FloatBlock = np.einsum("ij,ij->i", values, values)
    return norms


def _shorten(values: FloatBlock, bits: int) -> None:
    """Scale rows with integer squared norm above 4**bits down until none is left."""
    limit = 4.0**bits
    for _ in range(8):
        energy = _squared_norms(values)
        long = np.flatnonzero(~(energy <= limit))
        if not len(long):
            return
        if not np.all(np.isfinite(energy[long])):
            raise NumericError(
                "An encoded row is not finite; encode the rows before gathering moments."
            )
        shrink = (
            (2.0**bits) / np.sqrt(_same_everywhere(energy[long], values, long)) * (1 - 2.0**-40)
        )
        values[long] = np.trunc(values[long] * shrink[:, None])
    raise NumericError("An encoded row could not be brought within the norm bound.")


def _same_everywhere(energy: FloatBlock, values: FloatBlock, rows: NDArray[np.intp]) -> FloatBlock:
    """Squared norms that do not depend on the machine: beyond 2**53 sums round, so their order is fixed."""
    if energy.max() <= 2.0**53:
        return energy
    ordered = np.zeros(len(rows))
    for column in values.T:
        ordered += column[rows] ** 2
    return ordered


def normalize(values: FloatBlock, bits: int) -> FloatBlock:
    """Lattice rows divided by their own norm; a zero row stays zero."""
    energy = _squared_norms(values)
    factor = np.divide(
        2.0**bits * (1 - 2.0**-40), np.sqrt(energy), out=np.zeros_like(energy), where=energy > 0
    )
    unit = np.trunc(values * factor[:, None])
    _shorten(unit, bits)
    return unit


def _by_stratum(
    block: FloatBlock, strata: NDArray[np.intp], most_rows: int
) -> Iterator[tuple[int, FloatBlock]]:
    """Copy the rows of one stratum after the other, at most so many at a time."""
    # Numbers of 16 bits are sorted by counting.
    narrow = strata.astype(np.int16) if len(strata) and strata.max() < 2**15 else strata
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(strata)
    end = 0
    for index in np.flatnonzero(counts).tolist():
        start, end = end, end + int(counts[index])
        for first in range(start, end, most_rows):
            yield index, _taken(block, order[first : min(first + most_rows, end)])


def _taken(block: FloatBlock, places: NDArray[np.intp]) -> FloatBlock:
    """Copy rows, stored as the block is."""
    if block.strides[0] != block.itemsize:
        return np.take(block, places, axis=0)
    taken = np.empty((block.shape[1], len(places)))
    for column, room in zip(block.T, taken, strict=True):
        np.take(
            column, places, out=room, mode="clip"
        )  # they are in range; looking again takes longer
    return taken.T
