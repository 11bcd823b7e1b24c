"""What a release says in encoded units: its moments, what rows lost, and the law of its noise.

Contract: everything here is public, and computed from noisy statistics, deterministically.
"""

from dataclasses import replace
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.privacy.options import plain
from dpcov.published.estimate.at_random import Doubt, at_random, well_hidden
from dpcov.published.estimate.entry_noise import (
    LostParts,
    MomentNoise,
    hidden_variance,
    mean_noise,
    moment_noise,
)
from dpcov.published.estimate.inhabited import read_with
from dpcov.published.estimate.levels import with_psd_correlations, without_hidden
from dpcov.published.estimate.noise_edge import bulk_edge
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.present import MissingAs, Presence, PresentMoments, moment_of
from dpcov.published.estimate.scaled_down import MOST_LOST, mean_error
from dpcov.published.estimate.selections import levels_of
from dpcov.published.estimate.stretch import SKEW, Seen, Stretch, average, restored, stretch_of
from dpcov.published.estimate.unit import UnitEstimate
from dpcov.published.file.columns import EncodedColumn, centers_of, half_ranges_of, of_kind
from dpcov.published.file.statistics import Post
from dpcov.published.linalg.symmetric import Array, Places, correlation_of
from dpcov.published.reading.combined_unit import weights_of
from dpcov.published.reading.rows import RowMoments, on_one_thread

# Directions of less variance than this part of the columns' own are taken to have that much.
_LEAST_EDGE = 1e-4


class EncodedRelease(RowMoments):
    """Estimates in encoded units, and the features that they are of."""

    @cached_property
    @on_one_thread
    def stretch(self) -> Stretch | None:
        """What gives deviations back that scaling rows down took; None where nothing tells."""
        if not self.knows_means:
            return None
        if self.members:
            shares = weights_of(self.members, self.manifest.disjoint)
            return average([each.stretch for each in self.members], shares)
        law, losses = self.noise_law, self.statistics.losses
        # Where nearly all was lost, what was counted of it tells nothing (docs/shrinkage.md).
        if losses is None or law is None or self.untold.any():
            return None
        # What all strata together show may be hidden in those that are read.
        if not self._knows_means_of(read_with(self.unit, self.statistics.post)):
            return None
        intercept = self._centered[0]
        # Squared encoded units, a row; an intercept that is not whole stands for fewer rows.
        unit = losses.unit / (self.unit.n_rows * intercept * self.manifest.norm_bound**2)
        variances, means = np.diagonal(self._raw_covariance), self.means_of_rows
        hidden = hidden_variance(means, law)
        reach = self.frame.reach(self.manifest.norm_bound)
        # Where noise alone ends, in units of the columns' own spreads.
        edge = bulk_edge(law, np.where(variances > hidden, variances, np.inf) ** -0.5)
        shrunk = correlation_of(
            self._covariance_of_rows(find_post(self.statistics.post), self.unit)
        )
        np.fill_diagonal(shrunk, 1.0)
        n_groups = self.statistics.n_groups
        sums = self.statistics.arrays["losses"].reshape(n_groups, -1).sum(axis=0)
        return stretch_of(
            self.encoded_features,
            sums.astype(np.float64) * unit,
            sqrt(n_groups * float(losses.variance)) * unit,
            losses,
            self.statistics.lost,
            Seen(np.asarray(variances), hidden, means, mean_noise(means, law), reach),
            np.asarray(np.nan_to_num(shrunk)),
            max(edge, _LEAST_EDGE),
        )

    @property
    def untold(self) -> NDArray[np.bool_]:
        """Which features are numbers of which it is not told how much they lost, (p,)."""
        return of_kind(self.encoded_features, "numeric") & (self.statistics.lost > MOST_LOST)

    @cached_property
    def lost_parts(self) -> Array:
        """Parts that scaling rows down took of the variances of encoded features, (p,).

        Where nothing tells, what it took of all together.
        """
        lost = self.statistics.lost
        if self.stretch is None:
            return np.full(len(self.encoded_features), lost)
        return np.where(np.isnan(self.stretch.lost), lost, self.stretch.lost)

    @cached_property
    def whole_variances(self) -> Array:
        """Mean variances before rows were scaled down, over those of restored features, (p,)."""
        whole = np.full(len(self.encoded_features), 1 / (1 - self.statistics.lost))
        if self.stretch is not None:
            # Of factors whose logarithms have these deviations.
            restored = np.exp((SKEW * self.stretch.unsure) ** 2 / 2)
            whole = np.where(np.isnan(self.stretch.lost), whole, restored)
        # Levels tell by themselves what they lost.
        return np.where(of_kind(self.encoded_features, "numeric"), whole, 1.0)

    @property
    def moved_stds(self) -> Array:
        """Errors of what means were given back, over deviations as they are read, (p,)."""
        features = len(self.encoded_features)
        return np.zeros(features) if self.stretch is None else self.stretch.moved_stds

    def mean_errors(self, rows: float | Array) -> Array:
        """What scaling rows down did to means, over deviations as they are read, (p,).

        ``rows``, (p,) or one number, have a value of the feature.
        """
        pulled = mean_error(self.statistics.lost, self.lost_parts, self.whole_variances, rows)
        return np.asarray(np.hypot(pulled, self.moved_stds))

    @cached_property
    def restored_features(self) -> tuple[EncodedColumn, ...]:
        """The encoded features, with units that give back what scaling rows down took."""
        if self.stretch is None:
            return self.encoded_features
        means = self.means_of_rows if self.pairwise is None else self.pairwise.mean
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
        return centers_of(self.features)

    @property
    def half_ranges(self) -> Array:
        """Units of the encoded features, shape (p,)."""
        return half_ranges_of(self.features)

    def _of(self, values: Array, indicators: bool) -> Array:
        everything = plain("indicators", indicators, bool)
        return values if everything else values[np.ix_(*[self.shown] * values.ndim)]

    @cached_property
    def pairwise(self) -> PresentMoments | None:
        """Unbiased moments over the values that are present, in encoded units; None: all are."""
        if self.presence is None:
            return None
        return self.presence.moments(moment_of(self.means_of_rows, self._raw_covariance))

    @property
    def row_maps(self) -> tuple[Array, ...]:
        """Maps, (d, d), by which independent noises get into the moments of encoded rows.

        One, but for combined releases of several geometries.
        """
        sources = self.unit.sources
        return tuple(each.back for each in sources) if sources else (self.frame.back,)

    @property
    def moment_maps(self) -> tuple[Array, ...]:
        """The same for the moments over what is present, :meth:`present_moment`."""
        if self.presence is None or self.pairwise is None:
            return self.row_maps
        map_ = self.presence.stretched(self.pairwise)
        return tuple(map_ @ back for back in self.row_maps)

    @cached_property
    def _noise_of_all(self) -> MomentNoise | None:
        return noise_of(self, None, indicators=True)

    def predicts(self, found: PresentMoments, presence: Presence) -> NDArray[np.bool_]:
        """Which features, the rows, predict the missing values of which, (p, p)."""
        return presence.predicts(found, well_hidden(found.mean, self._noise_of_all))

    def filled(
        self,
        found: PresentMoments,
        missing: MissingAs,
        *,
        wanted: Places | None = None,
        pairs: bool = True,
    ) -> PresentMoments:
        """Pairwise moments as they are, or what they say of all rows: see :func:`at_random`."""
        if plain("missing", missing, MissingAs) == "pairwise" or self.presence is None:
            return found
        predicts = self.predicts(found, self.presence)
        if not predicts.any():
            return found
        doubt = Doubt.of(found, predicts, self._noise_of_all, self.unit.n_rows)
        levels = levels_of(self.encoded_features, self.two_valued)
        return at_random(found, self.presence, predicts, doubt, levels, wanted=wanted, pairs=pairs)

    def _moments_of(
        self,
        unit: UnitEstimate,
        post: Post | None,
        missing: MissingAs,
        wanted: Places | None = None,
        mean: Array | None = None,
    ) -> tuple[Array, Array]:
        """Means, (p,), and covariance, (p, p), over the values that are present, in encoded units.

        Indicators included.  At random those of the ``wanted`` features are filled alone, by
        default all.  ``mean``, (p,), is that of all rows, by default without noise taken out.
        """
        processing = find_post(post or self.statistics.post)
        if mean is None:
            mean = self.frame.mean(self._centered_of(unit)[1])
        covariance = self._covariance_of_rows(processing, unit)
        if processing.may_be_indefinite and self.presence is None:
            return mean, covariance
        if self.presence is None:
            return mean, self._in_bounds(covariance)
        present = self.presence.moments(moment_of(mean, covariance))
        found = self.filled(present, missing, wanted=wanted)
        if processing.may_be_indefinite:
            return found.mean, found.covariance
        law, rarely = self._noise_of_all, self.presence.indicators >= 0
        covariance = found.covariance.copy()
        if law is not None:
            covariance = without_hidden(covariance, present.mean, law, rarely)
        # Of values alone: noise on a rare indicator is many times its spread.
        own = np.ix_(self.shown, self.shown)
        covariance[own] = with_psd_correlations(covariance[own])
        return found.mean, self._in_bounds(covariance)

    def _in_bounds(self, covariance: Array) -> Array:
        """A covariance, (p, p), without a variance that the bounds forbid (Popoviciu 1935)."""
        columns = self.restored_features
        largest = np.diff([column.bounds for column in columns])[:, 0] / 2 / half_ranges_of(columns)
        spreads = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        shorter = largest / np.maximum(spreads, largest)
        return np.asarray(covariance * np.outer(shorter, shorter))

    def noisy_covariance(self, post: Post) -> Array:
        """Before post-processing, of the parts that ``post`` takes to hold rows; encoded units."""
        _, mean, raw = self._centered_of(read_with(self.unit, post))
        found = self.frame.covariance(raw)
        if self.presence is not None:
            found = self.presence.moments(moment_of(self.frame.mean(mean), found)).covariance
        return self._of(found, indicators=False)


def noise_of(
    release: EncodedRelease, post: Post | None = "none", *, indicators: bool = False
) -> MomentNoise | None:
    """Law of the noise on a release read with ``post`` (None: by default); None if unpublished.

    For its features, over the values that are present, or with ``indicators`` for all encoded ones.
    """
    kept = read_with(release.unit, post or release.statistics.post)
    law, presence = moment_noise(kept, release.manifest, release.frame), release.presence
    if law is None:
        return None
    if release.row_factors is not None:
        law = law.mapped(np.diag(1 / release.row_factors.of_rows))
    if release.statistics.lost:
        law = replace(law, lost=LostParts(release.lost_parts, release.unit.n_rows))
    if presence is not None and release.knows_means and release.pairwise is not None:
        law = law.over_present(presence, release.pairwise)
    return law if indicators or presence is None else law.on(release.shown)
