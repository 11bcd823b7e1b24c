"""The noise on means, standard deviations and covariances: its law and its size.

Contract: public numbers only, in closed form: first order in the noise, with the estimates in place
of the truth (derived in docs/report.md).  Everything is in encoded units, relative to an intercept
of 1, before post-processing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from math import log, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate.frame import Frame
from dpcov.published.estimate.present import LEAST_SHARE, Presence, PresentMoments
from dpcov.published.estimate.scaled_down import correlation_error
from dpcov.published.estimate.unit import EntryNoise, UnitEstimate
from dpcov.published.file.columns import count_values
from dpcov.published.file.manifest import Manifest
from dpcov.published.linalg.symmetric import Array, Places

# Standard deviations of the noise from which a variance or an eigenvalue counts as signal.
DEVIATIONS = 2.0

# Chance that noise alone makes any pair of a release look correlated.
FALSE_PAIRS = 0.05

# Those of its noise that the share of rows with both of two features must have.
KNOWN_SHARE = 5.0

# Noise on a share of missing values from which nothing can be corrected by it.
UNKNOWN_SHARE = 0.2

# Edge of nuclear-norm noise (Ullman's law), relative to Gaussian noise of the same variance.
NUCLEAR_EDGE = sqrt(1.5)


def noise_quantile(chance: float, laplace_part: float) -> float:
    """Deviations that noise exceeds, in one direction, with at most this chance.

    ``laplace_part`` is how heavy its tails are, from 0, a normal law's, to 1, a Laplace law's.
    """
    normal, laplace = NormalDist().inv_cdf(1 - chance), log(1 / (2 * chance)) / sqrt(2)
    return normal + laplace_part * max(0.0, laplace - normal)


def clear_of_pairs(p: int, laplace_part: float) -> float:
    """Noise stds that noise alone exceeds at any pair of p columns in one of twenty releases."""
    return noise_quantile(FALSE_PAIRS / max(2, p * (p - 1)), laplace_part)


class LostParts(NamedTuple):
    """What scaling rows down took of the variances of features, (p,), and of how many rows."""

    parts: Array
    n_rows: float


@dataclass(frozen=True, kw_only=True)
class MomentNoise:
    """Law of the noise on a second moment in encoded units, and the intercept's place in it."""

    entries: EntryNoise
    # What means and covariances are divided by: 1 where it is public or absent.
    intercept: float = 1.0
    intercept_is_noisy: bool = False
    # Of a noisy number of rows by which all entries were divided, relative to its square.
    count_variance: float = 0.0
    # Mean square of what scaling long rows down did to an entry, no noise: for means, covariances.
    bias: float = 0.0
    # Where correlations count what it did to each of them in its place.
    lost: LostParts | None = None
    # How heavy the tails are, from 0, normal, to 1, those of a Laplace law.
    laplace_part: float = 0.0
    has_intercept: bool = True
    # Edge of the eigenvalues relative to Gaussian noise of the same variance.
    edge_factor: float = 1.0
    # Encoded features as combinations of the rows that noise was added to, (p, d).  Only those have
    # these variances.
    features: Array
    # Shares of the rows in which pairs of features are present, (p, p); None: all.
    shares: Array | None = None
    # Independent noise of releases that were combined, in coordinates of its own.
    others: tuple["MomentNoise", ...] = ()

    def on(self, places: Places) -> "MomentNoise":
        """The same for the features at ``places``, (q,), alone."""
        shares = None if self.shares is None else self.shares[np.ix_(places, places)]
        lost = self.lost and self.lost._replace(parts=self.lost.parts[places])
        others = tuple(other.on(places) for other in self.others)
        return replace(
            self, features=self.features[places], shares=shares, lost=lost, others=others
        )

    def mapped(self, map_: Array) -> "MomentNoise":
        """The same for linear combinations of the features, (q, p), of values that are present."""
        others = tuple(other.mapped(map_) for other in self.others)
        return replace(self, features=map_ @ self.features, lost=None, others=others)

    def alone(self) -> Iterator["MomentNoise"]:
        """Every independent noise."""
        yield replace(self, others=())
        yield from self.others

    def over_present(self, presence: Presence, found: PresentMoments) -> "MomentNoise":
        """The same where means are over the values that are present, covariances over pairs.

        The noise of the numbers of those rows is left out: it is small beside the rest.
        """
        # Without its mean, which is subtracted where a value is present.
        mapped = presence.centered(found, self.rows)
        mapped[:, 0] += found.mean
        others = tuple(other.over_present(presence, found) for other in self.others)
        return replace(self, features=mapped, shares=found.shares, others=others)

    def along(self, means: Array) -> tuple[Array, Array]:
        """Centered features where noise was added: products beside intercepts, (p, p), and those.

        Large intercepts, (p,), would hide the products.
        """
        own, first = self._centered(means)
        return own @ own.T, first

    def squares(self, means: Array) -> tuple[Array, Array]:
        """The diagonal of the products of :meth:`along`, (p,), and the intercepts."""
        own, first = self._centered(means)
        return np.sum(own**2, axis=1), first

    def _centered(self, means: Array) -> tuple[Array, Array]:
        centered = self.features.copy()
        centered[:, 0] -= means
        if self.shares is not None:
            centered /= np.sqrt(np.diagonal(self.shares))[:, None]
        return centered[:, int(self.has_intercept) :], centered[:, 0] * self.has_intercept

    @property
    def rows(self) -> Array:
        """The features beside the intercept, (p + 1, d)."""
        return np.vstack([np.eye(1, self.features.shape[1]), self.features])

    def metric(self, means: Array) -> Array:
        """Products of centered features where noise was added, (p, p)."""
        products, first = self.along(means)
        return products + np.outer(first, first)

    @property
    def thinning(self) -> tuple[Array | float, Array | float]:
        """What the noise on means, (p,), and on pairs, (p, p), has beyond that of `along`."""
        if self.shares is None:
            return 1.0, 1.0
        own, rare = np.sqrt(np.diagonal(self.shares)), np.full(self.shares.shape, np.inf)
        # Of features that hardly any row has both of nothing is known.
        return 1 / own, np.divide(np.outer(own, own), self.shares, out=rare, where=self.shares > 0)

    def of_pairs(self, variance: Array) -> Array:
        """Deviations, (p, p), of forms of these variances; 0, not NaN, where there is no noise."""
        found = np.sqrt(np.maximum(variance, 0.0)) / self.intercept
        return np.multiply(found, self.thinning[1], out=np.zeros_like(found), where=found != 0)

    def of_form(self, square: Array, trace: Array | float, at_intercept: Array) -> Array:
        """Variance of <F, W>, F symmetric, from its entry (0, 0), and square and trace beside it.

        What diagonal entries have of their own is here for that entry, and else in `of_entries`.
        """
        v, between = self.entries.off_diagonal + self.bias, self.entries.between_diagonals
        if not self.intercept_is_noisy:
            through_count = at_intercept**2 * self.count_variance
            return 2 * v * square + between * trace**2 + through_count
        own = (2 * v + self.entries.excess) * at_intercept**2
        return own + 2 * v * square + between * (trace + at_intercept) ** 2

    def of_products(self, products: Array, first: Array, less: Array | float = 0.0) -> Array:
        """Variances, (p, p), of u_i'W u_j - ``less``_ij e'W e for u and e as in :meth:`along`."""
        own, at_first = np.diagonal(products), np.outer(first, first)
        square = (np.outer(own, own) + products**2) / 2 + at_first * products
        square += (np.outer(first**2, own) + np.outer(own, first**2)) / 2
        return self.of_form(square, products, at_first - less)

    def of_entries(self, scale: Array, half: Array | None = None) -> Array:
        """What features add to that, (p, p), where diagonal entries have a variance of their own.

        F = a_i a_j' - half_ij a_i a_i' - half_ji a_j a_j' for features a times ``scale``, (p,).
        """
        excess = self._own_excess
        if not excess:
            return np.zeros(())
        a = self._thinned(scale)
        squares, cubes = a**2, a**3 @ a.T
        both, own = squares @ squares.T, np.sum(squares**2, axis=1)
        if half is None:
            return np.asarray(excess * both)
        more = half**2 * own[:, None] + half * half.T * both - 2 * half * cubes
        return np.asarray(excess * (both + more + more.T))

    def of_squares(self) -> Array:
        """The diagonal of what `of_entries` gives features themselves, (p,)."""
        excess = self._own_excess
        if not excess:
            return np.zeros(())
        return np.asarray(excess * np.sum(self._thinned(np.ones(len(self.features))) ** 4, axis=1))

    @property
    def _own_excess(self) -> float:
        excess = self.entries.excess
        return excess if abs(excess) > 1e-9 * self.entries.diagonal else 0.0  # rounding

    def _thinned(self, scale: Array) -> Array:
        a = self.features[:, int(self.has_intercept) :]
        return np.asarray(a * (self.thinning[0] * scale)[:, None])


def of_all(size: Callable[..., Array]) -> Callable[..., Array]:
    """Standard deviation of a sum of noises, whose law comes last: the root of the squares' sum."""

    @wraps(size)
    def summed(*given: Any) -> Array:
        *numbers, law = given
        if not law.others:
            return size(*given)
        found = [size(*numbers, own) for own in law.alone()]
        return np.asarray(np.sqrt(np.sum(np.square(found), axis=0)))

    return summed


def moment_noise(unit: UnitEstimate, manifest: Manifest, frame: Frame) -> MomentNoise | None:
    """Law of the noise on a second moment; None where the mechanism publishes none."""
    if unit.noise is None:
        return None
    scale, has_intercept = manifest.norm_bound**2, manifest.has_intercept
    is_noisy = has_intercept and not manifest.intercept_is_public
    made = MomentNoise(
        entries=unit.noise.times(scale**2),
        intercept=float(unit.matrix[0, 0]) * scale if is_noisy else 1.0,
        intercept_is_noisy=is_noisy,
        count_variance=0.0 if is_noisy else unit.count_variance,
        bias=_bias(unit, manifest),
        laplace_part=unit.laplace_part,
        has_intercept=has_intercept,
        edge_factor=NUCLEAR_EDGE if unit.noise_is_nuclear else 1.0,
        features=frame.back[int(has_intercept) :],
    )
    if not unit.sources:
        return made
    first, *others = (
        replace(
            made, entries=source.noise.times(scale**2), features=source.back[int(has_intercept) :]
        )
        for source in unit.sources
    )
    # What lengths lost, and the number of rows, count once.
    rest = tuple(replace(other, bias=0.0, count_variance=0.0) for other in others)
    return replace(first, others=rest)


def _bias(unit: UnitEstimate, manifest: Manifest) -> float:
    features = np.diagonal(unit.matrix)[int(manifest.has_intercept) :]
    # Of all encoded features together, for each one that is no indicator of missing values.
    count = max(1, count_values(manifest.columns))
    mean_square = max(0.0, float(features.sum()) / count) * manifest.norm_bound**2
    error = correlation_error(manifest.statistics.lost, unit.n_rows)
    return float(error * mean_square) ** 2


def hidden_variance(means: Array, noise: MomentNoise | None) -> Array:
    """The largest variances of encoded columns that noise may make of nothing; 0 if unknown."""
    if noise is None:
        return np.zeros(len(means))
    return np.asarray(DEVIATIONS * variance_noise(means, np.zeros(len(means)), noise))


@of_all
def share_noise(presence: Presence, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on shares of the rows that have both of two features, (p, p).

    ``noise`` is that of all rows.
    """
    rows = presence.of_rows(noise.rows)
    variance = noise.of_products(rows[:, 1:] @ rows[:, 1:].T, rows[:, 0])
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / noise.intercept)


def hidden_presence(presence: Presence, means: Array, noise: MomentNoise) -> NDArray[np.bool_]:
    """Features of which noise hides how many rows have a value, by means of all rows, (p,)."""
    of_shares = mean_noise(means, noise)[presence.indicators] * presence.units
    return np.asarray(of_shares > UNKNOWN_SHARE)


def hardly_present(presence: Presence, means: Array, noise: MomentNoise) -> NDArray[np.bool_]:
    """Features that hardly any row has, or none as far as the noise lets see, (p,)."""
    own, units = presence.indicators, presence.units
    least = np.maximum(LEAST_SHARE, DEVIATIONS * mean_noise(means, noise)[own] * units)
    return np.asarray(1.0 - means[own] * units <= least)


def known_presence(presence: Presence, means: Array, noise: MomentNoise) -> Presence:
    """The same, with the indicators, and the shares with both of two, that noise lets be known."""
    small = (means < DEVIATIONS * mean_noise(means, noise))[presence.indicators]
    known = presence.without(presence.indicators[small | hidden_presence(presence, means, noise)])
    return replace(known, least=np.maximum(KNOWN_SHARE * share_noise(known, noise), known.least))


@of_all
def mean_noise(means: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on means, shape (d,)."""
    # By dm_i = u_i'W e / c, where u_i is a centered feature and e the intercept.
    squares, first = noise.squares(means)
    variance = noise.of_form(squares / 2, 0.0, first)
    return np.asarray(np.sqrt(variance) / noise.intercept * noise.thinning[0])


def total_noise(total: float, weights: Array, noise: MomentNoise) -> float:
    """Standard deviation of the noise on a ``total`` of means with these ``weights``, (p,)."""
    return float(mean_noise(np.array([total]), _of_total(weights, noise))[0])


def _of_total(weights: Array, noise: MomentNoise) -> MomentNoise:
    # The law for one feature alone: the sum.
    places = np.flatnonzero(weights) if weights.any() else np.arange(1)
    alone = noise.on(places)
    # Levels of one column are present together.
    shares = None if alone.shares is None else alone.shares[:1, :1]
    others = tuple(_of_total(weights, other) for other in noise.others)
    return replace(alone.mapped(weights[None, places]), shares=shares, others=others)


@of_all
def variance_noise(means: Array, variances: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on variances, shape (d,)."""
    # The diagonal of the noise on covariances, which a matrix of them would take a product for.
    own, first = noise.squares(means)
    variance = noise.of_form(own**2 + 2 * own * first**2, own, first**2 - variances)
    return np.asarray(np.sqrt(np.maximum(variance + noise.of_squares(), 0.0)) / noise.intercept)


def deviation_noise(means: Array, variances: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on standard deviations; NaN at no positive variance."""
    usable = np.where(variances > 0, variances, np.nan)
    return np.asarray(variance_noise(means, variances, noise) / (2 * np.sqrt(usable)))


@of_all
def covariance_noise(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on covariances, (d, d)."""
    # By dC_ij = (u_i'W u_j - C_ij e'W e) / c, where u_i is a centered feature, e the intercept.
    variance = noise.of_products(*noise.along(means), covariance)
    return noise.of_pairs(variance + noise.of_entries(np.ones(len(means))))
