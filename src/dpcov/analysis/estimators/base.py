"""What all estimators share: two doors, one right to spend, and pickles that hold the release alone.

Contract: ``from_release`` and ``fit(release)`` cost nothing and may be repeated.  ``fit(rows)`` makes one
release, charges once, and refuses to do so again; clones of this estimator may not spend at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin

from dpcov.analysis.estimators.fit_rows import (
    REFUSED_EARLY,
    Bounds,
    LedgerLike,
    SchemaLike,
    Terms,
    make_release,
    table_of,
)
from dpcov.analysis.estimators.spending import Spending
from dpcov.analysis.features import (
    Places,
    are_named,
    feature_columns,
    feature_matrix,
    find_features,
    source_names,
)
from dpcov.analysis.problems import InputError, NotFitted
from dpcov.analysis.reading import Reading, reading_of
from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors
from dpcov.published.base import on_one_thread
from dpcov.published.columns import EncodedColumn
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.release import Release
from dpcov.published.statistics import Post

Array = NDArray[np.float64]


class Regressor(RegressorMixin):  # type: ignore[misc]
    """scikit-learn's mixin, typed."""


class Classifier(ClassifierMixin):  # type: ignore[misc]
    """scikit-learn's mixin, typed."""


class Transformer(TransformerMixin):  # type: ignore[misc]
    """scikit-learn's mixin, typed."""


@dataclass(eq=False, repr=False, kw_only=True)
class ReleaseEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators.

    Parameters
    ----------
    features : sequence of str, optional
        Which features of the release to use; a table column's name stands for all features made of it.
    post : Post, optional
        Post-processing of the release; by default what its mechanism is meant to be read with.
    budget : Budget, optional
        For ``fit(rows)`` only, like everything that follows: what the release may cost.  No default.
    schema : Schema or path, optional
        Public description of the table.
    bounds : pair, mapping of names to pairs, or sequence of pairs, optional
        Public bounds instead of a schema, for tables of numbers.
    neighbors : {"replace-one", "add-remove-one"}
    mechanism : str
    ledger, dataset
        Where to charge the budget.
    seed : int, optional
        For research: seeded randomness protects nobody, and the release says so.
    spend_again : bool
        Let every fit spend the budget anew, also of clones.  Off: a second fit of rows, or one by a clone, is refused
        before anything is spent.

    Attributes
    ----------
    release_ : Release
        What was read; everything else follows from it.
    n_features_in_ : int
        Number of table columns that the features come from.
    feature_names_in_ : (n_features_in_,) ndarray of str
        Their names, unless the table was a plain array.
    """

    features: Sequence[str] | None = None
    post: Post | None = None
    budget: Budget | None = None
    schema: SchemaLike | None = None
    bounds: Bounds | None = None
    neighbors: Neighbors = "replace-one"
    mechanism: str = "auto"
    ledger: LedgerLike | None = None
    dataset: str | None = None
    seed: int | None = None
    spend_again: bool = False

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """Make an estimator and read a release with it; free.

        Parameters
        ----------
        release : Release
        **parameters
            Of the estimator.
        """
        if not isinstance(release, Release):
            raise InputError("Give a release, as dpcov.load reads it from a file.")
        made = cls(**parameters)
        return made._fit_release(release, {})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read a release, or make one of rows first.

        Parameters
        ----------
        X : Release, data frame or array of shape (n_rows, n_features)
            Rows are released on the terms of this estimator's parameters, once.
        y : array of shape (n_rows,) or (n_rows, n_targets), optional
            Target of regressors and classifiers; ignored by the others.

        Raises
        ------
        SpentError
            If this estimator has spent its budget, or is a clone or a copy of another.
        """
        if isinstance(X, Release):
            return self._fit_release(X, {})
        terms, table, facts = self._second_door(X, y)
        return self._fit_release(self._spend(terms, table), facts)

    def _second_door(self, X: Any, y: Any) -> tuple[Terms, Any, dict[str, Any]]:
        """Terms of the release, the table, and public facts to keep beside the release."""
        terms = self._terms()
        return terms, table_of(X), {}

    def _terms(self, **more: Any) -> Terms:
        terms = Terms(
            budget=self.budget,
            schema=self.schema,
            bounds=self.bounds,
            neighbors=self.neighbors,
            mechanism=self.mechanism,
            ledger=self.ledger,
            dataset=self.dataset,
            seed=self.seed,
            **more,
        )
        terms.check()
        return terms

    @on_one_thread
    def conf_int(self, level: float = 0.95, **options: Any) -> Any:
        """Intervals for what was estimated, from the law of the noise (:mod:`dpcov.analysis.intervals.inference`).

        Regressions: intercept and coefficients at the penalty in use, a list of tables if there are several targets.
        ``PrivatePCA``: eigenvalues.  ``PrivateCorrelation``: correlations.  ``PrivateCovariance``: variances.  Other
        estimators have none.

        Parameters
        ----------
        level : float
            Of each interval on its own.
        **options
            Of the function for these intervals, such as ``sampling`` or ``tails``.

        Returns
        -------
        IntervalTable or list of IntervalTable
        """
        self._require_fitted()
        return self._intervals(level=level, **options)

    def _intervals(self, **options: Any) -> Any:
        raise InputError(f"There are no intervals for {type(self).__name__}.")

    def _spend(self, terms: Terms, table: Any) -> Release:
        if self.spend_again:
            return make_release(terms, table)
        spending = self.__dict__.setdefault("_spending", Spending())
        spending.claim(type(self).__name__)
        try:
            return make_release(terms, table)
        except REFUSED_EARLY:
            spending.give_back()
            raise
        except LedgerError as error:
            # A ledger that refuses before it reserves adds no note on what is spent.
            if not getattr(error, "__notes__", ()):
                spending.give_back()
            raise

    def _fit_release(self, release: Release, facts: dict[str, Any]) -> Self:
        columns = feature_columns(release)
        self._facts = facts
        self._places = self._chosen(release, columns)
        self.release_ = release
        self._set_names([columns[place] for place in self._places])
        with one_thread(len(release.manifest.columns)):
            self._read(release)
        return self

    def _set_names(self, columns: Sequence[EncodedColumn]) -> None:
        self.n_features_in_ = len(source_names(columns))
        if are_named(columns):
            self.feature_names_in_ = np.array(source_names(columns), dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _chosen(self, release: Release, columns: Sequence[EncodedColumn]) -> Places:
        """Places of the features to use."""
        if self.features is None:
            return np.arange(len(columns), dtype=np.intp)
        return find_features(columns, self.features)

    def _read(self, release: Release) -> None:
        """Compute the fitted attributes."""
        raise NotImplementedError

    def _reading(self, assume_centered: bool = False) -> Reading:
        return reading_of(self.release_, self._places, self.post, assume_centered)

    def _columns(self) -> tuple[EncodedColumn, ...]:
        self._require_fitted()
        columns = feature_columns(self.release_)
        return tuple(columns[place] for place in self._places)

    def _features_of(self, X: Any) -> Array:
        """New rows as features in original units."""
        self._require_fitted()
        return feature_matrix(self, self._columns(), X)

    def _require_fitted(self) -> None:
        if not hasattr(self, "release_"):
            raise NotFitted(
                f"This {type(self).__name__} instance is not fitted yet. Call from_release(release), or fit first."
            )

    def get_encoded_names(self) -> NDArray[np.object_]:
        """Names of the encoded features: what coefficients and matrices belong to, in order."""
        return np.array([column.name for column in self._columns()], dtype=object)

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone._spending = Spending("cloned")
        return clone

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(field.name for field in fields(cls))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"parameters": self.get_params(deep=False)}
        if hasattr(self, "release_"):
            parts = (self.release_.manifest, dict(self.release_.statistics.arrays))
            state |= {"release": parts, "facts": self._facts}
        kept = {"_sklearn_output_config", "_metadata_request"}
        return state | {
            "settings": {key: self.__dict__[key] for key in kept if key in self.__dict__}
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["parameters"])  # type: ignore[misc]
        self.__dict__.update(state["settings"])
        self._spending = Spending("copied")
        if "release" in state:
            self._fit_release(Release(*state["release"]), state["facts"])


def require_numbers(name: str, value: Any, smallest: float, *, below: float = np.inf) -> float:
    """Check a numeric parameter."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError(f"{name} must be a number.")
    if not smallest <= value < below:
        raise InputError(
            f"{name} must be at least {smallest}"
            + (f" and below {below}." if below < np.inf else ".")
        )
    return float(value)
