"""Classes that are the levels of a column: what a matrix of all rows tells of them.

A level's covariance with a feature is the level's share times how far the feature's mean is, among
its rows, from that of all.  So one release tells the classes of every column of levels.
"""

from typing import NamedTuple

import numpy as np

from dpcov.analysis.features import Columns, verdicts_of
from dpcov.analysis.problems import InputError
from dpcov.analysis.reading import Reading
from dpcov.errors import few_of
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.words.numbers import complete_columns


class LevelClasses(NamedTuple):
    """Names of k classes; shares of the rows, (k,); means less that of all rows, (k, p).

    ``between``, (p, p), is how means of classes vary, those of rows in none included.
    """

    names: tuple[str, ...]
    shares: Array
    apart: Array
    between: Array


def places_of_levels(columns: Columns, target: str) -> Places:
    """Where the levels of a column are, or its yes and no; InputError unless it has two."""
    kinds = "category", "boolean"
    found = [place for place, x in enumerate(columns) if x.source == target and x.kind in kinds]
    if not found:
        known = few_of([*dict.fromkeys(x.source for x in columns if x.kind in kinds)], 8)
        raise InputError(
            f"target={target!r} is no column of categories, or of yes and no. This release has: "
            f"{known or 'none'}."
        )
    if len(found) == 1 and columns[found[0]].kind == "category":
        raise InputError(f"target={target!r} has one level alone. Classes are two levels or more.")
    return np.array(found, dtype=np.intp)


def level_classes(pooled: Reading, levels: Places) -> LevelClasses:
    """The classes that are levels at these places, of a reading of the features.

    A class whose share the noise hides has the mean of all rows.
    """
    release, p = pooled.release, len(pooled.places)
    columns = [release.restored_features[place] for place in levels]
    both = Reading(release, np.append(pooled.places, levels), pooled.post, missing=pooled.missing)
    shares, along = np.clip(both.mean[p:], 0.0, 1.0), both.covariance[p:, :p]
    shown = np.array([not verdict.hidden for verdict in verdicts_of(release, levels)])
    names = tuple(column.level for column in columns)
    if columns[0].kind == "boolean":
        names, shown = ("true", "false"), np.repeat(shown, 2)
        shares, along = np.append(shares, 1.0 - shares), np.vstack([along, -along])
    # Every class has a row at least: shares are divided by, and have logarithms.
    shares = np.maximum(shares, 1.0 / release.n_rows)
    shares /= max(1.0, float(shares.sum()))
    rest = 0.0 if columns[0].source in complete_columns(release) else 1.0 - float(shares.sum())
    apart = np.where(shown[:, None], along / shares[:, None], 0.0)
    between = (apart.T * shares) @ apart
    if rest > 0:
        others = shares @ apart
        between += np.outer(others, others) / rest
    return LevelClasses(names, shares, apart, between)
