"""Draw by exact rejection under a staircase: the core of every lattice law.

Contract: the draws follow the law exactly, given independent uniform words.  Proof: docs/noise.md.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError
from dpcov.noise.continuous import Floats
from dpcov.noise.entropy import BlockEntropy, Entropy, Words

CELL_BITS = 13
HEIGHT_BITS = 64 - CELL_BITS - 1
LARGEST_DRAW = 1 << 62

# Floating point decides only comparisons that this relative slack settles: its error is below
# 2**-41 as long as numpy's exp errs by less than 2**-42.  Rational arithmetic decides the others.
FILTER_SLACK = 2.0**-40

_CELLS = 1 << CELL_BITS
_BLOCKS_PER_LENGTH = 24
_BATCH = 1 << 14

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Decay:
    """The density exp(-rate * t**power), up to a factor, of a magnitude t.

    With ``rounding_bits`` = 0, t is an integer; else a real number in units of 2**-rounding_bits,
    to be rounded to a whole number of ones.
    """

    rate: Fraction
    power: Literal[1, 2]
    rounding_bits: int = 0

    def exponent(self, magnitude: Fraction) -> Fraction:
        """Return g(t) = rate * t**power, which is convex with g(0) = 0."""
        return self.rate * magnitude**self.power

    def density(self, magnitude: Floats) -> Floats:
        """Return f(t) = exp(-g(t)) in floating point."""
        return np.exp(-float(self.rate) * magnitude**self.power)


@dataclass(frozen=True, kw_only=True, eq=False)
class Staircase:
    """Equally likely cells over the density: inside, edge, one for the tail, unused."""

    decay: Decay
    unit: int  # cells that stand on each other to the height f(0) = 1
    block_bits: int  # a cell is 2**block_bits wide
    tail_bits: int
    tail_start: int
    inside: int
    tail_cell: int  # stands for the whole tail
    starts: Integers
    levels: Floats  # of the edge cells
    slack: float = FILTER_SLACK


@lru_cache(maxsize=64)
def build_staircase(decay: Decay) -> Staircase:
    """Cover the density as high as 2**CELL_BITS cells allow."""
    length = float(decay.rate) ** (-1 / decay.power)
    block_bits = max(0, math.floor(math.log2(length / _BLOCKS_PER_LENGTH)))
    # Tail blocks of width W need g(W) >= ln 2; 0.7 leaves room for rounding.
    tail_bits = max(block_bits, math.ceil(math.log2(length * 0.7 ** (1 / decay.power))))
    heights = _block_heights(decay, block_bits, tail_bits)

    def stairs(unit: int) -> Integers:
        # The tail may start at the first block k with 2 unit f(kB) W/B <= 1.
        body = int(np.argmax(2.0 * unit * 2.0 ** (tail_bits - block_bits) * heights <= 1.0))
        return np.ceil(unit * heights[:body]).astype(np.int64)

    unit = bisect_right(range(1, _CELLS), _CELLS, key=lambda unit: 1 + int(stairs(unit).sum()))
    tops = stairs(unit)
    blocks = np.arange(tops.size, dtype=np.int64) << block_bits
    lowest = blocks + (1 << block_bits) - (0 if decay.rounding_bits else 1)
    below_curve = unit * decay.density(lowest.astype(np.float64)) * (1.0 - FILTER_SLACK)
    bottoms = np.floor(below_curve).astype(np.int64)
    starts = np.concatenate([np.repeat(blocks, bottoms), np.repeat(blocks, tops - bottoms)])
    return Staircase(
        decay=decay,
        unit=unit,
        block_bits=block_bits,
        tail_bits=tail_bits,
        tail_start=tops.size << block_bits,
        inside=int(bottoms.sum()),
        tail_cell=int(tops.sum()),
        starts=np.pad(starts, (0, _CELLS - starts.size)),
        levels=np.concatenate([*map(np.arange, bottoms, tops)]).astype(np.float64),
    )


def _block_heights(decay: Decay, block_bits: int, tail_bits: int) -> Floats:
    """Return upper bounds of f at the starts of the blocks, down to where every tail may start."""
    lowest_exponent = math.log(2.0 * _CELLS) + (tail_bits - block_bits) * math.log(2.0) + 1.0
    end = (lowest_exponent / float(decay.rate)) ** (1 / decay.power)
    starts = np.arange(math.ceil(end / 2.0**block_bits) + 2) * 2.0**block_bits
    return decay.density(starts) * (1.0 + FILTER_SLACK)


def draw(staircase: Staircase, size: int, entropy: Entropy) -> Integers:
    """Draw ``size`` independent signed integers."""
    # As in ``in_blocks``, but one law for every staircase.
    if isinstance(entropy, BlockEntropy):
        return entropy.from_block(staircase, size, lambda count: _draw(staircase, count, entropy))
    return _draw(staircase, size, entropy)


def _draw(staircase: Staircase, size: int, entropy: Entropy) -> Integers:
    values = np.empty(size, dtype=np.int64)
    for start in range(0, size, _BATCH):
        batch = values[start : start + _BATCH]
        batch[:], lanes = _attempt(staircase, batch.size, entropy)
        while lanes.size:
            batch[lanes], rejected = _attempt(staircase, lanes.size, entropy)
            lanes = lanes[rejected]
    return values


def _attempt(staircase: Staircase, count: int, entropy: Entropy) -> tuple[Integers, Integers]:
    """Propose one value per lane; return them and the lanes that have to try again."""
    words = entropy.words(2 * count)
    control, place = words[:count], words[count:]
    cell = (control & np.uint64(_CELLS - 1)).view(np.int64)
    magnitude = staircase.starts[cell]
    magnitude += (place & np.uint64((1 << staircase.block_bits) - 1)).view(np.int64)
    accepted = np.ones(count, dtype=np.bool_)
    doubtful = np.flatnonzero(cell >= staircase.inside)
    accepted[doubtful] = False
    edges = doubtful[cell[doubtful] < staircase.tail_cell]
    accepted[edges] = _judge_edges(
        staircase, (cell[edges], magnitude[edges], control[edges], place[edges]), entropy
    )
    for lane in doubtful[cell[doubtful] == staircase.tail_cell]:
        tail = _draw_tail(staircase, entropy)
        accepted[lane] = tail is not None
        magnitude[lane] = tail or 0
    minus = (control >> np.uint64(CELL_BITS)).view(np.int64) & 1
    rounding_bits = staircase.decay.rounding_bits
    if rounding_bits == 0:
        accepted &= (magnitude | (minus ^ 1)) != 0  # +0 and -0 would count zero twice
    else:
        magnitude += 1 << (rounding_bits - 1)
        magnitude >>= rounding_bits
    return (magnitude ^ -minus) + minus, np.flatnonzero(~accepted)


def _judge_edges(
    staircase: Staircase, edges: tuple[Integers, Integers, Words, Words], entropy: Entropy
) -> NDArray[np.bool_]:
    """Decide level + V < unit f(t) for points in edge cells, where V is uniform on [0, 1)."""
    cell, magnitude, control, place = edges
    # V starts with bits of the control word, t goes on with those that chose no integer.
    levels = staircase.levels[cell - staircase.inside]
    height_bits = control >> np.uint64(64 - HEIGHT_BITS)
    points = magnitude.astype(np.float64)
    if staircase.decay.rounding_bits:
        fraction_bits = place >> np.uint64(staircase.block_bits)
        points += fraction_bits * 2.0 ** (staircase.block_bits - 64)
    heights = levels + height_bits * 2.0**-HEIGHT_BITS
    curve = staircase.unit * staircase.decay.density(points)
    accepted = heights < curve
    bits = staircase.block_bits
    for lane in np.flatnonzero(np.abs(heights - curve) <= staircase.slack * (curve + 1.0)):
        point = UnfoldingReal(int(magnitude[lane]), int(place[lane]) >> bits, 64 - bits)
        height = UnfoldingReal(int(levels[lane]), int(height_bits[lane]), HEIGHT_BITS)
        accepted[lane] = is_below(
            staircase.decay, point, height, scale=staircase.unit, entropy=entropy
        )
    return accepted


def _draw_tail(staircase: Staircase, entropy: Entropy) -> int | None:
    """Propose from tail block j with probability 2**-(j+1), by rational arithmetic throughout."""
    block = 0
    while (word := _word(entropy)) == 0:
        block += 64
    block += 64 - word.bit_length()
    place = _word(entropy)
    bits = staircase.tail_bits
    # The acceptance probability unit (W/B) 2**(j+1) f(t) is at most 1: f(T + j W) <= 2**-j f(T).
    magnitude = staircase.tail_start + (block << bits) + (place & ((1 << bits) - 1))
    accepted = is_below(
        staircase.decay,
        UnfoldingReal(magnitude, place >> bits, 64 - bits),
        UnfoldingReal(0, _word(entropy), 64),
        scale=staircase.unit << (bits - staircase.block_bits + block + 1),
        entropy=entropy,
    )
    if accepted and magnitude > LARGEST_DRAW:
        raise NumericError(
            "A noise value exceeds 64 bits; nothing was released. Use a larger budget."
        )
    return magnitude if accepted else None


@dataclass
class UnfoldingReal:
    """A whole number plus a uniform fraction in [0, 1) of which only leading bits were drawn."""

    whole: int
    leading: int
    bits: int

    def extend(self, entropy: Entropy) -> None:
        """Draw 64 more bits."""
        self.leading = self.leading << 64 | _word(entropy)
        self.bits += 64

    def interval(self) -> tuple[Fraction, Fraction]:
        """Return the bounds that the drawn bits imply."""
        lower = (self.whole << self.bits) + self.leading
        return Fraction(lower, 1 << self.bits), Fraction(lower + 1, 1 << self.bits)


def is_below(
    decay: Decay, place: UnfoldingReal, height: UnfoldingReal, *, scale: int, entropy: Entropy
) -> bool:
    """Decide height < scale f(place) exactly; a law on the integers ignores the fraction."""
    digits = 20
    while True:
        near, far = place.interval() if decay.rounding_bits else (Fraction(place.whole),) * 2
        lowest, highest = height.interval()
        if lowest >= scale * _exp_bounds(decay.exponent(near), digits)[1]:
            return False
        if highest <= scale * _exp_bounds(decay.exponent(far), digits)[0]:
            return True
        height.extend(entropy)
        if decay.rounding_bits:
            place.extend(entropy)
        digits *= 2


def _exp_bounds(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Enclose exp(-exponent), for exponent >= 0; the interval shrinks to it as ``digits`` grows."""
    if exponent > 4 * digits:
        return Fraction(0), Fraction(1, 1 << (4 * digits))
    down, up = (Context(digits, way, MIN_EMIN, MAX_EMAX) for way in (ROUND_FLOOR, ROUND_CEILING))
    numerator, denominator = Decimal(exponent.numerator), Decimal(exponent.denominator)
    # Negation with the minus sign would round to the ambient context.
    lower = down.exp(up.divide(numerator, denominator).copy_negate())
    upper = up.exp(down.divide(numerator, denominator).copy_negate())
    # Decimal's exp is correctly rounded, so that the truth lies between the result's neighbors.
    return Fraction(lower.next_minus(down)), Fraction(upper.next_plus(up))


def _word(entropy: Entropy) -> int:
    return int(entropy.words(1)[0])
