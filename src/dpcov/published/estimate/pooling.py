"""Estimate many groups together: pull each toward what all have in common, as far as noise says.

Contract: noisy numbers and their known variances only, deterministic.  Derived and measured in
docs/several.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np

from dpcov.published.linalg.symmetric import Array

_ROUNDS, _CLOSE = 50, 1e-4


class Pulled(NamedTuple):
    """Entries of all groups, (G, k), the variances of their errors, and the shares kept, (G, k)."""

    values: Array
    variances: Array
    kept: Array


def pull(noisy: Array, variances: Array, mean: Array) -> Pulled:
    """Shrink entries of groups toward a common mean, by the variation between groups.

    Entry k of group g is mean_k + a deviation of variance t_k + an error of known variance v_gk.
    The best estimate keeps t / (t + v) of the distance from the mean.  t is found by moments with
    weights 1 / (t + v)^2, by turns.  Few groups tell t of one entry badly, so that all t are drawn
    toward their mean, as far as their own errors explain how they differ.

    Parameters
    ----------
    noisy, variances : (G, k) float64
    mean : (k,) float64
    """
    t = np.zeros(noisy.shape[1])
    for _ in range(_ROUNDS):
        weight = 1 / (t + variances)
        total = weight.sum(axis=0)
        squares = (noisy - mean) ** 2 - variances
        information = np.sum(weight**2, axis=0)
        last, t = t, _drawn((weight**2 * squares).sum(axis=0) / information, 2 / information)
        if np.allclose(t, last, rtol=_CLOSE, atol=0.0):
            break
    kept = t / (t + variances)
    uncertain = kept * variances + (1 - kept) ** 2 / total
    return Pulled(mean + kept * (noisy - mean), uncertain, kept)


def _drawn(found: Array, variances: Array) -> Array:
    # Moment estimates toward their mean.
    weight = 1 / variances
    mean = float(weight @ found / weight.sum())
    between = max(0.0, float(np.mean((found - mean) ** 2 - variances)))
    return np.asarray(np.maximum(mean + between / (between + variances) * (found - mean), 0.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupMoments:
    """Unbiased moments of groups, with isotropic noise: the least that pooling needs.

    ``means`` (G, p) and ``covariances`` (G, p, p) in the coordinates in which noise was added;
    ``variances`` (G,) of an entry off the diagonal; ``counts`` (G,), and ``count_variances`` (G,)
    relative to their squares.
    """

    means: Array
    covariances: Array
    variances: Array
    counts: Array
    count_variances: Array

    @classmethod
    def of(cls, groups: Sequence["GroupMoments"]) -> Self:
        """Several together."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(g, name) for g in groups]) for name in names})


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledMoments:
    """Means (G, p) and covariances (G, p, p), with errors in coordinates of their own.

    There all entries of errors are independent, of variances ``mean_variances`` (G, p) and
    ``covariance_variances`` (G, p, p); ``home`` (p, p) leads back from them.  ``kept`` (G,) is the
    share of its distance from the others that a group keeps, on average.
    """

    means: Array
    covariances: Array
    mean_variances: Array
    covariance_variances: Array
    home: Array
    kept: Array

    def errors(self, group: int, map_: Array) -> tuple[Array, Array]:
        """Variances of errors of means, (q,), and covariances, (q, q), under a map, (q, p)."""
        whole = map_ @ self.home
        return whole**2 @ self.mean_variances[group], _spread(
            whole, self.covariance_variances[group]
        )


def pool_moments(groups: GroupMoments, whole: Array, back: Array) -> PooledMoments:
    """Pool means and covariances; the result is in coordinates that ``back``, (p, p), leads to.

    ``whole``, (p, p), is the estimated covariance of all rows together.  Pooling happens where it
    is the identity: there groups of a common kind differ alike in all directions.
    """
    shares, p = groups.counts / groups.counts.sum(), len(back)
    center, sampling = shares @ groups.means, 1 / groups.counts
    apart = groups.means - center
    around = groups.covariances + apart[:, :, None] * apart[:, None, :]
    values, vectors = np.linalg.eigh(whole)
    # Directions that noise hides are taken to be as long as the noise.
    edge = 2 * float(np.sqrt(shares**2 @ groups.variances * p))
    lengths = np.sqrt(np.maximum(values, max(edge, 1e-9 * float(values[-1]))))
    forth, home = (vectors / lengths).T, back @ (vectors * lengths)
    own, shift = forth @ forth.T, forth @ center
    size, counted = np.diagonal(own) + shift**2, groups.count_variances[:, None]
    noise = groups.variances[:, None] * size + counted * shift**2
    means = pull(apart @ forth.T, noise + sampling[:, None], np.zeros(p))
    # Around a group's own mean, of which a part is not known.
    moved = means.values[:, :, None] * means.values[:, None, :]
    moved[:, range(p), range(p)] += means.variances
    target = forth @ whole @ forth.T - np.tensordot(shares, moved, axes=1)
    products = own + np.outer(shift, shift)
    variances = groups.variances[:, None, None] * (np.outer(size, size) + products**2)
    variances += (1 + np.eye(p)) * sampling[:, None, None] + counted[:, :, None] * np.eye(p)
    found = _pull_symmetric(forth @ around @ forth.T - moved, variances, target)
    return PooledMoments(
        means=means.values @ home.T + back @ center,
        covariances=np.array([home @ _positive(each) @ home.T for each in found.values]),
        mean_variances=means.variances,
        covariance_variances=found.variances,
        home=home,
        kept=found.kept.mean(axis=(1, 2)),
    )


def _pull_symmetric(noisy: Array, variances: Array, mean: Array) -> Pulled:
    # Variances and covariances are two families of entries.
    rows, columns = np.triu_indices(noisy.shape[1])
    made = Pulled(*(np.zeros_like(noisy) for _ in range(3)))
    for family in (rows == columns, rows < columns):
        i, j = rows[family], columns[family]
        if len(i):
            found = pull(noisy[:, i, j], variances[:, i, j], mean[i, j])
            for whole, part in zip(made, found, strict=True):
                whole[:, i, j] = whole[:, j, i] = part
    return made


def _positive(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _spread(back: Array, variances: Array) -> Array:
    """Variances of the entries of back E back' for symmetric E of independent entries."""
    squares = back**2
    found: Array = squares @ variances @ squares.T
    found -= squares @ (np.diagonal(variances) * squares).T
    for i, row in enumerate(back):
        both = back * row
        found[i] += np.sum((both @ variances) * both, axis=1)
    return np.asarray(found)
