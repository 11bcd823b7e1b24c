"""Moments of the encoded rows of a release, where missing values are zeros.

Contract: everything here is public, and computed from noisy statistics, deterministically.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError
from dpcov.published.estimate.entry_noise import (
    MomentNoise,
    hardly_present,
    hidden_presence,
    known_presence,
    moment_noise,
)
from dpcov.published.estimate.frame import Frame
from dpcov.published.estimate.inhabited import read_with
from dpcov.published.estimate.levels import few_leveled, improved
from dpcov.published.estimate.post import Noisy, PostProcessing, along, find_post, restricted
from dpcov.published.estimate.present import Presence
from dpcov.published.estimate.row_factors import RowFactors, indicator_factors, row_factors
from dpcov.published.estimate.unit import UnitEstimate, centered
from dpcov.published.file.archive import Arrays
from dpcov.published.file.columns import EncodedColumn, half_ranges_of, of_kind
from dpcov.published.file.manifest import Manifest
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.reading.combined import arrays_of, check_combined
from dpcov.published.reading.combined_unit import combined_unit, reference_of
from dpcov.published.reading.record import ReleaseRecord

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let BLAS share no small matrix while the first argument, a release or its reader, is read."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = args[0] if args else kwargs.get("release")
        release = getattr(given, "release_", given)
        size = len(release.manifest.columns) if isinstance(release, RowMoments) else 0
        with one_thread(size):
            return function(*args, **kwargs)

    return limited


class RowMoments(ReleaseRecord):
    """Means and covariance of encoded rows, before and after post-processing."""

    def __init__(self: Self, manifest: Manifest, arrays: Arrays) -> None:
        super().__init__(manifest, arrays)
        self.members = tuple(
            type(self)(member, arrays_of(arrays, place))
            for place, member in enumerate(manifest.combined)
        )
        check_combined(manifest, self.members)

    @cached_property
    def unit(self) -> UnitEstimate:
        """The second moment before post-processing, and the law of its noise."""
        if self.members:
            return combined_unit(self.members, self.manifest.disjoint)
        return super().unit

    @cached_property
    def frame(self) -> Frame:
        """From the coordinates in which noise was added to encoded ones."""
        return reference_of(self.members).frame if self.members else super().frame

    @cached_property
    def _moment(self) -> Noisy:
        bound, options = min(1.0, self.statistics.radius**2), self.statistics.post_options
        # Rows of other geometries may be longer.
        bound = self.unit.trace_bound if self.unit.sources else bound
        return Noisy(unit=self.unit, matrix=self.unit.matrix, trace_bound=bound, options=options)

    @cached_property
    def _centered(self) -> tuple[float, Array, Array]:
        return self._centered_of(self.unit)

    def _centered_of(self, unit: UnitEstimate) -> tuple[float, Array, Array]:
        self.require_means()
        return centered(unit, self.public_intercept)

    @cached_property
    def means_of_rows(self) -> Array:
        """Means of encoded features over all rows, (p,), where missing values are zeros."""
        return self.frame.mean(self._centered[1])

    @cached_property
    def _raw_covariance(self) -> Array:
        # Before post-processing, of encoded features over all rows.
        return self.frame.covariance(self._centered[2])

    @cached_property
    def noise_law(self) -> MomentNoise | None:
        """Law of the noise on moments of encoded rows; None where it is not published."""
        return moment_noise(self.unit, self.manifest, self.frame)

    def _covariance_of(self, unit: UnitEstimate) -> Noisy:
        intercept, _, raw = self._centered_of(unit)
        return replace(
            self._moment,
            unit=unit,
            matrix=raw,
            trace_bound=self.manifest.norm_bound**2 * max(1.0, self._moment.trace_bound),
            intercept=intercept,
            is_centered=any(column.lower is not None for column in self.encoded_features),
        )

    @cached_property
    def marked(self) -> Presence | None:
        """Which indicators there are, whether noise hides what they say or not.

        Those to which rows that were scaled down were not pulled are as much longer.
        """
        found = Presence.of(self.encoded_features) if self.has_intercept else None
        law, lost = self.noise_law, self.statistics.lost
        if found is None or law is None or not (lost and self.knows_means):
            return found
        columns, marks = self.encoded_features, found.marks
        units, middles = half_ranges_of(columns), self.frame.around(marks)
        if middles is None or middles.all():
            return found
        marks, variances = marks[middles == 0], np.diagonal(self._raw_covariance)
        units[marks] /= indicator_factors(self.means_of_rows, variances, law, columns, lost, marks)
        return found.in_units(units)

    @cached_property
    def longer(self) -> Array:
        """What shares of indicators, (p,), are multiplied by where their rows were scaled down."""
        found = np.ones(len(self.encoded_features))
        if self.marked is not None:
            own = np.flatnonzero(self.marked.indicators >= 0)
            places = self.marked.indicators[own]
            found[places] = self.marked.units[own] / half_ranges_of(self.encoded_features)[places]
        return found

    @cached_property
    def presence(self) -> Presence | None:
        """Which indicators say what is missing; None where no column has one, or no mean.

        Indicators that noise alone may have made are taken for zero: there is nothing to correct.
        """
        found, law = self.marked, self.noise_law
        if found is None or law is None or not self.knows_means:
            return found
        return known_presence(found, self.means_of_rows, law)

    @cached_property
    def hides_presence(self) -> NDArray[np.bool_]:
        """Features that hardly any row has, or of which noise hides how many rows have them, (p,).

        Where it does, all rows seem to have them.
        """
        found, law = self.marked, self.noise_law
        if found is None or law is None or not self.knows_means:
            return np.zeros(len(self.encoded_features), dtype=np.bool_)
        facts = found, self.means_of_rows, law
        return hidden_presence(*facts) | hardly_present(*facts)

    @property
    def knows_means(self) -> bool:
        """Whether there is an intercept, and the noise does not hide it."""
        return self._knows_means_of(self.unit)

    def _knows_means_of(self, unit: UnitEstimate) -> bool:
        try:
            return bool(self._centered_of(unit))
        # The noise hides how many rows there are.
        except ReleaseError:
            return False

    @cached_property
    def row_factors(self) -> RowFactors | None:
        """What scaling rows down did to levels; None where it did nothing, or they do not tell."""
        lost, columns, law = self.statistics.lost, self.encoded_features, self.noise_law
        if not lost or law is None or not self.knows_means:
            return None
        levels, around = of_kind(columns, "category"), np.zeros(len(columns))
        middles = self.frame.around(np.flatnonzero(levels))
        if middles is None:
            return None
        around[levels] = middles
        covariance = self._raw_covariance
        return row_factors(self.means_of_rows, covariance, law, columns, lost, around)

    @cached_property
    def _values(self) -> Places | None:
        """Places of the intercept and of values in a row, where they alone can be improved.

        None where nothing is marked as missing, or where a map mixes values and indicators.
        """
        if self.presence is None:
            return None
        kept = ~of_kind(self.manifest.columns, "missing")
        mixed = self.frame.back[np.ix_(kept, ~kept)].any()
        return None if mixed else np.flatnonzero(kept)

    @cached_property
    def _shrunk_of_rows(self) -> Array:
        # Read again and again, and shrinking levels takes its time.
        return self._new_covariance_of_rows(find_post("shrink"), self.unit)

    def _covariance_of_rows(self, post: PostProcessing, unit: UnitEstimate) -> Array:
        """Of all rows, where missing values are zeros; indicators as they are."""
        if post.drops_empty and unit is self.unit:
            return self._shrunk_of_rows
        return self._new_covariance_of_rows(post, unit)

    def _of_values(
        self, whole: UnitEstimate, places: Places, presence: Presence
    ) -> tuple[UnitEstimate, Frame]:
        """The estimate of the intercept and of values alone, at ``places``, and its frame."""
        # An indicator that a map pulled away from zero is not empty where no value is missing.
        pulled = np.setdiff1d(np.flatnonzero(self.frame.back[:, 0]), places)
        others = np.union1d(1 + presence.used, pulled)
        return restricted(whole, places, others), self.frame.on(places)

    def _new_covariance_of_rows(self, post: PostProcessing, whole: UnitEstimate) -> Array:
        places, features, factors = self._values, self.encoded_features, self.row_factors
        if places is None or self.presence is None:
            return self._improved(post, whole, self.frame, features, factors)
        found = self.frame.covariance(self._centered_of(whole)[2]).copy()
        unit, frame = self._of_values(whole, places, self.presence)
        columns = [features[place - 1] for place in places[1:]]
        own = np.ix_(places[1:] - 1, places[1:] - 1)
        factors = factors and factors.on(places[1:] - 1)
        found[own] = self._improved(post, unit, frame, columns, factors)
        return found

    def _improved(
        self,
        post: PostProcessing,
        unit: UnitEstimate,
        frame: Frame,
        columns: Sequence[EncodedColumn],
        factors: RowFactors | None,
    ) -> Array:
        found = frame.covariance(post.apply(self._covariance_of(unit)))
        if not (post.drops_empty and of_kind(columns, "category", "missing").any()):
            return found
        # The noise of all has eigenvalues twice as large as that of a quarter alone, or larger.
        few = few_leveled(columns)
        if 0 < len(few) <= len(columns) / 4:
            own, directions = frame.of_few(few)
            alone = self._covariance_of(along(unit, directions))
            found = found.copy()
            found[np.ix_(few, few)] = own.covariance(post.apply(alone))
        # Shrunk, block by block, with what everybody knows of levels.
        kept = read_with(unit, "shrink")
        mean, lost = frame.mean(self._centered_of(unit)[1]), self.statistics.lost
        noisy = frame.covariance(self._centered_of(kept)[2])
        law = moment_noise(kept, self.manifest, frame)
        if factors is not None:
            found, noisy = factors.restored(found), factors.restored(noisy)
            mean = factors.means(mean)
            law = law and law.mapped(np.diag(1 / factors.of_rows))
        return improved(found, noisy, mean, law, columns, lost)
