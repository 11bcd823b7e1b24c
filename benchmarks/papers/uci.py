"""The raw tables of Amin et al. (2019): Wine, Airfoil, and Adult with 108 columns, in their own
units."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import MissingTable

Rows = NDArray[np.float64]


def wine(directory: Path) -> Rows:
    """178 wines, 13 measurements; bundled with scikit-learn."""
    try:
        from sklearn.datasets import load_wine
    except ImportError:
        raise MissingTable("scikit-learn is not installed") from None
    rows: Rows = load_wine().data
    return rows


def airfoil(directory: Path) -> Rows:
    """1503 wind tunnel measurements, 6 columns."""
    return _read(directory, "airfoil.csv").to_numpy(float)


def adult(directory: Path) -> Rows:
    """48842 people: 6 numbers, 8 attributes one-hot with the unknown mark as a category."""
    import pandas as pd

    table = _read(directory, "adult.csv.gz").drop(columns=["income", "split"])
    numeric = table.select_dtypes("number")
    indicators = pd.get_dummies(table.drop(columns=numeric.columns), dtype=float)
    return np.hstack([numeric.to_numpy(float), indicators.to_numpy(float)])


def _read(directory: Path, name: str):
    import pandas as pd

    path = directory / name
    if not path.is_file():
        raise MissingTable(
            f"{name} is not in {directory}; name its directory with --data or DPCOV_DATA"
        )
    return pd.read_csv(path, keep_default_na=False)
