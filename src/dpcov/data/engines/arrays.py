"""Quantize and multiply rows where they lie, in any array library with NumPy's functions.

Contract: the same integers as `dpcov.data.exact.moments` makes, to the bit.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.encode import encode_array, whole
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.exact.library import Array, Library
from dpcov.data.exact.moments import Moments, MomentsSpec, normalize, quantize_in_shells, shorten
from dpcov.data.exact.moments import quantize as quantize_here
from dpcov.errors import DataError, UsageError

_LIMIT = 2**62


def quantize(on: Library, rows: Array, spec: MomentsSpec) -> tuple[Array, Array | None]:
    """What `data.exact.moments.quantize` does: integers, and each row's shell if there are any."""
    if spec.clip != 1.0:
        return _quantize_here(on, rows, spec)
    if spec.shells == spec.parts == 1:
        return shorten(on.module.trunc(rows * 2.0**spec.bits), spec.bits, on), None
    return quantize_in_shells(rows, spec, on)


def _quantize_here(on: Library, rows: Array, spec: MomentsSpec) -> tuple[Array, Array | None]:
    # Rows far beyond the clip have squared norms above 2**53, which each machine rounds its way.
    ungrouped = replace(spec, groups=1)
    values, strata = quantize_here(on.to_host(rows), ungrouped)
    return on.from_host(values), None if strata is None else on.from_host(strata)


class DeviceMoments:
    """Moments that grow on a device and come to this machine when they must.

    Products of at most ``2**(53 - 2 bits)`` rows in float64 are exact; they are summed in int64
    until a sum could pass 2**62.
    """

    def __init__(self, on: Library, task: MomentsTask) -> None:
        self.on, self.task = on, task
        # Integers summed on the device, and their largest possible absolute value.
        self._held: dict[tuple[int, bool], tuple[Array, int]] = {}
        self._moments: Moments = self.task.empty()

    def __repr__(self) -> str:
        return "DeviceMoments(<sensitive>)"

    def add_raw(self, block: Array) -> None:
        """Encode and add rows that are on the device."""
        encoding = self.task.encoding
        if not isinstance(encoding, BallEncoding):
            self.add_host(self.on.to_host(block))
            return
        if self.task.watched:
            self._moments.watch(encoding.read(self.on.to_host(block)).digest)
        self.add(encode_array(block, encoding.norm_bound, self.on), None)

    def add_host(self, block: Any) -> None:
        """Encode a block here and add it there."""
        cells = self.task.encoding.read(block)
        if self.task.watched:
            self._moments.watch(cells.digest)
        rows, places = self.task.encoding.encode(cells, self._moments.losses)
        if places is not None:
            rows = whole(rows, places, self._moments.n_features)
        self.add(self.on.from_host(np.ascontiguousarray(rows)), cells.groups)

    def add(self, rows: Array, groups: NDArray[np.intp] | None) -> None:
        """Add encoded rows on the device, with group numbers of this machine."""
        spec = self.task.spec
        if spec.groups > 1 and groups is None:
            raise DataError("Grouped moments need the group of every row.")
        if self.task.linear is None:
            values, strata = quantize(self.on, rows, spec)
        else:
            mapped = self.task.linear.apply(rows, on=self.on)
            values, strata = _quantize_here(self.on, mapped, spec)
        if groups is not None and spec.groups > 1:
            step = spec.n_strata // spec.groups
            offset = self.on.from_host(np.asarray(groups, dtype=np.int64) * step)
            strata = offset if strata is None else offset + strata
        if strata is None:
            self._add_stratum(0, values)
            return
        # A stratum is multiplied only if rows are in it; the numbers stay on this machine.
        for index in np.unique(self.on.to_host(strata)).tolist():
            self._add_stratum(index, values[strata == index])

    def _add_stratum(self, index: int, rows: Array) -> None:
        bits, stratum = self.task.spec.bits, self._moments.strata[index]
        most_rows = self._moments.block_rows
        for start in range(0, len(rows), most_rows):
            block = rows[start : start + most_rows]
            bound = len(block) << (2 * bits)
            self._add_product((index, False), block, bound)
            if self.task.spec.normalized:
                self._add_product((index, True), normalize(block, bits, self.on), bound)
            stratum.n_rows += len(block)

    def _add_product(self, place: tuple[int, bool], block: Array, bound: int) -> None:
        product = self.on.cast(block.T @ block, "int64")
        held = self._held.get(place)
        # A sum leaves the device before it could pass 2**62.
        if held is not None and held[1] + bound < _LIMIT:
            total, most = held
            total += product
            self._held[place] = total, most + bound
        else:
            self._fetch(place)
            self._held[place] = product, bound

    def _fetch(self, place: tuple[int, bool]) -> None:
        if place in self._held:
            total, most = self._held.pop(place)
            stratum = self._moments.strata[place[0]]
            sums = stratum.normalized if place[1] else stratum.sscp
            assert sums is not None
            sums.add(self.on.to_host(total), most)

    def fetch(self) -> Moments:
        """Bring everything to this machine; more rows can be added afterwards."""
        for place in tuple(self._held):
            self._fetch(place)
        return self._moments


def require_exact_products(on: Library, block_rows: int = 2**13, bits: int = 20) -> None:
    """Refuse a device that does not multiply integers in float64 exactly (emulated, reduced)."""
    extreme = np.random.default_rng(0).integers(-(2**bits), 2**bits, size=(block_rows, 24))
    # Two columns at the largest value: their product sits just below 2**53.
    extreme[:, :2] = 2**bits - 1
    device = on.from_host(extreme.astype(np.float64))
    made = on.to_host(device.T @ device)
    if made.dtype != np.float64 or not np.array_equal(made.astype(np.int64), extreme.T @ extreme):
        raise UsageError(
            "This device does not multiply in float64 exactly. Switch emulation off or use "
            "engine='local' (--engine local)."
        )
