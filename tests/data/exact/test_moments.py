"""Rows become lattice rows, which never change, and moments, which are exact and bounded."""

import itertools
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.data.exact import moments as moments_module
from dpcov.data.exact.library import NUMPY
from dpcov.data.exact.moments import (
    Moments,
    MomentsSpec,
    StratumMoments,
    normalize,
    part_energies,
    quantize,
)
from dpcov.errors import DataError, NumericError, UsageError
from tests.data.reading import gather

SPECS = [
    MomentsSpec(),
    MomentsSpec(bits=4),
    MomentsSpec(shells=12, normalized=True),
    MomentsSpec(shells=3, groups=2, normalized=True, bits=24),
    MomentsSpec(shells=3, fineness=3, groups=2, bits=4),
]


def table(seed, n_rows=60, n_features=5):
    random = np.random.default_rng(seed)
    sizes = random.choice([1e-6, 0.01, 0.3, 1.0], size=(n_rows, 1))
    rows = random.normal(size=(n_rows, n_features)) * sizes
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(norms, 1.0), random.integers(0, 2, n_rows)


def collected(rows, groups, spec):
    moments = Moments(rows.shape[1], spec)
    moments.add(rows, groups if spec.groups > 1 else None)
    return moments


def integers(sum_):
    return np.array([[int(x) for x in row] for row in sum_.to_float()], dtype=object)


def squares(values):
    return [sum(int(x) ** 2 for x in row) for row in values]


def strata(rows, shells, parts=1):
    spec = MomentsSpec(shells=shells, fineness=parts.bit_length() - 1)
    return quantize(np.asarray(rows, dtype=float), spec)[1].tolist()


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_chunking_order_and_merge_tree_is_equal(spec, seed, data):
    rows, groups = table(seed)
    kept, kept_groups = rows.copy(), groups.copy()
    whole = collected(rows, groups, spec)
    order = np.random.default_rng(seed).permutation(len(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    parts = [
        collected(rows[order[a:b]], groups[order[a:b]], spec)
        for a, b in itertools.pairwise([0, *cuts, len(rows)])
    ]
    while len(parts) > 1:
        taken = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        into = parts[data.draw(st.integers(0, len(parts) - 1))]
        # A loop that keeps what is returned goes on with all rows.
        assert into.merge(taken) is into
    assert parts[0] == whole
    assert parts[0].n_rows == len(rows)
    assert (rows == kept).all() and (groups == kept_groups).all()


_DIGEST = """
import hashlib, numpy as np
from dpcov.data.exact.moments import Moments, MomentsSpec
rows = np.random.default_rng(3).uniform(-1, 1, (9000, 40)) / 40**0.5
moments = Moments(40, MomentsSpec(shells=4, normalized=True))
moments.add(rows)
words = [w for s in moments.strata for e in (s.sscp, s.normalized) for w in e.words()]
print(hashlib.sha256(b"".join(w.tobytes() for w in words)).hexdigest())
"""


def test_the_number_of_blas_threads_does_not_matter():
    digests, run = set(), [sys.executable, "-c", _DIGEST]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    for threads in ("1", "2"):
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        digests.add(subprocess.check_output(run, env=environment, text=True))
    assert len(digests) == 1
    assert len(digests.pop()) == 65


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 10, 20]))
@settings(max_examples=30, deadline=None)
def test_products_agree_with_python_integers(seed, bits):
    rows, _ = table(seed, n_rows=20, n_features=3)
    lattice = [[math.trunc(Fraction(x) * 2**bits) for x in row] for row in rows.tolist()]
    assert np.min(lattice) < 0
    lattice = np.array(lattice, dtype=object)
    moments = gather([rows], 3, MomentsSpec(bits=bits))
    assert (integers(moments.strata[0].sscp) == lattice.T @ lattice).all()


@pytest.mark.parametrize("normalized", [False, True])
def test_sums_of_millions_of_the_longest_rows_are_exact(normalized):
    """Nine million rows exceed one word of 64 bits."""
    blocks, rows = 1100, np.full((8192, 1), 2.0**20)
    stratum = StratumMoments(1, normalized=normalized)
    for _ in range(blocks):
        stratum.add(rows, 20)
    assert stratum.sscp.trace() == blocks * 8192 * 4**20 > 2**63
    if normalized:
        assert stratum.normalized.trace() == blocks * 8192 * (2**20 - 1) ** 2


@given(st.integers(0, 2**32 - 1), st.sampled_from(SPECS), st.floats(0.5, 50))
@settings(max_examples=60, deadline=None)
def test_no_lattice_row_is_too_long(seed, spec, scale):
    rows, groups = table(seed)
    lattice, _ = quantize(rows * scale, spec, groups if spec.groups > 1 else None)
    assert max(squares(lattice)) <= 4**spec.bits
    assert max(squares(normalize(lattice, spec.bits))) <= 4**spec.bits


@pytest.mark.parametrize("shells", [1, 3])
@pytest.mark.parametrize("bits", [4, 20, 24])
def test_a_row_that_is_one_unit_too_long_is_shortened(bits, shells):
    rows = np.array([[1.0, 2.0**-bits]])
    lattice, _ = quantize(rows, MomentsSpec(bits=bits, shells=shells))
    assert squares(np.ldexp(rows, bits)) == [4**bits + 1]
    assert squares(lattice)[0] <= 4**bits


@pytest.mark.parametrize("n_features", [2, 3, 7, 100])
def test_rows_of_norm_one_up_to_rounding_are_brought_inside(n_features):
    rows = np.random.default_rng(0).normal(size=(500, n_features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lattice, _ = quantize(rows * (1 + 1e-15), MomentsSpec(shells=3))
    assert max(squares(lattice)) <= 4**20
    assert min(squares(lattice)) > (1 - 2.0**-14) * 4**20


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4))
@example([0.5, 0.5, 0.5, 0.5])
@example([2.0**-40, 0.0, 0.0, 0.0])
@settings(max_examples=300)
def test_rows_land_in_the_shell_of_their_norm(row):
    exact = [Fraction(x) for x in row]
    energy = sum(x * x for x in exact)
    if energy > 1:
        exact, energy = [x / 2 for x in exact], energy / 4
    for parts in (1, 2, 16):
        (place,) = strata([[float(x) for x in exact]], 12, parts)
        largest = [
            Fraction(part) / 4**shell for shell in range(12) for part in part_energies(parts)
        ]
        # Entries are cut at 2**-25 of the largest: never too long, at most 2**-22 too short.
        assert energy * (1 - Fraction(1, 2**22)) <= largest[place]
        assert place == len(largest) - 1 or energy > largest[place + 1]


def test_parts_divide_a_halving_of_the_squared_norm_evenly():
    assert part_energies(1).tolist() == [1]
    assert part_energies(2).tolist() == [1, 1 / 2]
    assert part_energies(8).tolist() == [1, 7 / 8, 6 / 8, 5 / 8, 1 / 2, 7 / 16, 6 / 16, 5 / 16]


def test_strata_hold_their_own_rows_in_their_own_unit():
    rows = np.array([[1.0, 0.0], [0.0, 0.25], [0.25, 0.0], [0.0, 0.0]])
    moments = Moments(2, MomentsSpec(shells=3, groups=2, normalized=True, bits=10))
    moments.add(rows, np.array([0, 1, 0, 1]))
    assert [stratum.n_rows for stratum in moments.strata] == [1, 0, 1, 0, 0, 2]
    assert [stratum.sscp.trace() for stratum in moments.strata] == [4**10, 0, 4**10, 0, 0, 4**10]
    np.testing.assert_allclose(moments.second_moment(), np.diag([1.0625, 0.0625]) / 4)


def test_normalized_moments_are_those_of_unit_rows():
    rows, _ = table(5, n_rows=400)
    moments = gather([rows], 5, MomentsSpec(shells=2, normalized=True))
    kept = sum(stratum.normalized.to_float() for stratum in moments.strata) / 4.0**20
    long = rows[np.linalg.norm(rows, axis=1) > 1e-3]
    unit = long / np.linalg.norm(long, axis=1, keepdims=True)
    assert np.trace(kept) <= 400
    np.testing.assert_allclose(kept, unit.T @ unit, atol=400 - len(long) + 1e-3)


def differences(first, second):
    pairs = zip(first.strata, second.strata, strict=True)
    return [integers(a.sscp) - integers(b.sscp) for a, b in pairs]


def squared(matrices):
    return int(sum((matrix**2).sum() for matrix in matrices))


UNIT_ROW = st.lists(st.floats(-1, 1), min_size=3, max_size=3)


@pytest.mark.parametrize("spec", [MomentsSpec(), MomentsSpec(shells=5, normalized=True)])
@given(pair=st.lists(UNIT_ROW, min_size=2, max_size=2))
@example(pair=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
@settings(max_examples=60, deadline=None)
def test_neighbors_stay_within_the_sensitivities(spec, pair):
    """DESIGN section 4, in lattice units of each stratum."""
    rest, _ = table(0, n_rows=5, n_features=3)
    rows = [np.vstack([rest, [row]]) for row in pair]
    rows = [block / np.maximum(1, np.linalg.norm(block, axis=1, keepdims=True)) for block in rows]
    first, second, without = (gather([block], 3, spec) for block in (*rows, rest))
    unit, replaced = 4**spec.bits, differences(first, second)
    assert squared(replaced) <= 2 * unit**2
    assert squared(differences(first, without)) <= unit**2
    for matrix in (*replaced, *differences(second, without)):
        eigenvalues = np.linalg.eigvalsh(matrix.astype(float))
        assert np.abs(eigenvalues).sum() <= 2 * unit * (1 + 1e-9)
        assert np.abs(eigenvalues).max() <= unit * (1 + 1e-9)
        assert abs(np.trace(matrix)) <= unit
    if spec.shells == 1:
        # A lone stratum gives its trace away for nothing.
        assert squared(replaced) + np.trace(replaced[0]) ** 2 <= 2 * unit**2


def test_the_sensitivities_are_attained():
    unit = 4**20
    rows = ([1.0, 0.0], [0.0, 1.0], [0.0, 0.0])
    first, second, zero = (gather([np.array([row])], 2) for row in rows)
    (replaced,), (removed,) = differences(first, second), differences(first, zero)
    assert (squared([replaced]), squared([removed])) == (2 * unit**2, unit**2)
    assert np.trace(removed) == unit
    assert np.abs(np.linalg.eigvalsh(replaced.astype(float))).sum() == 2 * unit


@pytest.mark.parametrize("shells", [1, 4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_are_not_finite_are_refused(bad, shells):
    rows, _ = table(0)
    rows[3, 2] = bad
    with pytest.raises(NumericError, match="not finite"):
        gather([rows], 5, MomentsSpec(shells=shells))


def test_rows_that_cannot_be_shortened_are_refused(monkeypatch):
    never = lambda energy, *others: np.full_like(energy, 4.0**18)  # noqa: E731
    monkeypatch.setattr(moments_module, "_same_everywhere", never)
    with pytest.raises(NumericError, match="norm bound"):
        quantize(np.array([[1.0, 1.0]]), MomentsSpec())


@pytest.mark.parametrize("values", [1, 3, 7, 10**9])
def test_rows_are_quantized_alike_in_tiles_of_any_size(values, monkeypatch):
    rows, _ = table(5)
    spec = MomentsSpec(shells=4, normalized=True)
    whole = quantize(rows, spec)
    monkeypatch.setattr(moments_module, "_TILE_VALUES", values)
    tiled = quantize(rows, spec)
    assert all(map(np.array_equal, whole, tiled))


@pytest.mark.parametrize(
    "spec",
    [
        MomentsSpec(),
        MomentsSpec(shells=5, normalized=True),
        MomentsSpec(shells=5, fineness=4, groups=2),
        MomentsSpec(shells=3, clip=0.25),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_columns_of_zeros_change_nothing(spec, overwrite):
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(300, 70)) * 2.0 ** -rng.integers(0, 6, (300, 1)) / 8
    # Norms at borders of shells, where sums of rounded entries decide.
    rows[:80] *= (2.0 ** -rng.integers(0, 4, 80) / np.linalg.norm(rows[:80], axis=1))[:, None]
    rows[:, [0, 3, 4, 69]] = 0.0
    rows[:, 5] *= rng.random(300) < 0.01
    groups = rng.integers(0, spec.groups, 300) if spec.groups > 1 else None
    places = np.setdiff1d(np.arange(70), [0, 3, 4, 69])
    whole, shorter = Moments(70, spec), Moments(70, spec)
    whole.add(rows, groups)
    shorter.add(np.asfortranarray(rows[:, places]), groups, places=places, overwrite=overwrite)
    assert shorter == whole
    with pytest.raises(DataError, match="70 encoded columns"):
        shorter.add(rows, groups, places=places)


def test_moments_of_another_kind_do_not_merge():
    for other in (Moments(3), Moments(2, MomentsSpec(bits=10)), Moments(2, norm_bound=2.0)):
        with pytest.raises(DataError):
            Moments(2).merge(other)


def test_moments_of_an_array_are_merged_once():
    """Merged twice they counted twice, also as a copy that another process sends."""
    first, second = (dpcov.moments(np.full((3, 2), 0.5), norm_bound=1.0) for _ in range(2))
    assert first == second
    sent = pickle.loads(pickle.dumps(second))
    first.merge(second)
    unnumbered = Moments(2)
    pairs = ((first, second), (first, sent), (second, first), (unnumbered, unnumbered))
    for held, again in pairs:
        with pytest.raises(DataError, match="twice"):
            held.merge(again)
    assert (first.n_rows, second.n_rows) == (6, 3)


def test_moments_of_older_pickles_are_merged():
    """They have no numbers of tables."""
    older, new = (dpcov.moments(np.full((3, 2), 0.5), norm_bound=1.0) for _ in range(2))
    del older.__dict__["parts"]
    sent = pickle.loads(pickle.dumps(older))
    sent.merge(new)
    assert sent.n_rows == 6
    with pytest.raises(DataError, match="twice"):
        sent.merge(new)


@pytest.mark.parametrize(
    ("option", "wrong", "right"),
    [
        ("shells", (0, 65, True), (1, 64)),
        ("groups", (0, 2.0, True), (1, 10_000)),
        ("bits", (3, 25, 18.5, "20"), (4, 24)),
        ("clip", (0.0, -0.5, 1.0000001, 2.0**-61, math.nan), (2.0**-60, 1.0)),
    ],
)
def test_a_spec_outside_the_exact_range_is_refused(option, wrong, right):
    for value in wrong:
        with pytest.raises(UsageError, match=f"{option} must be a"):
            MomentsSpec(**{option: value})
    for value in right:
        assert getattr(MomentsSpec(**{option: value}), option) == value


@pytest.mark.parametrize("shape", [(2, 3, 1), (3,), (2, 2)])
def test_blocks_of_another_shape_and_no_columns_are_refused(shape):
    with pytest.raises(DataError, match="3 encoded columns"):
        Moments(3).add(np.zeros(shape))
    with pytest.raises(DataError):
        Moments(0)


@pytest.mark.parametrize(
    ("groups", "match"), [([2, 0], "out of range"), ([0, -1], "out of range"), ([0], "every")]
)
def test_group_numbers_that_there_are_not_are_refused(groups, match):
    with pytest.raises(DataError, match=match):
        quantize(np.zeros((2, 1)), MomentsSpec(groups=2), np.array(groups))


def test_reprs_are_sealed():
    rows = np.full((7, 2), 0.6543217)
    moments = gather([rows], 2, MomentsSpec(normalized=True))
    numbers = ("65432", "68610", "7,", "=7", str(moments.strata[0].sscp.trace()))
    for each in (moments, moments.strata, moments.strata[0].sscp):
        assert "<sensitive>" in repr(each)
        assert not any(number in repr(each) for number in numbers)


LONG = [
    *([[18405658, 24679794], [10029956, 13448976]], [[26354125, 28914851], [11301509, 12399631]]),
    *([[33083002, 20273867], [14304816, 8766252]], [[26191739, 17654921], [13911805, 9377453]]),
    *([[23044756, 21814914], [12183940, 11533713]], [[2**25, 0], [2**24 - 1, 0]]),
    *([[0, -(2**24) - 1], [0, 1 - 2**24]], [[2**24, 0], [2**24, 0]]),
]
UNIT = [
    *([[2628, 1472], [14637462, 8198761]], [[826, -434], [14851921, -7803551]]),
    *([[4006, 3172], [13153173, 10414844]], [[956, 2321], [6389602, 15512831]]),
    *([[1648, 743], [15294637, 6895580]], [[1, 0], [2**24 - 1, 0]], [[0, 0], [0, 0]]),
]


def test_rows_are_shortened_and_divided_by_their_norm_as_ever():
    """These rows tell a factor of 1 - 2**-40 from 1 - 2**-39, 1 - 2**-41 and 1."""
    for long, short in LONG:
        # A row of norm 1 in 24 bits, so that a row is exactly the integers it is made of.
        made, shells = quantize(np.array([long]) / 2.0**24, MomentsSpec(bits=24))
        assert made.tolist() == [short]
        assert shells is None
    for row, unit in UNIT:
        assert normalize(np.array([row], dtype=float), 24).tolist() == [unit]


@pytest.mark.parametrize(("shells", "parts"), [(2, 1), (4, 1), (3, 8)])
def test_rows_a_little_over_their_shell_are_shortened_in_it(shells, parts):
    energies = part_energies(parts)
    for s in range(parts, shells * parts):
        excess = 2.0 ** -np.array([22, 23, 24, 25, 40, 52])
        radius = np.sqrt(energies[s % parts]) * 2.0 ** -(s // parts)
        rows = np.outer(radius * (1 + excess), [0.6, 0, 0.8])
        made, places = quantize(
            rows, MomentsSpec(shells=shells, fineness=parts.bit_length() - 1, bits=24)
        )
        own = places == s
        assert own[-1]
        assert np.square(made[own]).sum(axis=1).max() <= 4**24 * energies[s % parts]


@pytest.mark.parametrize("shells", [1, 3])
@pytest.mark.parametrize("clip", [0.5, 0.25, 0.125])
def test_a_clip_shortens_rows_and_makes_its_own_norm_the_unit(shells, clip):
    rows = [[0.6, 0.8], [0.06, 0.08], [0.03, 0.04], [0.0, clip], [clip / 2, 0.0], [0.0, 0.0]]
    clipped, places = quantize(np.array(rows), MomentsSpec(shells=shells, clip=clip))
    whole, expected = quantize(np.array(rows) / clip, MomentsSpec(shells=shells))
    assert clipped.tolist() == whole.tolist()
    assert clipped[3:5].tolist() == [[0, 2**20], [2**20 if shells > 1 else 2**19, 0]]
    if shells > 1:
        assert places.tolist() == expected.tolist()
        assert places[3:].tolist() == [0, 1, 2]


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
    numbered = quantize(rows, MomentsSpec(shells=3, groups=3), groups)[1]
    assert numbered.tolist() == [0, 1, 8, 6, 5]
    assert quantize(rows, MomentsSpec(groups=3), groups)[1].tolist() == [0, 0, 2, 2, 1]
    assert MomentsSpec(shells=3, groups=5).n_strata == 15
    halved = quantize(rows, MomentsSpec(shells=3, fineness=1, groups=3), groups)[1]
    assert halved.tolist() == [0, 2, 16, 12, 11]


@pytest.mark.parametrize(("bits", "rows"), [(4, 2**45), (20, 8192), (23, 128), (24, 32)])
def test_blocks_have_the_rows_whose_products_stay_below_two_to_the_53(bits, rows):
    assert Moments(1, MomentsSpec(bits=bits)).block_rows == rows


@pytest.mark.parametrize("large", [3, 2**14, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 70_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_sorted_by_stratum_in_pieces_stored_as_they_were(large, order):
    numbers = np.array([large, 0, large, 2, 0, large, large, 2, large])
    block = np.asarray(np.arange(18.0).reshape(9, 2), order=order)
    pieces = list(moments_module._by_stratum(block, numbers, 2))
    found = [(index, piece[:, 0].tolist()) for index, piece in pieces]
    parts = [(large, [0, 4]), (large, [10, 12]), (large, [16])]
    assert found == [(0, [2, 8]), (2, [6, 14]), *parts]
    assert all((piece[:, 1] == piece[:, 0] + 1).all() for _, piece in pieces)
    assert all(piece.strides["FC".index(order)] == piece.itemsize for _, piece in pieces)
    assert list(moments_module._by_stratum(block[:0], numbers[:0], 2)) == []


def test_strata_differ_in_each_of_their_parts():
    same, counted, summed, unit = (StratumMoments(1, normalized=True) for _ in range(4))
    counted.n_rows = 1
    summed.sscp.add(np.ones((1, 1)), 1)
    unit.normalized.add(np.ones((1, 1)), 1)
    assert same == StratumMoments(1, normalized=True)
    assert same not in (counted, summed, unit, StratumMoments(1, normalized=False))


def test_long_squared_norms_are_added_in_the_order_of_the_columns():
    values = np.random.default_rng(0).integers(2**25, 2**26, size=(50, 4)).astype(float)
    values *= np.sqrt(1.5 * 2.0**53 / (values**2).sum(axis=1).max())
    values = np.trunc(values)
    fixed = moments_module._same_everywhere(NUMPY.norms(values), values, np)
    wanted = [((a * a + b * b) + c * c) + d * d for a, b, c, d in values.tolist()]
    assert fixed.tolist() == wanted
