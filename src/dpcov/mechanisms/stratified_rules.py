"""Choose which norm shells are released, and which together, from their noisy traces alone.

Contract: looks at public numbers only, so it may be changed or rerun at no privacy cost.
docs/strata.md has the constants, and docs/measured/strata.md what they rest on.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import log, sqrt
from typing import NamedTuple

from dpcov.published.estimate.strata import FEW_FEATURES

# Standard deviations of its trace from which a shell counts as inhabited when no smaller one does.
CLEAR_ALONE = 5.0

# The same next to an inhabited shell; j shells above one it is √(9 + 2 ln 4^j), as in
# published.estimate.strata.
CLEAR_NEARBY = 3.0

# In more dimensions than ``SMALL_DIMENSION``, a shell above the inhabited ones with a trace of so
# many standard deviations is drawn alone: its matrix may show more than its trace does.
PROMISING = 0.5

# Up to here a matrix knows its own trace about as well as the noisy trace does, so no shell is
# dropped undrawn, and gathering the rows of outer shells at a second length costs little.
SMALL_DIMENSION = 64

# Up to there: standard deviations of its trace from which a shell beyond the next to an inhabited
# one is drawn.  Rows of shells further out are shortened into the outermost one that is drawn.
OUTERMOST = 2.0

# Smaller shells join an inhabited one whose mean eigenvalue exceeds the edge of its noise spectrum
# by this factor: there is nothing left to gain from their finer noise.
JOIN_ABOVE = 16.0

# From so many features on traces are more precise; with fewer there is little they could gain.
PRECISE_FROM = 3

# With few features, shells count only where the outermost inhabited one is this number or a later
# one: a noise 4³ times as small outweighs the rows beyond it that no trace shows.
FEW_INNER = 3


def trace_weight(n_features: int) -> Fraction:
    """Precision of a shell's trace relative to a matrix entry: what every decision costs."""
    return Fraction(1, 32 if n_features >= PRECISE_FROM else 64)


class Run(NamedTuple):
    """Shells ``first`` to ``last``, added up; rows of ``outermost`` to ``first`` - 1 shortened."""

    outermost: int
    first: int
    last: int


def choose_runs(
    traces: Sequence[int],
    diagonal_variance: int,
    trace_variance: int,
    n_features: int,
    *,
    fitted: int | None = None,
) -> list[Run]:
    """Which shells to draw, and which together: disjoint runs, largest radius first.

    Noisy traces, each in its shell's units, and the noise variances of a matrix's diagonal entries
    and of the traces.  ``fitted`` is the shell at whose edge most rows begin, where that is known:
    with few features, or if no shell shows, all longer rows are shortened to it.
    """
    trace_std = sqrt(trace_variance)
    clear = clear_shells(traces, trace_std)
    most = FEW_FEATURES if clear else SMALL_DIMENSION
    if fitted is not None and n_features <= most:
        return [Run(0, fitted, len(traces) - 1)]
    if n_features <= FEW_FEATURES:
        return _few_features_runs(clear, len(traces))
    saturated = JOIN_ABOVE * n_features * sqrt(2.0 * n_features * diagonal_variance)
    return [
        *_outer_runs(traces, trace_std, clear, n_features),
        *_clear_runs(traces, clear, saturated),
    ]


def clear_shells(traces: Sequence[int], trace_std: float) -> list[int]:
    """Shells whose trace cannot be noise, each judged by its distance from the next smaller one."""
    clear: list[int] = []
    for shell in reversed(range(len(traces))):
        needed = CLEAR_ALONE
        if clear:
            needed = sqrt(CLEAR_NEARBY**2 + 2.0 * log(4.0) * (clear[0] - shell))
        if traces[shell] > needed * trace_std:
            clear.insert(0, shell)
    return clear


def _few_features_runs(clear: list[int], shells: int) -> list[Run]:
    # One matrix as of the plain mechanism, or a small one and what may lie beyond it.
    if not clear or clear[0] < FEW_INNER:
        return [Run(0, 0, shells - 1)]
    first = clear[0]
    return [Run(0, first - 1, first - 1), Run(first, first, shells - 1)]


def _outer_runs(
    traces: Sequence[int], trace_std: float, clear: list[int], n_features: int
) -> list[Run]:
    # Single shells above the inhabited ones; in few dimensions the rest is shortened.
    above = clear[0] if clear else len(traces)
    if n_features > SMALL_DIMENSION:
        return [Run(s, s, s) for s in range(above) if traces[s] > PROMISING * trace_std]
    outermost = 0
    if clear:
        nearest = max(above - 1, 0)
        outermost = next((s for s in range(nearest) if traces[s] > OUTERMOST * trace_std), nearest)
    return [Run(s if s > outermost else 0, s, s) for s in range(outermost, above)]


def _clear_runs(traces: Sequence[int], clear: list[int], saturated: float) -> list[Run]:
    runs: list[Run] = []
    for shell, following in itertools.pairwise([*clear, len(traces)]):
        if traces[shell] > saturated:
            return [*runs, Run(shell, shell, len(traces) - 1)]
        # What lies between has no trace to speak of, and joins at no cost.
        runs.append(Run(shell, shell, following - 1))
    return runs
