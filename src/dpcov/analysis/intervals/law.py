"""The second moments that inference starts from, and the law of everything random in them.

Contract: a release alone, before post-processing, in encoded units (intercept 1); a release without a
published law of its noise is refused.

Notes
-----
The noise W on the moments has independent off-diagonal entries of variance v, uncorrelated with its diagonal, whose
covariance matrix is D: diag(2v) for isotropic Gaussian noise; 2v (I - 11'/(d + 1)) once a noisy trace of the same
variance is merged into it; u on and u - 2v off the diagonal for any other law that no rotation changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.analysis.features import Places, feature_columns
from dpcov.analysis.problems import InputError, UnknownNoiseError
from dpcov.errors import ReleaseError
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import moment_noise
from dpcov.published.estimate.unit import unit_estimate
from dpcov.published.linalg.project import project_psd
from dpcov.published.release import Release

Array = NDArray[np.float64]

Tails = Literal["moments", "bounded"]
"""What stands in for fourth moments, which no release has: a law that fits a column's mean, variance and public bounds,
never with lighter tails than the normal law; or the worst law within the bounds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentLaw:
    """Noisy moments of encoded rows, with the law of the noise.

    Parameters
    ----------
    moment : (d, d) float64
        Unbiased estimate of E[zz'], up to a common factor that is 1 apart from the noise.
    n_rows : float
    off_diagonal : float
        Variance v of the noise on off-diagonal entries.
    diagonal : (d, d) float64
        Covariance D of the noise on the diagonal.
    columns : tuple of EncodedColumn
        One for each row of ``moment``.
    is_normal : bool
        Whether the noise is Gaussian.
    sampling : bool
        Whether rows are a sample; otherwise the table itself is what is estimated.
    """

    moment: Array
    n_rows: float
    off_diagonal: float
    diagonal: Array
    columns: tuple[EncodedColumn, ...]
    is_normal: bool = True
    sampling: bool = True

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is the intercept."""
        return self.columns[0].kind == "intercept"

    @property
    def sampling_factor(self) -> float:
        """Variance of a mean over rows, relative to that of one row."""
        return 1.0 / max(1.0, self.n_rows) if self.sampling else 0.0

    @cached_property
    def plausible(self) -> Array:
        """The nearest positive semidefinite moment: what sampling variances are computed from."""
        return project_psd(self.moment)

    @property
    def means(self) -> Array:
        """Encoded means, the intercept's own included, within the public bounds; shape (d,)."""
        lower, upper = public_range(self.columns)
        return np.asarray(np.clip(self.moment[0] / self.count, lower, upper))

    @property
    def count(self) -> float:
        """Moment of the intercept: 1, or a private number near it."""
        if not self.moment[0, 0] > 4 * sqrt(self.diagonal[0, 0]):
            raise ReleaseError(
                "The noise hides the number of rows, so means are unknown. Use more rows or budget."
            )
        return float(self.moment[0, 0])

    @cached_property
    def covariance(self) -> Array:
        """Unbiased encoded covariance, (d, d), zero for the intercept.

        The noise on two means adds v to the product of each with itself, and sampling 1/n of the covariance.
        """
        means = self.moment[0] / self.count
        raw = self.moment / self.count - np.outer(means, means)
        raw[1:, 1:] += self.off_diagonal / self.count**2 * np.eye(len(raw) - 1)
        raw[0, :] = raw[:, 0] = 0.0
        return np.asarray(raw / (1 - min(0.5, self.sampling_factor)))

    def without_noise(self) -> "MomentLaw":
        """The same taken for exact moments of a sample, as a reader who ignores the noise would."""
        return replace(self, off_diagonal=0.0, diagonal=np.zeros_like(self.diagonal))

    def privacy_form(self, a: Array) -> Array:
        """Matrix K with Var(a'Wu) = u'Ku for every u."""
        squares = np.outer(a, a)
        spread = self.off_diagonal * (float(a @ a) * np.eye(len(a)) + squares - 2 * np.diag(a**2))
        return np.asarray(spread + self.diagonal * squares)

    def privacy_covariance(self, forms: Array, places: Places | None = None) -> Array:
        """Covariances of ⟨G, W⟩ for symmetric G, (m, q, q), that live on ``places`` of W."""
        D = self.diagonal if places is None else self.diagonal[np.ix_(places, places)]
        flat, diagonals = forms.reshape(len(forms), -1), forms.diagonal(axis1=1, axis2=2)
        off = flat @ flat.T - diagonals @ diagonals.T
        return np.asarray(2 * self.off_diagonal * off + diagonals @ D @ diagonals.T)

    def draw_noise(self, draws: int, rng: np.random.Generator) -> Array:
        """Simulate Gaussian noise of this covariance, (draws, d, d)."""
        d = len(self.moment)
        normals = rng.standard_normal((draws, d, d))
        noise = sqrt(self.off_diagonal) * np.triu(normals, 1)
        noise = noise + noise.transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(self.diagonal)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        noise[:, range(d), range(d)] = normals[:, range(d), range(d)] @ root.T
        return np.asarray(noise)

    def reaches(self, level: float) -> tuple[float, float]:
        """Two-sided normal quantile, and the factor for noise variances.

        Noise that is not Gaussian is treated as wide as Laplace noise of its variance.
        """
        z = NormalDist().inv_cdf(0.5 + level / 2)
        return z, 1.0 if self.is_normal else max(1.0, (-log(1 - level) / sqrt(2) / z) ** 2)


def moment_law(release: Release, *, sampling: bool = True) -> MomentLaw:
    """Read a release.

    Raises
    ------
    UnknownNoiseError
        Where the mechanism publishes no law of its noise, or released no matrix at all.
    """
    unit = unit_estimate(release.statistics, release.manifest.n_rows)
    noise = moment_noise(unit, release.manifest)
    if noise is None:
        raise UnknownNoiseError(
            "This release does not say how its noise is distributed, so no interval can be given. Release again with a "
            "mechanism that does: gaussian, stratified, laplace or nuclear."
        )
    if release.statistics.layout == "strata" and not unit.parts:
        raise UnknownNoiseError(
            "Everything in this release drowned in noise and no matrix was released, so no interval can be given. Use "
            "more rows or a larger budget."
        )
    moment = unit.matrix * release.manifest.norm_bound**2
    diagonal = noise.between_diagonals + (noise.diagonal - noise.between_diagonals) * np.eye(
        len(moment)
    )
    if release.has_intercept and release.manifest.intercept_is_public:
        moment[0, 0] = 1.0
        diagonal[0, :] = diagonal[:, 0] = 0.0
    return MomentLaw(
        moment=moment,
        n_rows=unit.n_rows,
        off_diagonal=noise.off_diagonal,
        diagonal=diagonal,
        columns=tuple(release.manifest.columns),
        is_normal=noise.is_normal,
        sampling=sampling,
    )


def require_intercept(law: MomentLaw, what: str) -> None:
    """Refuse to center what cannot be."""
    if not law.has_intercept:
        raise ReleaseError(f"This release has no intercept, so there are no intervals for {what}.")


def require_level(level: float) -> float:
    """Check a confidence level."""
    if isinstance(level, bool) or not 0.5 <= float(level) < 1:
        raise InputError("level must be at least 0.5 and below 1, such as 0.95.")
    return float(level)


def public_range(columns: Sequence[EncodedColumn]) -> tuple[Array, Array]:
    """Lowest and highest encoded values."""
    return np.array([column.lowest for column in columns]), np.ones(len(columns))


def all_features(release: Release) -> Places:
    """Places of all features."""
    return np.arange(len(feature_columns(release)), dtype=np.intp)
