"""Estimate many groups together: pull each toward what all have in common, as far as noise says.

Contract: noisy numbers and their known variances only, deterministic.  Derived and measured in
docs/several.md.
"""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dpcov.published.estimate.correlation_noise import UNKNOWN_CORRELATION
from dpcov.published.estimate.present import LEAST_SHARE, moment_of
from dpcov.published.estimate.strata import shrink_strata
from dpcov.published.estimate.unit import Part
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, correlation_of, symmetrize

_ROUNDS, _CLOSE = 50, 1e-4
# A pulled variance is at least this part of the pooled one: correlations are divided by it. And the
# variance inside of groups of that of all rows.
_LEAST_VARIANCE = 0.05


class Pulled(NamedTuple):
    """Entries of all groups, (G, k), the variances of their errors, and the shares kept, (G, k)."""

    values: Array
    variances: Array
    kept: Array


def pull(noisy: Array, variances: Array, mean: Array, shares: Array) -> Pulled:
    """Shrink entries of groups toward a common mean, by the variation between groups.

    Entry k of group g is mean_k + a deviation of variance t_k + an error of known variance v_gk.
    The best estimate keeps t / (t + v) of the distance from the mean.  t is found by moments: the
    mean is that of the groups by ``shares`` s, (G, k) or (G, 1), so that squared distances from it
    are a t + b on average, where a group with a large share is close by itself.  Weights are
    1 / (a t + b)^2, by turns.  Few groups tell t of one entry badly, so that all t are drawn toward
    their mean, as far as their own errors explain how they differ.  The variances of errors count
    how badly t is known.  ``noisy`` and ``variances`` are (G, k), ``mean`` is (k,).
    """
    t = np.zeros(noisy.shape[1])
    of_mean = np.sum(shares**2 * variances, axis=0)
    a = (1 - shares) ** 2 + np.maximum(np.sum(shares**2, axis=0) - shares**2, 0.0)
    others = np.maximum(of_mean - shares**2 * variances, 1e-300)
    b = (1 - shares) ** 2 * variances + others
    # Entries of which noise leaves little known say little about how entries differ.
    known = np.sum((a / b) ** 2, axis=0)
    for _ in range(_ROUNDS):
        size = a * t + b
        information = np.sum((a / size) ** 2, axis=0)
        told = a * ((noisy - mean) ** 2 - b) / size**2
        found, errors = _drawn(told.sum(axis=0) / information, 2 / information, known)
        # Half a step: with few groups whole ones may go to and fro between two numbers.
        last, t = t, (t + np.maximum(found, 0.0)) / 2
        if np.allclose(t, last, rtol=_CLOSE, atol=_CLOSE * float(variances.min())):
            break
    kept = t / (t + variances)
    # What t is on average, given that it is not negative: the mean of a normal law above zero, and
    # errors are in proportion to t + v, so that larger t are likelier than as much smaller ones.
    beyond = np.exp(norm.logpdf(found / errors) - norm.logcdf(found / errors))
    expected = found + errors * beyond + errors**2 * np.sqrt(information / len(noisy))
    uncertain = kept**2 * variances + (1 - kept) ** 2 * (a * expected + of_mean)
    return Pulled(mean + kept * (noisy - mean), uncertain, kept)


def _drawn(found: Array, variances: Array, known: Array) -> tuple[Array, Array]:
    """Moment estimates toward their mean, and the standard deviations of their errors.

    How they differ is told by each as far as it is ``known`` where groups do not differ.
    """
    weight, part = 1 / variances, known / known.sum()
    mean = float(weight @ found / weight.sum())
    between = max(0.0, float(part @ ((found - mean) ** 2 - variances)))
    share = between / (between + variances)
    # How entries differ is known badly itself: one that differs alone must not seem sure.
    most = between + sqrt(2 * float(part @ part)) * float(part @ variances)
    errors = np.sqrt(most / (most + variances) * variances + 1 / weight.sum())
    return mean + share * (found - mean), np.asarray(errors)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupMoments:
    """Unbiased moments of groups, with isotropic noise: the least that pooling needs.

    ``means`` (G, p) and ``covariances`` (G, p, p) in the coordinates in which noise was added;
    ``variances`` (G,) of an entry off the diagonal; ``counts`` (G,), and ``count_variances`` (G,)
    of what means are divided by, relative to its square; ``worth`` (G,), as how many independent
    rows of one weight they count for sampling.
    """

    means: Array
    covariances: Array
    variances: Array
    counts: Array
    count_variances: Array
    worth: Array


class Reading(NamedTuple):
    """What p features are in rows of the coordinates in which noise was added, intercept first.

    ``values``, (p, q + 1), times a row is the feature, zero where it is missing; ``present`` is one
    where it is not.  ``together``, (p, p), is how much more often two are present than by chance.
    ``between``, (p, p), is what pairwise covariances leave out as means over pairs differ, and
    ``known``, (p, p), where enough rows have both.
    """

    values: Array
    present: Array
    together: Array
    between: Array
    known: NDArray[np.bool_]

    def at(self, means: Array) -> tuple[Array, Array, Array]:
        """Shares present, (p,), means, (p,), and centered features, (p, q + 1), at means (q,)."""
        row = np.append(1.0, means)
        shares = np.clip(self.present @ row, LEAST_SHARE, 1.0)
        found = self.values @ row / shares
        return shares, found, self.values - found[:, None] * self.present

    def pairs(self, shares: Array) -> Array:
        """Share of rows, (p, p), in which both of two are present."""
        # What two shares leave for both, and the most that have both.
        least = np.maximum(shares[:, None] + shares - 1.0, LEAST_SHARE)
        most = np.minimum(shares[:, None], shares)
        found = np.clip(np.outer(shares, shares) * self.together, least, most)
        np.fill_diagonal(found, shares)
        return found


class PooledMoments(NamedTuple):
    """Means (G, p) and covariances (G, p, p) over the values that are present.

    And the variances of their errors; ``by_correlations`` (G, p, p) is the part of those of
    covariances that errors of correlations cause.  ``kept`` (G,) is the share of its distance from
    the others that a group's correlations keep, on average.
    """

    means: Array
    mean_variances: Array
    covariances: Array
    covariance_variances: Array
    by_correlations: Array
    kept: Array


def pool_moments(groups: GroupMoments, whole: Array, reading: Reading) -> PooledMoments:
    """Pool means and covariances of features.

    ``whole``, (q, q), is the estimated covariance of all rows together, where noise was added.
    Means are pooled where it is the identity, covariances as variances and correlations of
    features: groups often differ in spread and not in how features go together.
    """
    worth, shares = groups.worth, 1 / (groups.variances + 1 / groups.worth)
    shares /= shares.sum()
    center = shares @ groups.means
    pulled, of_rows, home = _pull_means(groups, whole, shares)
    common = reading.at(center)[1:]
    means, errors, within, products, rows = (list[Array]() for _ in range(5))
    for g, own in enumerate(center + pulled.values @ home.T):
        present, mean, seen = reading.at(own)
        unknown = (seen[:, 1:] @ home / present[:, None]) * np.sqrt(pulled.variances[g])
        # Around the mean of a group's own rows, of which a part is not known.
        apart = reading.at(center + home @ of_rows.values[g])[1] - common[0]
        doubt = (seen[:, 1:] @ home / present[:, None]) * np.sqrt(of_rows.variances[g])
        moved = np.outer(apart, apart) + doubt @ doubt.T
        moment = moment_of(groups.means[g], groups.covariances[g])
        pairs = reading.pairs(present)
        within.append(common[1] @ moment @ common[1].T / pairs - moved - reading.between)
        means.append(mean)
        errors.append(np.sum(unknown**2, axis=1))
        products.append(seen @ seen.T)
        rows.append(worth[g] * pairs)
    sampling, size = 1 / np.array(rows), np.array(products)
    own = np.diagonal(size, axis1=1, axis2=2)
    noise = own[:, :, None] * own[:, None, :] + size**2
    noise *= groups.variances[:, None, None] * (sampling * worth[:, None, None]) ** 2
    metric = common[1][:, 1:] @ common[1][:, 1:].T
    matrices = np.array(within)
    common_of_all = _common(matrices, noise, sampling, metric, reading.known)
    found = _pull_columns(matrices, noise, *common_of_all, sampling, reading.known)
    return PooledMoments(np.array(means), np.array(errors), *found)


def _pull_means(groups: GroupMoments, whole: Array, shares: Array) -> tuple[Pulled, Pulled, Array]:
    """Distances from the center where ``whole`` is the identity, and the way back, (q, q).

    Those of the groups' means, and those of the means of their rows, which noise alone hides.
    """
    center, counted = shares @ groups.means, groups.count_variances[:, None]
    rows = groups.counts / groups.counts.sum()
    values, vectors = np.linalg.eigh(whole)
    # Directions that noise hides are taken to be as long as the noise.
    edge = 2 * sqrt(float(rows**2 @ groups.variances) * len(whole))
    lengths = np.sqrt(np.maximum(values, max(edge, 1e-9 * float(values[-1]))))
    forth = (vectors / lengths).T
    shift = forth @ center
    noise = groups.variances[:, None] * np.sum(forth**2, axis=1) + counted * shift**2
    apart = (groups.means - center) @ forth.T
    sampling = _within(apart, noise, rows, 1 / groups.worth) / groups.worth[:, None]
    pulled = pull(apart, noise + sampling, np.zeros(len(whole)), shares[:, None])
    # Of the rows' own means it is known that they vary by sampling, too.
    kept = 1 - (1 - pulled.kept) * noise / (noise + sampling)
    of_rows = Pulled(kept * apart, kept * noise, kept)
    return pulled, of_rows, vectors * lengths


def _within(apart: Array, noise: Array, rows: Array, sampling: Array) -> Array:
    """Variances inside of groups, (q,), where those of all rows together are one.

    ``apart``, (G, q), are distances of groups from their center, with ``noise`` of these variances
    and a ``sampling`` error of the variance inside, (G,); ``rows``, (G,), are shares of the rows.
    """
    between = rows @ (apart**2 - noise)
    # It is rarely taken to be far too small: a standard deviation is added.
    doubt = np.sqrt(rows**2 @ (2 * noise**2 + 4 * noise * apart**2))
    inside = (1 - between + doubt) / (1 - min(float(rows @ sampling), 0.5))
    return np.asarray(np.clip(inside, _LEAST_VARIANCE, 1.0))


def _common(
    within: Array, noise: Array, sampling: Array, metric: Array, known: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """What groups have in common, (p, p), weighted by what each says and shrunk; the weights.

    Weights are those of entries, (G, p, p), since a group may lack a column that others have.  What
    is not ``known``, (p, p), is taken to be zero.  ``metric``, (p, p), is where noise is isotropic.
    """
    values, vectors = np.linalg.eigh(metric)
    root, p = (vectors * np.sqrt(values)) @ vectors.T, len(metric)
    undo, entries = np.linalg.inv(root), 1 + np.eye(p)
    # Noise in units of that of one off the diagonal.
    unit = np.outer(np.diagonal(metric), np.diagonal(metric)) + metric**2
    own = noise / unit
    t, weight, shares = 0.0, 1 / own, np.zeros_like(own)
    found, within = np.zeros_like(metric), np.where(known, within, 0.0)
    for _ in range(_ROUNDS * known.any()):
        shares = weight / weight.sum(axis=0)
        mean = symmetrize(undo @ np.sum(shares * within, axis=0) @ undo)
        variance = 2 * float(np.mean(np.sum(shares**2 * own, axis=0)[known]))
        part = Part(matrix=mean, diagonal_variance=variance)
        found = shrink_strata([part]).matrix
        spread = (float(np.trace(found)) ** 2 + float(np.sum(found**2))) / entries.sum()
        errors = own + spread * sampling
        squares = (within - root @ found @ root) ** 2 / unit - errors
        counted = entries * known / (t + errors) ** 2
        last, t = t, max(0.0, float(np.average(squares, weights=counted)))
        if abs(t - last) <= _CLOSE * last:
            break
        weight = 1 / (t + errors)
    return np.asarray(root @ found @ root), shares


def _pull_columns(
    noisy: Array,
    noise: Array,
    common: Array,
    shares: Array,
    sampling: Array,
    known: NDArray[np.bool_],
) -> tuple[Array, Array, Array, Array]:
    """Variances toward those of ``common``, (p, p), and ``known`` correlations toward its own.

    Returns covariances (G, p, p), the variances of their errors, the part of these that is of
    correlations, and the shares kept (G,).
    """
    p = len(common)
    rows, columns = np.nonzero(np.triu(known, 1))
    spread, one = np.diagonal(common), range(p)
    # Nothing is divided by zero where nobody has a spread.
    spread = np.maximum(spread, max(1e-9 * float(spread.max(initial=0.0)), 1e-60))
    own = noise[:, one, one] / spread**2 + 2 * sampling[:, one, one]
    scales = pull(noisy[:, one, one] / spread, own, np.ones(p), shares[:, one, one])
    relative = np.maximum(scales.values, _LEAST_VARIANCE)
    deviations = np.sqrt(relative * spread)
    units = deviations[:, :, None] * deviations[:, None, :]
    target = correlation_of(common, undefined=0.0)
    errors = noise / units**2 + (1 - target**2) ** 2 * sampling
    of_scales = scales.variances / relative**2
    found, variances = np.zeros_like(noisy), np.full_like(noisy, UNKNOWN_CORRELATION)
    found[:, one, one], kept = 1.0, scales.kept
    if len(rows):
        made = pull(
            (noisy / units)[:, rows, columns],
            errors[:, rows, columns],
            target[rows, columns],
            shares[:, rows, columns],
        )
        kept = made.kept
        found[:, rows, columns] = found[:, columns, rows] = made.values
        variances[:, rows, columns] = variances[:, columns, rows] = made.variances
    # Noise may leave nothing of a group's column.
    correlations = np.array([correlation_of(project_psd(each), undefined=0.0) for each in found])
    both = of_scales[:, :, None] + of_scales[:, None, :]
    variances *= units**2
    whole = variances + (units * correlations) ** 2 / 4 * both
    whole[:, one, one] = (relative * spread) ** 2 * of_scales
    return units * correlations, whole, variances, kept.mean(axis=1)
