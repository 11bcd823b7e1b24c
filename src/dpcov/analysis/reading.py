"""What the estimators read from a release: means, covariances and the noise in them, for chosen features.

Promise: a release alone; deterministic.  Two kinds of units: *original*, those of the table, and *encoded*, where every
column is centered and divided by its public bounds, so that columns are comparable and isotropic noise is isotropic.

Notes
-----
Noise W with variance v off the diagonal and 2v on it, scaled to HWH by half ranges h, has its largest eigenvalue near
min over r > max h² of r √(v Σ_j h_j² / (r − h_j²)), which is 2 √(dv) when all h are 1.  It follows from the Dyson
equation −1/m_i = z + v h_i² Σ_j h_j² m_j of a matrix with that variance profile, whose real solutions end at the edge
(Ajanki, Erdős, Krüger 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpcov import estimate as estimation
from dpcov.analysis.features import count_empty_directions, feature_columns
from dpcov.analysis.problems import warn_noise
from dpcov.artifact import Release
from dpcov.columns import EncodedColumn
from dpcov.errors import ReleaseError
from dpcov.linalg.symmetric import compose, eigh
from dpcov.statistics import Post

Array = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class NoiseLevel:
    """The noise on the unprocessed second moment, in encoded units.

    Parameters
    ----------
    variance : float
        Of an off-diagonal entry; a diagonal entry has twice that if the noise is isotropic.
    is_normal : bool
        Whether the noise is Gaussian.
    """

    variance: float
    is_normal: bool

    def edge(self, n_features: int) -> float:
        """Largest eigenvalue that noise alone would have, 2 sqrt(d v)."""
        return 2.0 * float(np.sqrt(self.variance * n_features))


def noise_level(release: Release) -> NoiseLevel | None:
    """The noise of a release, or None where its mechanism publishes no law of it."""
    unit = estimation.unit_estimate(release.statistics, release.manifest.n_rows)
    if unit.noise_variance is None or unit.off_diagonal_variance is None:
        return None
    variance = max(unit.off_diagonal_variance, unit.noise_variance / 2) * release.manifest.norm_bound**4
    return NoiseLevel(variance=variance, is_normal=unit.noise_is_normal)


def noise_edge(variance: float, half_ranges: Array) -> float:
    """Largest eigenvalue of noise alone after columns are scaled by ``half_ranges`` (see the module's notes)."""
    squares = half_ranges**2
    largest = float(squares.max(initial=0.0))
    if variance == 0.0 or largest == 0.0:
        return 0.0

    def candidate(log_gap: float) -> float:
        r = largest * (1 + np.exp(log_gap))
        return float(r * np.sqrt(variance * np.sum(squares / (r - squares))))

    found = minimize_scalar(candidate, bounds=(-12.0, np.log(len(squares)) + 3.0), method="bounded")
    return float(found.fun)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """Means and covariance of some features of a release.

    Parameters
    ----------
    release : Release
    places : (p,) intp
        Which features, among those of the release without the intercept.
    post : Post or None
        Post-processing; None for what the mechanism is meant to be read with.
    centered : bool
        Whether means are subtracted; a release without an intercept cannot be centered.
    """

    release: Release
    places: Places
    post: Post | None = None
    centered: bool = True

    @cached_property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """The chosen features."""
        columns = feature_columns(self.release)
        return tuple(columns[place] for place in self.places)

    @cached_property
    def half_ranges(self) -> Array:
        """Original units per encoded unit, shape (p,)."""
        return np.array([column.half_range for column in self.columns])

    @cached_property
    def centers(self) -> Array:
        """Original values that are encoded as zero, shape (p,)."""
        return np.array([column.center for column in self.columns])

    @cached_property
    def mean(self) -> Array:
        """Means in original units, moved into the public bounds; zeros if not centered."""
        if not self.centered:
            return np.zeros(len(self.places))
        mean = self.release.mean()[self.places]
        lower = np.array([0.0 if is_indicator(c) else c.center - c.half_range for c in self.columns])
        upper = np.array([1.0 if is_indicator(c) else c.center + c.half_range for c in self.columns])
        return np.asarray(np.clip(mean, lower, upper))

    @cached_property
    def covariance(self) -> Array:
        """Covariance in original units, or the uncentered second moment, shape (p, p)."""
        if self.centered:
            return self.release.covariance(self.post)[np.ix_(self.places, self.places)]
        moment = self.release.second_moment(self.post)
        to_original = original_map(self.release)[self.places]
        return np.asarray(to_original @ moment @ to_original.T)

    @cached_property
    def encoded_covariance(self) -> Array:
        """The covariance with every column divided by its half range."""
        return np.asarray(self.covariance / np.outer(self.half_ranges, self.half_ranges))

    @cached_property
    def noise(self) -> NoiseLevel | None:
        """The noise of the release."""
        return noise_level(self.release)

    @cached_property
    def edge(self) -> float:
        """Edge of the noise's eigenvalues in encoded units; zero where it is unknown."""
        return 0.0 if self.noise is None else self.noise.edge(len(self.places))

    def floored_covariance(self, what: str) -> Array:
        """Encoded covariance whose eigenvalues below the noise edge are raised to it, so that it can be inverted.

        A direction that the noise hides is given the largest variance it may well have.  Warns, naming ``what``, if
        there are such directions.
        """
        values, vectors = eigh(self.encoded_covariance)
        hidden = int(np.sum(values < self.edge))
        if hidden > count_empty_directions(feature_columns(self.release), self.places):
            warn_noise(
                f"{hidden} of {len(values)} directions lie within the noise of the release; {what} takes their "
                "variance to be that of the noise, so it is cautious about them."
            )
        return compose(np.maximum(values, self.edge), vectors)

    def precision(self) -> Array:
        """Inverse of the covariance in original units, finite whatever the noise (see `floored_covariance`)."""
        values, vectors = eigh(self.floored_covariance("precision_"))
        cutoff = values[-1] * len(values) * np.finfo(np.float64).eps
        inverse = np.where(values > cutoff, 1 / np.where(values > cutoff, values, 1.0), 0.0)
        return np.asarray(compose(inverse, vectors) / np.outer(self.half_ranges, self.half_ranges))


def is_indicator(column: EncodedColumn) -> bool:
    """Whether a feature is 0 or 1 in the table and in its encoding."""
    return column.kind in ("category", "missing")


def original_map(release: Release) -> Array:
    """Matrix that turns an encoded row, intercept included if there is one, into original units."""
    columns = feature_columns(release)
    scaled = np.diag([column.half_range for column in columns])
    if release.has_intercept:
        return np.column_stack([[column.center for column in columns], scaled])
    if any(column.center != 0.0 for column in columns):
        raise ReleaseError(
            "This release has no intercept, so its columns cannot be brought back to original units. Release again "
            "with intercept = true."
        )
    return scaled


def reading_of(
    release: Release, places: Places | Sequence[int], post: Post | None, assume_centered: bool
) -> Reading:
    """Read a release, refusing to center one without an intercept."""
    if not assume_centered and not release.has_intercept:
        raise ReleaseError(
            "This release has no intercept, so means are unknown and nothing can be centered. Say assume_centered=True "
            "(fit_intercept=False for a regression), or release again with intercept = true."
        )
    return Reading(
        release=release,
        places=np.asarray(places, dtype=np.intp),
        post=post,
        centered=not assume_centered,
    )
