"""Counts of a column of numbers in a survey: cells, the noise on them, and what they show.

Contract: `Cells` hold sensitive counts, `CountNoise` draws the noise that makes them public; the
other functions see noisy counts only.  Proof: survey.md.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.data.histograms import FINE_CELLS, MISSING, UNIT, Counts, Rings, Window, fine_edges
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.published.linalg.symmetric import Array

FALSE_SHELLS = 0.05
"""Chance that some column of the table is given a spread that is not there."""

FALSE_SCALES = 0.001
"""The same where nearly all rows share a value: so small a scale would spoil all other columns."""

LACKING = 3.0
"""Deviations of the noise from which values are surely missing in what shows."""

RUNS = 1, 2, 4
"""Neighboring shells of which the sums are tested."""

# A spread from which so many of the rows are surely missing, and so narrow beside others, is a
# value that many rows share, missed by a few cells.  Without the second condition errors were 1.01
# to 1.03 times as large.
_MISSED, _NARROW = 1 / 4, 1 / 64

_FINEST = 2.0**-24
"""Width of a cell, bounds being -1 and 1, in which nothing more is looked for."""

_EDGES = fine_edges()


@dataclass(frozen=True)
class Spread:
    """Center and scale in units of a column's bounds, -1 and 1; a level's center is its share.

    ``energy`` is the mean square of values around the center over the squared scale: a guess where
    it was not measured, 0 where nothing but the bounds is known.
    """

    center: float
    scale: float
    energy: float = 0.0

    def around(self, center: float) -> "Spread":
        """Of the same values around another center."""
        away = (self.center - center) ** 2
        square = away + self.scale**2
        return Spread(center, sqrt(square), (away + self.energy * self.scale**2) / square)

    @property
    def within_bounds(self) -> "Spread":
        """The bounds in place of a scale as large: around their middle no value is farther away."""
        if self.scale < 1:
            return self
        middle = self.around(0.0)
        return Spread(0.0, 1.0, min(1.0, middle.energy * middle.scale**2))


@dataclass(frozen=True)
class Cells:
    """Sensitive counts of values below edges, which are distances from an anchor."""

    edges: Array
    below: Counts
    first: int
    last: int
    anchor: float

    def __repr__(self) -> str:
        return "Cells(<sensitive>)"

    @classmethod
    def whole(cls, counts: Counts, anchor: float) -> "Cells":
        """All values: they are clipped to the bounds, so that none lies outside."""
        return cls._of(_EDGES, counts[MISSING + 1 :], 0, FINE_CELLS, anchor)

    @classmethod
    def zoomed(cls, wide: Counts, fine: Counts, window: Window) -> "Cells":
        """The fine cells of a window, whose ends are edges, among the wide ones outside of it."""
        start, stop = np.searchsorted(_EDGES, [window.lower, window.upper])
        wide = wide[MISSING + 1 :]
        inside = np.linspace(window.lower, window.upper, window.cells + 1)
        edges = np.concatenate([_EDGES[:start], inside, _EDGES[stop + 1 :]])
        counts = np.concatenate([wide[:start], fine[MISSING + 1 :], wide[stop:]])
        return cls._of(edges, counts, int(start), int(start) + window.cells, window.anchor)

    @classmethod
    def _of(cls, edges: Array, counts: Counts, first: int, last: int, anchor: float) -> "Cells":
        return cls(edges, np.concatenate([[0], np.cumsum(counts)]), first, last, anchor)

    def width(self, center: float) -> float:
        """Of the wider one of the two cells at an edge."""
        place = int(np.searchsorted(self.edges, center))
        around = self.edges[max(0, place - 1) : place + 2]
        return float(np.diff(around).max())

    def nearest(self, ends: Array) -> NDArray[np.intp]:
        """The first edges from there on; the last one beyond all."""
        return np.minimum(np.searchsorted(self.edges, ends), len(self.edges) - 1)

    def around(self, center: float, wide: int = 16, cells: int = Window.cells) -> Window | None:
        """A finer window in place of so many cells on either side of an edge.

        None where they are fine enough.
        """
        # Near the anchor cells are as fine as numbers are.
        if self.width(center) <= _FINEST:
            return None
        place, last = int(np.searchsorted(self.edges, center)), len(self.edges) - 1
        lower = self.edges[max(0, place - wide)]
        upper = self.edges[min(last, place + wide)]
        # Its upper end is counted in the next of the wide cells, if there is one.
        closed = place + wide >= last
        return Window(float(lower), float(upper), cells, anchor=self.anchor, closed=closed)


@dataclass(frozen=True)
class Alone:
    """A value that showed alone: others are at least ``radius`` away, or within a finer window.

    Or a spread of which values lie farther out than those that showed: `is_tail`.
    """

    # What is taken where a second look shows nothing.
    spread: Spread
    # Where other values begin, and the number of all.
    radius: float
    rows: float
    # How many are away, and the standard deviation of the noise on that; 0 if not known.
    others: float
    unsure: float
    # Finer cells around the value; what they showed, or what shells did; and whether these showed
    # many values instead of one.
    window: Window | None
    finer: Spread | None = None
    is_spread: bool = False

    @property
    def is_tail(self) -> bool:
        """Whether a spread showed without finer cells, and not all of it."""
        return self.is_spread and self.window is None

    def is_too_narrow(self, usual: float) -> bool:
        """Whether it is a spread that misses much, far narrower than is ``usual`` in the table."""
        misses = self.others > max(_MISSED * self.rows, LACKING * self.unsure) > 0
        return self.is_tail and misses and self.spread.scale < _NARROW * usual

    def as_one_value(self) -> "Alone":
        """What showed as one value, beside which others lie anywhere."""
        far, own = 1.0 + abs(self.spread.center), self.spread.scale**2
        scale = min(1.0, sqrt(own + self.others / self.rows * far**2))
        spread = Spread(self.spread.center, scale)
        return replace(self, spread=spread, finer=None, is_spread=False)

    @property
    def is_uncounted(self) -> bool:
        """Whether it is a tail of which nobody counted how many values it holds."""
        return self.is_tail and not self.unsure

    @property
    def weight(self) -> int:
        """Of a row's part in these rings: in proportion to how rare others are."""
        return max(1, round(UNIT / max(1.0, self.others, self.unsure)))

    @property
    def rings(self) -> Rings:
        """What lies how far away."""
        far = 1.0 + abs(self.spread.center)
        cells = max(1, int(np.ceil(np.log2(far / self.radius))))
        return Rings(self.spread.center, self.radius, cells)

    @property
    def rings_inside(self) -> int:
        """How many of them the finer cells told apart, if these showed a spread."""
        if not self.is_spread or self.window is None:
            return 0
        at = self.spread.center - self.window.anchor
        reach = min(at - self.window.lower, self.window.upper - at)
        return max(0, int(np.floor(np.log2(max(reach, self.radius) / self.radius))))


@dataclass(frozen=True)
class Seen:
    """What a look at a column found, if anything; the value if only one showed."""

    spread: Spread | None
    alone: Alone | None = None


def strength(seen: NDArray[np.number], std: float) -> Array:
    """Counts from each cell outward, over their standard deviation: of the run that shows most."""
    return np.asarray(np.max([_sums(seen, run) / sqrt(run) for run in RUNS], axis=0) / std)


def _sums(seen: NDArray[np.number], run: int) -> Array:
    """Of so many cells from each one outward."""
    return np.convolve(seen.astype(np.float64), np.ones(run))[run - 1 :]


def reached(start: int, strengths: Array, noise: CountNoise, chance: float) -> int:
    """The last shell that shows, from one that does outward: the farther, the more must be in it.

    ``strengths``, (s,), are those of the shells.  Noise alone may make the next shell show with
    this ``chance``.  A shell that is not there adds four times as much to a squared scale as the
    one before it, so it may show a fourth as often.  What shows as surely as one value alone does
    counts anywhere.
    """
    last, least = start, FALSE_SCALES / FALSE_SHELLS
    for shell in range(start + 1, len(strengths)):
        likely = max(4.0 ** (last + 1 - shell), least)
        if strengths[shell] > noise.evidence(1.0, chance * likely):
            last = shell
    return last


def last_ring(seen: Array, std: float, evidence: float) -> int | None:
    """The last ring that seems to hold something, of those which noise does not explain together.

    None if noise explains all.
    """
    shows = np.array([_sums(seen, run) > evidence * sqrt(run) for run in RUNS])
    rings = np.flatnonzero(shows.any(axis=0))
    if not len(rings):
        return None
    ring = int(rings[-1])
    together = seen[ring : ring + RUNS[int(np.argmax(shows[:, ring]))]]
    return ring + int(np.flatnonzero(together > std).max(initial=0))


def unseen(tail: Array, square: Array, last: int, hidden: float) -> float:
    """Mean square of what the noise may hide in the shell behind the last one that shows.

    Tails fall by half from shell to shell at least.  ``tail`` is the noisy share of the values in a
    shell and outward, ``square`` the mean squared distance in a shell; one standard deviation of
    the noise may hide the share ``hidden``.
    """
    if last + 1 == len(square):
        return 0.0
    share, most = max(tail[last], hidden) / 2, max(tail[last + 1], 0.0) + hidden
    return float(min(share, most) * square[last + 1])
