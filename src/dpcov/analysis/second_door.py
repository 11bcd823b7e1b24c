"""From rows to a release in one step: the only module of the analyst's side that touches rows.

Promise: hands the rows to :func:`dpcov.release` and returns what it publishes; keeps nothing, computes nothing from
the rows, and no message contains a value of a row.  Columns, bounds and classes come from public parameters alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from dpcov.analysis.problems import InputError, InputTypeError
from dpcov.errors import BudgetError, DataError, SchemaError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.artifact import Release
    from dpcov.data.schema import Schema
    from dpcov.privacy.ledger import Ledger

Bounds = tuple[float, float] | Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]]
"""Public bounds: one pair for every column, a pair for each name, or a pair for each column in order."""

REFUSED_EARLY: Final = (SchemaError, DataError, UsageError, BudgetError)
"""What :func:`dpcov.release` raises before it spends anything."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms a table is released: all public; see :func:`dpcov.release`."""

    budget: Budget | None
    schema: "Schema | str | Path | None"
    bounds: Bounds | None
    neighbors: Neighbors
    mechanism: str
    ledger: "Ledger | str | Path | None"
    dataset: str | None
    seed: int | None
    target_bounds: Bounds | None = None
    by: str | None = None
    classes: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what is missing before a row is looked at."""
        if self.budget is None:
            raise InputError(
                "Fitting rows spends a privacy budget, which has no default. Give budget=dpcov.Budget(...), or fit a "
                "release that exists: from_release(release)."
            )
        if (self.schema is None) == (self.bounds is None):
            raise InputError(
                "Say what is publicly known about the columns: schema=..., or bounds=(lower, upper) for numbers. "
                "Bounds are never computed from the rows. Give one of the two."
            )


def make_release(terms: Terms, table: "pa.Table") -> "Release":
    """Spend the budget on one release of the table."""
    from dpcov.noise.entropy import SeededEntropy
    from dpcov.pipeline import release

    assert terms.budget is not None
    return release(
        table,
        schema=terms.schema if terms.schema is not None else _bounded_schema(terms, table.column_names),
        budget=terms.budget,
        mechanism=terms.mechanism,
        neighbors=terms.neighbors,
        by=terms.by,
        ledger=terms.ledger,
        dataset=terms.dataset,
        entropy=None if terms.seed is None else SeededEntropy(terms.seed),
    )


def table_of(X: Any, y: Any = None, names: Sequence[str] = ("y",), *, as_text: bool = False) -> "pa.Table":
    """Columns of X, and of y under the given names, as an Arrow table; values are passed on as they are.

    Parameters
    ----------
    X : data frame, Arrow table or array of shape (n_rows, n_columns)
        The columns of an array are called ``x0``, ``x1``, ...
    y : array of shape (n_rows,) or (n_rows, n_targets), optional
    names : sequence of str
        Of the columns of y.
    as_text : bool
        Whether y holds class labels, to be written as text.
    """
    import pyarrow as pa

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    table = frame.to_arrow() if isinstance(frame, nw.DataFrame) else _array_table(X)
    if y is None:
        return table
    targets = np.asarray(y)
    targets = targets.reshape(len(targets), -1)
    check_consistent_length(np.empty(table.num_rows), targets)
    for name, column in zip(names, targets.T, strict=True):
        values = pa.array(column.astype(str)) if as_text else pa.array(_numbers(column[:, None])[:, 0])
        table = table.append_column(name, values)
    return table


def _array_table(X: Any) -> "pa.Table":
    import pyarrow as pa

    columns = _numbers(X).T
    return pa.table({f"x{i}": np.ascontiguousarray(column) for i, column in enumerate(columns)})


def _numbers(X: Any) -> np.ndarray:
    """Check the shape and type of numbers; NaN and infinity are the schema's business."""
    if np.iscomplexobj(X):
        raise InputError("Complex data not supported; give real numbers.")
    try:
        return np.asarray(check_array(X, dtype=np.float64, ensure_all_finite=False))
    except (TypeError, ValueError) as error:
        if "Expected 2D" in str(error) or "minimum of" in str(error) or "Sparse" in str(error):
            raise
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        # The original message may quote a cell.
        raise kind(
            "A cell is no number; for an array the argument must be a string or a number that reads as a float. "
            "Text columns need a data frame and a schema with their categories."
        ) from None


def _bounded_schema(terms: Terms, names: Sequence[str]) -> "Schema":
    """A schema of numbers with the stated bounds, and of the class column if there is one."""
    from dpcov.data.schema import Categorical, Numeric, Schema

    columns: dict[str, Any] = {}
    targets = [name for name in names if terms.target_bounds is not None and _is_target(name)]
    features = [name for name in names if name not in targets and name != terms.by]
    for group, bounds in ((features, terms.bounds), (targets, terms.target_bounds)):
        for name, (lower, upper) in zip(group, _pairs(bounds, group), strict=True):
            columns[name] = Numeric(lower=lower, upper=upper)
    if terms.by is not None:
        columns[terms.by] = Categorical(categories=terms.classes)
    return Schema(columns={name: columns[name] for name in names})
