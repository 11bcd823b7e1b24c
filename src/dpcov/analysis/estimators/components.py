"""Give principal components of a release, with the edge of the noise marked, and factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, Literal

import numpy as np
from scipy.optimize import minimize
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dpcov.analysis.estimators.base import ReleaseEstimator, with_signs
from dpcov.analysis.features import Columns
from dpcov.analysis.intervals.eigenvalues import Scaling
from dpcov.analysis.intervals.inference import eigenvalue_intervals
from dpcov.analysis.problems import InputError, checked, require_matrix, warn_noise
from dpcov.analysis.reading import Reading
from dpcov.markup import Child, listing, shorten
from dpcov.privacy.options import Between
from dpcov.published.digits import plural
from dpcov.published.estimate.post import POSTS
from dpcov.published.linalg.symmetric import Array, correlation_of, eigenvalues, eigh, largest_eigh
from dpcov.published.plots import NAME_LENGTH, axes_or_new
from dpcov.published.release import Release

# Share of a column's variance that is its own at least: below, the likelihood may have no maximum
# (Heywood cases).
SMALLEST_UNIQUENESS = 0.005

_RANDOM_STARTS = 4

# Arrows up to which all have names; of more, those that are clear of the noise and the longest.
_NAMED = 25


class Projection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ReleaseEstimator):  # type: ignore[misc]
    """Names what ``transform`` gives."""

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False)
class PrivatePCA(Projection):
    """Principal components of a released covariance.

    Parameters
    ----------
    n_components : int, float, "noise" or None
        How many to keep; a number below 1 is a share of the variance; ``"noise"``: those above the
        noise edge; None: all.
    scaling : {"original", "encoded", "correlation"}
        Units of the columns: the table's, as in scikit-learn; half widths of the public bounds, in
        which isotropic noise is isotropic and the edge is sharp; or standard deviations.
    assume_centered : bool
        Components of the second moment instead.
    whiten : bool
        Scores have a variance of one, as in scikit-learn.  InputError where a kept component has no
        variance.  Noise makes small variances uncertain: keep those above it,
        ``n_components="noise"``.

    Attributes
    ----------
    components_ : (k, p) float64
        Unit vectors in scaled units, by decreasing variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : (k,) float64
    mean_, scale_ : (p,) float64
        A row is transformed as ``(x - mean_) / scale_ @ components_.T``, and divided by the root of
        ``explained_variance_`` to whiten it.
    noise_edge_, n_above_noise_ : float, int
        Largest variance that noise alone would show, in scaled units, 0 where it is unknown; and
        how many components, kept or not, exceed it by two standard deviations.
    scree_ : (p,) float64
        All variances.
    """

    n_components: int | float | Literal["noise"] | None = None
    scaling: Scaling = "original"
    assume_centered: bool = False
    whiten: bool = False

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        wanted = self.n_components
        if wanted is not None and not (isinstance(wanted, str) and wanted == "noise"):
            self._wanted(len(self._asked))

    def _read(self, release: Release) -> None:
        reading = self._reading(self.assume_centered)
        self.mean_ = reading.mean
        self.scale_ = self._scale(reading)
        values, vectors = eigh(reading.covariance / np.outer(self.scale_, self.scale_))
        # An unprocessed estimate may be indefinite, and its noise is to be seen as it is.
        indefinite = self.post is not None and POSTS[self.post].may_be_indefinite
        self.scree_ = values[::-1] if indefinite else np.maximum(values[::-1], 0.0)
        self.noise_edge_, level = reading.noise_levels(reading.half_ranges / self.scale_)
        self.n_above_noise_ = int(np.sum(self.scree_ > level))
        self.n_components_ = self._number()
        self.components_ = with_signs(vectors[:, ::-1].T)[: self.n_components_]
        self.explained_variance_ = self.scree_[: self.n_components_]
        total = float(np.sum(np.maximum(self.scree_, 0.0)))
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)
        positive = int(np.sum(self.explained_variance_ > 0))
        if self.whiten and positive < self.n_components_:
            raise InputError(
                f"Only the first {positive} components have a variance to divide by. Whiten those "
                f'above the noise: n_components="noise" keeps {max(1, self.n_above_noise_)}.'
            )
        chosen = self.n_components is not None or self.whiten
        if chosen and self.n_components_ > self.n_above_noise_:
            told = (
                f"{self.n_above_noise_} of {plural(self.n_components_, 'component')} can be told "
                "from the noise of the release; what others show may be noise alone."
            )
            if self.scaling == "original":
                told += (
                    " Columns of large numbers may hide others: "
                    'scaling="correlation" takes all alike.'
                )
            warn_noise(told)

    def _scale(self, reading: Reading) -> Array:
        half_ranges, variances = reading.half_ranges, np.diagonal(reading.covariance)
        # A column without variance stays at zero in any unit.
        stds = np.where(variances > 0, np.sqrt(np.maximum(variances, 0.0)), half_ranges)
        units = {"original": np.ones(len(stds)), "encoded": half_ranges, "correlation": stds}
        return units[self.scaling]

    def _number(self) -> int:
        wanted, p = self.n_components, len(self.scree_)
        if wanted is None:
            return p
        if wanted == "noise":
            return max(1, self.n_above_noise_)
        number = self._wanted(p)
        if number < 1:
            # The fewest components that reach the share.
            shares = np.cumsum(np.maximum(self.scree_, 0.0))
            return int(min(p, 1 + np.searchsorted(shares, number * shares[-1])))
        return int(number)

    def _wanted(self, p: int) -> float:
        """A number of components, or a share of the variance."""
        number: float = checked("n_components", self.n_components, float)
        if not 0 < number < 1 and (number != int(number) or not 1 <= number <= p):
            raise InputError(f"n_components must be a share below 1, or a number from 1 to {p}.")
        return number

    def _intervals(self, **options: Any) -> Any:
        options = {"scaling": self.scaling, "n_eigenvalues": self.n_components_} | options
        return eigenvalue_intervals(self.release_, list(self.get_encoded_names()), **options)

    def _findings(self) -> Child:
        pairs = zip(self.explained_variance_, self.explained_variance_ratio_, strict=True)
        rows = [
            (
                str(k),
                f"{value:.4g}",
                f"{100 * share:.1f} %",
                "yes" if k <= self.n_above_noise_ else "",
            )
            for k, (value, share) in enumerate(pairs, start=1)
        ]
        head = ("Component", "Variance", "Share", "Above the noise")
        return listing(head, rows, f"Variances in {self.scaling} units", text=(3,))

    def transform(self, X: Any) -> Array:
        """Scores of new rows on the components, (n_rows, k)."""
        features = self._features_of(X)
        scores = np.asarray((features - self.mean_) / self.scale_ @ self.components_.T)
        return scores / self._spreads()

    def inverse_transform(self, X: Any) -> Array:
        """Features with the given scores, in original units, (n_rows, p)."""
        self._require_fitted()
        wanted = f"Give rows of scores, one of every component: {self.n_components_} in a row."
        scores = require_matrix(X, wanted)
        if scores.shape[1] != self.n_components_:
            raise InputError(wanted)
        scaled = scores * self._spreads() @ self.components_
        return np.asarray(scaled * self.scale_ + self.mean_)

    def _spreads(self) -> Array:
        """What scores are divided by, (k,)."""
        return np.sqrt(self.explained_variance_) if self.whiten else np.ones(self.n_components_)

    def plot_scree(self, axes: Any = None) -> Any:
        """Draw all variances on matplotlib axes (new by default), with the noise edge marked."""
        self._require_fitted()
        axes = axes_or_new(axes, 7, 4.5)
        places = np.arange(1, len(self.scree_) + 1)
        k = self.n_above_noise_
        axes.plot(places[:k], self.scree_[:k], "o-", label="above the noise")
        axes.plot(places[k:], self.scree_[k:], ".", color="0.6", label="could be noise alone")
        if self.noise_edge_ > 0:
            axes.axhline(self.noise_edge_, linestyle="--", color="0.3", label="noise edge")
        axes.set(xlabel="component", ylabel=f"variance ({self.scaling} units)")
        smallest = 1e-9 * float(self.scree_.max(initial=1.0))
        axes.set_yscale("symlog", linthresh=max(self.noise_edge_, smallest))
        axes.legend()
        return axes

    def plot_biplot(self, components: tuple[int, int] = (1, 2), axes: Any = None) -> Any:
        """Draw the loadings of the features on two components, numbered from 1, as arrows.

        A loading is the entry of the unit vector times the component's standard deviation, in
        scaled units: a correlation with the component where ``scaling="correlation"``.  Arrows
        inside the dashed circle are gray: noise alone could make any of that length, as no
        component of noise has more than the variance of the edge.  ``axes`` is as in
        :meth:`plot_scree`.
        """
        self._require_fitted()
        kept = [place + 1 for place in range(self.n_components_)]
        if np.shape(components) != (2,) or sum(k in components for k in kept) != 2:
            if self.n_components_ < 2:
                raise InputError("A biplot needs two components. Fit with n_components=2 or more.")
            raise InputError(
                f"Choose two different components from 1 to {self.n_components_}; n_components "
                "says how many are kept."
            )
        first, second = map(int, components)
        places = [first - 1, second - 1]
        spreads = np.sqrt(np.maximum(self.explained_variance_[places], 0.0))
        loadings = self.components_[places].T * spreads
        radius = float(np.sqrt(max(self.noise_edge_, 0.0)))
        axes = axes_or_new(axes, 6.5, 6.0)
        _draw_loadings(axes, loadings, [str(name) for name in self.get_encoded_names()], radius)
        for label, place in ((axes.set_xlabel, places[0]), (axes.set_ylabel, places[1])):
            hidden = "" if place < self.n_above_noise_ else ", within the noise"
            share = 100 * self.explained_variance_ratio_[place]
            label(f"component {place + 1} ({share:.0f} % of the variance{hidden})")
        axes.set_title(f"loadings ({self.scaling} units)", fontsize="medium")
        return axes


def _draw_loadings(axes: Any, loadings: Array, names: Sequence[str], radius: float) -> None:
    """Draw ``loadings``, (p, 2), as arrows; those within ``radius`` of the origin in gray."""
    lengths = np.hypot(*loadings.T)
    reach = 1.25 * max(float(lengths.max()), radius, np.finfo(np.float64).tiny)
    named = set(np.argsort(-lengths)[:_NAMED].tolist())
    for place, (x, y) in enumerate(loadings.tolist()):
        color = "C0" if lengths[place] > radius else "0.6"
        arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
        if place in named:
            side = {"ha": "left" if x >= 0 else "right", "va": "bottom" if y >= 0 else "top"}
            name = shorten(names[place], NAME_LENGTH)
            axes.text(x, y, name, color=color, fontsize="small", parse_math=False, **side)
    if radius > 0:
        angle = np.linspace(0, 2 * np.pi, 200)
        circle = radius * np.cos(angle), radius * np.sin(angle)
        axes.plot(*circle, linestyle="--", color="0.3", linewidth=1, label="noise edge")
        axes.legend(loc="lower left", frameon=False)
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")


@dataclass(eq=False, repr=False)
class PrivateFactorAnalysis(Projection):
    """Factor analysis: covariance = loadings times loadings plus uniquenesses.

    ``n_components`` is the number of factors, k.  The likelihood may have several maxima: the best
    of several searches counts.  InputError for more factors than the correlations can tell apart.

    Attributes
    ----------
    components_ : (k, p) float64
        Loadings in original units; factors have unit variance, by decreasing strength, unrotated.
    mean_, noise_variance_ : (p,) float64
        Means and uniquenesses, in original units.
    noise_edge_ : float
        Largest variance that noise alone would show, in encoded units.
    """

    n_components: int = 1

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        self._factors(len(self._asked))

    def _factors(self, p: int) -> int:
        k: int = checked("n_components", self.n_components, Annotated[int, Between(1)])
        # Beyond that loadings and uniquenesses are more numbers than correlations (Ledermann 1937).
        most = int(p + 0.5 - sqrt(2 * p + 0.25))
        if k > most:
            can = f"no more than {most} can" if most else "three or more are needed"
            raise InputError(
                f"{plural(k, 'factor')} cannot be told from {plural(p, 'feature')}: {can}."
            )
        return k

    def _read(self, release: Release) -> None:
        reading = self._reading()
        k = self._factors(len(reading.places))
        encoded = reading.floored_covariance("factor analysis")
        self.noise_edge_, level = reading.noise_levels()
        strong = int(np.sum(eigenvalues(reading.encoded_covariance) > level))
        if strong < k:
            warn_noise(
                f"Only {plural(strong, 'direction')} can be told from the noise, fewer than "
                f"{plural(k, 'factor')}."
            )
        correlation = correlation_of(encoded, undefined=0.0)
        uniqueness = _uniqueness(correlation, k)
        variances = np.diagonal(encoded)
        deviations = np.sqrt(np.where(variances > 0, variances, 0.0)) * reading.half_ranges
        self.mean_ = reading.mean
        self.components_ = (_loadings(correlation, uniqueness, k)[0] * deviations[:, None]).T
        self.noise_variance_ = uniqueness * deviations**2

    def get_covariance(self) -> Array:
        """Return the model's covariance, (p, p) in original units."""
        self._require_fitted()
        return np.asarray(self.components_.T @ self.components_ + np.diag(self.noise_variance_))

    def transform(self, X: Any) -> Array:
        """Expected factors of new rows given the model, (n_rows, k)."""
        features, own = self._features_of(X), self.noise_variance_
        # A column without variance says nothing about the factors.
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        weighted = self.components_ * inverse
        posterior = np.eye(len(weighted)) + weighted @ self.components_.T
        return np.asarray(np.linalg.solve(posterior, weighted @ (features - self.mean_).T).T)


def _uniqueness(correlation: Array, k: int) -> Array:
    """The most likely uniquenesses: the best of searches from several starts, (p,)."""
    p, smallest = len(correlation), SMALLEST_UNIQUENESS
    values, vectors = eigh(correlation)
    # What the other features leave of each (Jöreskog 1967), a constant, and any: real tables have
    # several maxima, and one start in three ends in a lower one.
    left = 1 / np.sum(vectors**2 / np.maximum(values, smallest), axis=1)
    guesses = np.vstack([left, np.full(p, 0.5)]) * (1 - k / (2 * p))
    starts = [*guesses, *np.random.default_rng(0).uniform(0.05, 1.0, size=(_RANDOM_STARTS, p))]
    searches = [
        minimize(
            _discrepancy,
            np.log(np.clip(start, smallest, 1.0)),
            args=(correlation, k),
            jac=True,
            method="L-BFGS-B",
            bounds=[(np.log(smallest), 0.0)] * p,
            options={"maxiter": 1000},
        )
        for start in starts
    ]
    found = min((each for each in searches if np.isfinite(each.fun)), key=lambda each: each.fun)
    return np.asarray(np.exp(found.x))


# With S the correlations and Ψ the diagonal uniquenesses, the loadings of k factors that maximize
# the likelihood for given Ψ are Ψ^½ V (Θ − I)^½, from the k largest eigenvalues Θ and eigenvectors
# V of S* = Ψ^-½ S Ψ^-½ (Lawley, Maxwell 1971).
def _loadings(correlation: Array, uniqueness: Array, k: int) -> tuple[Array, Array]:
    # With these eigenvalues, decreasing.
    root = np.sqrt(uniqueness)
    system = largest_eigh(correlation / np.outer(root, root), k)
    values, vectors = system.values[::-1], system.vectors[:, ::-1]
    strengths = np.sqrt(np.maximum(values - 1.0, 0.0))
    return with_signs((root[:, None] * vectors * strengths).T).T, values


# That leaves −Σ_{j>k} (log θ_j − θ_j + 1) to be minimized over Ψ (Jöreskog 1967): the sum over all
# j, tr S* − log det S* − p, less that of the k largest.  log det S* is log det S − log det Ψ, and
# log det S does not depend on Ψ.  The derivative to log ψ_i is that of the full discrepancy,
# ((ΛΛ' + Ψ − S) / ψ)_ii.
def _discrepancy(log_uniqueness: Array, correlation: Array, k: int) -> tuple[float, Array]:
    """What is minimized, up to a number that does not depend on the uniquenesses; its slope."""
    uniqueness, variances = np.exp(log_uniqueness), np.diagonal(correlation)
    loadings, values = _loadings(correlation, uniqueness, k)
    # A direction of less variance than its uniqueness has no loading.
    explained = np.maximum(values, 1.0)
    size = np.sum(variances / uniqueness + log_uniqueness - 1.0)
    size -= np.sum(explained - np.log(explained) - 1.0)
    modeled = np.sum(loadings**2, axis=1) + uniqueness
    return float(size), (modeled - variances) / uniqueness
