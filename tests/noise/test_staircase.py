import decimal
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcov.errors import NumericError
from dpcov.noise import staircase as core
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.staircase import Decay, UnfoldingReal, build_staircase, draw

HALF = Fraction(1, 2)
DECAYS = [
    Decay(rate=HALF, power=2),
    Decay(rate=HALF / Fraction(37, 10) ** 2, power=2),
    Decay(rate=HALF / 2**20, power=2),
    Decay(rate=HALF / 2**112, power=2),
    Decay(rate=HALF * 2**40, power=2),
    Decay(rate=HALF / 2**14, power=2, rounding_bits=7),
    Decay(rate=HALF / 2**82, power=2, rounding_bits=1),
    Decay(rate=Fraction(1), power=1),
    Decay(rate=Fraction(3, 1000), power=1),
    Decay(rate=Fraction(1, 2**56), power=1),
]


class ScriptedEntropy:
    private = False

    def __init__(self, *words):
        self.script = list(words)

    def words(self, count):
        taken, self.script = self.script[:count], self.script[count:]
        assert len(taken) == count, "the script is too short"
        return np.array(taken, dtype=np.uint64)


def real(number):
    """A fraction as a number of mpmath, which not every version compares with fractions."""
    return mpmath.mpf(number.numerator) / number.denominator


def exact_density(decay, magnitude):
    exponent = decay.exponent(Fraction(magnitude))
    return mpmath.exp(-real(exponent))


@pytest.fixture(autouse=True)
def eighty_digits():
    with mpmath.workdps(80):
        yield


@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_the_cells_cover_the_curve_and_inside_cells_lie_under_it(decay):
    table = build_staircase(decay)
    width = 1 << table.block_bits
    used = table.starts[: table.tail_cell]
    assert table.tail_cell < table.starts.size
    for start in range(0, table.tail_start, width):
        inside = int(np.count_nonzero(used[: table.inside] == start))
        levels = table.levels[used[table.inside :] == start]
        assert np.array_equal(levels, np.arange(inside, inside + levels.size))
        lowest = start + width if decay.rounding_bits else start + width - 1
        assert inside <= table.unit * exact_density(decay, lowest)
        assert inside + levels.size >= table.unit * exact_density(decay, start)


@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_the_tail_never_accepts_with_probability_above_one(decay):
    table = build_staircase(decay)
    ratio = 1 << (table.tail_bits - table.block_bits)
    assert 2 * table.unit * ratio * exact_density(decay, table.tail_start) <= 1
    assert exact_density(decay, 1 << table.tail_bits) <= real(HALF)
    assert table.tail_start + (1 << table.tail_bits) < 2**62


@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_the_exact_path_decides_like_the_filter_on_the_same_bits(decay):
    table = build_staircase(decay)
    size = 20_000
    filtered = draw(table, size, SeededEntropy(11))
    exact = draw(replace(table, slack=float("inf")), size, SeededEntropy(11))
    assert np.array_equal(filtered, exact)


def test_exp_is_as_accurate_as_the_filter_assumes():
    arguments = np.random.default_rng(0).uniform(-25.0, 0.0, 20_000)
    worst = max(
        abs(mpmath.mpf(float(y)) / mpmath.exp(float(x)) - 1)
        for x, y in zip(arguments, np.exp(arguments), strict=True)
    )
    assert worst < mpmath.mpf(2) ** -50


@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_the_floating_point_density_is_far_inside_the_slack(decay):
    table = build_staircase(decay)
    magnitudes = np.random.default_rng(1).integers(0, table.tail_start, 500)
    for magnitude, density in zip(
        magnitudes, decay.density(magnitudes.astype(np.float64)), strict=True
    ):
        exact = exact_density(decay, int(magnitude))
        assert abs(density - exact) <= core.FILTER_SLACK / 16 * exact


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("digits", [5, 20, 40])
def test_exp_bounds_enclose_and_tighten_whatever_the_ambient_decimal_context(power, digits):
    for step in range(200):
        exponent = Fraction(step**power, 7)
        with decimal.localcontext(decimal.Context(prec=3, Emax=5, Emin=-5)):
            lower, upper = core._exp_bounds(exponent, digits)
        exact = mpmath.exp(-real(exponent))
        assert real(lower) < exact < real(upper)
        assert real(upper - lower) < mpmath.mpf(10) ** (3 - digits)


@pytest.mark.parametrize(("word", "below"), [(0, True), (2**64 - 1, False)])
def test_undecided_comparisons_draw_more_bits_of_the_height(word, below):
    decay = DECAYS[0]
    leading = int(mpmath.floor(exact_density(decay, 1) * 2**50))
    entropy = ScriptedEntropy(word)
    height = UnfoldingReal(0, leading, 50)
    assert core.is_below(decay, UnfoldingReal(1, 0, 64), height, scale=1, entropy=entropy) is below
    assert height.bits == 114
    assert entropy.script == []


@pytest.mark.parametrize(("word", "below"), [(0, True), (2**64 - 1, False)])
def test_undecided_comparisons_draw_more_bits_of_the_place(word, below):
    # Only the second word of the place can decide: the height is the density amid its interval.
    decay = Decay(rate=HALF, power=2, rounding_bits=1)
    middle = Fraction((1 << 17) + 1, 1 << 17)
    height = UnfoldingReal(0, int(mpmath.floor(exact_density(decay, middle) * 2**64)), 64)
    place = UnfoldingReal(1, 0, 16)
    assert core.is_below(decay, place, height, scale=1, entropy=ScriptedEntropy(0, word)) is below


def test_a_far_tail_block_needs_several_words_and_is_refused_beyond_64_bits():
    table = build_staircase(Decay(rate=Fraction(1, 2**56), power=1))
    assert table.tail_bits == 56
    seventy_tails = (0, 1 << 57)
    with pytest.raises(NumericError, match="64 bits"):
        core._draw_tail(table, ScriptedEntropy(*seventy_tails, 0, 0))
    assert core._draw_tail(table, ScriptedEntropy(*seventy_tails, 0, 2**64 - 1)) is None
    assert core._draw_tail(table, ScriptedEntropy(1 << 63, 5, 0)) == table.tail_start + 5
    table = build_staircase(Decay(rate=Fraction(1, 2**40), power=1))
    for zeros, words in ((2, [1 << 61]), (70, [0, 1 << 57])):
        expected = table.tail_start + (zeros << table.tail_bits) + 5
        assert core._draw_tail(table, ScriptedEntropy(*words, 5, 0)) == expected


def words_for(cell, *, minus=False, height=0):
    return cell | (minus << core.CELL_BITS) | (height << (core.CELL_BITS + 1))


def attempt(table, *lanes, then=()):
    """Try lanes given as (control, place)."""
    script = [control for control, _ in lanes] + [place for _, place in lanes] + list(then)
    entropy = ScriptedEntropy(*script)
    values, rejected = core._attempt(table, len(lanes), entropy)
    assert not entropy.script
    return values.tolist(), rejected.tolist()


def test_cells_inside_give_their_start_plus_the_low_bits_of_the_place_with_a_sign():
    table = build_staircase(DECAYS[2])
    cell = int(np.flatnonzero(table.starts[: table.inside] == 96)[0])
    place = (2**59 - 1) << 5 | 13
    lanes = [(words_for(cell), place), (words_for(cell, minus=True), place)]
    assert attempt(table, *lanes) == ([109, -109], [])


def test_zero_counts_once():
    table = build_staircase(DECAYS[2])
    lanes = [(words_for(0), 0), (words_for(0, minus=True), 0), (words_for(0, minus=True), 1)]
    assert attempt(table, *lanes) == ([0, 0, -1], [1])


@pytest.mark.parametrize(("place", "rounded"), [(0, 0), (3, 0), (63, 0), (64, 1), (127, 1)])
def test_a_real_magnitude_is_rounded_to_the_nearest_whole_number(place, rounded):
    table = replace(build_staircase(DECAYS[5]), block_bits=7)
    assert attempt(table, (words_for(0), place), (words_for(0, minus=True), place)) == (
        [rounded, -rounded],
        [],
    )


def test_a_tail_cell_takes_its_magnitude_from_the_tail():
    table = build_staircase(DECAYS[2])
    lane = words_for(table.tail_cell, minus=True), 2**64 - 1
    assert attempt(table, lane, then=[1 << 63, 5, 0]) == ([-table.tail_start - 5], [])
    assert attempt(table, lane, then=[1 << 63, 5, 2**64 - 1])[1] == [0]
    unused = words_for(table.tail_cell + 1), 0
    assert attempt(table, unused, lane, then=[1 << 62, 5, 0]) == (
        [0, -table.tail_start - 5 - (1 << table.tail_bits)],
        [0],
    )


@pytest.mark.parametrize("place", [0, 7, 31])
def test_an_edge_cell_is_kept_up_to_the_last_height_below_the_curve(place):
    table = build_staircase(DECAYS[2])
    cell = table.inside + int(np.argmax(table.levels == 100))
    start, level = int(table.starts[cell]), 100
    room = table.unit * exact_density(table.decay, start + place) - level
    last = int(mpmath.floor(min(max(room, 0), 1) * 2**core.HEIGHT_BITS))
    tried = [height for height in (last - 1, last + 1) if 0 <= height < 2**core.HEIGHT_BITS]
    lanes = [(words_for(cell, height=height), place) for height in tried]
    values, rejected = attempt(table, *lanes)
    assert values == [start + place] * len(lanes)
    assert rejected == [lane for lane, height in enumerate(tried) if height > last]


@pytest.mark.parametrize("side", [-1, 1])
def test_an_edge_cell_of_a_real_law_reads_the_rest_of_the_place(side):
    """The height is the density amid the cell's first unit; only bits beyond the unit tell."""
    table = build_staircase(DECAYS[5])
    fraction = 1 << (63 - table.block_bits)

    def room_of(cell):
        middle = Fraction(int(table.starts[cell])) + HALF
        return table.unit * exact_density(table.decay, middle) - int(
            table.levels[cell - table.inside]
        )

    cell = next(
        cell for cell in range(table.inside + 60, table.tail_cell) if 0.1 < room_of(cell) < 0.9
    )
    start, room = int(table.starts[cell]), room_of(cell)
    height = int(mpmath.floor(room * 2**core.HEIGHT_BITS))
    place = (fraction + side * (fraction >> 4)) << table.block_bits
    values, rejected = attempt(table, (words_for(cell, height=height), place))
    assert (values, rejected) == ([(start + 64) >> 7], [0] if side > 0 else [])


@pytest.mark.parametrize("zeros", [0, 1, 4])
def test_tail_blocks_are_kept_up_to_the_last_height_below_the_curve(zeros):
    """Block j is kept below unit (W/B) 2**(j+1) f(t), worked out with 80 digits."""
    for decay in (DECAYS[2], DECAYS[5], DECAYS[6], DECAYS[9]):
        table = build_staircase(decay)
        place = (1 << 63) | 3
        magnitude = table.tail_start + (zeros << table.tail_bits) + 3
        fraction = (
            Fraction(place >> table.tail_bits, 1 << (64 - table.tail_bits))
            if decay.rounding_bits
            else 0
        )
        ratio = 1 << (table.tail_bits - table.block_bits + zeros + 1)
        room = table.unit * ratio * exact_density(decay, magnitude + fraction)
        last = int(mpmath.floor(room * 2**64))
        margin = last >> 20
        if margin > 0:
            first = 1 << (63 - zeros)
            assert last + margin < 2**64
            assert core._draw_tail(table, ScriptedEntropy(first, place, last - margin)) == magnitude
            assert core._draw_tail(table, ScriptedEntropy(first, place, last + margin)) is None


def test_a_draw_is_refused_only_beyond_the_largest():
    table = build_staircase(Decay(rate=Fraction(1, 2**56), power=1))
    for excess in (-1, 0, 1):
        moved = replace(table, tail_start=core.LARGEST_DRAW + excess)
        script = ScriptedEntropy(1 << 63, 0, 0, 0)
        if excess > 0:
            with pytest.raises(NumericError, match="64 bits"):
                core._draw_tail(moved, script)
        else:
            assert core._draw_tail(moved, script) == core.LARGEST_DRAW + excess
    assert core.LARGEST_DRAW == 2**62
