"""The release: noisy statistics, their noise law, the guarantee and where it all came from.

Promise: everything here is public.  Estimates are computed when they are read, deterministically, and may be
recomputed with other choices any day at no privacy cost.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpcov import estimate as estimation
from dpcov.artifact_file import Arrays, fingerprint, pack, unpack
from dpcov.errors import ReleaseError
from dpcov.estimate import UnitEstimate
from dpcov.manifest import Manifest, read_guarantee
from dpcov.output import write_file
from dpcov.privacy.guarantee import Guarantee
from dpcov.statistics import NoiseLaw, NoisyStatistics, Post, PublishedArray

Array = NDArray[np.float64]

_MAX_BITS = 64


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
            radius=manifest.statistics.radius,
            post=manifest.statistics.post,
            noise=manifest.statistics.noise,
            notes=manifest.statistics.notes,
            post_options=manifest.statistics.post_options,
        )
        self._check()

    def _check(self) -> None:
        if not (_numbers_make_sense(self.manifest) and _arrays_make_sense(self.manifest, self.statistics)):
            raise ReleaseError("The numbers in this release contradict each other; get a fresh copy.")

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

    def second_moment(self, post: Post | None = None) -> Array:
        """Estimate of E[x x'] in encoded units, intercept included if there is one.

        Parameters
        ----------
        post : {"none", "psd", "clip", "projection", "shrink", "threshold"}, optional
            Post-processing; by default what the mechanism is meant to be read with.

        Returns
        -------
        (d, d) float64
        """
        bound, chosen = self.manifest.norm_bound**2, post or self.statistics.post
        matrix, options = self._unit.matrix, self.statistics.post_options
        if chosen == "shrink":
            return self._shrunk[0] * bound
        if chosen == "threshold":
            return estimation.thresholded(self._unit, matrix, options) * bound
        return estimation.post_process(matrix, chosen, self.statistics.radius**2, options) * bound

    @cached_property
    def _centered(self) -> tuple[Array, Array]:
        self._require_intercept()
        return estimation.centered(self._unit, self._public_intercept())

    def _require_intercept(self) -> None:
        if not self.has_intercept:
            raise ReleaseError(
                "This release has no intercept, so means are unknown. Use second_moment(), or release again with "
                "intercept = true."
            )

    @cached_property
    def _shrunk(self) -> tuple[Array, float]:
        """Optimally shrunk second moment of rows in the unit ball, and its expected squared error."""
        return estimation.shrunk(self._unit)

    def _public_intercept(self) -> float | None:
        """Second moment of the intercept coordinate, where the schema fixes it."""
        if not self.manifest.intercept_is_public:
            return None
        return float(1.0 / self.manifest.norm_bound**2)

    def mean(self) -> Array:
        """Estimated means of the features, in original units."""
        return self._centers + self._half_ranges * self._centered[0]

    def covariance(self, post: Post | None = None) -> Array:
        """Estimated covariance (centered, divided by n) of the features, in original units.

        Post-processing happens in encoded units, where all bounded columns have comparable scale.
        """
        scale, chosen = np.outer(self._half_ranges, self._half_ranges), post or self.statistics.post
        options = self.statistics.post_options
        if chosen == "shrink":
            self._require_intercept()
            return estimation.schur_complement(self._shrunk[0]) * scale
        raw = self._centered[1]
        if chosen == "threshold":
            intercept = self._public_intercept() or float(self._unit.matrix[0, 0])
            return estimation.thresholded(self._unit, raw, options, unit=1 / intercept) * scale
        return estimation.post_process(raw, chosen, self.manifest.norm_bound**2, options) * scale

    def correlation(self, post: Post | None = None) -> Array:
        """Estimated correlation matrix; NaN where a variance is estimated as zero."""
        covariance = self.covariance(post)
        variances = np.diagonal(covariance)
        deviations = np.sqrt(np.where(variances > 0, variances, np.nan))
        correlation: Array = covariance / np.outer(deviations, deviations)
        return correlation

    def expected_error(self) -> float | None:
        """Root mean squared Frobenius error of ``second_moment("none")`` caused by the noise, encoded units.

        Under add-remove-one the error of the noisy row count comes on top.
        """
        diagonal, off_diagonal = self._unit.noise_variance, self._unit.off_diagonal_variance
        if diagonal is None or off_diagonal is None:
            return None
        d = len(self.manifest.columns)
        # A merged trace of the diagonal's variance takes d / (d + 1) diagonal entries off.
        merged = self.statistics.layout == "sscp" and "trace" in self.statistics.arrays
        squared = diagonal * (d - merged * d / (d + 1)) + off_diagonal * d * (d - 1)
        return sqrt(squared) * self.manifest.norm_bound**2

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


def _numbers_make_sense(manifest: Manifest) -> bool:
    """Whether estimates can be computed at all; says nothing about who wrote the file."""
    statistics, columns = manifest.statistics, manifest.columns
    scales = (manifest.norm_bound, statistics.radius, *(column.half_range for column in columns))
    counts = (1 if manifest.n_rows is None else manifest.n_rows, manifest.guarantee.rows_per_person)
    return (
        bool(columns)
        and all(0 < scale < float("inf") for scale in scales)
        and all(0 < count < 2**63 for count in counts)
        and 0 <= statistics.lattice_bits <= _MAX_BITS
        and 0 <= statistics.dropped_bits <= _MAX_BITS
    )


def _arrays_make_sense(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    """Whether the arrays are the ones of the layout, with the shapes and the noise law they need."""
    arrays, d = statistics.arrays, len(manifest.columns)
    if statistics.layout == "estimate":
        moment = arrays.get("second_moment")
        return (
            moment is not None
            and _is_symmetric(moment, (d, d), np.float64)
            and bool(np.isfinite(moment).all())
        )
    sscp, noise = arrays.get("sscp"), statistics.noise
    if sscp is None or noise is None or not _types_fit(arrays, noise):
        return False
    if statistics.layout == "strata":
        kind = np.int64 if noise.scale is None else np.float64
        fits = _is_symmetric(sscp, (*sscp.shape[:1], d, d), kind) and _shells_fit(arrays, len(sscp))
    else:
        fits = _is_symmetric(sscp, (d, d), np.int64) and _shape_of(arrays, "trace") in (None, (1,))
    variances = (noise.diagonal_variance, noise.trace_variance or "0")
    return (
        fits
        and _shape_of(arrays, "row_count") in ((1,), None if manifest.n_rows is not None else (1,))
        and all(re.fullmatch(r"[0-9]{1,100}", variance) for variance in variances)
    )


def _types_fit(arrays: Mapping[str, PublishedArray], noise: NoiseLaw) -> bool:
    """Whether everything is integer; matrices with continuous noise, which has a scale, are finite floats."""
    real = {"sscp"} if noise.scale is not None else set()
    if any(array.dtype != (np.float64 if name in real else np.int64) for name, array in arrays.items()):
        return False
    return noise.scale is None or (
        re.fullmatch(r"[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?", noise.scale) is not None
        and float(noise.scale) > 0
        and bool(np.isfinite(arrays["sscp"]).all())
    )


def _shells_fit(arrays: Mapping[str, PublishedArray], count: int) -> bool:
    """Whether every matrix of a ``strata`` release names shells that have a trace."""
    if not _shape_of(arrays, "first_shell") == _shape_of(arrays, "last_shell") == (count,):
        return False
    first, last, shells = arrays["first_shell"], arrays["last_shell"], _shape_of(arrays, "trace") or (0,)
    return len(shells) == 1 and bool(np.all((first >= 0) & (first <= last) & (last < shells[0])))


def _shape_of(arrays: Mapping[str, PublishedArray], name: str) -> tuple[int, ...] | None:
    return arrays[name].shape if name in arrays else None


def _is_symmetric(matrix: PublishedArray, shape: tuple[int, ...], dtype: type) -> bool:
    same_kind = matrix.shape == shape and matrix.dtype == dtype
    return same_kind and np.array_equal(matrix, matrix.swapaxes(-1, -2))
