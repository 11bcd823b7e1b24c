"""What can be read from a release: estimates from its noisy statistics.

Contract: everything here is public.  Estimates are computed when they are read, deterministically,
and may be recomputed with other choices any day at no privacy cost.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, wraps
from math import sqrt
from typing import Any, ParamSpec, Self, TypeVar

import msgspec
import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.privacy.guarantee import Guarantee
from dpcov.published.checks import arrays_make_sense
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import (
    MomentNoise,
    hidden_variance,
    moment_noise,
    read_with,
)
from dpcov.published.estimate.levels import divergence, has_blocks, positive, quiet, with_known
from dpcov.published.estimate.post import Noisy, PostProcessing, find_post
from dpcov.published.estimate.unit import (
    STEP,
    UnitEstimate,
    centered,
    probes,
    unit_estimate,
    with_noise,
)
from dpcov.published.file import Arrays, fingerprint, member_record
from dpcov.published.frame import Frame
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.linalg.symmetric import Array, correlation_of
from dpcov.published.manifest import Manifest, read_guarantee
from dpcov.published.statistics import NoisyStatistics, Post, PublishedArray

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let BLAS share no small matrix while the first argument, a release or its reader, is read."""

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
        stated = msgspec.structs.asdict(manifest.statistics)
        n_groups = max(1, len(manifest.groups))
        self.statistics = NoisyStatistics(arrays=arrays, n_groups=n_groups, **stated)
        if not arrays_make_sense(manifest, self.statistics):
            raise ReleaseError(
                "The numbers of the release contradict each other; get a fresh copy."
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
    def features(self) -> tuple[EncodedColumn, ...]:
        """The encoded columns without the intercept."""
        return tuple(column for column in self.manifest.columns if column.kind != "intercept")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, without the intercept."""
        return tuple(column.name for column in self.features)

    @property
    def centers(self) -> Array:
        """Centers of the features' public bounds, shape (p,)."""
        return np.array([column.center for column in self.features])

    @property
    def half_ranges(self) -> Array:
        """Half widths of the features' public bounds, shape (p,)."""
        return np.array([column.half_range for column in self.features])

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the public groups that have a matrix each; empty without groups."""
        return self.manifest.groups

    def group(self, name: str) -> Self:
        """Read the part of one of :attr:`group_names` as a release of its own."""
        if name not in self.group_names:
            known = ", ".join(self.group_names) or "none; release again with by=COLUMN"
            raise UsageError(f"This release has no group of that name. Its groups: {known}.")
        index, arrays = self.group_names.index(name), self.statistics.arrays
        chosen = arrays["group"] == index
        kept = {"sscp", "outermost_shell", "first_shell", "last_shell"} & set(arrays)
        part: dict[str, PublishedArray] = {key: arrays[key][chosen] for key in kept}
        # All groups share one geometry.
        part |= {key: arrays[key] for key in {"linear"} & set(arrays)}
        # All groups share one noise law.
        part["trace"] = arrays["trace"].reshape(len(self.group_names), -1)[index]
        part["row_count"] = arrays["row_count"][index : index + 1]
        # The number of rows of a group is private even where that of the table is public.
        manifest = msgspec.structs.replace(
            self.manifest,
            title=f"{self.manifest.title or 'untitled table'}: {name}",
            groups=(),
            n_rows=None,
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
        return unit_estimate(self.statistics, self.manifest.n_rows)

    @cached_property
    def frame(self) -> Frame:
        """From the coordinates in which noise was added to encoded ones."""
        return Frame.of(self.statistics)

    @property
    def public_intercept(self) -> float | None:
        """Second moment of the intercept in the unit ball, where every row carries it whole."""
        return self.manifest.norm_bound**-2.0 if self.manifest.intercept_is_public else None

    @cached_property
    def _moment(self) -> Noisy:
        bound, options = min(1.0, self.statistics.radius**2), self.statistics.post_options
        return Noisy(unit=self._unit, matrix=self._unit.matrix, trace_bound=bound, options=options)

    @cached_property
    def _centered(self) -> tuple[float, Array, Array]:
        return self._centered_of(self._unit)

    def _centered_of(self, unit: UnitEstimate) -> tuple[float, Array, Array]:
        if not self.has_intercept:
            problem = (
                "This release has no intercept, so means are unknown. Use second_moment(), or "
            )
            raise ReleaseError(f"{problem}release again with intercept = true.")
        return centered(unit, self.public_intercept)

    def _covariance_of(self, unit: UnitEstimate) -> Noisy:
        intercept, _, raw = self._centered_of(unit)
        return replace(
            self._moment,
            unit=unit,
            matrix=raw,
            trace_bound=self.manifest.norm_bound**2,
            intercept=intercept,
            is_centered=any(column.lower is not None for column in self.features),
        )

    def _encoded_covariance(self, post: PostProcessing) -> Array:
        has_levels = any(column.kind in ("category", "missing") for column in self.features)
        if has_levels and post.drops_empty:
            return self._covariance_of_levels
        return self.frame.covariance(post.apply(self._covariance_of(self._unit)))

    @cached_property
    def _covariance_of_levels(self) -> Array:
        """Shrunk, block by block, with what everybody knows of levels."""
        post = find_post("shrink")

        def estimate(unit: UnitEstimate) -> tuple[Array, Array]:
            noisy = self._covariance_of(unit)
            return self.frame.covariance(noisy.matrix), self.frame.covariance(post.apply(noisy))

        noisy, found = estimate(self._unit)
        mean = self.frame.mean(self._centered[1])
        law = moment_noise(read_with(self._unit, "shrink"), self.manifest, self.frame)
        if law is not None and has_blocks(self.features):
            spread = np.diagonal(law.along(mean)[0])
            found = quiet(noisy, found, divergence(estimate, self._unit), spread, self.features)
        return positive(with_known(found, mean, self.features))

    @on_one_thread
    def second_moment(self, post: Post | None = None) -> Array:
        """Estimate of E[x x'], (d, d), in encoded units, intercept included if there is one.

        ``post`` is "none", "psd", "clip", "projection", "shrink" or "threshold", by default what
        the mechanism is meant to be read with.
        """
        return self._second_moment_of(self._unit, post or self.statistics.post)

    def _second_moment_of(self, unit: UnitEstimate, post: Post) -> Array:
        noisy = replace(self._moment, unit=unit, matrix=unit.matrix)
        matrix = self.frame.moment(find_post(post).apply(noisy), self.public_intercept)
        return matrix * self.manifest.norm_bound**2

    def noise_probes(self, post: Post | None = None) -> Iterator[tuple[Array, Array, Array]]:
        """Made-up noises N of the release's own law, and the second moments at STEP N and -STEP N.

        (d, d) each, in encoded units: what an estimate does with noise, whatever it is made by.
        """
        for seed in probes(self._unit):
            after, before = (with_noise(self._unit, step, seed) for step in (STEP, -STEP))
            raw = [self._second_moment_of(unit, "none") for unit in (after, before)]
            found = [
                self._second_moment_of(unit, post or self.statistics.post)
                for unit in (after, before)
            ]
            yield (raw[0] - raw[1]) / (2 * STEP), found[0], found[1]

    def mean_vector(self) -> Array:
        """Estimated means of the features, (p,), in original units, within the public bounds."""
        lower, upper = np.array([column.bounds for column in self.features]).T
        encoded = self.frame.mean(self._centered[1])
        return np.clip(self.centers + self.half_ranges * encoded, lower, upper)

    @on_one_thread
    def covariance_matrix(self, post: Post | None = None) -> Array:
        """Estimated covariance, (p, p), in original units."""
        # Post-processing happens in encoded units, where bounded columns have comparable scale.
        encoded = self._encoded_covariance(find_post(post or self.statistics.post))
        return encoded * np.outer(self.half_ranges, self.half_ranges)

    def correlation_matrix(self, post: Post | None = None) -> Array:
        """Estimated correlations, (p, p); NaN where a variance is zero and its noise unknown."""
        unit = read_with(self._unit, post or self.statistics.post)
        encoded = self.covariance_matrix(post) / np.outer(self.half_ranges, self.half_ranges)
        noise = moment_noise(unit, self.manifest, self.frame)
        means = (self.mean_vector() - self.centers) / self.half_ranges
        return correlation_of(encoded, least=hidden_variance(means, noise))

    @on_one_thread
    def expected_error(self, post: Post = "none") -> float | None:
        """Root mean squared Frobenius error that noise causes in the second moment, encoded units.

        Known for ``none`` and, estimated (docs/shrinkage.md), ``shrink``; an upper bound where all
        drowned (docs/strata.md); otherwise None.  The error of a noisy row count comes on top.
        """
        squared = find_post(post).squared_error(self._moment)
        if squared is None:
            return None
        # What shrinkage gains is taken to be the same share in any coordinates.
        stretched = self.frame.stretch(self.public_intercept is not None)
        return sqrt(max(0.0, squared) * stretched) * self.manifest.norm_bound**2


def noise_of(release: BaseRelease, post: Post | None = "none") -> MomentNoise | None:
    """Law of the noise on a release read with ``post`` (None: by default); None if unpublished."""
    unit = unit_estimate(release.statistics, release.manifest.n_rows)
    kept = read_with(unit, post or release.statistics.post)
    return moment_noise(kept, release.manifest, release.frame)
