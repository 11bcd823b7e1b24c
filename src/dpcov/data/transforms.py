"""The fixed functions of a number that a schema may ask for.

Contract: a number's image depends on that number alone, and not on its place in an array.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def transformed(numbers: Floats, function: str | None) -> Floats:
    """Return the function of every number; without one, the numbers."""
    if function == "sqrt":
        # Rounded to the nearest float everywhere, by IEEE 754.
        return np.sqrt(numbers)
    if function == "log1p":
        # NumPy may take other instructions at the end of an array than before.
        return np.array([math.log1p(number) for number in numbers.tolist()], dtype=np.float64)
    return numbers
