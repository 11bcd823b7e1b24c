"""What an array library calls things, so that rows are encoded where they lie.

Contract: every operation that rounds is a single correctly rounded one (multiplication, division by
an array, square root) or a sum in a fixed order; everything else is exact in float64.  Nothing is
divided by a Python number: some libraries multiply by its rounded reciprocal instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

# An array of the library.
Array = Any

# Exponent of the smallest positive float64.
_SMALLEST = -1074


@dataclass(frozen=True, kw_only=True)
class Library:
    """An array library that has NumPy's functions; ``norms`` are squared norms of rows."""

    module: Any
    from_host: Callable[[NDArray[Any]], Array]
    to_host: Callable[[Array], NDArray[Any]]
    cast: Callable[[Array, str], Array]
    norms: Callable[[Array], Array]

    @cached_property
    def _powers(self) -> Array:
        return self.from_host(np.ldexp(1.0, np.arange(_SMALLEST, 1024)))

    def power_of_two(self, exponents: Array) -> Array:
        """Exact powers for whole exponents."""
        return self._powers[exponents - _SMALLEST]

    def number(self, value: float) -> Array:
        """A number as an array of shape (1,)."""
        return self.from_host(np.array([value]))

    def frexp(self, values: Array) -> Array:
        """Binary exponents as `math.frexp` counts them."""
        return self.cast(self.module.frexp(values)[1], "int64")


def column_norms(rows: Array, module: Any = np) -> Array:
    """Squared norms, added column by column: equal to the bit whatever rows are beside one."""
    energies = module.zeros_like(rows[:, 0])
    for column in rows.T:
        energies += column * column
    return energies


def ordered_norms(rows: Array) -> Array:
    """Squared norms, added in an order of their own: equal to the bit on every processor."""
    squares = rows * rows
    width = squares.shape[1]
    while width > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:width]
        width = half
    return squares[:, 0]


NUMPY = Library(
    module=np,
    from_host=np.asarray,
    to_host=np.asarray,
    cast=lambda array, kind: np.ascontiguousarray(array, dtype=kind),
    norms=lambda rows: np.einsum("ij,ij->i", rows, rows),
)
