"""The release: noisy statistics, their noise law, the guarantee and where it all came from.

Promise: everything here is public.  Estimates are computed when they are read, deterministically, and may be
recomputed with other choices any day at no privacy cost.
"""

from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpcov import estimate as estimation
from dpcov.artifact_file import Arrays, fingerprint, pack, unpack
from dpcov.errors import ReleaseError
from dpcov.estimate import Post, UnitEstimate
from dpcov.manifest import Manifest, read_guarantee
from dpcov.output import write_file
from dpcov.privacy.guarantee import Guarantee
from dpcov.statistics import NoisyStatistics

Array = NDArray[np.float64]


class Release:
    """A published private second moment matrix.

    Made by :func:`dpcov.release` or :func:`dpcov.second_moment`, read back by :func:`dpcov.load`.

    Attributes
    ----------
    manifest : Manifest
        Public record: mechanism, guarantee, columns, noise law, versions.
    guarantee : Guarantee
        What is promised to each person in the table.
    feature_names : tuple of str
        Names of the encoded features, without the intercept.
    """

    def __init__(self, manifest: Manifest, arrays: Arrays) -> None:
        self.manifest = manifest
        self.guarantee: Guarantee = read_guarantee(manifest.guarantee)
        self.statistics = NoisyStatistics(
            layout=manifest.statistics.layout,
            arrays=arrays,
            lattice_bits=manifest.statistics.lattice_bits,
            dropped_bits=manifest.statistics.dropped_bits,
            noise=manifest.statistics.noise,
            notes=manifest.statistics.notes,
        )
        self._check()

    def _check(self) -> None:
        arrays = self.statistics.arrays
        name = "sscp" if self.statistics.layout == "sscp" else "second_moment"
        d = len(self.manifest.columns)
        if name not in arrays or arrays[name].shape != (d, d):
            raise ReleaseError("The release's matrix does not match its list of columns; get a fresh copy.")
        if self.manifest.n_rows is None and "row_count" not in arrays and self.statistics.layout == "sscp":
            raise ReleaseError("The release holds no number of rows; get a fresh copy.")

    def __repr__(self) -> str:
        return (
            f"Release({self.manifest.mechanism.name}, {len(self.feature_names)} features, "
            f"{self.guarantee.promise}, {self.fingerprint[:12]})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, which covers every array: publish it beside the file."""
        return fingerprint(self.manifest)

    @property
    def has_intercept(self) -> bool:
        """Whether means, and so a centered covariance, can be computed."""
        return self.manifest.columns[0].kind == "intercept"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, without the intercept."""
        return tuple(column.name for column in self.manifest.columns if column.kind != "intercept")

    @property
    def is_private(self) -> bool:
        """False when the randomness was seeded for research: such a release protects nobody."""
        return not any("not private" in warning for warning in self.manifest.warnings)

    @property
    def n_rows(self) -> float:
        """Public number of rows, or its private estimate under add-remove-one."""
        return self._unit.n_rows

    @cached_property
    def _unit(self) -> UnitEstimate:
        return estimation.unit_estimate(self.statistics, self.manifest.n_rows)

    def second_moment(self, post: Post = "psd") -> Array:
        """Estimate of E[x x'] in encoded units, intercept included if there is one.

        Parameters
        ----------
        post : {"psd", "none", "clip", "projection"}
            Post-processing.

        Returns
        -------
        (d, d) float64
        """
        bound = self.manifest.norm_bound**2
        return estimation.post_process(self._unit.matrix, post, 1.0) * bound

    @cached_property
    def _centered(self) -> tuple[Array, Array]:
        if not self.has_intercept:
            raise ReleaseError(
                "This release has no intercept, so means are unknown. Use second_moment(), or release again with "
                "intercept = true."
            )
        return estimation.centered(self._unit, self._public_intercept())

    def _public_intercept(self) -> float | None:
        """Second moment of the intercept coordinate, where the schema fixes it."""
        if not self.manifest.intercept_is_public:
            return None
        return float(1.0 / self.manifest.norm_bound**2)

    def mean(self) -> Array:
        """Estimated means of the features, in original units."""
        return self._centers + self._half_ranges * self._centered[0]

    def covariance(self, post: Post = "psd") -> Array:
        """Estimated covariance (centered, divided by n) of the features, in original units.

        Post-processing happens in encoded units, where all bounded columns have comparable scale.
        """
        raw = self._centered[1]
        bound = max(0.0, float(np.trace(raw))) if post == "projection" else float(len(raw))
        scale = self._half_ranges
        return estimation.post_process(raw, post, bound) * np.outer(scale, scale)

    def correlation(self, post: Post = "psd") -> Array:
        """Estimated correlation matrix; NaN where a variance is estimated as zero."""
        covariance = self.covariance(post)
        variances = np.diagonal(covariance)
        deviations = np.sqrt(np.where(variances > 0, variances, np.nan))
        correlation: Array = covariance / np.outer(deviations, deviations)
        return correlation

    def expected_error(self) -> float | None:
        """Root mean squared Frobenius error of ``second_moment("none")`` caused by the noise, encoded units."""
        variance = self._unit.noise_variance
        if variance is None:
            return None
        d = len(self.manifest.columns)
        return sqrt(variance * d * (d + 1) / 2) * self.manifest.norm_bound**2

    @property
    def _centers(self) -> Array:
        return np.array([c.center for c in self.manifest.columns if c.kind != "intercept"])

    @property
    def _half_ranges(self) -> Array:
        return np.array([c.half_range for c in self.manifest.columns if c.kind != "intercept"])

    def to_bytes(self) -> bytes:
        """Content of the release file."""
        return pack(self.manifest, dict(self.statistics.arrays))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release file, whole or not at all."""
        write_file(path, self.to_bytes(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a release file, refusing damaged, altered or unknown ones."""
        return cls(*unpack(path))

    def summary(self) -> str:
        """Plain-language account of what was released, for a data-protection officer."""
        from dpcov.summary import summarize

        return summarize(self)
