"""Encoding, quantizing and multiplying rows where they lie, in any array library with NumPy's functions.

Contract: the same integers as `dpcov.data.moments` makes, to the bit.  Every operation that rounds is a
single correctly rounded one (multiplication, division by an array, square root) or a sum in a fixed order;
everything else is exact in float64.  In particular nothing is divided by a Python number, which some
libraries turn into a multiplication by its rounded reciprocal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.linear import ROW_BITS, LinearMap
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.moments import quantize as quantize_here
from dpcov.data.questions import digest
from dpcov.errors import DataError, NumericError, UsageError

Array = Any
"""An array of the library."""

_LIMIT = 2**62
_SMALLEST = -1074


@dataclass(frozen=True)
class Library:
    """What an array library calls things.

    Parameters
    ----------
    module : module
        Has NumPy's ``abs``, ``amax``, ``arange``, ``clip``, ``frexp``, ``sqrt``, ``sum``, ``trunc`` and ``where``.
    from_host, to_host : callable
        Move a NumPy array to the device and back.
    cast : callable
        Cast to ``"float64"`` or ``"int64"``.
    """

    module: Any
    from_host: Callable[[NDArray[Any]], Array]
    to_host: Callable[[Array], NDArray[Any]]
    cast: Callable[[Array, str], Array]

    @cached_property
    def _powers(self) -> Array:
        return self.from_host(np.ldexp(1.0, np.arange(_SMALLEST, 1024)))

    def power_of_two(self, exponents: Array) -> Array:
        """Exact powers for whole exponents."""
        return self._powers[exponents - _SMALLEST]

    def number(self, value: float) -> Array:
        """A number as an array of shape (1,)."""
        return self.from_host(np.array([value]))

    def norms(self, values: Array) -> Array:
        """Squared norms of rows."""
        return self.module.sum(values * values, axis=1)

    def frexp(self, values: Array) -> Array:
        """Binary exponents as `math.frexp` counts them."""
        return self.cast(self.module.frexp(values)[1], "int64")


NUMPY = Library(
    module=np, from_host=np.asarray, to_host=np.asarray, cast=lambda array, kind: array.astype(kind)
)


@np.errstate(over="ignore", invalid="ignore")
def encode_ball(on: Library, block: Array, norm_bound: float) -> Array:
    """What `dpcov.data.encode.encode_array` does."""
    xp = on.module
    raw = on.cast(block, "float64")
    encoded = raw / on.number(norm_bound)
    energies = on.norms(encoded)
    close = xp.where(xp.abs(energies - 1.0) < 1e-9)[0]
    if len(close):
        energies[close] = _energies(encoded[close])
    long = xp.where(~(energies <= 1.0))[0]
    if len(long):
        rows = raw[long]
        if not bool(xp.isfinite(rows).all()):
            raise DataError(
                "The data holds NaN or infinity. Fill in or leave out missing values first."
            )
        rows = rows / xp.amax(xp.abs(rows), axis=1)[:, None]
        encoded[long] = rows / xp.sqrt(_energies(rows))[:, None]
    return encoded


def quantize(on: Library, rows: Array, spec: MomentsSpec) -> tuple[Array, Array | None]:
    """What `dpcov.data.moments.quantize` does: integer values, and the shell of each row if there are several."""
    if spec.clip != 1.0:
        return _quantize_here(on, rows, spec)
    if spec.shells == 1:
        return _shorten(on, on.module.trunc(rows * 2.0**spec.bits), spec.bits), None
    shells = _shell_of(on, rows, spec.shells)
    values = on.module.trunc(rows * on.power_of_two(shells + spec.bits)[:, None])
    return _shorten(on, values, spec.bits), shells


def _quantize_here(on: Library, rows: Array, spec: MomentsSpec) -> tuple[Array, Array | None]:
    # Rows far beyond the clip have squared norms above 2**53, whose rounding belongs to one machine.
    made = quantize_here(
        on.to_host(rows), MomentsSpec(shells=spec.shells, bits=spec.bits, clip=spec.clip)
    )
    return on.from_host(made.values), None if made.strata is None else on.from_host(made.strata)


def map_rows(on: Library, rows: Array, linear: LinearMap) -> Array:
    """What `LinearMap.apply` does."""
    whole = on.module.trunc(rows * 2.0**ROW_BITS)
    return (whole @ on.from_host(linear.integers.T)) * 2.0 ** (linear.exponent - ROW_BITS)


def normalize(on: Library, values: Array, bits: int) -> Array:
    """What `dpcov.data.moments.normalize` does."""
    energy = on.norms(values)
    energy = on.module.where(energy > 0, energy, on.number(1.0))
    factor = on.number(2.0**bits * (1 - 2.0**-40)) / on.module.sqrt(energy)
    return _shorten(on, on.module.trunc(values * factor[:, None]), bits)


def _shell_of(on: Library, rows: Array, shells: int) -> Array:
    xp = on.module
    bits = (53 - rows.shape[1].bit_length()) // 2
    exponent = xp.clip(on.frexp(xp.amax(xp.abs(rows), axis=1)), -900, 1024) - bits
    energy = on.norms(xp.trunc(rows * on.power_of_two(-exponent)[:, None]))
    power = on.frexp(energy)
    is_power = on.cast(energy == on.power_of_two(power - 1), "int64")
    shell = (is_power - power - 2 * exponent) // 2
    last = shell * 0 + (shells - 1)
    return xp.clip(xp.where(energy > 0, shell, last), 0, shells - 1)


def _shorten(on: Library, values: Array, bits: int) -> Array:
    xp = on.module
    for _ in range(8):
        energy = on.norms(values)
        long = xp.where(~(energy <= 4.0**bits))[0]
        if not len(long):
            return values
        if not bool(xp.isfinite(energy[long]).all()):
            raise NumericError(
                "An encoded row is not finite; encode the rows before gathering moments."
            )
        shrink = on.number(2.0**bits) / xp.sqrt(energy[long]) * (1 - 2.0**-40)
        values[long] = xp.trunc(values[long] * shrink[:, None])
    raise NumericError("An encoded row could not be brought within the norm bound.")


def _energies(rows: Array) -> Array:
    """Squared norms added in the order of `dpcov.data.encode`."""
    squares = rows * rows
    while (width := squares.shape[1]) > 1:
        half = (width + 1) // 2
        folded = squares[:, : width - half] + squares[:, half:width]
        squares = folded if 2 * half == width else _joined(folded, squares[:, width - half : half])
    return squares[:, 0]


def _joined(left: Array, right: Array) -> Array:
    """Columns of both side by side."""
    wide = left[:, [*range(left.shape[1]), *[0] * right.shape[1]]]
    wide[:, left.shape[1] :] = right
    return wide


@dataclass
class _Held:
    """Integers summed on the device and their largest possible absolute value."""

    total: Array
    bound: int


@dataclass
class DeviceMoments:
    """Moments that grow on a device and come to this machine when they must.

    Products are made in float64 of at most ``2**(53 - 2 bits)`` rows, which is exact, and summed in int64 until a sum
    could pass 2**62, which takes about four million rows of a stratum at 20 bits.
    """

    on: Library
    task: MomentsTask
    _held: dict[tuple[int, bool], _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._moments: Moments = self.task.empty()
        self._most_rows = 2 ** (53 - 2 * self.task.spec.bits)

    def __repr__(self) -> str:
        return "DeviceMoments(<sensitive>)"

    def add_raw(self, block: Array) -> None:
        """Encode and add rows that are on the device."""
        encoding = self.task.encoding
        if isinstance(encoding, BallEncoding):
            self.add(encode_ball(self.on, block, encoding.norm_bound), None)
        else:
            self.add_host(self.on.to_host(block))

    def add_host(self, block: Any) -> None:
        """Encode a block here and add it there."""
        rows, groups = self.task.encoding.encode(block)
        self.add(self.on.from_host(np.ascontiguousarray(rows)), groups)

    def add(self, rows: Array, groups: NDArray[np.intp] | None) -> None:
        """Add encoded rows on the device, with group numbers of this machine."""
        spec = self.task.spec
        if spec.groups > 1 and groups is None:
            raise DataError("Grouped moments need the group of every row.")
        if self.task.watched:
            self._moments.watch(digest(self.on.to_host(rows)))
        if self.task.linear is None:
            values, strata = quantize(self.on, rows, spec)
        else:
            values, strata = _quantize_here(
                self.on, map_rows(self.on, rows, self.task.linear), spec
            )
        if groups is not None and spec.groups > 1:
            offset = self.on.from_host(np.asarray(groups, dtype=np.int64) * spec.shells)
            strata = offset if strata is None else offset + strata
        if strata is None:
            self._add_stratum(0, values)
            return
        for index in np.unique(self.on.to_host(strata)).tolist():
            self._add_stratum(index, values[strata == index])

    def _add_stratum(self, index: int, rows: Array) -> None:
        bits, stratum = self.task.spec.bits, self._moments.strata[index]
        for start in range(0, len(rows), self._most_rows):
            block = rows[start : start + self._most_rows]
            bound = len(block) << (2 * bits)
            self._add_product((index, False), block, bound)
            if self.task.spec.normalized:
                self._add_product((index, True), normalize(self.on, block, bits), bound)
            stratum.n_rows += len(block)

    def _add_product(self, place: tuple[int, bool], block: Array, bound: int) -> None:
        product = self.on.cast(block.T @ block, "int64")
        held = self._held.get(place)
        if held is not None and held.bound + bound < _LIMIT:
            held.total += product
            held.bound += bound
            return
        self._fetch(place)
        self._held[place] = _Held(product, bound)

    def _fetch(self, place: tuple[int, bool]) -> None:
        held = self._held.pop(place, None)
        if held is None:
            return
        stratum = self._moments.strata[place[0]]
        sums = stratum.normalized if place[1] else stratum.sscp
        assert sums is not None
        sums.add(self.on.to_host(held.total), held.bound)

    def fetch(self) -> Moments:
        """Bring everything to this machine; more rows can be added afterwards."""
        for place in tuple(self._held):
            self._fetch(place)
        return self._moments


def require_exact_products(on: Library, block_rows: int = 2**13, bits: int = 20) -> None:
    """Refuse a device whose float64 products of integers are not exact (emulated or reduced precision)."""
    extreme = np.random.default_rng(0).integers(-(2**bits), 2**bits, size=(block_rows, 24))
    extreme[:, :2] = 2**bits - 1
    # Two columns at the largest value: their product sits just below 2**53.
    device = on.from_host(extreme.astype(np.float64))
    made = on.to_host(device.T @ device)
    if made.dtype != np.float64 or not np.array_equal(made.astype(np.int64), extreme.T @ extreme):
        raise UsageError(
            "This device does not multiply in float64 exactly. Switch emulation off or use engine='local'."
        )
