"""Exact second moments of encoded rows, in one pass.

Contract: every row contributes integers whose squared norm is at most ``4**bits``, and the moments
are equal to the bit for any chunking, order, number of threads or merge tree.  Nothing in here may
be printed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.library import NUMPY, Array, Library, column_norms
from dpcov.data.exact.linear import FloatMatrix, Places
from dpcov.data.exact.losses import Losses, LossQuestion
from dpcov.data.exact.sums import ExactSum
from dpcov.errors import DataError, NumericError, require_kind
from dpcov.privacy.options import Between, make_plain

DEFAULT_BITS = 20
MAX_BITS = 24
Bits = Annotated[int, Between(4, MAX_BITS)]
Clip = Annotated[float, Between(2.0**-60, 1)]

# Values put into shells at a time: 2 MiB, so that all the passes but the first stay in cache.
_TILE_VALUES = 2**18
# Values sorted by stratum at a time, 64 MiB: few large products are faster than many small ones.
_SORTED_VALUES = 2**23


@dataclass(frozen=True, kw_only=True)
class MomentsSpec:
    """What a mechanism wants to be gathered; public.

    Shell s of so many ``shells`` holds rows with norm in (2**-(s+1), 2**-s], the last one
    everything below; each is divided by squared norm into 2**``fineness`` parts (`part_energies`).
    Strata are parts of shells crossed with public ``groups``.  ``normalized`` also gathers the rows
    divided by their own norm.  A row of norm ``clip``, to which longer ones are scaled down,
    becomes integers of squared norm ``4**bits``.
    """

    shells: Annotated[int, Between(1, 64)] = 1
    fineness: Annotated[int, Between(0, 4)] = 0
    groups: Annotated[int, Between(1, 10_000)] = 1
    normalized: bool = False
    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0

    def __post_init__(self) -> None:
        make_plain(self)

    @property
    def parts(self) -> int:
        """Of each shell."""
        return int(2**self.fineness)

    @property
    def n_strata(self) -> int:
        """Index of a stratum: (group * shells + shell) * parts + part."""
        return self.shells * self.parts * self.groups


def part_energies(parts: int) -> FloatMatrix:
    """Largest squared norms in the parts of a shell of radius 1, descending; exact."""
    # A halving of the squared norm is divided evenly, as floating-point numbers are.
    steps = max(1, parts // 2)
    halving = 1.0 - np.arange(steps) / (2 * steps)
    return np.concatenate([halving, halving / 2])[:parts]


class StratumMoments:
    """Row count and moments of one stratum, in units of its own squared radius."""

    __slots__ = ("n_rows", "normalized", "sscp")

    def __init__(self, dimension: int, *, normalized: bool) -> None:
        self.n_rows = 0
        self.sscp = ExactSum(dimension)
        self.normalized = ExactSum(dimension) if normalized else None

    def __repr__(self) -> str:
        return "StratumMoments(<sensitive>)"

    def add(self, block: FloatMatrix, bits: int, places: Places | None = None) -> None:
        """Add lattice rows, at most ``2**(53 - 2 bits)`` of them; several threads may do so."""
        bound = len(block) << (2 * bits)
        self.sscp.add_gram(block, bound, places)
        if self.normalized is not None:
            self.normalized.add_gram(normalize(block, bits), bound, places)
        # Adding to a number of Python is not atomic.
        with self.sscp.lock:
            self.n_rows += len(block)

    def merge(self, other: "StratumMoments") -> None:
        """Add the rows of another stratum of the same shape."""
        self.n_rows += other.n_rows
        self.sscp.merge(other.sscp)
        if self.normalized is not None and other.normalized is not None:
            self.normalized.merge(other.normalized)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StratumMoments) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )


class Moments:
    """**Sensitive** exact moments of one table; several threads may :meth:`add` at a time.

    Whoever gets the pickled bytes gets the moments.  Rows were divided by the public `norm_bound`.
    """

    # Random numbers of the tables in it, where these were drawn: each counts once.  Of the class,
    # since older pickles have none.
    parts: frozenset[bytes] = frozenset()

    def __init__(
        self,
        n_features: int,
        spec: MomentsSpec | None = None,
        *,
        norm_bound: float = 1.0,
        losses: LossQuestion | None = None,
    ) -> None:
        if n_features < 1:
            raise DataError("There is no usable column; the schema must leave at least one.")
        self.n_features = n_features
        self.spec = spec or MomentsSpec()
        self.norm_bound = norm_bound
        # Sum of the digests of all rows modulo 2**64, where a question asks for it.
        self.digest = 0
        # What scaling rows down takes of columns, where a question asks for it.
        self.losses = None if losses is None else Losses(losses, self.spec.groups)
        normalized, strata = self.spec.normalized, range(self.spec.n_strata)
        self.strata = [StratumMoments(n_features, normalized=normalized) for _ in strata]

    def __repr__(self) -> str:
        return f"Moments(n_features={self.n_features}, spec={self.spec}, <sensitive>)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self._sums == other._sums

    @property
    def _sums(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "parts"}

    @property
    def n_rows(self) -> int:
        """Exact number of rows: public under replace-one, sensitive under add-remove-one."""
        return sum(stratum.n_rows for stratum in self.strata)

    def add(
        self,
        rows: FloatMatrix,
        groups: NDArray[np.intp] | None = None,
        *,
        places: Places | None = None,
        overwrite: bool = False,
    ) -> None:
        """Add rows, longer ones than 1 scaled down; ``overwrite`` lets their memory be used.

        ``places`` are the columns that rows have, ascending, where others are zero.
        """
        if rows.ndim != 2 or rows.shape[1] != (self.n_features if places is None else len(places)):
            raise DataError(f"Expected blocks of rows with {self.n_features} encoded columns.")
        step = self.block_rows
        if self.spec.n_strata > 1:
            step = max(step, _SORTED_VALUES // self.n_features)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            numbers = None if groups is None else groups[start : start + step]
            values, strata = quantize(
                part, self.spec, numbers, part if overwrite else None, self.n_features
            )
            # One symmetric product per stratum and block.
            for index, members in _by_stratum(values, strata, self.block_rows):
                self.strata[index].add(members, self.spec.bits, places)

    @property
    def block_rows(self) -> int:
        """Rows whose products are exact in float64 whatever they hold."""
        # A block is multiplied in float64 while its total energy sum(q**2) is at most 2**53:
        # every partial sum of products is then an integer below 2**53 in absolute value, so the
        # product is exact in any order of summation.
        return int(2 ** (53 - 2 * self.spec.bits))

    def watch(self, digest: int) -> None:
        """Add the digest of a block of rows; several threads may do so."""
        with self.strata[0].sscp.lock:
            self.digest = (self.digest + digest) % 2**64

    def merge(self, other: "Moments") -> Self:
        """Add another table's moments, and return itself; both were gathered in the same way."""
        require_kind("other", other, Moments)
        if other is self or self.parts & other.parts:
            raise DataError("These moments hold the same table, whose rows would count twice.")
        mine, theirs = (
            (m.n_features, m.spec, m.norm_bound, m.losses and m.losses.question)
            for m in (self, other)
        )
        if mine != theirs:
            raise DataError(
                "These moments differ in their columns or options. Gather all with the same."
            )
        self.parts |= other.parts
        self.watch(other.digest)
        for stratum, added in zip(self.strata, other.strata, strict=True):
            stratum.merge(added)
        if self.losses is not None and other.losses is not None:
            self.losses.merge(other.losses)
        return self

    def second_moment(self) -> FloatMatrix:
        """**Sensitive** (d, d) matrix of E[x x'] in float64, in the original units."""
        total = np.zeros((self.n_features, self.n_features))
        for index, stratum in enumerate(self.strata):
            shell = index // self.spec.parts % self.spec.shells
            total += stratum.sscp.to_float() * 4.0 ** -(self.spec.bits + shell)
        return total * ((self.norm_bound * self.spec.clip) ** 2 / max(1, self.n_rows))


def quantize(
    rows: FloatMatrix,
    spec: MomentsSpec,
    groups: NDArray[np.intp] | None = None,
    out: FloatMatrix | None = None,
    n_columns: int | None = None,
) -> tuple[FloatMatrix, NDArray[np.intp] | None]:
    """Turn encoded rows into **sensitive** integers, and the strata of rows, None if there is one.

    Each row is in the unit of its own shell, with a squared norm of at most ``4**bits``.  Of
    ``n_columns`` columns those that are zero in all rows may be left out.
    """
    # A row z of norm at most 1 in shell s (radius 2**-s) becomes trunc(z * 2**(bits + s)).
    # Rows that exceed 4**bits (clipped rows, rounding) are shortened.
    values = np.empty_like(rows) if out is None else out
    if spec.shells == spec.parts == 1:
        strata = None
        np.multiply(rows, 2.0**spec.bits / spec.clip, out=values)
        # Truncation toward zero cannot lengthen a row.
        shorten(np.trunc(values, out=values), spec.bits)
    else:
        strata = np.zeros(len(rows), dtype=np.intp)
        step = max(1, _TILE_VALUES // rows.shape[1])
        for tile in (slice(start, start + step) for start in range(0, len(rows), step)):
            clipped = rows[tile] if spec.clip == 1 else rows[tile] / spec.clip
            values[tile], strata[tile] = quantize_in_shells(clipped, spec, n_columns=n_columns)
    if spec.groups == 1:
        return values, strata
    if groups is None or len(groups) != len(rows):
        raise DataError("Grouped moments need the group of every row.")
    if len(groups) and not 0 <= groups.min() <= groups.max() < spec.groups:
        raise DataError("A group number is out of range; count from 0 and declare all groups.")
    offset = groups * (spec.n_strata // spec.groups)
    return values, offset if strata is None else offset + strata


def quantize_in_shells(
    rows: Array, spec: MomentsSpec, on: Library = NUMPY, n_columns: int | None = None
) -> tuple[Array, Array]:
    """What :func:`quantize` does where there are shells: integers, and the parts of shells."""
    strata = exact_shell_of(rows, spec, on, n_columns)
    shells = strata // spec.parts
    # Truncation toward zero cannot lengthen a row.
    values = on.module.trunc(rows * on.power_of_two(shells + spec.bits)[:, None])
    energies = on.from_host(part_energies(spec.parts))[strata - shells * spec.parts]
    return shorten(values, spec.bits, on, energies), strata


def exact_shell_of(
    rows: Array, spec: MomentsSpec, on: Library = NUMPY, n_columns: int | None = None
) -> Array:
    """Parts of shells that rows are in, counted through all shells; zeros in the last.

    Norms are measured in integers relative to the largest entry.
    """
    xp, last = on.module, spec.shells * spec.parts - 1
    # Bits of an entry for which a sum of squares stays below 2**53.
    bits = (53 - (n_columns or int(rows.shape[1])).bit_length()) // 2
    exponent = xp.clip(on.frexp(xp.amax(xp.abs(rows), axis=1)), -900, 1024) - bits
    energy = on.norms(xp.trunc(rows * on.power_of_two(-exponent)[:, None]))
    power = on.frexp(energy)
    # The outer border belongs to a shell: an energy of exactly 4**-s is in shell s.
    is_power = on.cast(energy == on.power_of_two(power - 1), "int64")
    shell = is_power - power - 2 * exponent
    if spec.parts == 1:
        shell = shell // 2
    else:
        # Multiples of a power of two below 2, so exact.
        steps = spec.parts // 2
        mantissa = energy * on.power_of_two(is_power - power)
        shell = shell * steps + on.cast(xp.floor((1.0 - mantissa) * (2.0 * steps)), "int64")
    return xp.clip(xp.where(energy > 0, shell, shell * 0 + last), 0, last)


def shorten(values: Array, bits: int, on: Library = NUMPY, energies: Array | None = None) -> Array:
    """Scale rows with integer squared norm above 4**bits down until none is left, in place.

    ``energies``, one for each row, are squared norms in that unit to be kept instead.
    """
    xp = on.module
    most = on.number(4.0**bits) if energies is None else energies * 4.0**bits
    for _ in range(8):
        energy = on.norms(values)
        long = xp.where(~(energy <= most))[0]
        if not len(long):
            return values
        if not bool(xp.isfinite(energy[long]).all()):
            raise NumericError("An encoded row is not finite; encode the rows first.")
        norm = xp.sqrt(_same_everywhere(energy[long], values[long], xp))
        # A hair shorter than exact, so that rounding up does not keep a row too long.
        wanted = xp.sqrt(most if energies is None else most[long])
        shrink = wanted / norm * (1 - 2.0**-40)
        values[long] = xp.trunc(values[long] * shrink[:, None])
    raise NumericError("An encoded row could not be brought within the norm bound.")


def _same_everywhere(energy: Array, rows: Array, xp: Any) -> Array:
    # Beyond 2**53 sums round, so their order must not depend on the machine.
    if energy.max() <= 2.0**53:
        return energy
    return column_norms(rows, xp)


def normalize(values: Array, bits: int, on: Library = NUMPY) -> Array:
    """Lattice rows divided by their own norm; a zero row stays zero."""
    energy = on.norms(values)
    # A zero row is divided by 1.
    energy = on.module.where(energy > 0, energy, on.number(1.0))
    factor = on.number(2.0**bits * (1 - 2.0**-40)) / on.module.sqrt(energy)
    return shorten(on.module.trunc(values * factor[:, None]), bits, on)


def _by_stratum(
    block: FloatMatrix, strata: NDArray[np.intp] | None, most_rows: int
) -> Iterator[tuple[int, FloatMatrix]]:
    # Copy the rows of one stratum after the other, at most so many at a time.
    if strata is None:
        yield from ((0, block[at : at + most_rows]) for at in range(0, len(block), most_rows))
        return
    # Numbers of 16 bits are sorted by counting.
    narrow = strata.astype(np.int16) if len(strata) and strata.max() < 2**15 else strata
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(strata)
    # Copied as they are stored: the columns of encoded rows lie together.
    by_columns = block.strides[0] == block.itemsize
    ordered = np.take(block.T, order, axis=1).T if by_columns else block[order]
    end = 0
    for index in np.flatnonzero(counts).tolist():
        start, end = end, end + int(counts[index])
        for first in range(start, end, most_rows):
            yield index, ordered[first : min(first + most_rows, end)]
