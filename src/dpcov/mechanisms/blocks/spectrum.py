"""Post-process noisy eigenvalues.

Contract: ``monotone`` and ``clip`` never increase the distance to the true spectrum if the bound on
the trace holds, since each projects on a convex set that contains it.
"""

from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import Array

# ``monotone``: nearest ordered spectrum with no negative value and trace at most the bound.
# ``clip``: each value clipped to [0, bound], as the published code of Dong, Liang, Yi does.
# ``raw``: as drawn (their paper).
Rule = Literal["monotone", "clip", "raw"]


def mend_spectrum(values: Array, trace_bound: float, rule: Rule) -> Array:
    """Apply a rule to noisy eigenvalues in ascending order."""
    if rule == "raw":
        return values
    if rule == "clip":
        return np.clip(values, 0.0, trace_bound)
    # The projection on the simplex shifts and cuts, so it keeps the order.
    return capped_simplex_projection(isotonic_regression(values).x, trace_bound)
