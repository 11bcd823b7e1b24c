"""Choose columns of a release, code categories for a regression, bring new rows into their shape.

Levels that hold nearly all rows are collinear beside an intercept.  So the first is the
*reference*: it has no coefficient, and the coefficients of the others are contrasts to it.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from sklearn.utils.validation import check_array, validate_data

from dpcov.analysis.problems import InputError, require_matrix
from dpcov.errors import ReleaseError, closest, few_of, warn_caller
from dpcov.published.estimate.present import MissingAs, Presence
from dpcov.published.file.columns import EncodedColumn, centers_of, given_names, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.release import Release
from dpcov.published.words.numbers import complete_columns
from dpcov.published.words.verdicts import ColumnVerdict

Columns = Sequence[EncodedColumn]

# Features that a message names.
FEATURES_NAMED = 6

WITHOUT_MEANS = (
    "nothing can be centered: release with intercept = true. Where 0 is the middle of all bounds, "
    "PrivatePCA and PrivateCovariance also take assume_centered=True, and regressions "
    "fit_intercept=False."
)
WITHOUT_UNITS = (
    "columns have no original units where 0 is not the middle of all bounds: release with "
    "intercept = true, or with bounds such as -10 and 10."
)
WITHOUT_ONE = "Name the features without one of each pair."


def require_release(release: Any) -> None:
    """Refuse what is no release."""
    if not isinstance(release, Release):
        raise InputError("Give a release, as dpcov.load reads it from a file.")


def require_intercept(release: Release) -> None:
    """Refuse a release whose means are not known, where they are needed."""
    if not release.has_intercept:
        raise ReleaseError(f"This release has no intercept, so {WITHOUT_MEANS}")


def find_features(
    columns: Columns, wanted: Iterable[str] | None, unasked: str | None = None
) -> Places:
    """Return places of features by name; a table column's name means all features made of it.

    None means all but what comes from ``unasked``.  Indicators of missing values are features only
    where they are named.  Raises InputError for a name that the release does not have.
    """
    values = [i for i, column in enumerate(columns) if column.kind != "missing"]
    if wanted is None:
        return _without({unasked}, columns)
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, Iterable) or not (names := [*names]):
        raise InputError("Name a feature, or several, such as ['age', 'dose'].")
    places: list[int] = []
    for name in names:
        exact = [i for i, column in enumerate(columns) if column.name == name]
        found = exact or [i for i in values if columns[i].source == name]
        if not found:
            some = few_of([column.name for column in columns], 8)
            known = [*(column.name for column in columns), *(column.source for column in columns)]
            close = closest(name, known)
            meant = f" Did you mean {close!r}?" if close else ""
            raise InputError(f"This release has no feature called {name!r}.{meant} It has: {some}")
        places += found
    if len(set(places)) != len(places):
        raise InputError("A feature is named twice. Name it once.")
    return np.array(places, dtype=np.intp)


def predictors(
    columns: Columns, targets: Places, wanted: Iterable[str] | None, unasked: str | None
) -> Places:
    """Return places of the wanted features, by default of all but targets' sources, ``unasked``."""
    if wanted is None:
        return _without({unasked, *(columns[place].source for place in targets)}, columns)
    chosen = find_features(columns, wanted)
    if np.intersect1d(chosen, targets).size:
        raise InputError("A target cannot be among its own features. Leave it out of one of them.")
    return chosen


def require_features(chosen: Places) -> None:
    """Refuse to predict with no feature."""
    if not len(chosen):
        raise InputError("No feature is left to predict with. Leave one out of the targets.")


def _without(sources: set[str | None], columns: Columns) -> Places:
    kept = [i for i, x in enumerate(columns) if x.source not in sources and x.kind != "missing"]
    return np.array(kept, dtype=np.intp)


def verdicts_of(release: Release, places: Places) -> list[ColumnVerdict]:
    """What is said of the features at these places."""
    chosen = {release.restored_features[place].name for place in places}
    return [column for column in release.diagnose().columns if column.name in chosen]


def count_empty_directions(columns: Columns, places: Places) -> int:
    """Count the directions of the chosen features that the encoding itself leaves empty."""
    # The indicators of a column's categories sum to one, unless a row has none of them.
    chosen = {columns[place].name for place in places}
    categorical = [column for column in columns if column.kind == "category"]
    broken = {column.source for column in categorical if column.name not in chosen}
    return len({column.source for column in categorical} - broken)


def without_references(release: Release, places: Places) -> tuple[Places, tuple[str, ...]]:
    """Leave out the references: the places that are left, and the references' names."""
    columns, chosen = release.restored_features, set(map(int, places))
    complete = complete_columns(release)
    left_out: list[int] = []
    for source in given_names(columns[place] for place in places):
        own = [i for i, column in enumerate(columns) if column.source == source]
        levels = [i for i in own if columns[i].kind == "category"]
        if source in complete and _has_all(release, chosen, levels):
            left_out += [i for i in levels if i in chosen][:1]
    kept = [place for place in places if place not in left_out]
    return np.array(kept, dtype=np.intp), tuple(columns[place].name for place in left_out)


def _has_all(release: Release, chosen: set[int], levels: Sequence[int]) -> bool:
    """Whether all levels are chosen, or all but those that the noise hides."""
    asked = [i for i in levels if i in chosen]
    if len(asked) in (1, len(levels)):
        return len(asked) == len(levels)
    names = {release.restored_features[place].name for place in asked}
    found = verdicts_of(release, np.array(levels))
    return all(each.hidden == (each.name not in names) for each in found)


class Coding(NamedTuple):
    """From p chosen features to the q directions that are fitted, and back to q coefficients.

    Orthonormal ``directions`` (q, p); coefficients as functions of b, one number for each chosen
    feature (q, p); those ``kept``, with a coefficient (q,); what of b is the intercept's (p,).
    """

    directions: Array
    contrasts: Array
    kept: Places
    reference: Array

    def functionals(self, chosen: Columns, goal: EncodedColumn) -> Array:
        """What intercept and coefficients are of those that are fitted, (1 + q, 1 + q).

        In original units of the ``chosen`` features and the ``goal``, whose center is to be added
        to the intercept.
        """
        units = half_ranges_of(chosen)
        offsets = self.reference - (centers_of(chosen) / units)[self.kept] @ self.contrasts
        slopes = self.contrasts / units[self.kept, None]
        found = goal.half_range * np.vstack([offsets, slopes]) @ self.directions.T
        return np.column_stack([goal.half_range * np.eye(len(found), 1), found])


def coding_of(columns: Columns, places: Places, references: Sequence[str]) -> Coding:
    """Code the chosen features, of which ``references`` are left out."""
    chosen = [columns[place] for place in places]
    n = len(chosen)
    directions, contrasts, reference = np.eye(n), np.eye(n), np.zeros(n)
    dropped = [i for i, column in enumerate(chosen) if column.name in references]
    for base in dropped:
        levels = [i for i, column in enumerate(chosen) if column.source == chosen[base].source]
        # Levels, each times its half range, add up to one.  The choice of the reference must not
        # change the fit: orthonormal coordinates of all other directions keep isotropic noise
        # isotropic and penalize all alike.
        half_ranges = half_ranges_of(chosen)[levels]
        basis = np.linalg.qr(np.column_stack([half_ranges, np.eye(len(levels))]))[0][:, 1:].T
        directions[np.ix_([i for i in levels if i != base], levels)] = basis
        contrasts[levels, base] -= half_ranges / chosen[base].half_range
        reference[base] = 1.0 / chosen[base].half_range
    directions, contrasts = (np.delete(each, dropped, axis=0) for each in (directions, contrasts))
    return Coding(directions, contrasts, np.delete(np.arange(n), dropped), reference)


def stand_ins(release: Release, complete: frozenset[str], missing: MissingAs) -> Array:
    """What counts where a feature is missing: its mean, or the center where the schema marks none.

    The center of levels is that of a row without any.  Where nearly every row has one, that is no
    row that the release knows, and a regression would take it for one of the reference.
    """
    columns = release.restored_features
    centers, marks = centers_of(columns), release.presence and Presence.of(columns)
    if marks is None and not complete:
        return centers
    has_mean = np.array([c.kind == "category" and c.source in complete for c in columns])
    if marks is not None:
        has_mean |= marks.indicators >= 0
    return np.where(has_mean, release.read_mean(missing), centers)


def feature_matrix(
    estimator: Any,
    release: Release,
    places: Places,
    X: Any,
    missing: MissingAs,
    *,
    extrapolates: bool,
) -> Array:
    """Return new rows as features in original units, shape (n_rows, n_features).

    Cells are read as the release read its table; for missing ones stands what `stand_ins` say.
    Values beyond the public bounds are moved to them, but for numbers if it ``extrapolates``.
    ``X`` is a data frame with the table's columns and perhaps others, or an array with one column
    for each table column if all are numbers, otherwise one for each feature.  In the place of a
    public function's values a data frame may have the column itself; an array has the values.
    """
    # It loads what handles rows, which reading a release does not need.
    from dpcov.analysis.new_rows import read_frame, read_matrix, with_functions

    columns = [release.restored_features[place] for place in places]
    names, complete = [*given_names(columns).values()], complete_columns(release)
    frame = opened(X)
    all_numbers = all(column.kind in ("numeric", "boolean") for column in columns)
    if isinstance(frame, nw.DataFrame):
        frame = _with_texts(frame, names)
        frame = with_functions(release, columns, frame)
        frame = _in_order(estimator, frame, names) if all_numbers else frame
        found = read_frame(release, columns, frame, complete)
        if all_numbers:
            terms = {"ensure_all_finite": False, "input_name": "X"}
            found = check_array(found, estimator=estimator, **terms)
    else:
        told = few_of(names, FEATURES_NAMED)
        advice = f"Give a data frame ({told}), or an array like get_encoded_names()."
        ragged = f"The rows are ragged, or a cell is no number. {advice}"
        encoded = require_matrix(X, ragged, advice)
        if all_numbers:
            terms = {"dtype": np.float64, "ensure_all_finite": False}
            encoded = validate_data(estimator, encoded, reset=False, **terms)
        if encoded.shape[1] != len(columns):
            raise InputError(advice)
        found = read_matrix(release, columns, encoded)
    lower, upper = release.bounds_of(columns).T
    free = np.array([extrapolates and column.kind == "numeric" for column in columns])
    found = np.clip(found, np.where(free, -inf, lower), np.where(free, inf, upper))
    fillers = stand_ins(release, complete, missing)[places]
    return np.asarray(np.where(np.isnan(found), fillers, found))


def require_function_values(release: Release, goals: Columns, y: Any) -> None:
    """Refuse a y whose name leaves open whether it holds a column or a public function of it.

    Functions of pandas and NumPy keep names: ``np.log1p(table["cost"])`` is called ``cost``, too.
    """
    functions = {goal.source: goal.name for goal in goals if goal.kind == "numeric"}
    functions = {source: name for source, name in functions.items() if name != source}
    if not functions:
        return
    labelled = nw.from_native(y, pass_through=True, allow_series=True)
    names = labelled.columns if isinstance(labelled, nw.DataFrame) else [getattr(y, "name", None)]
    for source in functions.keys() & set(names):
        raise InputError(
            f"y is called {source!r}, which leaves open what it holds. The target is the function "
            f"{functions[source]!r}: give its values under that name, or as an array."
        )
    values = np.asanyarray(y)
    values = values[:, None] if values.ndim == 1 else values
    lower, upper = release.bounds_of(goals).T
    is_fit = values.dtype.kind in "iuf" and values.shape[1:] == (len(goals),)
    if is_fit and np.any((values < lower) | (values > upper)):
        warn_caller(
            f"y has values beyond the bounds of {few_of([*functions.values()], FEATURES_NAMED)}. "
            "Does it hold the function's values, as predictions are? Otherwise the score is wrong.",
            UserWarning,
        )


def opened(X: Any) -> Any:
    """Return a data frame as narwhals has it, and what is none as it is."""
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError:
        raise InputError("Two columns of the data frame have one name. Rename one.") from None
    if isinstance(frame, nw.LazyFrame):
        raise InputError("Lazy frames are not taken here. Compute it first, such as X.collect().")
    return frame


def _with_texts(frame: "nw.DataFrame[Any]", names: list[str]) -> "nw.DataFrame[Any]":
    # pandas also calls columns 0, 1, ..., and a release calls them by the texts.
    texts = {name: str(name) for name in frame.columns}
    if not set(names).issubset(texts.values()):
        return frame
    if len(set(texts.values())) < len(texts):
        raise InputError("Two columns of the data frame have one name. Rename one.")
    return frame.rename(texts)


def _in_order(estimator: Any, frame: "nw.DataFrame[Any]", names: list[str]) -> "nw.DataFrame[Any]":
    # The columns of a whole table by name; otherwise scikit-learn compares names and their order.
    if set(names) < set(frame.columns):
        frame = frame.select(names)
    # It compares none where columns are called as those of arrays are, and warns of all.
    seem_named = any(is_placeholder(str(name)) for name in frame.columns)
    if not seem_named or hasattr(estimator, "feature_names_in_"):
        validate_data(estimator, frame.to_native(), reset=False, skip_check_array=True)
        # Names that are no texts are those of an array.
        return frame.rename(dict(zip(frame.columns, names, strict=True)))
    if frame.columns != names:
        raise InputError(f"Give a data frame with these columns, in this order: {names}.")
    return frame


def is_placeholder(name: str) -> bool:
    """Whether a column is called as those of an array are, which have no names: x0, x1, ..."""
    return name.startswith("x") and name[1:].isdigit()
