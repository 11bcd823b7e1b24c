"""Share what all estimators have: parameters, the way from a release or rows, pickling, a card."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_origin

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dpcov.analysis.estimators.fit_rows import CLONED, COPIED, Roles, Spending, Terms, table_of
from dpcov.analysis.features import (
    FEATURES_NAMED,
    WITHOUT_MEANS,
    WITHOUT_ONE,
    WITHOUT_UNITS,
    Columns,
    feature_matrix,
    find_features,
    is_placeholder,
    require_release,
    verdicts_of,
)
from dpcov.analysis.problems import InputError, NotFitted, checked, warn_noise
from dpcov.analysis.reading import Reading
from dpcov.errors import DpcovError, few_of
from dpcov.markup import Child, card, details, el, facts, join, name_of
from dpcov.published.digits import plural
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.columns import given_names
from dpcov.published.file.statistics import Post
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.release import Release
from dpcov.published.words.design import weights_column
from dpcov.published.words.numbers import told_of_rare_pairs
from dpcov.published.words.words import rows_in_words

Method = TypeVar("Method")

KEPT = (
    "The release was made, and its budget is spent. Read it with other settings, for free: "
    "{name}.from_release(fitted.release_, ...)."
)


class _WithOwnParameters:
    """A class method that, called on an estimator, starts from the parameters of that."""

    def __init__(self, method: Any) -> None:
        self._method = method

    def __get__(self, estimator: Any, owner: type) -> Any:
        method = self._method.__get__(None, owner)
        return method if estimator is None else partial(method, **estimator.get_params(deep=False))


def _with_own_parameters(method: Method) -> Method:
    found: Any = _WithOwnParameters(method)
    return cast("Method", found)


@dataclass(eq=False, repr=False, kw_only=True)
class ReleaseEstimator(Terms, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators, whose parameters and attributes all of them have.

    ``from_release`` and ``fit(release)`` cost nothing.  ``fit(rows)`` makes a release, once.

    Parameters
    ----------
    features : sequence of str, optional
        Features of the release to use; a table column's name means all features made of it.
    post : Post, optional
        Post-processing of the release; by default what its mechanism is meant to be read with.
    missing : {"pairwise", "at-random"}
        Moments over the values that are present, or what all rows would have if values are missing
        at random (docs/missing.md).
    budget : Budget, optional
        What the release may cost.  No default; for ``fit(rows)`` only, like all that follows.
    schema, bounds
        Public description of the table; or one pair of bounds, or a mapping of names to pairs.
    neighbors, mechanism, ledger, dataset
        As in :func:`dpcov.release`.
    seed : int, optional
        For research: seeded randomness protects nobody, and the release says so.
    spend_again : bool
        Let every fit spend the budget anew, also of clones, which is refused otherwise.

    Attributes
    ----------
    release_ : Release
        What was read; everything else follows from it.
    n_features_in_, feature_names_in_ : int, (n_features_in_,) ndarray of str
        Table columns that the features come from; no names if the table was a plain array.
    """

    features: Sequence[str] | None = None
    post: Post | None = None
    missing: MissingAs = "pairwise"
    spend_again: bool = False
    # Whether numbers of new rows count beyond their public bounds.
    _extrapolates: ClassVar[bool] = False

    @_with_own_parameters
    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """Make an estimator with ``parameters`` and read a release with it; free.

        Called on an estimator it makes another one, with its parameters where none are given.
        """
        require_release(release)
        return cls(**parameters)._fit_release(release, {})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read a release, or make one of rows first, a data frame or an array, once.

        Only regressions, with (n_rows,) or (n_rows, n_targets), and classifiers use ``y``.  Raises
        SpentError if this estimator has spent its budget, or is a clone or copy.
        """
        if isinstance(X, Release):
            return self._fit_release(X, {})
        self._require_terms()
        table, roles, facts = self._table(X, y)
        schema = self._schema_of(table, roles)
        self._facts = facts
        # What the release could not be read with is refused before it costs anything.
        columns = schema.encoded_columns
        unasked = None if schema.weights is None else schema.weights.column
        self._check(tuple(c for c in columns if c.kind != "intercept"), unasked)
        if not schema.intercept and self._centers():
            raise InputError(f"The schema has intercept = false, so {WITHOUT_MEANS}")
        if not schema.intercept and any(column.center for column in columns):
            raise InputError(f"The schema has intercept = false, so {WITHOUT_UNITS}")
        is_tuned = getattr(self, "alpha", None) == "auto"
        self._require_noise(len(columns), self.post, stated=is_tuned)
        spending = self.__dict__.setdefault("_spending", Spending())
        with nullcontext() if self.spend_again else spending.used(type(self).__name__):
            self.release_ = self._make_release(table, roles, schema)
        try:
            return self._fit_release(self.release_, facts)
        except DpcovError as error:
            error.add_note(KEPT.format(name=type(self).__name__))
            raise

    def _table(self, X: Any, y: Any) -> tuple[Any, Roles, dict[str, Any]]:
        """Return the table, its columns' roles, and public facts to keep with the release."""
        return table_of(X), Roles(), {}

    def _fit_release(self, release: Release, facts: dict[str, Any]) -> Self:
        columns = release.restored_features
        self._facts = facts
        self._check(columns, weights_column(release))
        self._places = self._chosen(release)
        self._warn_of_hidden(release)
        release.warn_of(self.missing)
        self.release_ = release
        names = given_names(self._columns()).values()
        self.n_features_in_ = len(names)
        # The columns of a plain array are called x0, x1, ...: they had no names of their own.
        if not all(map(is_placeholder, names)):
            self.feature_names_in_ = np.array([*names], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        with one_thread(len(release.manifest.columns)):
            self._read(release)
        return self

    def _warn_of_hidden(self, release: Release) -> None:
        places = np.concatenate([self._places, getattr(self, "_targets", self._places[:0])])
        found = verdicts_of(release, places)
        hidden = [column.name for column in found if column.hidden]
        if hidden:
            warn_noise(
                f"The noise hides the spread of {len(hidden)} of {plural(len(found), 'column')}: "
                f"{few_of(hidden, FEATURES_NAMED)}; release.diagnose() says why."
            )
        if rare := told_of_rare_pairs(release, places):
            warn_noise(f"{rare} They count as unrelated. {WITHOUT_ONE}")

    def _check(self, columns: Columns, unasked: str | None) -> None:
        """Find the features among these but ``unasked``, or refuse what does not fit them."""
        # A text that says no would count as a yes, also to spending again.
        for field in fields(self):
            if field.type is bool or get_origin(field.type) is Literal:
                checked(field.name, getattr(self, field.name), field.type)
        if self.post is not None:
            find_post(self.post)
        self._asked = find_features(columns, self.features, unasked)

    def _centers(self) -> bool:
        """Whether it reads means, by parameters that some estimators have."""
        return not getattr(self, "assume_centered", False) and getattr(self, "fit_intercept", True)

    def _chosen(self, release: Release) -> Places:
        return self._asked

    def _read(self, release: Release) -> None:
        raise NotImplementedError

    def _reading(self, assume_centered: bool = False) -> Reading:
        centered = not assume_centered
        return Reading(self.release_, self._places, self.post, centered, self.missing)

    @on_one_thread
    def conf_int(self, level: float = 0.95, **options: Any) -> Any:
        """Intervals for what was estimated: an IntervalTable, for several targets a list of them.

        Variances of a covariance, correlations, eigenvalues of a PCA, coefficients of a regression;
        ``options`` are those of the functions for these intervals.
        """
        self._require_fitted()
        if getattr(self, "assume_centered", False):
            raise InputError(
                "There are intervals around the means alone. Fit without assume_centered, from a "
                "release with an intercept."
            )
        return self._intervals(**{"level": level, "missing": self.missing} | options)

    def _intervals(self, **options: Any) -> Any:
        raise InputError(f"There are no intervals for {type(self).__name__}.")

    def _features_of(self, X: Any) -> Array:
        self._require_fitted()
        return feature_matrix(
            self, self.release_, self._places, X, self.missing, extrapolates=self._extrapolates
        )

    def _columns(self) -> Columns:
        self._require_fitted()
        columns = self.release_.restored_features
        return [columns[place] for place in self._places]

    # scikit-learn's own picture of an estimator has a style sheet, a script, and parameters alone.
    def _repr_html_(self) -> str:
        return estimator_card(self, self._findings() if self.__sklearn_is_fitted__() else None)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _findings(self) -> Child:
        """What was estimated, for notebooks, if it is a short table."""
        return None

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFitted(f"This {name} is not fitted yet. Call fit with a release, or rows.")

    def get_encoded_names(self) -> NDArray[np.object_]:
        """Names of the encoded features: what coefficients and matrices belong to, in order."""
        return np.array([column.name for column in self._columns()], dtype=object)

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone._spending = Spending(CLONED)
        return clone

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # A pickle holds parameters and the release alone: what is fitted is computed again from it.
    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"parameters": self.get_params(deep=False)}
        if hasattr(self, "release_"):
            parts = (self.release_.manifest, dict(self.release_.statistics.arrays))
            state |= {"release": parts, "facts": self._facts}
        kept = self.__dict__.keys() & {"_sklearn_output_config", "_metadata_request"}
        return state | {"settings": {key: self.__dict__[key] for key in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["parameters"])  # type: ignore[misc]
        self.__dict__.update(state["settings"])
        self._spending = Spending(COPIED)
        if "release" in state:
            self._fit_release(Release(*state["release"]), state["facts"])


def with_signs(vectors: Array) -> Array:
    """Make the largest entry of every row positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    return np.asarray(vectors * np.where(largest < 0, -1.0, 1.0))


_LONGEST = 120


def estimator_card(estimator: Any, found: Child) -> str:
    """Describe an estimator; ``found`` is its own table, None if it is not fitted or has none."""
    if not hasattr(estimator, "release_"):
        said = "Not fitted yet: call fit with a release, or with rows."
        return card(type(estimator).__name__, "", el("p", said), facts(_settings(estimator)))
    release = estimator.release_
    title = join("“", name_of(release.manifest.title or "untitled table"), "”")
    read: list[tuple[str, Child]] = [
        ("Read from", join(title, f", {release.guarantee.promise}, {rows_in_words(release)} rows")),
        *_settings(estimator),
    ]
    attributes = [
        f"{name} {value.shape}" if isinstance(value, np.ndarray) else name
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    ]
    made = details("Attributes", el("p", el("code", ", ".join(attributes))))
    return card(type(estimator).__name__, "", found, facts(read), made)


def _settings(estimator: Any) -> list[tuple[str, Child]]:
    # Those that differ from the defaults.  The address of a ledger may hold a password.
    plain = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    return [
        (name, el("code", name_of("given" if name == "ledger" else repr(value), _LONGEST)))
        for name, value in given.items()
        if value is not plain[name] and repr(value) != repr(plain[name])
    ]
