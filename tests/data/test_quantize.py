"""How rows become lattice rows: moments saved once must be met again to the bit."""

import math

import numpy as np
import pytest

from dpcov.data import moments as moments_module
from dpcov.data.library import NUMPY
from dpcov.data.moments import Moments, MomentsSpec, StratumMoments, normalize, quantize
from dpcov.errors import DataError

WHOLE = 2.0**24
"""A row of norm 1 in 24 bits, so that a row is exactly the integers it is made of."""


def strata(rows, shells):
    return quantize(np.asarray(rows, dtype=float), MomentsSpec(shells=shells)).strata.tolist()


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
    """These rows tell a factor of 1 - 2**-40 from 1 - 2**-39, 1 - 2**-41 and 1."""
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


@pytest.mark.parametrize(
    ("groups", "match"), [([2, 0], "out of range"), ([0, -1], "out of range"), ([0], "every")]
)
def test_group_numbers_that_there_are_not_are_refused(groups, match):
    with pytest.raises(DataError, match=match):
        quantize(np.zeros((2, 1)), MomentsSpec(groups=2), np.array(groups))


@pytest.mark.parametrize(("bits", "rows"), [(4, 2**45), (20, 8192), (23, 128), (24, 32)])
def test_blocks_have_the_rows_whose_products_stay_below_two_to_the_53(bits, rows):
    assert Moments(1, MomentsSpec(bits=bits)).block_rows == rows


def test_memory_that_is_given_away_holds_the_lattice():
    rows = np.array([[0.5, 0.25]])
    moments = Moments(2)
    moments.add(rows, overwrite=True)
    assert rows.tolist() == [[2**19, 2**18]]
    moments.add(np.array([[0.5, 0.25]]))
    assert moments.strata[0].sscp.to_float().tolist() == [[2.0**39, 2.0**38], [2.0**38, 2.0**37]]


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


def test_strata_differ_in_each_of_their_parts():
    same, counted, summed, unit = (StratumMoments(1, normalized=True) for _ in range(4))
    counted.n_rows = 1
    summed.sscp.add(np.ones((1, 1)), 1)
    unit.normalized.add(np.ones((1, 1)), 1)
    assert same == StratumMoments(1, normalized=True)
    assert all(
        same != other for other in (counted, summed, unit, StratumMoments(1, normalized=False))
    )


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
    """Norms beside a power of two, where a thousand cut entries lose about 2**-20 of them."""
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
    """One entry of 2**20 and 999 that lose almost 1 each: only the floating norm is above 1/2."""
    row = np.full((1, 1000), 0.999 + math.isqrt(3 * 2**40 // 999))
    row[0, 0] = 2.0**20
    row *= 2.0**-22
    assert 0.25 * (1 + 2.0**-17) < (row**2).sum() < 0.25 * (1 + 2.0**-14)
    assert strata(row, 4) == moments_module.exact_shell_of(row, 4).tolist() == [1]
