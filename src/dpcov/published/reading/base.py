"""What can be read from a release: estimates from its noisy statistics.

Contract: everything here is public.  Estimates are computed when they are read, deterministically,
and may be recomputed with other choices any day at no privacy cost.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import Self

import msgspec
import numpy as np

from dpcov.errors import ReleaseWarning, UsageError, warn_caller
from dpcov.published.estimate.entry_noise import hidden_variance, mean_noise
from dpcov.published.estimate.frame import Frame
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.present import (
    NEARLY_ALL,
    POOLED_MISSING,
    UNPREDICTED,
    MissingAs,
    moment_of,
)
from dpcov.published.estimate.unit import STEP, UnitEstimate, probes, with_noise
from dpcov.published.file.archive import member_records
from dpcov.published.file.columns import centers_of, half_ranges_of
from dpcov.published.file.statistics import Post, PublishedArray
from dpcov.published.linalg.symmetric import Array, Places, correlation_of
from dpcov.published.reading.combined import combined_facts
from dpcov.published.reading.encoded import EncodedRelease, noise_of
from dpcov.published.reading.rows import on_one_thread


class BaseRelease(EncodedRelease):
    """What is estimated from a release, as arrays."""

    @on_one_thread
    def second_moment(self, post: Post | None = None) -> Array:
        """Estimate of E[x x'], (d, d), in encoded units, intercept included if there is one.

        ``post`` is "none", "psd", "clip", "projection", "shrink" or "threshold", by default what
        the mechanism is meant to be read with.
        """
        return self._second_moment_of(self.unit, post or self.statistics.post)

    def _second_moment_of(
        self, unit: UnitEstimate, post: Post, frame: Frame | None = None
    ) -> Array:
        noisy, frame = replace(self._moment, unit=unit, matrix=unit.matrix), frame or self.frame
        matrix = frame.moment(find_post(post).apply(noisy), self.public_intercept)
        return matrix * self.manifest.norm_bound**2

    @on_one_thread
    def present_moment(
        self,
        post: Post | None = None,
        missing: MissingAs = "pairwise",
        wanted: Places | None = None,
    ) -> Array:
        """The second moment that rows with all values present have, (d, d), in encoded units.

        That of means and covariances, times the intercept's own; where there are none it is
        :meth:`second_moment`.  At random, it may be that of the ``wanted`` features alone; by
        default all are.
        """
        return self._present_moment_of(self.unit, post or self.statistics.post, missing, wanted)

    def _present_moment_of(
        self, unit: UnitEstimate, post: Post, missing: MissingAs, wanted: Places | None
    ) -> Array:
        if self.presence is None and not self._knows_means_of(unit):
            return self._second_moment_of(unit, post)
        mean = self._processed_mean(unit, post)
        mean, covariance = self._moments_of(unit, post, missing, wanted, mean)
        if find_post(post).drops_empty and self.row_factors is not None:
            mean = self.row_factors.means(mean)
        intercept = self._centered_of(unit)[0] * self.manifest.norm_bound**2
        return moment_of(mean, covariance) * intercept

    def _processed_mean(self, unit: UnitEstimate, post: Post) -> Array:
        """Means of all rows, (p,), in encoded units, that post-processing draws to the centers."""
        mean, places, frame = self.frame.mean(self._centered_of(unit)[1]), self._values, self.frame
        if self.presence is None:
            places = np.arange(1 + len(mean))
        elif places is None:
            return mean
        else:
            unit, frame = self._of_values(unit, places, self.presence)
        moment = self._second_moment_of(unit, post, frame)
        if moment[0, 0] > 0:
            mean[places[1:] - 1] = moment[0, 1:] / moment[0, 0]
        return mean

    def noise_probes(
        self,
        post: Post | None = None,
        missing: MissingAs = "pairwise",
        wanted: Places | None = None,
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Made-up noises N of the release's own law, and the moments at STEP N and -STEP N.

        (d, d) each, as :meth:`present_moment`: what an estimate does with noise, whatever it is
        made by.
        """
        chosen = post or self.statistics.post
        for seed in probes(self.unit):
            units = [with_noise(self.unit, step, seed) for step in (STEP, -STEP)]
            raw = [self._present_moment_of(unit, "none", missing, wanted) for unit in units]
            found = [self._present_moment_of(unit, chosen, missing, wanted) for unit in units]
            yield (raw[0] - raw[1]) / (2 * STEP), found[0], found[1]

    def mean_vector(self, *, missing: MissingAs = "pairwise", indicators: bool = False) -> Array:
        """Estimated means of the features, (p,), in original units, within the public bounds."""
        self.warn_of(missing)
        return self._of(self.read_mean(missing), indicators)

    def read_mean(self, missing: MissingAs) -> Array:
        """The same of all encoded features, without a warning."""
        columns, encoded = self.restored_features, self.means_of_rows
        if self.presence is not None and self.pairwise is not None:
            encoded = self.pairwise.mean
            if missing != "pairwise":
                post = find_post(self.statistics.post)
                moment = moment_of(self.means_of_rows, self._covariance_of_rows(post, self.unit))
                encoded = self.filled(self.presence.moments(moment), missing, pairs=False).mean
        if self.row_factors is not None:
            encoded = self.row_factors.means(encoded)
        original = [c.center + c.half_range * x for c, x in zip(columns, encoded, strict=True)]
        lower, upper = np.array([column.bounds for column in columns]).T
        return np.asarray(np.clip(original, lower, upper))

    def covariance_matrix(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Array:
        """Estimated covariance, (p, p), in original units."""
        self.warn_of(missing)
        return self._of(self.read_covariance(post, missing), indicators)

    @on_one_thread
    def read_covariance(
        self, post: Post | None, missing: MissingAs, wanted: Places | None = None
    ) -> Array:
        """The same of all encoded features, or the ``wanted`` ones, without a warning."""
        # Post-processing happens in encoded units, where bounded columns have comparable scale.
        encoded = self._moments_of(self.unit, post, missing, wanted)[1]
        units = half_ranges_of(self.restored_features)
        return np.asarray(encoded * np.outer(units, units))

    def correlation_matrix(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Array:
        """Estimated correlations, (p, p); NaN where a variance is zero and its noise unknown."""
        self.warn_of(missing)
        encoded = self._moments_of(self.unit, post, missing)[1]
        noise = noise_of(self, post or self.statistics.post, indicators=True)
        columns = self.restored_features
        apart = self.mean_vector(indicators=True) - centers_of(columns)
        shifts = apart / half_ranges_of(columns)
        found = correlation_of(encoded, least=hidden_variance(shifts, noise))
        return self._of(found, indicators)

    def group(self, name: str) -> Self:
        """Read the part of one of :attr:`group_names` as a release of its own."""
        if name not in self.group_names:
            known = (
                ", ".join(self.group_names) or "none; release again with by=COLUMN (--by COLUMN)"
            )
            raise UsageError(f"This release has no group of that name. Its groups: {known}.")
        if self.members:
            parts = [member.group(name) for member in self.members]
            record, content = combined_facts(parts, disjoint=self.manifest.disjoint)
            # What is to be said of the releases, and not of groups that somebody chose.
            record = msgspec.structs.replace(record, warnings=self.manifest.warnings)
            return type(self)(record, content)
        index, arrays = self.group_names.index(name), self.statistics.arrays
        chosen = arrays["group"] == index
        kept = {"sscp", "outermost_shell", "first_shell", "last_shell"} & set(arrays)
        part: dict[str, PublishedArray] = {key: arrays[key][chosen] for key in kept}
        # All groups share one geometry.
        part |= {key: arrays[key] for key in {"linear"} & set(arrays)}
        for key in {"trace", "row_count", "losses"} & set(arrays):
            part[key] = arrays[key].reshape(len(self.group_names), -1)[index]
        # The number of rows of a group is private even where that of the table is public.
        manifest = msgspec.structs.replace(
            self.manifest,
            title=f"{self.manifest.title or 'untitled table'}: {name}",
            groups=(),
            n_rows=None,
            members=member_records(part),
        )
        return type(self)(manifest, part)

    def missing(self) -> dict[str, tuple[float, float]]:
        """Estimated share of missing values of every column of the table that has an indicator.

        Returns
        -------
        dict of str to (float, float)
            Share, 0 to 1, and the standard deviation of its error, NaN where that is not known: of
            noise, and of what scaling rows down did.
        """
        if self.marked is None:
            return {}
        law, shares = noise_of(self, indicators=True), self.mean_vector(indicators=True)
        columns, marks = self.restored_features, self.marked.marks
        units, longer = half_ranges_of(columns), self.longer[marks]
        noise = np.full(len(columns), np.nan)
        if law is not None:
            noise = mean_noise(shares / units, law) * units
        shares = np.minimum(shares[marks] * longer, 1.0)
        # Rows that lack a value may be longer or shorter than others.
        pulled = self.mean_errors(self.unit.n_rows)[marks] * np.sqrt(shares * (1 - shares))
        errors = np.hypot(noise[marks] * longer, pulled)
        return {
            source: (float(share), float(error))
            for place, share, error in zip(marks, shares, errors, strict=True)
            for source in columns[place].missing_of
        }

    @property
    def is_unpredicted(self) -> bool:
        """Whether values are missing, and no feature is present often enough to predict any."""
        found, presence = self.pairwise, self.presence
        if found is None or presence is None or self.predicts(found, presence).any():
            return False
        return bool((np.diagonal(found.shares) < NEARLY_ALL).any())

    def warn_of(self, missing: MissingAs) -> None:
        """Warn where nothing tells what missing values are."""
        if missing == "at-random" and self.manifest.is_pooled:
            warn_caller(POOLED_MISSING, ReleaseWarning)
        elif missing == "at-random" and self.is_unpredicted:
            warn_caller(UNPREDICTED, ReleaseWarning)

    @on_one_thread
    def expected_error(self, post: Post = "none") -> float | None:
        """Root mean squared Frobenius error that noise causes in the second moment, encoded units.

        Known for ``none`` and, estimated (docs/shrinkage.md), ``shrink``; an upper bound where all
        drowned (docs/strata.md); otherwise None.  The error of a noisy row count comes on top.  So
        does what scaling rows down took, which may be many times as much where tails are long, and
        what truncation took where ``bits`` are few.
        """
        squared = find_post(post).squared_error(self._moment)
        if squared is None:
            return None
        # What shrinkage gains is taken to be the same share in any coordinates.
        stretched = self.frame.noise_gain(self.public_intercept is not None)
        return sqrt(max(0.0, squared) * stretched) * self.manifest.norm_bound**2
