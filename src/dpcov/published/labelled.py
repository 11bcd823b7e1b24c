"""Put the names of features on an estimate, where pandas is installed.

Contract: ``to_numpy()`` works on what is returned; pandas is imported here alone, and only then.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcov.published.linalg.symmetric import Array


class BareArray(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that gives itself away as a data frame would."""

    def to_numpy(self) -> Array:
        """The same numbers as a plain array."""
        return np.asarray(self)


def labelled(values: Array, names: Sequence[str]) -> Any:
    """A series of means (p,) or a data frame of a matrix (p, p); a `BareArray` without pandas."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return values.view(BareArray)
    labels = list(names)
    if values.ndim == 1:
        return pd.Series(values, index=labels, name="mean")
    return pd.DataFrame(values, index=labels, columns=labels)
