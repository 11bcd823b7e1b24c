"""Post-processing of noisy eigenvalues.

Contract: looks at noisy numbers only; ``monotone`` and ``clip`` never increase the distance to the true
spectrum if the bound on the trace holds, since each projects on a convex set that contains it.  Knows nothing
of rows.
"""

from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array

Rule = Literal["monotone", "clip", "raw"]
"""``monotone``: nearest ordered spectrum with no negative value and trace at most the bound.  ``clip``: each value
clipped to [0, bound], as the published code of Dong, Liang, Yi does.  ``raw``: as drawn (their paper)."""


def mend_spectrum(values: Array, trace_bound: float, rule: Rule) -> Array:
    """Apply a rule to noisy eigenvalues in ascending order.

    The projection on {ordered, not negative, sum <= bound} is the isotonic regression followed by the projection on
    the simplex, which shifts and cuts and so keeps the order.

    Examples
    --------
    >>> mend_spectrum(np.array([-1.0, 3.0, 2.0]), 10.0, "monotone")
    array([0. , 2.5, 2.5])
    """
    if rule == "raw":
        return values
    if rule == "clip":
        return np.clip(values, 0.0, trace_bound)
    ordered = isotonic_regression(values).x
    return capped_simplex_projection(ordered, trace_bound)
