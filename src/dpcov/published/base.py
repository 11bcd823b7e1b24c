"""What can be read from a release: estimates from its noisy statistics, computed when they are read.

Promise: everything here is public.  Estimates are computed when they are read, deterministically, and may be
recomputed with other choices any day at no privacy cost.
"""

from collections.abc import Callable
from functools import cached_property, wraps
from math import sqrt
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError, UsageError
from dpcov.privacy.guarantee import Guarantee
from dpcov.published.checks import arrays_make_sense, numbers_make_sense
from dpcov.published.estimate import post as estimation
from dpcov.published.estimate.centered import shrunk_covariance
from dpcov.published.estimate.post import UnitEstimate
from dpcov.published.file import Arrays, fingerprint, member_record
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.linalg.symmetric import correlation_of
from dpcov.published.manifest import Manifest, read_guarantee
from dpcov.published.statistics import NoisyStatistics, Post, PublishedArray

if TYPE_CHECKING:
    pass

Array = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let BLAS share no small matrix while a release is read: the first argument, or what it has as ``release_``."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = args[0] if args else kwargs.get("release")
        release = getattr(given, "release_", given)
        size = len(release.manifest.columns) if isinstance(release, BaseRelease) else 0
        with one_thread(size):
            return function(*args, **kwargs)

    return limited


class BaseRelease:
    """Noisy statistics, the law of their noise, the guarantee, and what is estimated from them."""

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
            n_groups=max(1, len(manifest.groups)),
            post_options=manifest.statistics.post_options,
        )
        self._check()

    def _check(self) -> None:
        if not (
            numbers_make_sense(self.manifest) and arrays_make_sense(self.manifest, self.statistics)
        ):
            raise ReleaseError(
                "The numbers in this release contradict each other; get a fresh copy."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseRelease) and self.fingerprint == other.fingerprint

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
    def group_names(self) -> tuple[str, ...]:
        """Names of the public groups that have a matrix each; empty without groups."""
        return self.manifest.groups

    def group(self, name: str) -> Self:
        """Read one group's part as a release of its own: its rows' means, covariance and (noisy) number.

        Parameters
        ----------
        name : str
            One of :attr:`group_names`.
        """
        if name not in self.group_names:
            known = ", ".join(self.group_names) or "none; release again with by=COLUMN"
            raise UsageError(f"This release has no group of that name. Its groups: {known}.")
        index, arrays = self.group_names.index(name), self.statistics.arrays
        chosen = arrays["group"] == index
        part: dict[str, PublishedArray] = {
            key: arrays[key][chosen]
            for key in ("sscp", "outermost_shell", "first_shell", "last_shell")
            if key in arrays
        }
        part["trace"] = arrays["trace"].reshape(len(self.group_names), -1)[index]
        part["row_count"] = arrays["row_count"][index : index + 1]
        manifest = msgspec.structs.replace(
            self.manifest,
            title=f"{self.manifest.title or 'untitled table'}: {name}",
            groups=(),
            n_rows=None,
            intercept_is_public=False,
            members={key: member_record(array) for key, array in part.items()},
        )
        return type(self)(manifest, part)

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

    @on_one_thread
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
        """Estimated means of the features, in original units, within the public bounds."""
        lowest = np.array([c.lowest for c in self.manifest.columns if c.kind != "intercept"])
        return self._centers + self._half_ranges * np.clip(self._centered[0], lowest, 1.0)

    @on_one_thread
    def covariance(self, post: Post | None = None) -> Array:
        """Estimated covariance (centered, divided by n) of the features, in original units.

        Post-processing happens in encoded units, where all bounded columns have comparable scale.
        """
        scale, chosen = np.outer(self._half_ranges, self._half_ranges), post or self.statistics.post
        options = self.statistics.post_options
        raw = self._centered[1]
        if chosen == "shrink":
            return shrunk_covariance(self._unit, self._public_intercept()) * scale
        if chosen == "threshold":
            intercept = self._public_intercept() or float(self._unit.matrix[0, 0])
            return estimation.thresholded(self._unit, raw, options, unit=1 / intercept) * scale
        return estimation.post_process(raw, chosen, self.manifest.norm_bound**2, options) * scale

    def correlation(self, post: Post | None = None) -> Array:
        """Estimated correlation matrix; NaN where a variance is estimated as zero."""
        return correlation_of(
            self.covariance(post) / np.outer(self._half_ranges, self._half_ranges)
        )

    @on_one_thread
    def expected_error(self, post: Post = "none") -> float | None:
        """Root mean squared Frobenius error of ``second_moment("none")`` caused by the noise, encoded units.

        With ``post="shrink"`` that of the shrunk matrix, estimated from the release itself (docs/shrinkage.md); where
        everything drowned in noise and the matrix is zero, an upper bound (docs/strata.md).  None where it is not
        known.  Under add-remove-one the error of the noisy row count comes on top.
        """
        if post == "shrink":
            return sqrt(max(0.0, self._shrunk[1])) * self.manifest.norm_bound**2
        if post != "none":
            return None
        diagonal, off_diagonal = self._unit.noise_variance, self._unit.off_diagonal_variance
        if diagonal is None or off_diagonal is None:
            return None
        d = len(self.manifest.columns)
        return sqrt(diagonal * d + off_diagonal * d * (d - 1)) * self.manifest.norm_bound**2

    @property
    def _centers(self) -> Array:
        return np.array([c.center for c in self.manifest.columns if c.kind != "intercept"])

    @property
    def _half_ranges(self) -> Array:
        return np.array([c.half_range for c in self.manifest.columns if c.kind != "intercept"])
