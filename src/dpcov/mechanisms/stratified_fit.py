"""Fit the edges of norm shells to the rows, from noisy numbers alone.

Contract: looks at public numbers only, so it may be changed or rerun at no privacy cost.
docs/strata.md has the constants, and docs/measured/strata.md what they rest on.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import part_energies
from dpcov.mechanisms.stratified_rules import clear_shells
from dpcov.published.estimate.strata import FEW_FEATURES

# Precision of counts in parts of shells relative to that of a matrix entry, both for rows of radius
# 1: of few columns, and of more.
WEIGHT_FEW, WEIGHT = Fraction(1, 4), Fraction(1, 64)

# All strata that are gathered have at most so many entries together.
MOST_ENTRIES = 2**23
FINEST = 4

# Of few columns: standard deviations of its trace from which the second shell is fitted.  Student's
# t with 3 degrees, an eighth of whose rows would be in the outermost shell, would show there.
SURELY_SECOND = 40.0

# Standard deviations from which cells hold rows, and the outer halves of several cells do.
CLEAR_CELLS, CLEAR_HALF = 3.5, 3.0

# Rows of the parts before any others go on at most at this rate.
FLATTEST = 0.5

# Of more columns: edges are fitted where this part of all counted rows is in one shell then, and
# where the predicted error falls below this part.
CONCENTRATED, WORTH_FITTING = 0.97, 0.65


def fineness(n_features: int, n_groups: int, shells: int) -> int:
    """Binary logarithm of the parts into which every shell is divided; groups have whole shells."""
    parts = MOST_ENTRIES // (shells * n_features**2)
    return 0 if n_groups > 1 else min(FINEST, max(1, parts).bit_length() - 1)


def count_weight(n_features: int) -> Fraction:
    """Precision of a count: what a look at parts of shells costs."""
    return WEIGHT_FEW if n_features <= FEW_FEATURES else WEIGHT


def shell_to_fit(traces: Sequence[int], trace_std: float, n_features: int) -> int | None:
    """The outermost inhabited shell, or None if a look at its parts would not pay."""
    clear = clear_shells(traces, trace_std)
    if not clear:
        return None
    first = clear[0]
    # Of few columns one matrix of everything is as good as that of the plain mechanism.
    unsure = first == 0 or (first == 1 and traces[1] <= SURELY_SECOND * trace_std)
    return None if unsure and n_features <= FEW_FEATURES else first


class Cells:
    """What is counted: single parts of a shell and of its neighbors, and all shells further out.

    ``shell`` is the outermost inhabited one of so many ``shells``, each of so many ``parts``.
    """

    def __init__(self, shell: int, shells: int, parts: int) -> None:
        whole, stop = max(0, shell - 1), min(shells, shell + 2)
        starts = [*range(0, whole * parts, parts), *range(whole * parts, stop * parts)]
        self.starts, self.stops = starts, [*starts[1:], stop * parts]
        self.whole, self.parts, self.border = whole, parts, starts.index(shell * parts)
        # Squared radii, and what is in the middle of each cell.
        edges = (4.0 ** -np.arange(shells + 1.0)[:, None] * part_energies(parts)).ravel()
        self.radii = edges[starts]
        self.middles = (self.radii + edges[self.stops]) / 2

    def count(self, n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows in each cell, of the rows in all parts."""
        return np.add.reduceat(n_rows[: self.stops[-1]], self.starts)

    def edge(
        self, counts: NDArray[np.float64], count_std: float, noise_std: float, n_features: int
    ) -> int:
        """The part, counted through all shells, that begins where most rows do.

        ``noise_std`` is that of a matrix's diagonal entry in rows of the radius.
        """
        few = n_features <= FEW_FEATURES
        fit = self._edge_of_few if few else self._edge_of_more
        return int(self.starts[fit(counts, count_std, noise_std, n_features)])

    def _edge_of_few(
        self, counts: NDArray[np.float64], count_std: float, noise_std: float, n_features: int
    ) -> int:
        clear = self._first_clear(counts, count_std)
        if clear is None:
            return self.border
        before = self._rows_before(counts, clear, count_std)
        squared_noise = noise_std**2 * n_features * (n_features + 1) / 2
        cells = range(min(clear, self.whole), min(len(counts), clear + self.parts + 1))
        costs = []
        for cell in cells:
            # What is lost of the trace when longer rows are shortened.
            excess = np.maximum(self.middles[:clear] - self.radii[cell], 0.0)
            inside = counts[clear:cell] @ (self.middles[clear:cell] - self.radii[cell])
            lost = max(0.0, float(inside)) + float(before @ excess)
            costs.append(self.radii[cell] ** 2 * squared_noise + lost**2)
        return cells[int(np.argmin(costs))]

    def _first_clear(self, counts: NDArray[np.float64], count_std: float) -> int | None:
        # The outermost cell that holds rows, alone or with those that follow it.
        sums = np.concatenate([[0.0], np.cumsum(counts)])
        for cell, radius in enumerate(self.radii):
            # As for shells, a false alarm costs noise in proportion to the radius.
            ratio = max(1.0, radius / self.radii[self.border])
            needed = sqrt(CLEAR_CELLS**2 + 2.0 * log(ratio)) * count_std
            for width in (1, 2, 4, 8) if cell >= self.whole else (1,):
                if cell + width > len(counts):
                    break
                half = sums[cell + width // 2] - sums[cell]
                outer_shows = width == 1 or half > CLEAR_HALF * count_std * sqrt(width // 2)
                if outer_shows and sums[cell + width] - sums[cell] > needed * sqrt(width):
                    return cell
        return None

    def _rows_before(
        self, counts: NDArray[np.float64], clear: int, count_std: float
    ) -> NDArray[np.float64]:
        """Rows that may be in the cells before the first clear one, though none of them shows.

        Halvings of the squared norm have rows at a rate that does not rise outward, unless there is
        an edge; whether there is one is weighed by what was counted just before.
        """
        step, expected = max(1, self.parts // 2), np.zeros(clear)
        last = max(float(counts[clear : clear + step].sum()), 0.0)
        former = float(counts[clear + step : clear + 2 * step].sum())
        rate = min(FLATTEST, last / former) if former > 0.0 else FLATTEST
        near = counts[max(self.whole, clear - step) : clear]
        if not len(near):
            return expected
        rows, variance = last * rate, 2.0 * count_std**2 * len(near)
        surprise = (rows**2 - 2.0 * rows * float(near.sum())) / variance
        rows /= 1.0 + exp(min(surprise, 50.0))
        for stop in range(clear, self.whole, -step):
            start = max(self.whole, stop - step)
            expected[start:stop] = rows / (stop - start)
            rows *= rate
        return expected

    def _edge_of_more(
        self, counts: NDArray[np.float64], count_std: float, noise_std: float, n_features: int
    ) -> int:
        costs = []
        for cell in range(self.border, min(len(counts), self.border + self.parts)):
            excess = self.middles[self.border : cell] - self.radii[cell]
            lost = max(0.0, float(counts[self.border : cell] @ excess))
            lost += float(np.linalg.norm(excess)) * count_std / 2
            costs.append((self.radii[cell] * noise_std) ** 2 * n_features + lost**2)
        best = self.border + int(np.argmin(costs))
        inside = counts[best : best + self.parts].sum()
        fits = min(costs) < WORTH_FITTING**2 * costs[0] and inside > CONCENTRATED * counts.sum()
        return best if fits else self.border
