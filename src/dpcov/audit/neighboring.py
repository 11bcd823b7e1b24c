"""Pairs of made-up neighboring tables, known and random.

Contract: two tables of a pair differ in one row, and every row lies in the unit ball.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from dpcov.privacy.guarantee import Neighbors

Table = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Neighboring:
    """Two tables (n, d); under add-remove-one the second lacks the first one's row 0."""

    relation: Neighbors
    first: Table
    second: Table
    label: str = "given"


def pair_of(
    relation: Neighbors, rest: Table, first: Table, second: Table, label: str
) -> Neighboring:
    """Put a person's row, and another one or none, before the rows of all others."""
    rows = np.concatenate([first[None, :], rest])
    other = np.concatenate([second[None, :], rest]) if relation == "replace-one" else rest
    return Neighboring(relation=relation, first=rows, second=other, label=label)


def attaining(relation: Neighbors, n_features: int = 2) -> Neighboring:
    """One unit row against an orthogonal one, or none: attains the Frobenius sensitivity."""
    axes = np.eye(max(n_features, 2))[:, :n_features]
    return pair_of(relation, np.zeros((3, n_features)), axes[0], axes[1], "attaining")


def turned(pair: Neighboring) -> Neighboring:
    """The same pair, its first axis spread over all columns; two columns turn by 45 degrees."""
    turn = dct(np.eye(pair.first.shape[1]), axis=0, norm="ortho")
    # The difference moves to other entries; rounding may lengthen a unit row.
    first, second = (into_ball(rows @ turn) for rows in (pair.first, pair.second))
    return replace(pair, first=first, second=second, label=f"{pair.label}, turned")


def beside(relation: Neighbors, n_features: int, first: int, second: int) -> Neighboring:
    """The attaining pair beside unit rows along two axes, and as many zeros."""
    # Other rows part the eigenvalues, so that one row more moves them and not the eigenvectors.
    axes = np.eye(n_features)
    rest = np.repeat([axes[0], axes[1], 0.0 * axes[0]], [first, second, 3 + first + second], axis=0)
    label = "beside a row" if first + second == 1 else f"beside {first + second} rows"
    return pair_of(relation, rest, axes[0], axes[1], label)


def known_pairs(relation: Neighbors, n_features: int = 2) -> list[Neighboring]:
    """The attaining pair, also turned and beside other rows; a short row alone and among others."""
    best, axis = attaining(relation, n_features), np.eye(n_features)[0]
    among = np.repeat(0.2 * axis[None, :], 200, axis=0)
    return [
        best,
        turned(best),
        beside(relation, n_features, 1, 0),
        beside(relation, n_features, 20, 0),
        beside(relation, n_features, 100, 40),
        beside(relation, n_features, 100, 100),
        pair_of(relation, 0.0 * best.first[1:], 0.3 * axis, 0.0 * axis, "short row"),
        pair_of(relation, among, 0.2 * best.first[0], 0.2 * best.second[0], "among short rows"),
    ]


def far_out(relation: Neighbors, n_features: int) -> list[Neighboring]:
    """A row against its opposite, or none, where all others are zero, or short on two sides.

    It is long in their scales; beside zeros alone a survey may take it for one of a spread.
    """
    axis, sides = np.eye(n_features)[0], np.resize([1.0, -1.0], (600, 1))
    others = {"far out": 0.0, "far out of a spread": 2.0**-10}
    return [
        pair_of(relation, np.tile(length * sides, n_features), axis, -axis, label)
        for label, length in others.items()
    ]


def into_ball(rows: Table) -> Table:
    """Shorten rows longer than one."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.where(norms > 1.0, rows / np.maximum(norms * (1 + 1e-15), 1e-300), rows))


def random_pair(relation: Neighbors, n_features: int, random: np.random.Generator) -> Neighboring:
    """A random row against another one or none, the other rows zero, alike, or scattered."""
    n_rows = int(random.integers(2, 7))
    directions = random.normal(size=(n_rows + 1, n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    whole = random.random(n_rows + 1) < 0.5
    lengths = np.where(whole, 1.0, 2.0 ** -random.uniform(0.0, 6.0, n_rows + 1))
    rows = into_ball(directions * lengths[:, None])
    alike = np.repeat(rows[2:3], n_rows - 1, axis=0)
    rest = (0.0 * alike, alike, rows[2:])[random.integers(3)]
    return pair_of(relation, rest, rows[0], rows[1], "random")
