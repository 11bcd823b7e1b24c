"""Hold the second moments that inference starts from, and the law of everything random in them.

Moments are before post-processing, in encoded units; the intercept is 1.

Fourth moments are those of `shapes`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.analysis.intervals.noises import Noise, ScaledDown
from dpcov.analysis.intervals.shapes import ColumnShape, column_shape
from dpcov.analysis.intervals.thinning import Thinning
from dpcov.errors import ReleaseError
from dpcov.published.estimate.entry_noise import noise_quantile
from dpcov.published.file.columns import TWO_VALUED, EncodedColumn
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, Places, eigh

# What stands in for fourth moments: a law that fits a column's mean, variance and public bounds,
# never with lighter tails than the normal law; or the worst law within the bounds.
Tails = Literal["moments", "bounded"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentLaw:
    """Noisy moments of encoded rows, the law of the noise W, and what is asked about them."""

    # Unbiased estimate of E[zz'], (d, d), up to a common factor that is 1 apart from the noise:
    # the intercept's moment has it, or is 1 with the variance of the factor.
    moment: Array
    n_rows: float
    columns: tuple[EncodedColumn, ...]
    # W is their sum, of the release and of others that it was combined with.  What scaling rows
    # down took is in the coordinates of the first.
    noises: tuple[Noise, ...]
    scaled: ScaledDown
    # Which columns hardly any row has, or noise hides how many do, (d,).
    hides_presence: NDArray[np.bool_]
    # Parts of the rows in which pairs of features are present, (p, p); None: all.
    shares: Array | None = None
    # Tails of the noise, from 0, normal, to 1, those of a Laplace law.
    laplace_part: float = 0.0
    intercept_is_public: bool = False
    # Whether rows are a sample; otherwise the table itself is what is estimated.
    sampling: bool = True
    level: float = 0.95
    tails: Tails = "moments"
    # Length of the longest encoded row, where columns have no bounds of their own.
    ball: float = inf
    # Variance of what is estimated relative to that of as many independent rows of one weight.
    design_effect: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def has_intercept(self) -> bool:
        """Whether there is one; it comes first."""
        return self.columns[0].kind == "intercept"

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Columns, (d,), whose means and variances may be anything within the bounds."""
        return self.scaled.untold | self.hides_presence

    @property
    def sampling_factor(self) -> float:
        """Variance of a mean over rows, relative to that of one row."""
        return 1.0 / max(1.0, self.n_rows / self.design_effect) if self.sampling else 0.0

    @cached_property
    def plausible(self) -> Array:
        """The nearest positive semidefinite moment: what sampling variances are computed from."""
        return project_psd(self.moment)

    @cached_property
    def means(self) -> Array:
        """Encoded means, the intercept's own included, within the public bounds; shape (d,)."""
        return np.asarray(np.clip(self.moment[0] / self.count, *self._box.T))

    @property
    def count(self) -> float:
        """Moment of the intercept: 1, or a private number near it."""
        # Four standard deviations: no mean is divided by what may be zero.
        variance = sum(each.diagonal[0] for each in self.noises)
        if not self.moment[0, 0] > 4 * sqrt(variance):
            raise ReleaseError(
                "The noise hides the number of rows, so means are unknown. Use more rows or budget."
            )
        return float(self.moment[0, 0])

    @cached_property
    def covariance(self) -> Array:
        """Unbiased encoded covariance, (d, d), zero for the intercept."""
        means = self.moment[0] / self.count
        raw = self.moment / self.count - np.outer(means, means)
        # The noise on two means adds v to the product of each with itself.
        for each in self.noises:
            free = each.back[1:, int(self.has_intercept) :]
            raw[1:, 1:] += each.off_diagonal / self.count**2 * (free @ free.T)
        raw[0, :] = raw[:, 0] = 0.0
        # Sampling takes 1/n of the covariance away.
        return np.asarray(raw / (1 - min(0.5, self.sampling_factor)))

    @cached_property
    def spread(self) -> Array:
        """Covariance of rows as they were scaled down, (d, d)."""
        means = self.plausible[0] / self.count
        spread = self.plausible - np.outer(means, means) * self.count
        seen = (np.diagonal(spread) > 0) & self.has_intercept
        return np.asarray(spread * np.outer(seen, seen))

    @cached_property
    def shortened(self) -> Array:
        """The same of mapped rows, where there is a map."""
        forth = np.linalg.inv(self.noises[0].back)
        return np.asarray(forth @ self.spread @ forth.T)

    @cached_property
    def taken(self) -> Array:
        """What scaling long rows down took of M beyond a common factor, (d, d): uncertain itself.

        Long rows point along strong components: at most as normal rows do (docs/inference.md).
        """
        scaled = self.scaled
        if scaled.unsure is not None:
            return scaled.unsure
        if not scaled.lost or not self.shortened.any():
            return np.zeros_like(self.moment)
        square = self.shortened @ self.shortened
        total, squares = float(np.trace(self.shortened)), float(np.trace(square))
        lost = scaled.lost / (1 - scaled.lost)
        along = min(lost * total / squares, 2 / scaled.longest**2)
        return np.asarray(along * (square - squares / total * self.shortened))

    @cached_property
    def _taken_of_moments(self) -> Array:
        return self.noises[0].mapped(self.taken)

    def of_losses(self, chosen: Places) -> Self:
        """The law for a question about these columns: others may have lost far more."""
        stds = self.scaled.stretch_stds
        if stds is None:
            return self
        own = np.zeros_like(stds)
        own[chosen] = stds[chosen]
        return replace(self, scaled=replace(self.scaled, stretch_stds=own))

    @cached_property
    def restored(self) -> Self:
        """The law with half of what normal rows lose given back: rows with long tails lose none.

        Anything between is as likely, and a uniform law deviates by its length over √12.
        """
        if not self.scaled.lost:
            return self
        moment = self.moment + self._taken_of_moments / 2
        return replace(
            self, moment=moment, scaled=replace(self.scaled, unsure=self.taken / sqrt(12))
        )

    @cached_property
    def unbiased(self) -> Self:
        """The law without ``bias``, for what is counted in another way."""
        bias, (first, *others) = self.scaled.bias, self.noises
        own = np.full(len(first.diagonal), 2 * bias)
        own[: self.intercept_is_public] = 0.0
        off_diagonal, diagonal = first.off_diagonal - bias, first.diagonal - own
        first = replace(first, off_diagonal=off_diagonal, diagonal=diagonal)
        return replace(self, noises=(first, *others), scaled=replace(self.scaled, bias=0.0))

    @cached_property
    def around_means(self) -> Self:
        """The law of sums of squares and products around means, which have noise, too.

        The noise on two means multiplies: its product has the variance v² (docs/inference.md).
        """
        if not (self.has_intercept and self.is_noisy):
            return self
        # In coordinates in which the noise on means is alike.
        values, vectors = eigh(self.noise_metric[1:, 1:])
        back, variances = np.zeros_like(self.moment), np.full(len(values) + 1, 2 / self.count**2)
        back[1:, 1:] = vectors * np.sqrt(np.maximum(values, 0.0))
        # The number of rows has none of it.
        variances[0] = 0.0
        products = Noise(off_diagonal=1 / self.count**2, diagonal=variances, back=back)
        return replace(self, noises=(*self.noises, products))

    @property
    def is_noisy(self) -> bool:
        """Whether any noise was added."""
        return any(each.off_diagonal > 0 for each in self.noises)

    @cached_property
    def noise_metric(self) -> Array:
        """Covariance of Wu but for what depends on u, (d, d), positive definite.

        That of the noise on means; the identity where there is no noise.
        """
        if not self.is_noisy:
            return np.eye(len(self.moment))
        found = np.zeros_like(self.moment)
        for each in self.noises:
            found += each.off_diagonal * each.back @ each.back.T
        return found

    def present(self, places: Places) -> Array:
        """Parts of the rows in which pairs of columns are present, (q, q)."""
        return np.asarray(self._present[places][:, places])

    @cached_property
    def _present(self) -> Array:
        found = np.ones_like(self.moment)
        if self.shares is not None:
            found[1:, 1:] = self.shares
            found[0, 1:] = found[1:, 0] = np.diagonal(self.shares)
        return found

    def hardly_together(self, places: Places) -> bool:
        """Whether hardly any row has both of two of these columns, as far as noise tells."""
        return not self.present(places).all()

    def rarity(self, places: Places) -> Array:
        """Noise on products of columns, (q, q), over that of columns present by chance, if larger.

        The law is that of values divided by the shares of their columns; a product is over the rows
        that have both.
        """
        present = self.present(places)
        own = np.diagonal(present)
        by_chance = np.outer(own, own)
        together = np.divide(by_chance, present, out=np.ones_like(present), where=present > 0)
        return np.maximum(1.0, together)

    def of_pairs(self, places: Places) -> Self:
        """The law with noise that covers all pairs of these columns, however few rows have both."""
        if self.shares is None or self.hardly_together(places):
            return self
        larger = np.ones(len(self.moment))
        larger[places] = np.sqrt(self.rarity(places).max(axis=1))
        noises = (replace(each, back=larger[:, None] * each.back) for each in self.noises)
        return replace(self, noises=tuple(noises))

    @cached_property
    def thinning(self) -> Thinning:
        """What sampling does where columns are present in different rows."""
        return Thinning(self.plausible, self._present)

    def shape(self, place: int) -> ColumnShape:
        """Shape of a column, with a variance that its bounds allow."""
        column, mean = self.columns[place], float(self.means[place])
        lowest, largest = self._ends(place, mean)
        most = max(0.0, (largest - mean) * (mean - lowest))
        variance = float(np.clip(self.covariance[place, place], 0.0, most))
        return column_shape(column, (lowest, largest), mean, variance)

    def reach(self, place: int) -> float:
        """Largest distance of a value of the column from its mean."""
        mean = float(self.means[place])
        lowest, largest = self._ends(place, mean)
        return max(largest - mean, mean - lowest)

    def largest(self, direction: Array) -> float:
        """Largest |direction'z| that the public bounds allow a row z, intercept included."""
        ends = direction[:, None] * self._box
        box = max(float(ends.max(axis=1).sum()), -float(ends.min(axis=1).sum()))
        return min(box, self.ball * float(np.linalg.norm(direction)))

    @cached_property
    def _box(self) -> Array:
        # What the public bounds allow, (d, 2).
        found = np.array([(column.lowest, column.largest) for column in self.columns])
        found[: self.has_intercept] = 1.0
        return found

    def _ends(self, place: int, mean: float) -> tuple[float, float]:
        lowest, largest = self._box[place].tolist()
        if self.tails == "bounded" or self.columns[place].kind in TWO_VALUED:
            return lowest, largest
        # A noisy mean may lie beyond what rows reach.
        lowest = max(lowest, self.scaled.ends[place, 0])
        largest = min(largest, self.scaled.ends[place, 1])
        return min(lowest, mean), max(largest, mean)

    def privacy_forms(self, rows: Array) -> Callable[[Array], Array]:
        """The map from a, (q,), to the K, (q, q), with Var(a'FWF'u) = u'Ku for every u.

        ``rows`` are F, (q, d).
        """
        first, *others = (replace(each, back=rows @ each.back) for each in self.noises)

        def form(a: Array) -> Array:
            found = first.form(a, self.taken)
            return np.asarray(sum((other.form(a, None) for other in others), start=found))

        return form

    def noise_of_pairs(self, rows: Array) -> Callable[[int], Array]:
        """Of noise on products of combinations of columns, ``rows``, (q, d).

        The map from i to covariances of the noise on the moments ii, ij and jj, for every j, (3, 3,
        q).
        """
        first, *others = self.noises
        parts = [first.of_pairs(rows, self._taken_of_moments)]
        parts += [other.of_pairs(rows, None) for other in others]
        return lambda i: np.sum([part(i) for part in parts], axis=0)

    def centered(self, places: Places) -> Array:
        """What makes centered columns of encoded ones, (q, d); the intercept stays as it is."""
        rows = np.zeros((len(places), len(self.moment)))
        rows[:, 0] = -self.means[places]
        rows[range(len(places)), places] = 1.0
        return rows

    def draw_noise(
        self,
        draws: int,
        rng: np.random.Generator,
        rows: Array | None = None,
        *,
        in_all: bool = True,
    ) -> Array:
        """F W F' for simulated Gaussian noise W of this covariance and ``rows`` F, (q, d).

        (draws, q, q); by default of W itself.  Of what scaling rows down took it has all, or
        without ``in_all`` what is no factor.
        """
        first, *others = self.noises
        noise = first.draw(draws, rng, rows)
        if self.scaled.lost:
            taken = self._taken_of_moments
            if in_all:
                # Variances feel the factors of columns, too: long rows make all err to one side.
                stds = self.scaled.factor_stds / 2
                taken = taken + (stds[:, None] + stds) * self.spread
            taken = taken if rows is None else rows @ taken @ rows.T
            noise += rng.standard_normal((draws, 1, 1)) * taken
        for other in others:
            noise += other.draw(draws, rng, rows)
        return noise

    def reaches(self, level: float | None = None) -> tuple[float, float]:
        """Two-sided normal quantile, and the factor for noise variances."""
        chance = (1 - (level or self.level)) / 2
        z = noise_quantile(chance, 0.0)
        return z, (noise_quantile(chance, self.laplace_part) / z) ** 2
