"""Decide how the levels of a categorical column enter a regression.

Levels that hold nearly all rows are collinear beside an intercept.  So the first is the
*reference*: it has no coefficient, and the coefficients of the others are contrasts to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert

from dpcov.analysis.features import Array, Columns, Places, feature_columns, source_names
from dpcov.published.release import Release

# Share of rows from which levels are taken to be exhaustive, and hence collinear.
NEARLY_ALL = 0.9


def without_references(release: Release, places: Places) -> tuple[Places, tuple[str, ...]]:
    """Leave out the reference level of every column whose levels hold nearly all rows.

    Returns the places that are left, and the names of the references.
    """
    columns, chosen = feature_columns(release), set(map(int, places))
    left_out: list[int] = []
    for source in source_names([columns[place] for place in places]):
        own = [i for i, column in enumerate(columns) if column.source == source]
        levels = [i for i in own if columns[i].kind == "category"]
        # A marked missing value is a level like the others.
        missing = [i for i in own if columns[i].kind == "missing" and i in chosen]
        if len(levels) > 1 and chosen.issuperset(levels):
            left_out += levels[:1] * bool(release.mean()[levels + missing].sum() > NEARLY_ALL)
    kept = [place for place in places if place not in left_out]
    return np.array(kept, dtype=np.intp), tuple(columns[place].name for place in left_out)


@dataclass(frozen=True, eq=False)
class Coding:
    """From p chosen features to the q directions that are fitted, and back to q coefficients."""

    # Orthonormal rows, (q, p).
    directions: Array
    # Coefficients as functions of b, one number for each chosen feature, (q, p).
    contrasts: Array
    # Which of the chosen features have a coefficient, (q,).
    kept: Places
    # What of b belongs to the intercept, (p,).
    reference: Array


def coding_of(columns: Columns, places: Places, references: Sequence[str]) -> Coding:
    """Code the chosen features, of which ``references`` are left out."""
    chosen = [columns[place] for place in places]
    n = len(chosen)
    directions, contrasts, reference = np.eye(n), np.eye(n), np.zeros(n)
    dropped = [i for i, column in enumerate(chosen) if column.name in references]
    for base in dropped:
        levels = [i for i, column in enumerate(chosen) if column.source == chosen[base].source]
        # The choice of the reference must not change the fit: deviations from the mean of the
        # levels, in orthonormal coordinates, keep isotropic noise isotropic and penalize all alike.
        directions[np.ix_([i for i in levels if i != base], levels)] = helmert(len(levels))
        contrasts[levels, base] -= 1.0
        reference[base] = 1.0
    directions, contrasts = (np.delete(each, dropped, axis=0) for each in (directions, contrasts))
    return Coding(directions, contrasts, np.delete(np.arange(n), dropped), reference)
