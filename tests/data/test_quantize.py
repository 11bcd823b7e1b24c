"""The rules by which rows become lattice rows, number by number: moments saved once must be met again to the bit."""

import math
from collections import Counter
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest

from dpcov.data import moments as moments_module
from dpcov.data.exact import ExactSum
from dpcov.data.library import NUMPY
from dpcov.data.moments import (
    LatticeRows,
    Moments,
    MomentsSpec,
    StratumMoments,
    gather,
    normalize,
    quantize,
)
from dpcov.errors import DataError, NumericError, UsageError

WHOLE = 2.0**24
"""A row of norm 1 in 24 bits, so that a row is exactly the integers it is made of."""


def strata(rows, shells):
    return quantize(np.asarray(rows, dtype=float), MomentsSpec(shells=shells)).strata.tolist()


@pytest.fixture
def calls(monkeypatch):
    """How often the slower ways are taken."""
    count = Counter()

    def counted(name):
        original = getattr(moments_module, name)

        def counting(*arguments, **options):
            count[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(moments_module, name, counting)

    for name in ("exact_shell_of", "shorten", "_quantize_tile", "_same_everywhere"):
        counted(name)
    return count


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ((18405658, 24679794), (10029956, 13448976)),
        ((26354125, 28914851), (11301509, 12399631)),
        ((33083002, 20273867), (14304816, 8766252)),
        ((26191739, 17654921), (13911805, 9377453)),
        ((23044756, 21814914), (12183940, 11533713)),
        ((2**25, 0), (2**24 - 1, 0)),
        ((0, -(2**24) - 1), (0, 1 - 2**24)),
        ((2**24, 0), (2**24, 0)),
    ],
)
def test_rows_that_are_too_long_are_shortened_as_ever(long, short):
    """These rows are the ones that tell a factor of 1 - 2**-40 from 1 - 2**-39, 1 - 2**-41 and 1."""
    made = quantize(np.array([long]) / WHOLE, MomentsSpec(bits=24))
    assert made.values.tolist() == [list(short)]
    assert made.strata is None


@pytest.mark.parametrize(
    ("row", "unit"),
    [
        ((2628, 1472), (14637462, 8198761)),
        ((826, -434), (14851921, -7803551)),
        ((4006, 3172), (13153173, 10414844)),
        ((956, 2321), (6389602, 15512831)),
        ((1648, 743), (15294637, 6895580)),
        ((1, 0), (2**24 - 1, 0)),
        ((0, 0), (0, 0)),
    ],
)
def test_rows_are_divided_by_their_norm_as_ever(row, unit):
    assert normalize(np.array([row], dtype=float), 24).tolist() == [list(unit)]


@pytest.mark.parametrize("shells", [1, 2, 12, 64])
def test_every_shell_holds_the_norms_up_to_its_own(shells):
    norms = [2.0, 1.5, 1.0, 0.75, *(size * 2.0**-s for s in range(1, 70) for size in (1.0, 0.75))]
    wanted = [0, 0, 0, 0, *(min(s, shells - 1) for s in range(1, 70) for _ in range(2))]
    made = quantize(np.array(norms)[:, None], MomentsSpec(shells=shells))
    assert (made.strata is None) == (shells == 1)
    if shells > 1:
        assert made.strata.tolist() == wanted


@pytest.mark.parametrize("shells", [2, 12, 64])
@pytest.mark.parametrize(
    "size", [0.0, 2.0**-63.5, 2.0**-64, 2.0**-65, 1e-30, 1e-160, 1e-300, 5e-324]
)
def test_whatever_is_smaller_than_all_shells_lies_in_the_last(shells, size):
    for n_features in (1, 2, 1000):
        row = np.zeros((1, n_features))
        row[0, 0] = size
        assert strata(row, shells) == [shells - 1]


@pytest.mark.parametrize("shells", [2, 4])
def test_rows_a_little_over_their_shell_are_shortened_in_it(shells):
    for s in range(shells - 1):
        rows = np.array(
            [[2.0**-s * (1 + 2.0**-excess), 0, 0] for excess in (22, 23, 24, 25, 40, 52)]
        )
        made = quantize(rows, MomentsSpec(shells=shells, bits=24))
        own = made.strata == s
        assert own[-1]
        assert np.abs(made.values[own]).max() <= 2**24


@pytest.mark.parametrize(
    ("n_features", "bits"),
    [
        (1, 26),
        (2, 25),
        (3, 25),
        (7, 25),
        (8, 24),
        (31, 24),
        (32, 23),
        (1000, 21),
        (1024, 21),
        (2048, 20),
    ],
)
def test_entries_are_measured_in_so_many_bits(n_features, bits):
    assert moments_module._shell_bits(np.zeros((3, n_features))) == bits
    assert n_features * (2**bits - 1) ** 2 < 2**53


def test_only_rows_near_a_power_of_four_are_measured_in_integers(calls):
    far = 2.0 ** -np.arange(8) * 0.75
    assert strata(far[:, None], 5) == [0, 1, 2, 3, 4, 4, 4, 4]
    assert strata([[1.0], [0.999999], [0.0], [1e-300]], 5) == [0, 0, 4, 4]
    assert calls["exact_shell_of"] == 0
    assert strata([[0.5], [0.49999999999]], 5) == [1, 1]
    assert calls["exact_shell_of"] == 1


def test_only_rows_near_their_bound_are_looked_at_again(calls):
    short = 2.0 ** -np.arange(5) * 0.95
    quantize(short[:, None], MomentsSpec(shells=5))
    assert calls["shorten"] == 0
    quantize(np.array([[0.95], [0.5]]), MomentsSpec(shells=5))
    quantize(np.array([[0.5]]), MomentsSpec())
    assert calls["shorten"] == 2


def test_shortening_is_tried_eight_times(calls):
    never = replace(NUMPY, norms=lambda values: np.full(len(values), 4.0**21))
    with pytest.raises(NumericError, match="norm bound"):
        moments_module.shorten(np.array([[1.0]]), 20, never)
    assert calls["_same_everywhere"] == 8


def test_tiles_take_two_megabytes_and_at_least_a_row(calls, monkeypatch):
    assert moments_module._TILE_VALUES == 2**18
    monkeypatch.setattr(moments_module, "_TILE_VALUES", 4)
    for shape, shells, tiles in (((6, 2), 1, 0), ((6, 2), 2, 3), ((2, 9), 2, 2), ((0, 3), 2, 0)):
        calls.clear()
        quantize(np.zeros(shape), MomentsSpec(shells=shells))
        assert calls["_quantize_tile"] == tiles


@pytest.mark.parametrize("shells", [1, 3])
@pytest.mark.parametrize("clip", [0.5, 0.25, 0.125])
def test_a_clip_shortens_rows_and_makes_its_own_norm_the_unit(shells, clip):
    rows = np.array(
        [[0.6, 0.8], [0.06, 0.08], [0.03, 0.04], [0.0, clip], [clip / 2, 0.0], [0.0, 0.0]]
    )
    clipped, whole = (
        quantize(block, MomentsSpec(shells=shells, clip=part))
        for block, part in ((rows, clip), (rows / clip, 1.0))
    )
    assert clipped.values.tolist() == whole.values.tolist()
    assert clipped.values[3:5].tolist() == [[0, 2**20], [2**20 if shells > 1 else 2**19, 0]]
    if shells > 1:
        assert clipped.strata.tolist() == whole.strata.tolist()
        assert clipped.strata[3:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("options", [{}, {"shells": 3}, {"groups": 2}, {"shells": 2, "groups": 3}])
def test_the_second_moment_is_in_the_units_of_the_rows(options):
    spec = MomentsSpec(clip=0.5, **options)
    moments = Moments(2, spec, norm_bound=3.0)
    assert moments.second_moment().tolist() == [[0, 0], [0, 0]]
    groups = np.array([spec.groups - 1]) if spec.groups > 1 else None
    moments.add(np.array([[0.25, 0.125]]), groups)
    assert moments.second_moment().tolist() == [[9 / 16, 9 / 32], [9 / 32, 9 / 64]]
    moments.add(np.array([[0.0, 0.5]]), groups)
    assert moments.second_moment().tolist() == [[9 / 32, 9 / 64], [9 / 64, (9 / 64 + 9 / 4) / 2]]


def test_strata_are_numbered_by_group_and_then_by_shell():
    rows, groups = np.array([[1.0], [0.5], [0.25], [1.0], [0.0]]), np.array([0, 0, 2, 2, 1])
    assert quantize(rows, MomentsSpec(shells=3, groups=3), groups).strata.tolist() == [
        0,
        1,
        8,
        6,
        5,
    ]
    assert quantize(rows, MomentsSpec(groups=3), groups).strata.tolist() == [0, 0, 2, 2, 1]
    assert MomentsSpec(shells=3, groups=5).n_strata == 15
    assert MomentsSpec().n_strata == 1


@pytest.mark.parametrize("groups", [[0, 0], [1, 1], [0, 1]])
def test_rows_may_all_be_of_one_group(groups):
    moments = Moments(1, MomentsSpec(groups=2))
    moments.add(np.ones((2, 1)), np.array(groups))
    moments.add(np.ones((0, 1)), np.array([], dtype=int))
    assert [stratum.n_rows for stratum in moments.strata] == [groups.count(0), groups.count(1)]


@pytest.mark.parametrize(
    ("groups", "match"), [([2, 0], "out of range"), ([0, -1], "out of range"), ([0], "every")]
)
def test_group_numbers_that_there_are_not_are_refused(groups, match):
    with pytest.raises(DataError, match=match):
        quantize(np.zeros((2, 1)), MomentsSpec(groups=2), np.array(groups))


@pytest.mark.parametrize(("bits", "rows"), [(4, 2**45), (20, 8192), (23, 128), (24, 32)])
def test_blocks_have_the_rows_whose_products_stay_below_two_to_the_53(bits, rows):
    assert Moments(1, MomentsSpec(bits=bits)).block_rows == rows


def test_rows_beyond_a_block_are_added_once():
    values = np.full((3 * 32 + 5, 1), WHOLE)
    moments = Moments(1, MomentsSpec(bits=24))
    moments.add_lattice(LatticeRows(values=values, strata=None))
    assert (moments.n_rows, moments.strata[0].sscp.trace()) == (101, 101 * 4**24)


@pytest.mark.parametrize(
    ("n_features", "options", "rows"),
    [
        (3, {}, 8192),
        (3, {"shells": 2}, 2**23 // 3),
        (2**16, {"shells": 2}, 8192),
        (2, {"groups": 2}, 2**22),
    ],
)
def test_rows_are_quantized_in_pieces_of_a_block_or_of_64_megabytes(
    n_features, options, rows, monkeypatch
):
    moments, sizes = Moments(n_features, MomentsSpec(**options)), []
    block = np.broadcast_to(np.zeros(1), (2 * rows + 1, n_features))
    monkeypatch.setattr(
        moments_module, "quantize", lambda part, *others, **out: sizes.append(len(part))
    )
    monkeypatch.setattr(Moments, "add_lattice", lambda *arguments: None)
    moments.add(block)
    assert sizes == [rows, rows, 1]


def test_memory_that_is_given_away_holds_the_lattice():
    rows = np.array([[0.5, 0.25]])
    moments = Moments(2)
    moments.add(rows, overwrite=True)
    assert rows.tolist() == [[2**19, 2**18]]
    moments.add(np.array([[0.5, 0.25]]))
    assert moments.strata[0].sscp.to_float().tolist() == [[2.0**39, 2.0**38], [2.0**38, 2.0**37]]


def test_sums_beyond_63_bits_keep_every_row():
    stratum = StratumMoments(1, normalized=True)
    block = np.full((8192, 1), 2.0**20)
    for _ in range(1100):
        stratum.add(block, 20)
    assert stratum.n_rows == 1100 * 8192
    assert stratum.sscp.trace() == 1100 * 2**53
    assert stratum.normalized.trace() == 1100 * 8192 * (2**20 - 1) ** 2


@pytest.mark.parametrize("large", [3, 2**14, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 70_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_sorted_by_stratum_in_pieces_stored_as_they_were(large, order):
    numbers = np.array([large, 0, large, 2, 0, large, large, 2, large])
    block = np.asarray(np.arange(18.0).reshape(9, 2), order=order)
    pieces = list(moments_module._by_stratum(block, numbers, 2))
    assert [(index, piece[:, 0].tolist()) for index, piece in pieces] == [
        (0, [2, 8]),
        (2, [6, 14]),
        (large, [0, 4]),
        (large, [10, 12]),
        (large, [16]),
    ]
    assert all((piece[:, 1] == piece[:, 0] + 1).all() for _, piece in pieces)
    assert all(
        piece.flags.f_contiguous if order == "F" else piece.flags.c_contiguous
        for _, piece in pieces
    )
    assert list(moments_module._by_stratum(block[:0], numbers[:0], 2)) == []


def test_sums_of_another_kind_are_asked_whether_they_are_equal():
    assert StratumMoments(1, normalized=False) == ANY
    assert Moments(1) == ANY


def test_strata_differ_in_each_of_their_parts():
    same, counted, summed, unit = (StratumMoments(1, normalized=True) for _ in range(4))
    counted.n_rows = 1
    summed.sscp.add(np.ones((1, 1)), 1)
    unit.normalized.add(np.ones((1, 1)), 1)
    assert same == StratumMoments(1, normalized=True)
    assert all(
        same != other for other in (counted, summed, unit, StratumMoments(1, normalized=False))
    )


def test_strata_are_merged_in_each_of_their_parts():
    one, two, plain = (
        StratumMoments(1, normalized=normalized) for normalized in (True, True, False)
    )
    for stratum in (one, two, plain):
        stratum.add(np.full((3, 1), 2.0**20), 20)
    one.merge(two)
    assert (one.n_rows, one.sscp.trace(), one.normalized.trace()) == (
        6,
        6 * 4**20,
        6 * (2**20 - 1) ** 2,
    )
    plain.merge(two)
    assert (plain.n_rows, plain.sscp.trace(), plain.normalized) == (6, 6 * 4**20, None)


def test_what_is_not_said_is_one_stratum_of_whole_rows_within_a_bound_of_one():
    made = MomentsSpec()
    assert (made.shells, made.groups, made.normalized, made.bits, made.clip) == (
        1,
        1,
        False,
        20,
        1.0,
    )
    assert Moments(1).norm_bound == gather([], 1).norm_bound == 1.0
    assert gather([np.ones((2, 1))], 1, norm_bound=7.0).norm_bound == 7.0
    assert isinstance(Moments(1).strata[0].sscp, ExactSum)
    assert Moments(1).strata[0].normalized is None


@pytest.mark.parametrize(
    "wrong", [{"shells": True}, {"groups": 2.0}, {"bits": "20"}, {"groups": True}]
)
def test_counts_are_whole_numbers(wrong):
    with pytest.raises(UsageError, match="whole number from"):
        MomentsSpec(**wrong)


@pytest.mark.parametrize("shape", [(2, 3, 1), (3,), (2, 2)])
def test_blocks_of_another_shape_are_refused(shape):
    with pytest.raises(DataError, match="3 encoded columns"):
        Moments(3).add(np.zeros(shape))


def test_long_squared_norms_are_added_in_the_order_of_the_columns():
    values = np.random.default_rng(0).integers(2**25, 2**26, size=(50, 4)).astype(float)
    values *= np.sqrt(1.5 * 2.0**53 / (values**2).sum(axis=1).max())
    values = np.trunc(values)
    fixed = moments_module._same_everywhere(NUMPY.norms(values), values, np)
    wanted = []
    for row in values.tolist():
        total = 0.0
        for entry in row:
            total += entry * entry
        wanted.append(total)
    assert fixed.tolist() == wanted


def test_the_shell_of_a_row_does_not_depend_on_the_rows_beside_it():
    """Norms on either side of a power of two, where a thousand cut entries lose about 2**-20 of them."""
    directions = np.random.default_rng(5).normal(size=(20, 1000))
    directions /= 2 * np.linalg.norm(directions, axis=1, keepdims=True)
    rows = np.vstack(
        [directions * (1 + excess) for excess in (2.0**-20, 2.0**-21, 2.0**-22, -(2.0**-22))]
    )
    measured = moments_module.exact_shell_of(rows, 4).tolist()
    assert set(measured) == {0, 1}
    assert strata(rows, 4) == measured
    assert [strata([row], 4)[0] for row in rows] == measured


def test_a_row_whose_entries_lose_the_most_is_measured_too():
    """One entry of 2**20 and 999 that lose almost 1 each: a floating norm above 1/2, an integer one not."""
    row = np.full((1, 1000), 0.999 + math.isqrt(3 * 2**40 // 999))
    row[0, 0] = 2.0**20
    row *= 2.0**-22
    assert 0.25 * (1 + 2.0**-17) < (row**2).sum() < 0.25 * (1 + 2.0**-14)
    assert strata(row, 4) == moments_module.exact_shell_of(row, 4).tolist() == [1]
