"""Fit from rows: make one release, then read it.  The only analysis module that sees a table.

It hands the rows to :func:`dpcov.release`, keeps nothing of them, and no message contains a cell.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from dpcov.analysis.features import opened
from dpcov.analysis.problems import InputError, SpentError, require_matrix
from dpcov.errors import DataError, DpcovError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors
from dpcov.published.file.statistics import Post
from dpcov.published.release import Release

if TYPE_CHECKING:
    from dpcov.data.schema.schema import Schema
    from dpcov.privacy.ledger.ledger import Ledger

# Public bounds: one pair for every column, or one for each name.
Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]

_SPENT = "This estimator has already spent its budget; fitting rows again would spend it once more."
CLONED = (
    "This estimator is a clone. Cross-validation and grid search fit many, and each fit of rows "
    "would spend the whole budget, so a clone spends none. Nothing was charged."
)
COPIED = (
    "This estimator was copied or unpickled, so it cannot know whether its original has already "
    "spent the budget. Make the release once, outside parallel jobs."
)


class Spending:
    """A right to be used once, unless there is a reason to refuse it from the start."""

    # A clone is what grid search fits, and the first clone cannot tell that more will follow.
    def __init__(self, refusal: str = "") -> None:
        self._refusal, self._lock = refusal, Lock()

    @contextmanager
    def used(self, name: str) -> Iterator[None]:
        """Use the right up, or refuse; give it back where nothing was spent."""
        # Claimed before the release is made, so that threads cannot spend twice.
        with self._lock:
            if self._refusal:
                raise SpentError(
                    f"{self._refusal} To try other settings for free, read the release that was "
                    f"made: {name}.from_release(fitted.release_, ...). To spend again on purpose, "
                    "construct a new estimator or set spend_again=True; a ledger keeps the sum."
                )
            self._refusal = _SPENT
        try:
            yield
        except BaseException as error:
            # Publishing notes what was spent.  A refusal of ours before it has no notes.
            notes = getattr(error, "__notes__", [] if isinstance(error, DpcovError) else [""])
            if all(note.startswith("No budget was spent") for note in notes):
                with self._lock:
                    self._refusal = ""
            raise


class Roles(NamedTuple):
    """Which columns of the table are targets or classes, and what is public about them."""

    targets: tuple[str, ...] = ()
    target_bounds: Bounds | None = None
    by: str | None = None
    classes: tuple[str, ...] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class Terms:
    """On which public terms rows are released: the estimators' parameters for ``fit(rows)``."""

    budget: Budget | None = None
    schema: "Schema | str | Path | None" = None
    bounds: Bounds | None = None
    neighbors: Neighbors = "replace-one"
    mechanism: str = "auto"
    ledger: "Ledger | str | Path | None" = None
    dataset: str | None = None
    seed: int | None = None

    def _require_terms(self) -> None:
        """Refuse what is missing before a row is looked at."""
        if self.budget is None:
            raise InputError(
                "Fitting rows spends a privacy budget. Give budget=dpcov.Budget(...). Reading a "
                f"release is free: {type(self).__name__}.from_release(release, ...). A pipeline "
                "takes what was read as FrozenEstimator(model), of sklearn.frozen."
            )
        if (self.schema is None) == (self.bounds is None):
            problem = "Say what is public about the columns, which is never computed from rows:"
            raise InputError(f"{problem} one of the two, schema=... or bounds=(lower, upper).")

    def _schema_of(self, table: nw.DataFrame[Any], roles: Roles) -> "Schema":
        """What is public about the table."""
        # Imported here, so that reading a release loads nothing that handles rows.
        from dpcov.data.schema.schema import Schema

        if self.schema is None:
            return self._bounded_schema(roles, [str(name) for name in table.columns])
        made = self.schema if isinstance(self.schema, Schema) else Schema.from_toml(self.schema)
        named = roles.targets if getattr(self, "target", None) is None else ()
        advice = "give its name, target=NAME" if named else "call its column so in the schema"
        for name in (*named, *filter(None, [roles.by])):
            if name not in made.columns:
                raise InputError(
                    f"The schema has no column {name}, as fit(X, y) calls y: {advice}."
                )
        return made

    def _require_noise(self, n_features: int, post: Post | None, *, stated: bool) -> None:
        """Refuse one whose noise does not suit ``post``, or has to be and is not ``stated``."""
        from dpcov.pipeline.terms import mechanism_for

        assert self.budget is not None
        chosen = mechanism_for(self.mechanism, self.budget, self.neighbors, n_features)
        if stated and not chosen.states_noise:
            raise InputError(
                f"Releases by {chosen.name} do not say how their noise is distributed, so alpha "
                "cannot be chosen. Give alpha, or another mechanism."
            )
        if post is not None and not chosen.suits(post, self.budget.promise):
            raise InputError(
                f"Releases by {chosen.name} under this budget cannot be read with post={post!r}, "
                "which needs to know noise that they do not have or state. Use post='psd', or "
                "leave it out."
            )

    def _make_release(self, table: nw.DataFrame[Any], roles: Roles, schema: "Schema") -> Release:
        """Spend the budget on one release of the table."""
        from dpcov.noise.entropy import SeededEntropy
        from dpcov.pipeline.table import release

        assert self.budget is not None
        return release(
            table,
            schema=schema,
            budget=self.budget,
            mechanism=self.mechanism,
            neighbors=self.neighbors,
            by=roles.by,
            ledger=self.ledger,
            dataset=self.dataset,
            entropy=None if self.seed is None else SeededEntropy(self.seed),
        )

    def _bounded_schema(self, roles: Roles, names: Sequence[str]) -> "Schema":
        from dpcov.data.schema.declared import Categorical, Declared, Numeric
        from dpcov.data.schema.schema import Schema

        columns: dict[str, Declared] = {}
        for name in names:
            if name == roles.by:
                columns[name] = Categorical(categories=roles.classes)
            else:
                bounds = roles.target_bounds if name in roles.targets else self.bounds
                lower, upper = _pair(bounds, name)
                columns[name] = Numeric(lower=lower, upper=upper)
        return Schema(columns=columns)


def table_of(
    X: Any, y: Any = None, names: Sequence[str] = ("y",), *, as_text: bool = False
) -> nw.DataFrame[Any]:
    """Return the columns of X (``x0``, ... for an array) and y, called ``names``, as a table.

    ``as_text`` says that y holds texts, and None where one is missing.
    """
    given = opened(X)
    frame: nw.DataFrame[Any] = given if isinstance(given, nw.DataFrame) else _frame_of(given)
    if not len(frame):
        raise InputError("The data hold no rows. Give at least one.")
    if y is None:
        return frame
    targets = columns_of(y)
    if len(targets) != len(frame):
        raise InputError("X and y have different numbers of rows. Give one y for every row.")
    targets = targets if as_text else _numbers(targets)
    kind = nw.String if as_text else nw.Float64
    for name, column in zip(names, targets.T, strict=True):
        if name in map(str, frame.columns):
            raise InputError(f"X has a column {name} already. Leave y out and say target=...")
        cells = column.tolist() if as_text else np.ascontiguousarray(column)
        frame = frame.with_columns(nw.new_series(name, cells, kind, backend=frame.implementation))
    return frame


def _frame_of(X: Any) -> nw.DataFrame[Any]:
    columns = {f"x{i}": np.ascontiguousarray(c) for i, c in enumerate(_numbers(X).T)}
    return nw.from_dict(columns, backend="pyarrow")


def columns_of(y: Any) -> NDArray[Any]:
    """Return targets as columns, shape (n_rows, n_targets)."""
    targets: NDArray[Any] = array_of(y)
    if targets.ndim not in (1, 2):
        raise InputError("y should be a 1d array or have a column for each target.")
    return targets[:, None] if targets.ndim == 1 else targets


def array_of(given: Any) -> NDArray[Any]:
    """Return an array as it is, and a list as one of objects.

    numpy finds one type for all cells of a list, so that one row would change how others are read.
    """
    if hasattr(given, "__array__"):
        return np.asanyarray(given)
    try:
        return np.array(given, dtype=object)
    except ValueError:
        raise InputError(
            "The list is ragged: its rows have different lengths. Make them equal."
        ) from None


def labels_of(y: Any, column: NDArray[Any], listed: np.dtype[Any]) -> list[str | None]:
    """Return each label of y by itself as listed ones are written, None where it is none of them.

    ``column`` is the array of y, and ``listed`` the type of the listed labels.
    """
    with suppress(TypeError, ValueError, OverflowError, DataError):
        return [_label(cell, listed) for cell in _cells(y, column)]
    # Raised after the handler has ended, whose error would stay in its context.
    raise InputError(
        "The labels in y are not of the type of the listed classes. List them as in y."
    )


def _cells(y: Any, column: NDArray[Any]) -> Iterable[Any]:
    # Imported here, so that reading a release loads nothing that handles rows.
    from dpcov.data.cells import cells_of

    if isinstance(y, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(y).ravel()
        return [None if is_hidden else cell for cell, is_hidden in zip(column, hidden, strict=True)]
    if column.dtype != np.float64 or isinstance(y, np.ndarray):
        return column
    # Libraries make double precision of all whole numbers where one is missing.
    given = nw.from_native(y, allow_series=True, pass_through=True)
    return cells_of(given[:, 0] if isinstance(given, nw.DataFrame) else given)


def _label(cell: Any, listed: np.dtype[Any]) -> str | None:
    # Imported here, so that reading a release loads nothing that handles rows.
    from dpcov.data.cells import plain_cell, truth_value_of

    if cell is np.ma.masked or plain_cell(cell) is None:
        return None
    if listed.kind in "OUS":
        return str(cell)
    if listed.kind == "b":
        number = truth_value_of(cell, "y")
        return str(number == 1) if number in (0, 1) else None
    label = np.array([cell], dtype=object).astype(listed)[0]
    # A fraction is no whole number, and a number that is rounded is not the listed one.
    return str(label) if isinstance(cell, str) or label == cell else None


def _numbers(X: Any) -> NDArray[np.float64]:
    # NaN and infinity are the schema's business.
    numbers = require_matrix(
        X if issparse(X) else array_of(X),
        "The array is ragged or a cell is no number. In an array every argument must be a string "
        "or a number that reads as a float; text needs a data frame and a schema.",
    )
    if numbers.shape[1] == 0:
        raise InputError("There are 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
    return numbers


def _pair(bounds: Bounds | None, name: str) -> tuple[float, float]:
    if bounds is None:
        raise InputError("Give target_bounds=(lower, upper): what is public about the target.")
    if isinstance(bounds, Mapping):
        if name not in bounds:
            raise InputError(f"bounds says nothing of the column {name}. Add its (lower, upper).")
        bounds = bounds[name]
    try:
        lower, upper = bounds
        return float(lower), float(upper)
    except (TypeError, ValueError):
        raise InputError("Bounds are one pair (lower, upper), or one for each name.") from None
