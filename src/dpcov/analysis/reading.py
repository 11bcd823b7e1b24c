"""Read means, covariances and their noise from a release, for chosen features.

There are two kinds of units: *original*, those of the table, and *encoded*, where every column is
centered and divided by its public bounds, so that isotropic noise is isotropic.
"""

from functools import cached_property

import numpy as np

from dpcov.analysis.features import WITHOUT_UNITS, count_empty_directions, require_intercept
from dpcov.analysis.problems import warn_noise
from dpcov.errors import ReleaseError
from dpcov.published.digits import plural
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.levels import with_psd_correlations
from dpcov.published.estimate.noise_edge import bulk_edge, noise_levels
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.columns import centers_of, half_ranges_of, of_kind
from dpcov.published.file.statistics import Post
from dpcov.published.linalg.symmetric import Array, Places, compose, eigh
from dpcov.published.reading.encoded import noise_of
from dpcov.published.release import Release


class Reading:
    """Means and covariance of the features of a release at ``places``, (p,).

    ``half_ranges`` are original units per encoded unit, ``centers`` what is encoded as zero, (p,).
    Not ``centered``, no means are subtracted.
    """

    def __init__(
        self,
        release: Release,
        places: Places,
        post: Post | None = None,
        centered: bool = True,
        missing: MissingAs = "pairwise",
    ) -> None:
        if centered:
            require_intercept(release)
        self.release, self.places, self.post, self.centered = release, places, post, centered
        self.missing = missing
        self.half_ranges = half_ranges_of(release.restored_features)[places]
        self.centers = centers_of(release.restored_features)[places]

    @cached_property
    def mean(self) -> Array:
        """Means in original units, within the public bounds; zeros if not centered."""
        return (
            self.release.read_mean(self.missing)[self.places]
            if self.centered
            else np.zeros(len(self.places))
        )

    @cached_property
    def covariance(self) -> Array:
        """Covariance in original units, or the uncentered second moment, shape (p, p)."""
        if self.centered:
            found = self.release.read_covariance(self.post, self.missing, self.places)
            found = found[np.ix_(self.places, self.places)]
            if of_kind(self.release.restored_features, "missing")[self.places].any():
                scale = np.outer(self.half_ranges, self.half_ranges)
                found = with_psd_correlations(found / scale) * scale
            return found
        to_original = original_map(self.release)[self.places]
        moment = self.release.present_moment(self.post, self.missing, self.places)
        return np.asarray(to_original @ moment @ to_original.T)

    @cached_property
    def encoded_covariance(self) -> Array:
        """The covariance with every column divided by its half range."""
        return np.asarray(self.covariance / np.outer(self.half_ranges, self.half_ranges))

    @cached_property
    def noise(self) -> MomentNoise | None:
        """Law of the noise, of those parts that the post-processing takes to hold rows."""
        found = noise_of(self.release, self.post, indicators=True)
        return None if found is None else found.on(self.places)

    @cached_property
    def shifts(self) -> Array:
        """Encoded means where they are subtracted, else the encoded original zero; (p,)."""
        shifted = self.mean - self.centers * self.release.has_intercept
        return np.asarray(shifted / self.half_ranges)

    @cached_property
    def edge(self) -> float:
        """Where eigenvalues of noise end, but for one, in encoded units times :attr:`evening`."""
        return 0.0 if self.noise is None else bulk_edge(self.noise, self.evening)

    @cached_property
    def evening(self) -> Array:
        """What makes noise about as large in all encoded features, (p,): shares that are present.

        Otherwise the noise of one that hardly any row has would hide all others.
        """
        shares = None if self.noise is None else self.noise.shares
        return np.ones(len(self.places)) if shares is None else np.diagonal(shares)

    def noise_levels(self, scales: Array | float = 1.0) -> tuple[float, float]:
        """Largest variance of noise in encoded units times scales, and clear of it, or zeros."""
        if self.noise is None:
            return 0.0, 0.0
        return noise_levels(self.noise, scales * np.ones(len(self.places)), self.shifts)

    @property
    def correlation_noise(self) -> Array:
        """Standard deviation of the noise on correlations, (p, p), NaN where unknown."""
        if self.noise is None:
            return np.full((len(self.places), len(self.places)), np.nan)
        return correlation_noise(self.shifts, self.encoded_covariance, self.noise)

    @cached_property
    def evened(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the encoded covariance in units times :attr:`evening`."""
        return eigh(self.encoded_covariance * np.outer(self.evening, self.evening))

    def floored_covariance(self, what: str) -> Array:
        """Encoded covariance with eigenvalues raised to the noise edge; warns, naming ``what``."""
        # A direction that the noise hides is given the largest variance it may well have.
        values, vectors = self.evened
        hidden = int(np.sum(values < self.edge))
        if hidden > count_empty_directions(self.release.restored_features, self.places):
            warn_noise(
                f"The noise of the release hides {hidden} of {plural(len(values), 'direction')}; "
                f"{what} cautiously takes the variance there to be that of the noise."
            )
        floored = compose(np.maximum(values, self.edge), vectors)
        return floored / np.outer(self.evening, self.evening)

    def encoded_precision(self) -> Array:
        """Inverse of the encoded covariance, finite whatever the noise."""
        values, vectors = eigh(self.floored_covariance("precision_"))
        # Without noise a constant column has no variance: the pseudo-inverse leaves it out.
        known = values > values[-1] * len(values) * np.finfo(np.float64).eps
        return compose(np.divide(1.0, values, out=np.zeros_like(values), where=known), vectors)


def half_range_map(release: Release, centered: bool) -> Array:
    """Matrix that turns an encoded row into features divided by their half ranges, (p, d).

    Centered, which needs an intercept, it leaves their centers out.
    """
    if centered:
        return np.eye(len(release.manifest.columns))[1:]
    return np.asarray(original_map(release) / half_ranges_of(release.restored_features)[:, None])


def original_map(release: Release) -> Array:
    """Matrix that turns an encoded row, intercept included if there is one, into original units."""
    columns = release.restored_features
    scaled, centers = np.diag(half_ranges_of(columns)), centers_of(columns)
    if release.has_intercept:
        return np.column_stack([centers, scaled])
    if centers.any():
        raise ReleaseError(f"This release has no intercept, so {WITHOUT_UNITS}")
    return scaled
