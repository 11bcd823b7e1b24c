"""Public tables as rows in the unit ball, for benchmarks only.

Scaling: every column is divided by a bound on its magnitude, and the row by the square root of the
largest squared norm that such a row can have.  Where no bound is documented, the bound is the
largest magnitude in the table rounded up to 1, 2 or 5 times a power of ten: that looks at data that
are public anyway, which a custodian must never do.  Nothing is centered.

Files are looked for in the directory given by the caller, the environment variable DPCOV_DATA, or
../shared/data beside the project; a README there says what they are.  Tables whose file is missing
raise :class:`MissingTable`.
"""

import os
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


class MissingTable(Exception):  # noqa: N818
    """A table cannot be loaded here; the text says what is missing."""


def data_directory(chosen: str | Path | None = None) -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(chosen or os.environ.get("DPCOV_DATA") or beside)


def digits() -> Rows:
    """1797 images of 8 x 8 pixels from 0 to 16."""
    return _scikit_learn("load_digits") / (16 * np.sqrt(64))


def breast_cancer() -> Rows:
    """569 biopsies, 30 measurements."""
    return bounded(_scikit_learn("load_breast_cancer"))


def wine() -> Rows:
    """178 wines, 13 measurements."""
    return bounded(raw_wine())


def raw_wine() -> Rows:
    """The same in their own units, as Amin et al. (2019) take them; so below."""
    return _scikit_learn("load_wine")


def mnist(directory: Path, *, rows: int | None = None, digit: int | None = None) -> Rows:
    """Images of 28 x 28 pixels from 0 to 255: the first ``rows`` ones, or all of one digit."""
    with np.load(file_of(directory, "mnist_train.npz")) as archive:
        images, labels = archive["X"], archive["y"]
    chosen = images[labels == digit] if digit is not None else images[:rows]
    return chosen.astype(np.float64) / (255 * 28)


def news(directory: Path, corpus: str, *, d: int, normalized: bool) -> Rows:
    """Hashed word counts of ``reuters21578`` or ``20newsgroups`` articles.

    Each row is divided by its own norm, or all by the largest one rounded up to 1, 2 or 5 times a
    power of ten.
    """
    from scipy import sparse

    counts = sparse.load_npz(file_of(directory, f"news_{corpus}_hash2048.npz")).tocoo()
    folded = sparse.csr_matrix(
        (counts.data, (counts.row, counts.col % d)), shape=(counts.shape[0], d)
    )
    rows = folded.toarray().astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / (np.maximum(norms, 1.0) if normalized else round_up(norms.max()))


def adult(directory: Path) -> Rows:
    """48842 people, 6 numbers and 8 one-hot attributes: 108 columns, squared norm at most 14."""
    numbers, indicators = _adult(directory)
    return np.hstack([numbers / _bounds(numbers), indicators]) / np.sqrt(14)


def raw_adult(directory: Path) -> Rows:
    """The unknown mark is a category."""
    return np.hstack(_adult(directory))


def _adult(directory: Path) -> tuple[Rows, Rows]:
    import pandas as pd

    table = pd.read_csv(file_of(directory, "adult.csv.gz"), keep_default_na=False)
    table = table.drop(columns=["income", "split"])
    numeric = table.select_dtypes("number")
    indicators = pd.get_dummies(table.drop(columns=numeric.columns), dtype=float)
    return numeric.to_numpy(float), indicators.to_numpy(float)


def credit_default(directory: Path) -> Rows:
    """30000 credit card clients, 24 columns without the row number."""
    return bounded(_numbers(directory, "credit_default.csv.gz").drop(columns="ID").to_numpy(float))


def communities(directory: Path) -> Rows:
    """2215 towns, the 101 predictors without missing values but for one town."""
    table = _numbers(directory, "communities_crime.csv.gz").loc[:, "population":"PolicBudgPerPop"]
    complete = table.loc[:, table.isna().sum() <= 1].fillna(0.0)
    return bounded(complete.to_numpy(float))


def nhanes(directory: Path) -> Rows:
    """8593 complete examinations of NHANES I, 19 columns."""
    return bounded(_numbers(directory, "nhanes1.csv.gz").dropna().to_numpy(float))


def airfoil(directory: Path) -> Rows:
    """1503 wind tunnel measurements, 6 columns."""
    return bounded(raw_airfoil(directory))


def raw_airfoil(directory: Path) -> Rows:
    return _numbers(directory, "airfoil.csv").to_numpy(float)


def bounded(rows: Rows) -> Rows:
    """Divide columns by their rounded largest magnitude, and rows by the square root of their
    number of columns."""
    return rows / (_bounds(rows) * np.sqrt(rows.shape[1]))


def round_up(value: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(
        next(step * power for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-12))
    )


def _bounds(rows: Rows) -> Rows:
    largest = np.abs(rows).max(axis=0)
    return np.array([round_up(value) if value > 0 else 1.0 for value in largest])


def _scikit_learn(loader: str) -> Rows:
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingTable("scikit-learn is not installed") from None
    rows: Rows = getattr(datasets, loader)().data
    return rows


@cache
def _numbers(directory: Path, name: str):
    import pandas as pd

    return pd.read_csv(file_of(directory, name))


def file_of(directory: Path, name: str) -> Path:
    """The path of a file, which must be there."""
    path = directory / name
    if not path.exists():
        raise MissingTable(
            f"{name} is not in {directory}; name its directory with --data or DPCOV_DATA"
        )
    return path
