"""Which contestants are not worth repeating further.

Contract: the best of a field is never dropped; one is dropped only for being surely behind the
best, both relative to it and in standard errors, or for repeating the best error by error. Its mean
over the repetitions it had still counts.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.papers.results import standard_error

FACTORS = ((3, 1.5), (6, 1.02))
"""From so many repetitions on, a contestant this many times worse than the best may be dropped."""

STANDARD_ERRORS = 6.0
"""By how many standard errors it must be worse."""


def beaten(errors: Mapping[str, Sequence[float]]) -> set[str]:
    """Names of those that are behind the best or its copies, given the errors of everybody's
    repetitions so far."""
    usable = {name: np.asarray(values) for name, values in errors.items() if len(values)}
    if not usable:
        return set()
    leader = min(usable, key=lambda name: float(usable[name].mean()))
    best = usable[leader]
    return {
        name
        for name, values in usable.items()
        if _behind(values, best) or (name != leader and _same(values, best))
    }


def _behind(values: np.ndarray, best: np.ndarray) -> bool:
    allowed = [
        factor for repetitions, factor in FACTORS if min(len(values), len(best)) >= repetitions
    ]
    if not allowed:
        return False
    gap = values.mean() - best.mean()
    spread = np.hypot(standard_error(values), standard_error(best))
    return bool(gap > STANDARD_ERRORS * spread and values.mean() > min(allowed) * best.mean())


def _same(values: np.ndarray, best: np.ndarray) -> bool:
    """Two mechanisms that came down to the same branch, on the same draws."""
    return len(values) >= FACTORS[-1][0] and np.array_equal(values, best)
