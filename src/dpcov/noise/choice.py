"""Draw one of many places by the exponential mechanism (McSherry, Talwar 2007), exactly.

Contract: the law holds exactly, given independent uniform words.  Proof: docs/noise.md.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcov.noise.entropy import Entropy
from dpcov.noise.staircase import FILTER_SLACK, Decay, UnfoldingReal, is_below

_BATCH = 1 << 14


def exponential_choice(costs: NDArray[np.int64], rate: Fraction, entropy: Entropy) -> int:
    """Draw a place i with probability proportional to exp(-rate * costs[i]).

    The costs, (m,), are **sensitive**; at least one, at most 2**32.  The rate is positive and
    public.  If one person moves every cost by at most k, a rate of epsilon / (2 k) is epsilon-DP,
    and epsilon / k is if all costs move in one direction.
    """
    excess = costs - costs.min()
    curve = np.exp(-float(rate) * excess)
    bits = np.uint64(max(1, (len(costs) - 1).bit_length()))
    while True:
        words = entropy.words(2 * _BATCH)
        places, heights = (words[:_BATCH] >> (np.uint64(64) - bits)).view(np.int64), words[_BATCH:]
        inside = np.flatnonzero(places < len(costs))
        places, heights = places[inside], heights[inside]
        height, at = heights * 2.0**-64, curve[places]
        doubtful = np.abs(height - at) <= FILTER_SLACK * at + 2.0**-48
        for lane in np.flatnonzero((height < at) | doubtful):
            place = int(places[lane])
            if not doubtful[lane] or is_below(
                Decay(rate=rate, power=1),
                UnfoldingReal(int(excess[place]), 0, 64),
                UnfoldingReal(0, int(heights[lane]), 64),
                scale=1,
                entropy=entropy,
            ):
                return place
