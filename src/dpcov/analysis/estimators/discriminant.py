"""Fit linear and quadratic discriminant analysis to a release; no class is looked up in rows.

Class means, covariances and numbers of rows come from groups, one for each class.  The linear one
also takes the levels of a column for classes, of which one matrix tells enough.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dpcov.analysis.estimators.base import ReleaseEstimator
from dpcov.analysis.estimators.fit_rows import Roles, array_of, labels_of, table_of
from dpcov.analysis.estimators.level_classes import level_classes, places_of_levels
from dpcov.analysis.features import Columns, predictors, require_features
from dpcov.analysis.problems import InputError, warn_noise
from dpcov.analysis.reading import Reading
from dpcov.errors import ReleaseError
from dpcov.published.file.columns import OTHER
from dpcov.published.linalg.symmetric import Array, compose, eigh
from dpcov.published.release import Release
from dpcov.published.words.design import design_of, weighting_of

# Rows of classes, weighted as they were, with means and covariance.
Parts = list[tuple[float, Reading]]


@dataclass(eq=False, repr=False)
class Discriminant(ClassifierMixin, ReleaseEstimator):  # type: ignore[misc]
    """What both analyses share.

    Parameters
    ----------
    classes : sequence of labels or "observed", optional
        The public list of classes, unless a schema declares them for a column ``"y"``.
        ``"observed"`` takes the labels in y, and so states that it is public which classes occur.

    Attributes
    ----------
    classes_, priors_, means_ : (n_classes,), (n_classes,) float64, (n_classes, p) float64
        Labels, shares and means.  Labels that a release gives are texts, as it calls its groups.
    """

    classes: Sequence[Any] | Literal["observed"] | None = None

    def _table(self, X: Any, y: Any) -> tuple[Any, Roles, dict[str, Any]]:
        if y is None:
            name = type(self).__name__
            raise InputError(f"{name} requires y to be passed, but the target y is None.")
        if np.iscomplexobj(array_of(y)):
            raise InputError("Complex data not supported; classes are texts or whole numbers.")
        # Whose labels are public may be typed together.
        column = _one_column(y if isinstance(self.classes, str) else array_of(y))
        labels = self._listed(column)
        if isinstance(self.classes, str):
            texts = column.astype(str).tolist()
        else:
            texts = labels_of(y, column, labels.dtype if len(labels) else np.dtype(str))
        facts = {"labels": labels} if len(labels) else {}
        roles = Roles(by="y", classes=tuple(map(str, labels)))
        return table_of(X, np.array(texts, dtype=object), as_text=True), roles, facts

    def _listed(self, y: NDArray[Any]) -> NDArray[Any]:
        # None where the schema declares them.
        if isinstance(self.classes, str) and self.classes == "observed":
            check_classification_targets(y)
            return np.unique(y)
        if self.classes is None and self.schema is None:
            raise InputError("Say which classes there may be: classes=[...], a public list.")
        if isinstance(self.classes, str) or not isinstance(self.classes, Iterable | None):
            raise InputError('classes must be a list of labels, or "observed".')
        return np.unique(np.asarray([] if self.classes is None else list(self.classes)))

    def _read(self, release: Release) -> None:
        names = [name for name in release.group_names if name != OTHER]
        if not names:
            raise ReleaseError(
                "This release has no groups. PrivateLDA takes the levels of a column for classes: "
                "target=COLUMN. Otherwise release again with by=COLUMN, that of classes."
            )
        self.classes_ = np.unique(self._facts.get("labels", np.array(names)))
        self._pooled = self._reading()
        # A schema strips the names of categories.
        found = [self._of_class(str(label).strip()) for label in self.classes_]
        self.priors_ = _shares(found)
        self.means_ = np.array([reading.mean for _, reading in found])
        if hidden := sum(reading is self._pooled for _, reading in found):
            warn_noise(
                f"The noise hides {hidden} of {len(found)} classes, which have few rows: means and "
                "covariance of all rows stand in for theirs."
            )
        self._learn(found)

    def _of_class(self, name: str) -> tuple[float, Reading]:
        part = self.release_.group(name)
        reading = Reading(part, self._places, self.post, missing=self.missing)
        try:
            # Computed once, here: the noise may hide how many rows a class has, and so its mean.
            _ = reading.mean
        except ReleaseError:
            reading = self._pooled
        # A noisy number of rows may be negative.
        n_rows = max(part.n_rows, 1.0)
        if weighting_of(part) is not None and part.knows_means:
            n_rows *= design_of(part).share
        return n_rows, reading

    def _learn(self, found: Parts) -> None:
        raise NotImplementedError

    # The log joint density of every class up to a common term, (n_rows, n_classes).
    def _scores(self, X: Any) -> Array:
        raise NotImplementedError

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, or of the second over the first of two."""
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable classes of new rows."""
        places = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[places])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of new rows whose class is predicted; ``y`` is read as the release read labels."""
        predicted = self.predict(X)
        if "labels" in self._facts:
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        # It loads what handles rows, which reading a release does not need.
        from dpcov.analysis.new_rows import read_labels

        labels = read_labels(self.release_, _one_column(y).tolist(), getattr(self, "target", None))
        return float(accuracy_score(labels, predicted, sample_weight=sample_weight))

    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes, (n_rows, n_classes)."""
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n_rows, n_classes)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))


@dataclass(eq=False, repr=False)
class PrivateLDA(Discriminant):
    """Linear discriminant analysis: a :class:`Discriminant` with one covariance for all classes.

    Parameters
    ----------
    target : str, optional
        The column whose levels, or yes and no, are the classes.  Any column of any release will do;
        by default the groups of the release are the classes.

    Attributes
    ----------
    covariance_ : (p, p) float64
        Within classes; variances below half the noise edge are raised to it.
    coef_, intercept_ : (n_classes, p) and (n_classes,) float64
        One discriminant function for each class, also where there are two.
    noise_edge_ : float
        In encoded units times the share of the rows that have a value.
    """

    target: str | None = None

    def _table(self, X: Any, y: Any) -> tuple[Any, Roles, dict[str, Any]]:
        if self.target is None:
            return super()._table(X, y)
        if y is not None:
            raise InputError(
                "target= names a column of X, whose levels are the classes: give no y."
            )
        return table_of(X), Roles(), {}

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        if self.target is not None:
            if self.classes is not None:
                raise InputError("The classes are the levels of target=. Give target, or classes.")
            self._targets = places_of_levels(columns, self.target)
            self._asked = predictors(columns, self._targets, self.features, unasked)
            require_features(self._asked)

    def _read(self, release: Release) -> None:
        if self.target is None:
            super()._read(release)
            return
        pooled = self._reading()
        found = level_classes(pooled, self._targets)
        # In scikit-learn's order.
        self.classes_, order = np.unique(found.names, return_index=True)
        self.priors_ = (found.shares / found.shares.sum())[order]
        self.means_ = pooled.mean + found.apart[order]
        self.noise_edge_ = pooled.edge
        scale = np.outer(pooled.half_ranges, pooled.half_ranges)
        self._solve(pooled, (pooled.covariance - found.between) / scale)

    def _learn(self, found: Parts) -> None:
        pooled = self._unbiased(self._pooled)
        others = [self._of_class(OTHER)] if OTHER in self.release_.group_names else []
        # Noise is divided by the rows of the classes, which are fewer.
        self.noise_edge_ = pooled.edge / _shares([*found, *others])[: len(found)].sum()
        self._solve(pooled, self._within(pooled, found, others))

    def _solve(self, pooled: Reading, within: Array) -> None:
        """The scores, by the covariance within classes, (p, p), in encoded units."""
        # Half the edge is the standard deviation of the noise's eigenvalues (semicircle law).  It
        # classifies best, on images at any budget, between trusting noise and dropping directions.
        units = np.outer(pooled.evening, pooled.evening)
        values, vectors = _floored(eigh(within * units), self.noise_edge_ / 2)
        if values[-1] <= self.noise_edge_:
            warn_noise(
                "The noise hides how features vary within the classes: these are told apart by "
                "little more than the distance of their means."
            )
        scale = np.outer(pooled.half_ranges, pooled.half_ranges) / units
        self.covariance_ = compose(values, vectors) * scale
        # Scores relative to the common mean, where fewer digits cancel.
        centered = self.means_ - pooled.mean
        self.coef_ = centered @ (compose(1 / values, vectors) / scale)
        offsets = -0.5 * np.sum(self.coef_ * centered, axis=1) + np.log(self.priors_)
        self.intercept_ = offsets - self.coef_ @ pooled.mean

    def _unbiased(self, reading: Reading) -> Reading:
        # Without the bias of post-processing, where the law of the noise is known.
        if reading.post is not None or reading.noise is None:
            return reading
        return Reading(reading.release, self._places, "none", missing=self.missing)

    def _in_units_of_all(self, reading: Reading) -> Array:
        # Scaling rows down took more of some classes than of others, which have larger units.
        scale = np.outer(self._pooled.half_ranges, self._pooled.half_ranges)
        return np.asarray(self._unbiased(reading).covariance / scale)

    def _within(self, pooled: Reading, parts: Parts, others: Parts) -> Array:
        if self.release_.presence is not None:
            return self._within_present(parts)
        # Rows without a listed class spread the pooled covariance too.
        means = np.array([reading.mean for _, reading in [*parts, *others]])
        spread, shares = (means - pooled.mean) / pooled.half_ranges, _shares([*parts, *others])
        within = pooled.encoded_covariance - (spread.T * shares) @ spread
        for share, (_, reading) in zip(shares[len(parts) :], others, strict=True):
            # They may be of several classes, and vary as all do.
            if reading is not self._pooled:
                within = (within - share * self._in_units_of_all(reading)) / (1 - share)
        return np.asarray(within)

    def _within_present(self, parts: Parts) -> Array:
        # Pairs of values are over the rows that have both, of which every class has its own part.
        size = len(self._places)
        total, weights = np.zeros((size, size)), np.zeros((size, size))
        for n_rows, reading in parts:
            present = reading.release.pairwise
            shares = 1.0 if present is None else present.shares[np.ix_(*[self._places] * 2)]
            weights += n_rows * shares
            total += n_rows * shares * self._in_units_of_all(reading)
        # Of pairs that no class has enough rows of the total is zero.
        return np.asarray(total / np.where(weights > 0, weights, 1.0))

    def _scores(self, X: Any) -> Array:
        return np.asarray(self._features_of(X) @ self.coef_.T + self.intercept_)


@dataclass(eq=False, repr=False)
class PrivateQDA(Discriminant):
    """Quadratic discriminant analysis: a :class:`Discriminant` with a covariance for each class.

    Attributes
    ----------
    covariance_ : (n_classes, p, p) float64
        Variances that the noise hides are raised to the noise edge of the class.
    """

    def _learn(self, found: Parts) -> None:
        # Every class has units of its own, as scaling rows down took more of some.
        pairs = [
            (_floored(reading.evened, reading.edge), reading.half_ranges / reading.evening)
            for _, reading in found
        ]
        self.covariance_ = np.array([compose(*system) * np.outer(u, u) for system, u in pairs])
        self._roots = np.array([v / np.sqrt(values) / u[:, None] for (values, v), u in pairs])
        self._log_determinants = np.array(
            [np.sum(np.log(values * u**2)) for (values, _), u in pairs]
        )

    def _scores(self, X: Any) -> Array:
        centered = self._features_of(X) - self.means_[:, None]
        distances = np.sum((centered @ self._roots) ** 2, axis=2).T
        return np.asarray(np.log(self.priors_) - 0.5 * (self._log_determinants + distances))


def _one_column(y: Any) -> NDArray[Any]:
    with suppress(ValueError):
        return np.asarray(column_or_1d(y, warn=True))
    # The original message, which may quote labels, would stay in the context of the handler.
    raise InputError("y should be a 1d array of classes.")


def _shares(parts: Parts) -> Array:
    counts = np.array([n_rows for n_rows, _ in parts])
    return np.asarray(counts / counts.sum())


def _floored(system: tuple[Array, Array], edge: float) -> tuple[Array, Array]:
    # No eigenvalue is left below the noise edge, nor one that may be rounding.
    values, vectors = system
    rounding = max(float(values[-1]), 1.0) * len(values) * np.finfo(np.float64).eps
    return np.maximum(values, max(edge, rounding)), vectors
