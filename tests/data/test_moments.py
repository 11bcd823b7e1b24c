import itertools
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcov.data import moments as moments_module
from dpcov.data.library import NUMPY
from dpcov.data.moments import Moments, MomentsSpec, gather, normalize, quantize
from dpcov.errors import DataError, NumericError, UsageError

SPECS = [
    MomentsSpec(),
    MomentsSpec(bits=4),
    MomentsSpec(shells=12, normalized=True),
    MomentsSpec(shells=3, groups=2, normalized=True, bits=24),
]


def table(seed, n_rows=60, n_features=5):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, n_features)) * random.choice(
        [1e-6, 0.01, 0.3, 1.0], size=(n_rows, 1)
    )
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(norms, 1.0), random.integers(0, 2, n_rows)


def collected(rows, groups, spec):
    moments = Moments(rows.shape[1], spec)
    moments.add(rows, groups if spec.groups > 1 else None)
    return moments


def integers(sum_):
    return np.array([[int(x) for x in row] for row in sum_.to_float()], dtype=object)


def squares(lattice):
    return [sum(int(x) ** 2 for x in row) for row in lattice.values]


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_chunking_order_and_merge_tree_is_equal(spec, seed, data):
    rows, groups = table(seed)
    whole = collected(rows, groups, spec)
    order = np.random.default_rng(seed).permutation(len(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    parts = [
        collected(rows[order[a:b]], groups[order[a:b]], spec)
        for a, b in itertools.pairwise([0, *cuts, len(rows)])
    ]
    while len(parts) > 1:
        taken = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(taken)
    assert parts[0] == whole
    assert parts[0].n_rows == len(rows)


_DIGEST = """
import hashlib, numpy as np
from dpcov.data.library import NUMPY
from dpcov.data.moments import MomentsSpec, gather
rows = np.random.default_rng(3).uniform(-1, 1, (9000, 40)) / 40**0.5
moments = gather([rows], 40, MomentsSpec(shells=4, normalized=True))
words = [w for s in moments.strata for e in (s.sscp, s.normalized) for w in e.words()]
print(hashlib.sha256(b"".join(w.tobytes() for w in words)).hexdigest())
"""


def test_the_number_of_blas_threads_does_not_matter():
    digests = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        run = [sys.executable, "-c", _DIGEST]
        digests.add(
            subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
        )
    assert len(digests) == 1
    assert len(digests.pop()) == 65


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 10, 20]))
@settings(max_examples=30, deadline=None)
def test_products_agree_with_python_integers(seed, bits):
    rows, _ = table(seed, n_rows=20, n_features=3)
    lattice = [[math.trunc(Fraction(x) * 2**bits) for x in row] for row in rows.tolist()]
    assert np.min(lattice) < 0
    expected = np.array(
        [[sum(q[i] * q[j] for q in lattice) for j in range(3)] for i in range(3)], dtype=object
    )
    moments = gather([rows], 3, MomentsSpec(bits=bits))
    assert (integers(moments.strata[0].sscp) == expected).all()


def test_a_full_block_of_the_longest_rows_is_exact():
    rows = np.zeros((3 * 8192 + 5, 2))
    rows[:, 0] = 1.0
    moments = gather([rows], 2)
    assert moments.strata[0].sscp.trace() == len(rows) * 4**20


@given(st.integers(0, 2**32 - 1), st.sampled_from(SPECS), st.floats(0.5, 50))
@settings(max_examples=60, deadline=None)
def test_no_lattice_row_is_too_long(seed, spec, scale):
    rows, groups = table(seed)
    lattice = quantize(rows * scale, spec, groups if spec.groups > 1 else None)
    assert max(squares(lattice)) <= 4**spec.bits
    unit = normalize(lattice.values, spec.bits)
    assert max(sum(int(x) ** 2 for x in row) for row in unit) <= 4**spec.bits


@pytest.mark.parametrize("n_features", [2, 3, 7, 100])
def test_rows_of_norm_one_up_to_rounding_are_brought_inside(n_features):
    rows = np.random.default_rng(0).normal(size=(500, n_features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lattice = quantize(rows * (1 + 1e-15), MomentsSpec(shells=3))
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
        exact = [x / 2 for x in exact]
        energy /= 4
    shell = int(quantize(np.array([[float(x) for x in exact]]), MomentsSpec(shells=12)).strata[0])
    # Entries are cut at 2**-25 of the largest: never too long, at most 2**-22 too short.
    assert energy * (1 - Fraction(1, 2**22)) <= Fraction(1, 4**shell)
    assert shell == 11 or energy > Fraction(1, 4 ** (shell + 1))


@pytest.mark.parametrize("n_features", [1, 3, 50, 1000])
def test_shells_told_by_floating_norms_are_those_measured_in_integers(n_features):
    random = np.random.default_rng(0)
    rows = random.normal(size=(4000, n_features))
    distance = 1 + random.choice([-1, 0, 1], 4000) * 2.0 ** -random.integers(3, 54, 4000)
    rows *= (2.0 ** -random.integers(0, 14, 4000) * distance / np.linalg.norm(rows, axis=1))[
        :, None
    ]
    measured = moments_module.exact_shell_of(rows, 12)
    energies = NUMPY.norms(rows)
    assert np.array_equal(moments_module._shell_of(rows, energies, 12), measured)
    naive = np.clip(-np.frexp(energies)[1] // 2, 0, 11)
    assert (naive != measured).sum() > 20  # what a floating norm alone would get wrong


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


@pytest.mark.parametrize("spec", [MomentsSpec(), MomentsSpec(shells=5, normalized=True)])
@given(data=st.data())
@example(data=None)
@settings(max_examples=60, deadline=None)
def test_neighbors_stay_within_the_sensitivities(spec, data):
    """DESIGN section 4, in lattice units of each stratum."""
    entry = st.floats(-1, 1)
    pair = (
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        if data is None
        else data.draw(st.lists(st.lists(entry, min_size=3, max_size=3), min_size=2, max_size=2))
    )
    rest, _ = table(0, n_rows=5, n_features=3)
    rows = [np.vstack([rest, [row]]) for row in pair]
    rows = [block / np.maximum(1, np.linalg.norm(block, axis=1, keepdims=True)) for block in rows]
    first, second, without = (gather([block], 3, spec) for block in (*rows, rest))
    unit = 4**spec.bits
    assert replaced(first, second) <= 2 * unit**2
    assert replaced(first, without) <= unit**2
    for a, b in itertools.pairwise((first, second, without)):
        for left, right in zip(sums(a), sums(b), strict=True):
            eigenvalues = np.linalg.eigvalsh((integers(left) - integers(right)).astype(float))
            assert np.abs(eigenvalues).sum() <= 2 * unit * (1 + 1e-9)
            assert max(eigenvalues.max(), -eigenvalues.min()) <= unit * (1 + 1e-9)
            assert abs(left.trace() - right.trace()) <= unit
    if spec.shells == 1:
        # A lone stratum gives its trace away for nothing.
        assert replaced(first, second) + trace_difference(first, second) ** 2 <= 2 * unit**2


def sums(moments):
    return [stratum.sscp for stratum in moments.strata]


def replaced(first, second):
    differences = [
        integers(a) - integers(b) for a, b in zip(sums(first), sums(second), strict=True)
    ]
    return int(sum((difference**2).sum() for difference in differences))


def trace_difference(first, second):
    return sum(a.trace() - b.trace() for a, b in zip(sums(first), sums(second), strict=True))


def test_the_sensitivities_are_attained():
    unit = 4**20
    first, second, zero = (
        gather([np.array([row])], 2) for row in ([1.0, 0.0], [0.0, 1.0], [0.0, 0.0])
    )
    assert replaced(first, second) == 2 * unit**2
    assert replaced(first, zero) == unit**2
    assert trace_difference(first, zero) == unit
    assert (
        np.abs(
            np.linalg.eigvalsh((integers(sums(first)[0]) - integers(sums(second)[0])).astype(float))
        ).sum()
        == 2 * unit
    )


@pytest.mark.parametrize("shells", [1, 4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_are_not_finite_are_refused(bad, shells):
    rows, _ = table(0)
    rows[3, 2] = bad
    with pytest.raises(NumericError, match="not finite"):
        gather([rows], 5, MomentsSpec(shells=shells))


@pytest.mark.parametrize("values", [1, 3, 7, 10**9])
def test_rows_are_quantized_alike_in_tiles_of_any_size(values, monkeypatch):
    rows, _ = table(5)
    spec = MomentsSpec(shells=4, normalized=True)
    whole = quantize(rows, spec)
    monkeypatch.setattr(moments_module, "_TILE_VALUES", values)
    tiled = quantize(rows, spec)
    assert np.array_equal(whole.values, tiled.values)
    assert np.array_equal(whole.strata, tiled.strata)


def test_moments_of_another_kind_do_not_merge():
    for other in (Moments(3), Moments(2, MomentsSpec(bits=10)), Moments(2, norm_bound=2.0)):
        with pytest.raises(DataError):
            Moments(2).merge(other)


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


def test_no_columns_are_refused():
    with pytest.raises(DataError):
        Moments(0)


def test_input_is_not_changed():
    rows, groups = table(2)
    kept, kept_groups = rows.copy(), groups.copy()
    collected(rows, groups, SPECS[3])
    assert (rows == kept).all()
    assert (groups == kept_groups).all()


def test_reprs_are_sealed():
    rows = np.full((7, 2), 0.6543217)
    moments = gather([rows], 2, MomentsSpec(normalized=True))
    lattice = quantize(rows, MomentsSpec())
    texts = [
        repr(moments),
        repr(lattice),
        repr(moments.strata),
        repr(moments.strata[0].sscp),
        str(moments),
    ]
    for text in texts:
        assert "<sensitive>" in text
        assert not any(
            number in text
            for number in ("65432", "68610", "7,", "=7", str(moments.strata[0].sscp.trace()))
        )
