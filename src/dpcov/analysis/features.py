"""The columns an estimator works with, and new rows brought into that shape.

Contract: columns are chosen by public names; new rows are the analyst's own, nothing about them is kept.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dpcov.analysis.problems import InputError
from dpcov.published.columns import EncodedColumn
from dpcov.published.release import Release

Array = NDArray[np.float64]
Places = NDArray[np.intp]


def feature_columns(release: Release) -> tuple[EncodedColumn, ...]:
    """The encoded columns of a release without the intercept."""
    return tuple(column for column in release.manifest.columns if column.kind != "intercept")


def find_features(columns: Sequence[EncodedColumn], wanted: Iterable[str]) -> Places:
    """Places of features by name; a table column's name stands for all features made of it.

    Raises
    ------
    InputError
        For a name that the release does not have.
    """
    places: list[int] = []
    for name in [wanted] if isinstance(wanted, str) else wanted:
        exact = [i for i, column in enumerate(columns) if column.name == name]
        found = exact or [i for i, column in enumerate(columns) if column.source == name]
        if not found:
            some = ", ".join(column.name for column in columns[:8]) + (
                ", ..." if len(columns) > 8 else ""
            )
            raise InputError(f"This release has no feature called {name!r}. It has: {some}")
        places += found
    if len(set(places)) != len(places):
        raise InputError("A feature is named twice.")
    return np.array(places, dtype=np.intp)


def other_features(columns: Sequence[EncodedColumn], targets: Places) -> Places:
    """Places of all features that do not come from the same table column as a target."""
    sources = {columns[place].source for place in targets}
    kept = [i for i, column in enumerate(columns) if column.source not in sources]
    return np.array(kept, dtype=np.intp)


def source_names(columns: Sequence[EncodedColumn]) -> list[str]:
    """Table columns that the features come from, in order."""
    return list(dict.fromkeys(column.source for column in columns))


def count_empty_directions(columns: Sequence[EncodedColumn], places: Places) -> int:
    """How many directions of the chosen features the encoding itself leaves without variance.

    The indicators of a column's categories sum to one, unless a row has none of them.
    """
    chosen = {columns[place].name for place in places}
    categorical = [column for column in columns if column.kind == "category"]
    whole = {column.source for column in categorical}
    return len(whole - {column.source for column in categorical if column.name not in chosen})


def are_named(columns: Sequence[EncodedColumn]) -> bool:
    """Whether the table's columns had names of their own, unlike those of an array."""
    return any(not (c.source.startswith("x") and c.source[1:].isdigit()) for c in columns)


def is_plain(columns: Sequence[EncodedColumn]) -> bool:
    """Whether every feature is a table column of numbers as it stands."""
    return all(c.kind in ("numeric", "boolean") and c.name == c.source for c in columns)


def feature_matrix(estimator: Any, columns: Sequence[EncodedColumn], X: Any) -> Array:
    """New rows as features in original units, shape (n_rows, n_features); missing numbers become the center.

    Parameters
    ----------
    estimator : estimator
        With ``n_features_in_``, and ``feature_names_in_`` where the columns have names.
    columns : sequence of EncodedColumn
        What the estimator works with.
    X : data frame with the table's columns, or array
        An array has one column for each table column if all are numbers, otherwise one for each encoded feature.
    """
    centers = np.array([column.center for column in columns])
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if is_plain(columns):
        numbers = validate_data(
            estimator, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return np.asarray(np.where(np.isnan(numbers), centers, numbers))
    if isinstance(frame, nw.DataFrame):
        cells = {name: _source(frame, name) for name in source_names(columns)}
        return np.column_stack([_feature(cells[column.source], column) for column in columns])
    encoded = np.asarray(X, dtype=np.float64)
    if encoded.ndim != 2 or encoded.shape[1] != len(columns):
        raise InputError(
            f"Give a data frame with the columns {', '.join(source_names(columns))}, or an array of "
            f"{len(columns)} encoded features as in get_encoded_names()."
        )
    return np.asarray(np.where(np.isnan(encoded), centers, encoded))


def _source(frame: "nw.DataFrame[Any]", name: str) -> NDArray[Any]:
    """One table column of a data frame; text without the blanks around it, which a schema ignores too."""
    if name not in frame.columns:
        raise InputError(f"The data frame has no column {name!r}.")
    cells = frame[name].to_numpy()
    if cells.dtype.kind in "biuf":
        return np.asarray(cells)
    return np.array(
        [cell.strip() if isinstance(cell, str) else cell for cell in cells], dtype=object
    )


def _feature(cells: NDArray[Any], column: EncodedColumn) -> Array:
    """One encoded feature, in original units."""
    if column.kind == "category":
        texts = cells if cells.dtype.kind == "O" else cells.astype(str)
        return np.asarray(texts == column.name.removeprefix(f"{column.source}="), dtype=np.float64)
    if cells.dtype.kind in "biu" and column.kind != "missing":
        return cells.astype(np.float64)
    missing = np.array([cell is None or cell != cell for cell in cells], dtype=bool)
    if column.kind == "missing":
        return missing.astype(np.float64)
    numbers = np.where(missing, column.center, cells)
    try:
        return numbers.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"The column {column.name!r} holds something that is no number.") from None
