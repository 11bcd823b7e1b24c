"""From rows to a release in one step: the only module of the analyst's side that touches rows.

Contract: hands the rows to :func:`dpcov.release` and returns what it publishes; keeps nothing, computes
nothing from the rows, and no message contains a value of a row.  Columns, bounds and classes come from public
parameters alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from dpcov.analysis.problems import InputError, InputTypeError
from dpcov.errors import BudgetError, DataError, SchemaError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.data.schema.schema import Schema
    from dpcov.privacy.ledger.ledger import Ledger
    from dpcov.published.release import Release

    SchemaLike = Schema | str | Path
    LedgerLike = Ledger | str | Path
else:
    SchemaLike = LedgerLike = object

Array = NDArray[np.float64]

Bounds = tuple[float, float] | Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]]
"""Public bounds: one pair for every column, a pair for each name, or a pair for each column in order."""

REFUSED_EARLY: Final = (SchemaError, DataError, UsageError, BudgetError)
"""What :func:`dpcov.release` raises before it spends anything."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms a table is released: all public; see :func:`dpcov.release`."""

    budget: Budget | None
    schema: SchemaLike | None
    bounds: Bounds | None
    neighbors: Neighbors
    mechanism: str
    ledger: LedgerLike | None
    dataset: str | None
    seed: int | None
    targets: tuple[str, ...] = ()
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
    from dpcov.pipeline.table import release

    assert terms.budget is not None
    return release(
        table,
        schema=terms.schema
        if terms.schema is not None
        else _bounded_schema(terms, table.column_names),
        budget=terms.budget,
        mechanism=terms.mechanism,
        neighbors=terms.neighbors,
        by=terms.by,
        ledger=terms.ledger,
        dataset=terms.dataset,
        entropy=None if terms.seed is None else SeededEntropy(terms.seed),
    )


def table_of(
    X: Any, y: Any = None, names: Sequence[str] = ("y",), *, as_text: bool = False
) -> "pa.Table":
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
    table = _frame_table(frame) if isinstance(frame, nw.DataFrame) else _array_table(X)
    if table.num_rows == 0:
        raise InputError("The data hold no rows.")
    if y is None:
        return table
    targets = columns_of(y)
    if len(targets) != table.num_rows:
        raise InputError("X and y have different numbers of rows.")
    for name, column in zip(
        names, (targets.astype(str) if as_text else _numbers(targets)).T, strict=True
    ):
        if name in table.column_names:
            raise InputError(
                f"X has a column called {name} already. Rename it, or leave y out and say target=..."
            )
        table = table.append_column(name, pa.array(np.ascontiguousarray(column)))
    return table


def columns_of(y: Any) -> NDArray[Any]:
    """Targets as columns, shape (n_rows, n_targets)."""
    targets = np.asarray(y)
    if targets.ndim not in (1, 2):
        raise InputError(
            f"y should be a 1d array or have a column for each target, got {targets.ndim} axes."
        )
    return targets.reshape(len(targets), -1)


def _frame_table(frame: "nw.DataFrame[Any]") -> "pa.Table":
    import pyarrow as pa

    try:
        return frame.to_arrow()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The original message quotes a cell.
        raise InputTypeError(
            "A column of the data frame mixes types. Make it all numbers or all text."
        ) from None


def _array_table(X: Any) -> "pa.Table":
    import pyarrow as pa

    return pa.table(
        {f"x{i}": np.ascontiguousarray(column) for i, column in enumerate(_numbers(X).T)}
    )


def _numbers(X: Any) -> Array:
    """Check shape and type of an array; NaN and infinity are the schema's business.

    scikit-learn's own checks would quote cells in their messages.
    """
    if issparse(X):
        raise InputTypeError(
            "Sparse data are not taken here. Use dpcov.release(...), then from_release(release)."
        )
    try:
        array = np.asarray(X)
        if np.iscomplexobj(array):
            raise InputError("Complex data not supported; give real numbers.")
        numbers = array.astype(np.float64)
    except (TypeError, OverflowError):
        raise InputTypeError(f"A cell is no number. {_CELLS}") from None
    except InputError:
        raise
    except ValueError:
        raise InputError(f"The array is ragged or a cell is no number. {_CELLS}") from None
    if numbers.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {numbers.ndim}D array instead. Reshape your data to (n_rows, n_columns)."
        )
    if numbers.shape[1] == 0:
        raise InputError(
            "Found array with 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        )
    return numbers


_CELLS = (
    "In an array every argument must be a string or a number that reads as a float; text columns need a data frame and "
    "a schema with their categories."
)


def _bounded_schema(terms: Terms, names: Sequence[str]) -> "Schema":
    """A schema of numbers with the stated bounds, and of the class column if there is one."""
    from dpcov.data.schema.declared import Categorical, Declared, Numeric
    from dpcov.data.schema.schema import Schema

    columns: dict[str, Declared] = {}
    features = [name for name in names if name not in terms.targets and name != terms.by]
    for group, bounds in ((features, terms.bounds), (terms.targets, terms.target_bounds)):
        for name, (lower, upper) in zip(group, _pairs(bounds, group), strict=True):
            columns[name] = Numeric(lower=lower, upper=upper)
    if terms.by is not None:
        columns[terms.by] = Categorical(categories=terms.classes)
    return Schema(columns={name: columns[name] for name in names})


def _pairs(bounds: Bounds | None, names: Sequence[str]) -> list[tuple[float, float]]:
    """One pair of bounds for each name."""
    if not names:
        return []
    if bounds is None:
        raise InputError(
            "Give target_bounds=(lower, upper), what is publicly known about the target."
        )
    if isinstance(bounds, Mapping):
        unknown = [name for name in names if name not in bounds]
        if unknown:
            raise InputError(f"bounds says nothing of these columns: {', '.join(unknown)}.")
        return [_pair(bounds[name]) for name in names]
    listed = list(bounds)
    if len(listed) == 2 and not any(isinstance(entry, Sequence) for entry in listed):
        return [_pair(listed)] * len(names)
    if len(listed) != len(names):
        raise InputError(f"bounds holds {len(listed)} pairs for {len(names)} columns.")
    return [_pair(entry) for entry in listed]


def _pair(entry: Any) -> tuple[float, float]:
    try:
        lower, upper = (float(value) for value in entry)
    except (TypeError, ValueError):
        raise InputError("Bounds are pairs of numbers (lower, upper).") from None
    return lower, upper
