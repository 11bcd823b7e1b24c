"""Put the names of features on an estimate, where pandas or polars is installed.

Contract: ``to_numpy()`` works on what is returned; both are imported here alone, and only then.
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
    """A series of means (p,) or a data frame of a matrix (p, p); a `BareArray` without either.

    pandas comes before polars, whose rows have no names: they are in the order of the columns.
    """
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError:
        return _of_polars(values, names)
    labels = list(names)
    if values.ndim == 1:
        return pd.Series(values, index=labels, name="mean")
    return pd.DataFrame(values, index=labels, columns=labels)


def _of_polars(values: Array, names: Sequence[str]) -> Any:
    try:
        import polars as pl
    except ImportError:
        return values.view(BareArray)
    if values.ndim == 1:
        return pl.Series("mean", values)
    return pl.DataFrame(values, schema=list(names))
