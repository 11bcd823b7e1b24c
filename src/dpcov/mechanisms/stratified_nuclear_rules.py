"""Choose which norm shells are drawn under nuclear-norm noise, and which together.

Contract: looks at noisy traces and public numbers only, so every choice is post-processing.

Traces are in units of their own shell; sizes are traces over the scale of the matrices' noise, so
that all shells have the same noise.  With sizes x_s, folding all shells into shell f gives one
matrix of size F = Σ x_s 4^(-max(s - f, 0)) and error V = sqrt(d) times the noise of one direction,
as for one eigenvector; 4^-f (F - V) is what it explains of the second moment.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate import nuclear_law as ullman

# A shell is drawn when its noisy trace exceeds so many standard deviations of the noise along one
# direction.
DRAW_ABOVE = 2.5

# Shells join the one above when its mean eigenvalue exceeds the edge of its noise by this factor.
JOIN_ABOVE = 2.5

# Traces have noise of scale 1 / weight; a shell stands out when its trace exceeds so many of them,
# and so many more for every factor e in its number: many shells are looked at.
STANDS_OUT = 4.5
STANDS_OUT_PER_SHELL = 1.5

# A fold must explain more than the noise on its size by so many standard deviations.
FOLD_DOUBT = 0.5


def trace_weight(n_features: int) -> Fraction:
    """Weight of a shell's trace relative to its matrix; a large one needs a less precise trace."""
    return Fraction(1, min(4 + math.isqrt(n_features), 16))


def choose_runs(traces: Sequence[int], scale: float, n_features: int) -> list[range]:
    """Which consecutive shells are summed before noise is added, largest radius first.

    Noisy traces and the scale of the matrices' noise are in each shell's units.  The shell above a
    clear one is drawn in any case: where many rows end, some may lie just beyond.
    """
    smallest = DRAW_ABOVE * scale * _direction_noise(n_features)
    clear = JOIN_ABOVE * scale * n_features * ullman.edge(n_features)
    groups: list[range] = []
    for shell, trace in enumerate(traces):
        if trace > clear:
            above = [range(shell - 1, shell)] if shell > 0 and traces[shell - 1] <= smallest else []
            return [*groups, *above, range(shell, len(traces))]
        if trace > smallest:
            groups.append(range(shell, shell + 1))
    return groups


def choose_fold(
    traces: Sequence[int], scale: float, n_features: int, *, shorten: bool = True
) -> int | None:
    """Return the shell to which all larger rows are shortened; None where shells are better.

    The fold is the one that explains most; 0, no shortening, where none explains anything or where
    shortening is not allowed.  A shell inside the outermost one that stands out by itself is seen
    more clearly in units of its own radius than in any fold.
    """
    weight = float(trace_weight(n_features))
    sizes = np.array([trace / scale for trace in traces])
    needed = STANDS_OUT + STANDS_OUT_PER_SHELL * np.log(np.arange(2.0, len(sizes) + 1.0))
    if np.any(weight * sizes[1:] > needed):
        return None
    return int(np.argmax(_explained(sizes, weight, n_features))) if shorten else 0


def _explained(sizes: NDArray[np.float64], weight: float, n_features: int) -> NDArray[np.float64]:
    # What one matrix explains for every fold, zero where it is in doubt.
    folds = np.arange(len(sizes))
    factors = 4.0 ** -np.maximum(folds - folds[:, np.newaxis], 0.0)
    doubt = FOLD_DOUBT * np.sqrt(2.0 * (factors**2).sum(axis=1)) / weight
    lost = math.sqrt(n_features) * _direction_noise(n_features) + doubt
    return np.asarray(np.maximum(4.0**-folds * (factors @ sizes - lost), 0.0))


def _direction_noise(n_features: int) -> float:
    # Standard deviation of the matrix noise along a unit direction, for scale 1.
    return math.sqrt(2.0 * ullman.off_diagonal_variance(n_features))
