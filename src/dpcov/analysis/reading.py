"""What the estimators read from a release: means, covariances and the noise in them, for chosen features.

Contract: a release alone; deterministic.  Two kinds of units: *original*, those of the table, and *encoded*,
where every column is centered and divided by its public bounds, so that columns are comparable and isotropic
noise is isotropic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcov.analysis.features import count_empty_directions, feature_columns
from dpcov.analysis.problems import warn_noise
from dpcov.errors import ReleaseError
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import (
    MomentNoise,
    bulk_edge,
    clear_of_noise,
    correlation_noise,
    largest_noise_eigenvalue,
    noise_of,
)
from dpcov.published.linalg.symmetric import compose, eigh
from dpcov.published.release import Release
from dpcov.published.statistics import Post

Array = NDArray[np.float64]
Places = NDArray[np.intp]


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
        """Means in original units, within the public bounds; zeros if not centered."""
        if not self.centered:
            return np.zeros(len(self.places))
        return self.release.mean()[self.places]

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
    def noise(self) -> MomentNoise | None:
        """The noise of the release, of those parts of it that the post-processing takes to hold rows."""
        return noise_of(self.release, self.post)

    @cached_property
    def shifts(self) -> Array:
        """Encoded values of what original units have at zero, or of the means where they are subtracted; (p,)."""
        return np.asarray(
            (self.mean - self.centers * self.release.has_intercept) / self.half_ranges
        )

    @cached_property
    def edge(self) -> float:
        """Where the noise's eigenvalues end in encoded units, but for one; zero where it is unknown."""
        return 0.0 if self.noise is None else bulk_edge(self.noise, np.ones(len(self.places)))

    def largest_noise(self, scales: Array | None = None) -> float:
        """Largest eigenvalue that noise alone would have in encoded units times ``scales``; zero where unknown."""
        scales = np.ones(len(self.places)) if scales is None else scales
        return (
            0.0 if self.noise is None else largest_noise_eigenvalue(self.noise, scales, self.shifts)
        )

    def clear_of_noise(self, scales: Array) -> float:
        """Variance from which a component in such units stands out of the noise; zero where that is unknown."""
        return 0.0 if self.noise is None else clear_of_noise(self.noise, scales, self.shifts)

    @property
    def correlation_noise(self) -> Array:
        """Standard deviation of the noise on correlations, (p, p), NaN where unknown."""
        if self.noise is None:
            return np.full((len(self.places), len(self.places)), np.nan)
        return correlation_noise(self.shifts, self.encoded_covariance, self.noise)

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
        return np.asarray(self.encoded_precision() / np.outer(self.half_ranges, self.half_ranges))

    def encoded_precision(self) -> Array:
        """The same in encoded units."""
        values, vectors = eigh(self.floored_covariance("precision_"))
        cutoff = values[-1] * len(values) * np.finfo(np.float64).eps
        inverse = np.where(values > cutoff, 1 / np.where(values > cutoff, values, 1.0), 0.0)
        return compose(inverse, vectors)


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
