"""What can be read from a release: estimates from its noisy statistics.

Contract: everything here is public.  Estimates are computed when they are read, deterministically,
and may be recomputed with other choices any day at no privacy cost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from math import sqrt
from typing import Any, ParamSpec, Self, TypeVar

import msgspec
import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.privacy.options import plain
from dpcov.published.columns import EncodedColumn
from dpcov.published.combined import combined_facts
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    Places,
    bulk_edge,
    hidden_variance,
    mean_noise,
    moment_noise,
    read_with,
)
from dpcov.published.estimate.levels import (
    RowFactors,
    between,
    has_blocks,
    levels_of,
    positive,
    relations,
    row_factors,
    with_known,
    within_counts,
)
from dpcov.published.estimate.post import Noisy, PostProcessing, find_post, restricted
from dpcov.published.estimate.present import MissingAs, Presence, PresentMoments, moment_of
from dpcov.published.estimate.scaled_down import MOST_LOST
from dpcov.published.estimate.stretch import Stretch, average, restored, stiffness_of, stretch_of
from dpcov.published.estimate.unit import STEP, UnitEstimate, centered, probes, with_noise
from dpcov.published.file import member_record
from dpcov.published.frame import Frame
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.linalg.symmetric import Array, correlation_of
from dpcov.published.record import ReleaseRecord
from dpcov.published.statistics import Post, PublishedArray

# Directions of less variance than this part of the columns' own are taken to have that much.
_LEAST_EDGE = 1e-4

# Noise on a share of missing values from which nothing can be corrected by it.
_UNKNOWN_SHARE = 0.2

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


class BaseRelease(ReleaseRecord):
    """What is estimated from a release, as arrays."""

    members: tuple["BaseRelease", ...]

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
            trace_bound=self.manifest.norm_bound**2 * max(1.0, self._moment.trace_bound),
            intercept=intercept,
            is_centered=any(column.lower is not None for column in self.encoded_features),
        )

    @cached_property
    def presence(self) -> Presence | None:
        """Which indicators say what is missing; None where no column has one, or no mean.

        Indicators that noise alone may have made are taken for zero: there is nothing to correct.
        """
        found = Presence.of(self.encoded_features) if self.has_intercept else None
        law = moment_noise(self.unit, self.manifest, self.frame)
        if found is None or law is None or not self._knows_means:
            return found
        means = self.frame.mean(self._centered[1])
        noise = mean_noise(means, law)
        scales = np.array([column.half_range for column in self.encoded_features])
        hidden = (means < DEVIATIONS * noise) | (noise * scales > _UNKNOWN_SHARE)
        return found.without(np.flatnonzero(hidden))

    @property
    def _knows_means(self) -> bool:
        try:
            return bool(self._centered)
        # The noise hides how many rows there are.
        except ReleaseError:
            return False

    @cached_property
    def row_factors(self) -> RowFactors | None:
        """What scaling rows down did to levels; None where it did nothing, or they do not tell."""
        lost, columns = self.statistics.lost, self.encoded_features
        law = moment_noise(self.unit, self.manifest, self.frame) if lost else None
        if law is None or not self._knows_means or self.frame.mixes(levels_of(columns)):
            return None
        mean, covariance = self.frame.mean(self._centered[1]), self._centered[2]
        return row_factors(mean, self.frame.covariance(covariance), law, columns, lost)

    @cached_property
    def stretch(self) -> Stretch | None:
        """What gives deviations back that scaling rows down took; None where nothing tells."""
        if self.members:
            return average([each.stretch for each in self.members if each.stretch is not None])
        return self._own_stretch()

    @on_one_thread
    def _own_stretch(self) -> Stretch | None:
        law, losses = moment_noise(self.unit, self.manifest, self.frame), self.statistics.losses
        # Where nearly all was lost, what was counted of it tells nothing (docs/shrinkage.md).
        tells = losses is not None and self.statistics.lost <= MOST_LOST
        if losses is None or law is None or not (tells and self._knows_means):
            return None
        intercept, mean, raw = self._centered
        # Squared encoded units, a row; an intercept that is not whole stands for fewer rows.
        unit = losses.unit / (self.unit.n_rows * intercept * self.manifest.norm_bound**2)
        variances = np.diagonal(self.frame.covariance(raw))
        hidden = hidden_variance(self.frame.mean(mean), law)
        # Where noise alone ends, in units of the columns' own spreads.
        scales = np.where(variances > hidden, variances, np.inf) ** -0.5
        shrunk = correlation_of(self._covariance_of_rows(find_post(self.statistics.post)))
        np.fill_diagonal(shrunk, 1.0)
        return stretch_of(
            self.encoded_features,
            self.statistics.arrays["losses"].astype(np.float64) * unit,
            sqrt(float(losses.variance)) * unit,
            losses.counted,
            np.asarray(variances),
            hidden,
            stiffness_of(
                np.asarray(np.nan_to_num(shrunk)), max(bulk_edge(law, scales), _LEAST_EDGE)
            ),
        )

    @cached_property
    def lost_parts(self) -> Array:
        """Parts that scaling rows down took of the variances of encoded features, (p,).

        Where nothing tells, what it took of all together.
        """
        told = (
            np.full(len(self.encoded_features), np.nan)
            if self.stretch is None
            else self.stretch.lost
        )
        return np.where(np.isnan(told), self.statistics.lost, told)

    @cached_property
    def restored_features(self) -> tuple[EncodedColumn, ...]:
        """The encoded features, with units that give back what scaling rows down took."""
        if self.stretch is None:
            return self.encoded_features
        means = self.frame.mean(self._centered[1]) if self.pairwise is None else self.pairwise.mean
        return restored(self.encoded_features, means, self.stretch)

    @cached_property
    def features(self) -> tuple[EncodedColumn, ...]:
        """The restored features without the indicators of missing values.

        Without an intercept nothing is known of the rows in which a value is present, and
        indicators are features like others.
        """
        return tuple(self.restored_features[place] for place in self.shown)

    @property
    def centers(self) -> Array:
        """What the features are encoded around, shape (p,)."""
        return np.array([column.center for column in self.features])

    @property
    def half_ranges(self) -> Array:
        """Units of the encoded features, shape (p,)."""
        return np.array([column.half_range for column in self.features])

    def _of(self, values: Array, indicators: bool) -> Array:
        return values if indicators else values[np.ix_(*[self.shown] * values.ndim)]

    @cached_property
    def pairwise(self) -> PresentMoments | None:
        """Unbiased moments over the values that are present, in encoded units; None: all are."""
        if self.presence is None:
            return None
        _, mean, raw = self._centered
        return self.presence.moments(moment_of(self.frame.mean(mean), self.frame.covariance(raw)))

    def over_present(self, law: MomentNoise, indicators: bool) -> MomentNoise:
        """The same law for what is read over the values that are present."""
        if self.presence is None:
            return law
        if not self._knows_means or self.pairwise is None:
            return law if indicators else law.on(self.shown)
        law = law.over_present(self.presence, self.pairwise)
        return law if indicators else law.on(self.shown)

    @property
    def row_maps(self) -> tuple[Array | None, ...]:
        """Maps, (d, d), by which independent noises get into the moments of encoded rows.

        One, but for combined releases of several geometries; None where noise gets in as it is.
        """
        sources = self.unit.sources
        return tuple(each.back for each in sources) if sources else (self.frame.back,)

    @property
    def moment_maps(self) -> tuple[Array | None, ...]:
        """The same for the moments over what is present, :meth:`present_moment`."""
        if self.presence is None or self.pairwise is None:
            return self.row_maps
        map_ = self.presence.stretched(self.pairwise)
        return tuple(map_ if back is None else map_ @ back for back in self.row_maps)

    def filled(self, found: PresentMoments, missing: MissingAs) -> PresentMoments:
        """Pairwise moments as they are, or what they say of all rows."""
        if plain("missing", missing, MissingAs) == "pairwise" or self.presence is None:
            return found
        # Where noise alone ends, in units of the features' own spreads.
        law, places = noise_of(self, None, indicators=True), self.presence.complete(found)
        scales = np.diagonal(found.covariance)[places] ** -0.5
        edge = 0.0 if law is None else bulk_edge(law.on(places), scales)
        return self.presence.at_random(found, edge)

    def _encoded_covariance(self, post: PostProcessing, missing: MissingAs) -> Array:
        """Over the values that are present, in encoded units, indicators included."""
        found = self._shrunk_of_rows if post.drops_empty else self._covariance_of_rows(post)
        if self.presence is None:
            return found
        mean = self.frame.mean(self._centered[1])
        present = self.presence.moments(moment_of(mean, found))
        found = self.filled(present, missing).covariance
        return found if post.may_be_indefinite else self._positive(found)

    def _positive(self, covariance: Array) -> Array:
        # Of values alone: noise on a rare indicator is many times its spread.
        found, own = covariance.copy(), np.ix_(self.shown, self.shown)
        found[own] = positive(covariance[own])
        return found

    def noisy_covariance(self, post: Post) -> Array:
        """Before post-processing, of the parts that ``post`` takes to hold rows; encoded units."""
        _, mean, raw = self._centered_of(read_with(self.unit, post))
        found = self.frame.covariance(raw)
        if self.presence is not None:
            found = self.presence.moments(moment_of(self.frame.mean(mean), found)).covariance
        return self._of(found, indicators=False)

    @cached_property
    def _values(self) -> Places | None:
        """Places of the intercept and of values in a row, where they alone can be improved.

        None where nothing is marked as missing, or where a map mixes values and indicators.
        """
        if self.presence is None:
            return None
        kept = np.array([column.kind != "missing" for column in self.manifest.columns])
        back = self.frame.back
        mixed = back is not None and bool(back[np.ix_(kept, ~kept)].any())
        return None if mixed else np.flatnonzero(kept)

    @property
    def _marks(self) -> Places:
        """Places in a row of the indicators that are not taken for zero."""
        assert self.presence is not None
        return np.asarray(1 + np.setdiff1d(self.presence.indicators, [-1]))

    @cached_property
    def _shrunk_of_rows(self) -> Array:
        # Read again and again, and shrinking levels takes its time.
        return self._covariance_of_rows(find_post("shrink"))

    def _covariance_of_rows(self, post: PostProcessing) -> Array:
        """Of all rows, where missing values are zeros; indicators as they are."""
        places, features, factors = self._values, self.encoded_features, self.row_factors
        if places is None:
            return self._improved(post, self.unit, self.frame, features, factors)
        found = self.frame.covariance(self._centered[2]).copy()
        unit, frame = restricted(self.unit, places, self._marks), self.frame.on(places)
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
        has_levels = any(column.kind in ("category", "missing") for column in columns)
        if has_levels and post.drops_empty:
            return self._covariance_of_levels(unit, frame, columns, factors)
        return frame.covariance(post.apply(self._covariance_of(unit)))

    def _covariance_of_levels(
        self,
        unit: UnitEstimate,
        frame: Frame,
        columns: Sequence[EncodedColumn],
        factors: RowFactors | None,
    ) -> Array:
        """Shrunk, block by block, with what everybody knows of levels."""
        kept = read_with(unit, "shrink")
        found = frame.covariance(find_post("shrink").apply(self._covariance_of(unit)))
        mean, lost = frame.mean(self._centered_of(unit)[1]), self.statistics.lost
        noisy = frame.covariance(self._centered_of(kept)[2])
        law = moment_noise(kept, self.manifest, frame)
        if factors is not None:
            found, noisy = factors.restored(found), factors.restored(noisy)
            mean = mean / factors.of_means
            law = law and law.mapped(np.diag(1 / factors.of_rows))
        found = with_known(found, mean, columns)
        if law is not None and has_blocks(columns):
            related = relations(noisy, mean, law, columns, found, lost)
            found = np.where(between(columns), related, found)
        return positive(within_counts(found, mean, columns))

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
    def present_moment(self, post: Post | None = None, missing: MissingAs = "pairwise") -> Array:
        """The second moment that rows with all values present have, (d, d), in encoded units.

        That of pairwise means and covariances; where no column has an indicator of missing values
        it is :meth:`second_moment`.
        """
        return self._present_moment_of(self.unit, post or self.statistics.post, missing)

    def _present_moment_of(self, unit: UnitEstimate, post: Post, missing: MissingAs) -> Array:
        places = self._values
        moment = self._second_moment_of(unit, post if places is None else "none")
        if self.presence is None or not moment[0, 0] > 0:
            return moment
        if places is not None:
            own, frame = restricted(unit, places, self._marks), self.frame.on(places)
            moment[np.ix_(places, places)] = self._second_moment_of(own, post, frame)
        found = self.filled(self.presence.moments(moment / moment[0, 0]), missing)
        if not find_post(post).may_be_indefinite:
            found = found._replace(covariance=self._positive(found.covariance))
        return np.asarray(found.moment() * moment[0, 0])

    def noise_probes(
        self, post: Post | None = None, missing: MissingAs = "pairwise"
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Made-up noises N of the release's own law, and the moments at STEP N and -STEP N.

        (d, d) each, as :meth:`present_moment`: what an estimate does with noise, whatever it is
        made by.
        """
        for seed in probes(self.unit):
            after, before = (with_noise(self.unit, step, seed) for step in (STEP, -STEP))
            raw = [self._present_moment_of(unit, "none", missing) for unit in (after, before)]
            found = [
                self._present_moment_of(unit, post or self.statistics.post, missing)
                for unit in (after, before)
            ]
            yield (raw[0] - raw[1]) / (2 * STEP), found[0], found[1]

    def mean_vector(self, *, missing: MissingAs = "pairwise", indicators: bool = False) -> Array:
        """Estimated means of the features, (p,), in original units, within the public bounds."""
        columns, present = self.restored_features, self.pairwise
        if present is not None and self.presence is not None and missing != "pairwise":
            found = self._covariance_of_rows(find_post(self.statistics.post))
            moment = moment_of(self.frame.mean(self._centered[1]), found)
            present = self.filled(self.presence.moments(moment), missing)
        encoded = self.frame.mean(self._centered[1]) if present is None else present.mean
        if self.row_factors is not None:
            encoded = encoded / self.row_factors.of_means
        original = [c.center + c.half_range * x for c, x in zip(columns, encoded, strict=True)]
        lower, upper = np.array([column.bounds for column in columns]).T
        return self._of(np.clip(original, lower, upper), indicators)

    @on_one_thread
    def covariance_matrix(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Array:
        """Estimated covariance, (p, p), in original units."""
        # Post-processing happens in encoded units, where bounded columns have comparable scale.
        encoded = self._encoded_covariance(find_post(post or self.statistics.post), missing)
        units = np.array([column.half_range for column in self.restored_features])
        return self._of(encoded * np.outer(units, units), indicators)

    def correlation_matrix(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Array:
        """Estimated correlations, (p, p); NaN where a variance is zero and its noise unknown."""
        encoded = self._encoded_covariance(find_post(post or self.statistics.post), missing)
        noise = noise_of(self, post or self.statistics.post, indicators=True)
        pairs = zip(self.mean_vector(indicators=True), self.restored_features, strict=True)
        shifts = np.array([(mean - each.center) / each.half_range for mean, each in pairs])
        found = correlation_of(encoded, least=hidden_variance(shifts, noise))
        return self._of(found, indicators)

    def group(self, name: str) -> Self:
        """Read the part of one of :attr:`group_names` as a release of its own."""
        if name not in self.group_names:
            known = ", ".join(self.group_names) or "none; release again with by=COLUMN"
            raise UsageError(f"This release has no group of that name. Its groups: {known}.")
        if self.members:
            parts = [member.group(name) for member in self.members]
            return type(self)(*combined_facts(parts, disjoint=self.manifest.disjoint))
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

    def missing(self) -> dict[str, tuple[float, float]]:
        """Estimated share of missing values of every column of the table that has an indicator.

        Returns
        -------
        dict of str to (float, float)
            Share, 0 to 1, and the standard deviation of its noise, NaN where that is not known.
        """
        if self.presence is None:
            return {}
        law, shares = noise_of(self, indicators=True), self.mean_vector(indicators=True)
        columns = self.restored_features
        units = np.array([column.half_range for column in columns])
        noise = np.full(len(columns), np.nan)
        if law is not None:
            noise = mean_noise(shares / units, law) * units
        return {
            source: (float(shares[place]), float(noise[place]))
            for place, column in enumerate(columns)
            if column.kind == "missing"
            for source in column.missing_of
        }

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


def noise_of(
    release: BaseRelease, post: Post | None = "none", *, indicators: bool = False
) -> MomentNoise | None:
    """Law of the noise on a release read with ``post`` (None: by default); None if unpublished.

    For its features, over the values that are present, or with ``indicators`` for all encoded ones.
    """
    kept = read_with(release.unit, post or release.statistics.post)
    law = moment_noise(kept, release.manifest, release.frame)
    if law is not None and release.row_factors is not None:
        law = law.mapped(np.diag(1 / release.row_factors.of_rows))
    if law is None:
        return None
    if release.statistics.lost:
        law = replace(law, lost_parts=release.lost_parts, n_rows=release.unit.n_rows)
    return release.over_present(law, indicators)
