"""How the levels of a categorical column enter a regression.

Contract: one rule for all regressions; public numbers only.

Notes
-----
Beside an intercept, levels that hold nearly all rows are collinear, and only their differences are known.  So one of
them, the first, is the *reference*: it has no coefficient, and the others' are contrasts to it.

That choice should not change the fit.  So the model is fitted to the levels' deviations from their mean: on the space
orthogonal to (1, ..., 1), in orthonormal coordinates, where isotropic noise stays isotropic and a penalty treats all
levels alike.  Contrasts are read from the deviations b as b_k - b_reference; the intercept becomes that of the
reference.  A marked missing value is a level like the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from dpcov.analysis.features import Places, feature_columns, source_names
from dpcov.published.columns import EncodedColumn
from dpcov.published.release import Release

Array = NDArray[np.float64]

NEARLY_ALL = 0.9
"""Share of rows in chosen levels from which these are taken to be exhaustive, and hence collinear."""


def without_references(release: Release, places: Places) -> tuple[Places, tuple[str, ...]]:
    """Leave out the reference level of every column whose levels add up to nearly all rows.

    Returns
    -------
    (Places, tuple of str)
        What is left, and the names of what is not.
    """
    columns, chosen = feature_columns(release), set(map(int, places))
    left_out: list[int] = []
    for source in source_names([columns[place] for place in places]):
        levels = [i for i, c in enumerate(columns) if c.source == source and c.kind == "category"]
        missing = [
            i for i in chosen if columns[i].source == source and columns[i].kind == "missing"
        ]
        if len(levels) > 1 and chosen.issuperset(levels):
            left_out += levels[:1] * bool(release.mean()[levels + missing].sum() > NEARLY_ALL)
    kept = [place for place in places if place not in left_out]
    return np.array(kept, dtype=np.intp), tuple(columns[place].name for place in left_out)


@dataclass(frozen=True, kw_only=True, eq=False)
class Coding:
    """From p chosen features to the q directions that are fitted, and back to q coefficients.

    Parameters
    ----------
    directions : (q, p) float64
        Orthonormal rows.
    contrasts : (q, p) float64
        Coefficients as functions of b, one number for each chosen feature.
    kept : (q,) intp
        Which of the chosen features have a coefficient.
    reference : (p,) float64
        What of b belongs to the intercept.
    """

    directions: Array
    contrasts: Array
    kept: Places
    reference: Array


def coding_of(
    columns: Sequence[EncodedColumn], places: Places, references: Sequence[str]
) -> Coding:
    """Code the chosen features, of which ``references`` are left out."""
    chosen = [columns[place] for place in places]
    directions = contrasts = np.eye(len(chosen))
    reference, dropped = np.zeros(len(chosen)), list[int]()
    for name in references:
        (base,) = (i for i, column in enumerate(chosen) if column.name == name)
        levels = [i for i, column in enumerate(chosen) if column.source == chosen[base].source]
        directions, contrasts = directions.copy(), contrasts.copy()
        directions[np.ix_([i for i in levels if i != base], levels)] = helmert(len(levels))
        contrasts[levels, base] -= 1.0
        reference[base] = 1.0
        dropped.append(base)
    return Coding(
        directions=np.delete(directions, dropped, axis=0),
        contrasts=np.delete(contrasts, dropped, axis=0),
        kept=np.delete(np.arange(len(chosen)), dropped),
        reference=reference,
    )
