"""Find privately to which length rows of a geometry are scaled down, and what that takes away.

Privacy
-------
Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Neighbors, unit : as in the survey.
Private input : one histogram of the lengths of encoded rows.  Numerics : exact.
Proof : survey.md, Theorem 3.

Sensitivity
-----------
That of a histogram of disjoint cells, as in the survey.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpcov.data.geometry import Geometry
from dpcov.data.histograms import MISSING, HistogramQuestion, Window
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.finished import Cost
from dpcov.mechanisms.survey_counts import RUNS, CountNoise, last_ring
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.estimate.nuclear_law import off_diagonal_variance

CELLS = 2**12

BIAS = 0.07
"""Error of means and correlations, in deviations, for a lost part of all squared lengths: measured
on tables of all kinds as 0.05 to 0.2 (survey.md)."""

USUAL = 2.25
"""Squared length per column where no lengths show."""

_FALSE_BINS = 0.002

# Noise on the sum of all squared lengths, relative to it, up to which bins count that do not show;
# and the slowest that their squared lengths fall from two bins to the next two.
_DOUBT, _FLATTEST = 0.06, 0.6
# The same for what is stated as lost.
_DOUBT_STATED = 0.15
# At most so many: squared lengths sixteen times as large.
_FURTHER = 8
_MOST_LOST = 0.95
# Half powers of two from which squared lengths are told apart: scales that the survey does not see
# are far too wide.
_SHORTEST = -15


@dataclass(frozen=True)
class Shortening:
    """Squared length per column to which rows are scaled down, and the part that is lost."""

    energy: float
    lost: float


def find_lengths(
    ask: Ask,
    geometry: Geometry,
    cost: Cost,
    problem: Problem,
    entropy: Entropy,
    entry_std: float,
    n_values: int,
) -> Shortening:
    """Choose the length at which noise and what is lost cost least together.

    Parameters
    ----------
    geometry : Geometry
        Without a norm bound.
    cost : Cost
        Of the histogram.
    entry_std : float
        Standard deviation of the mechanism's noise on an entry of a sum of rows in the unit ball.
    n_values : int
        Encoded columns but for the intercept and indicators of missing values.
    """
    window = Window(0.0, 1.0, CELLS)
    answer = ask(HistogramQuestion(windows=(window,), watched=True, geometry=geometry))
    starts = _starts()
    noise = CountNoise(cost, problem)
    sums = np.add.reduceat(answer.counts[0][MISSING + 1 :], starts[:-1])
    counts = 1.0 * sums + noise.draw(len(sums), entropy, disjoint=True)
    edges = _energy(starts)
    std = noise.std(disjoint=True)
    last = last_ring(counts, std, noise.evidence(std, _FALSE_BINS / (len(RUNS) * len(counts))))
    if last is None:
        return Shortening(USUAL, 0.0)
    # Bins are open above only where rows are as long as can be told.
    middle, ends = (edges[:-1] + np.minimum(edges[1:], 2 * edges[-2])) / 2, edges[1:]
    doubt = std * np.sqrt(np.cumsum(middle**2))
    whole = float(middle[: last + 1] @ counts[: last + 1])
    # No bin holds less than no row: far ones would hide what is lost in others. Bins that do not
    # show count for less, about by what noise alone has above zero, or rows would seem long.
    counts[last + 1 :] -= 0.5 * std
    counts = np.maximum(counts, 0.0)

    def up_to(most: float) -> tuple[np.ndarray, int]:
        """What every bound loses, and the last bin of so much noise."""
        # Further bins count where the noise on their squared lengths is small beside all.
        end = max(last, min(last + _FURTHER, int(np.searchsorted(doubt, most * whole)) - 1))
        seen, lengths = counts[: end + 1], middle[: end + 1]
        # Behind them the tail goes on as it ends.
        noise_of_two = std * float(np.hypot(*lengths[-2:])) if end else 0.0
        hidden = _behind(lengths * seen, 2 * noise_of_two) * (end + 1 < len(ends))
        total = max(float(lengths @ seen), middle[0]) + hidden
        beyond = np.maximum(lengths - ends[:, None], 0.0) @ seen + hidden
        return np.clip(beyond / total, 0.0, _MOST_LOST), end

    lost, end = up_to(_DOUBT)
    seen, bounds = counts[: end + 1], ends[: end + 1]
    kept = np.maximum(np.minimum(middle[: end + 1], bounds[:, None]) @ seen, middle[0])
    # One column whose scale is far too small makes rows long, and no variance of others large.
    kept = np.minimum(kept, max(float(seen.sum()), 1.0))
    # A correlation's noise is that of an entry over two deviations; kept / rows is a variance.
    spread = entry_std * (bounds * n_values + 1) / kept
    best = int(np.argmin(spread**2 + (BIAS * lost[: end + 1]) ** 2))
    # It is rarely stated far too small: half of the noise's deviation is added, and bins count that
    # are too noisy to choose by.
    doubted = 0.5 * doubt[end] / float(middle[: end + 1] @ seen)
    most = max(lost[best], up_to(_DOUBT_STATED)[0][best]) + doubted
    return Shortening(float(bounds[best]), float(min(most, _MOST_LOST)))


def _behind(squares: np.ndarray, evidence: float) -> float:
    """Squared lengths behind the bins, each two of which have a part of what the last two have."""
    before, after = float(squares[-4:-2].sum()), float(squares[-2:].sum())
    if min(before, after) <= evidence:
        return 0.0
    part = min(_FLATTEST, after / before)
    return after * part / (1 - part)


def entry_std(calibration: Calibration, problem: Problem) -> float:
    """Standard deviation of noise on an entry off the diagonal; near enough for other laws."""
    cost = calibration.promise
    moved = problem.rows_per_person * (1.0 if problem.neighbors == "replace-one" else sqrt(0.5))
    if calibration.noise_multiplier is not None:
        return moved * float(calibration.noise_multiplier)
    if isinstance(cost, ZCDP):
        return moved / sqrt(2 * cost.rho)
    # Nuclear-norm noise of this scale, and a tenth for traces.
    scale = (2 if problem.neighbors == "replace-one" else 1) * problem.rows_per_person
    assert isinstance(cost, PureDP)
    return sqrt(off_diagonal_variance(problem.n_features)) * scale / (0.9 * float(cost.epsilon))


def _starts() -> np.ndarray:
    # First cells of the bins: squared lengths grow by the root of two; the first is all shorter.
    energies = 2.0 ** (np.arange(_SHORTEST, 25) / 2)
    inner = np.floor(energies / (1 + energies) * CELLS).astype(np.intp)
    return np.unique(np.concatenate([[0], inner, [CELLS]]))


def _energy(cells: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return cells / CELLS / (1 - cells / CELLS)
