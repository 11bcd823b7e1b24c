"""The parts of an audit: neighboring tables, readers that miss nothing, bounds for known laws."""

from fractions import Fraction

import numpy as np
import pytest

from dpcov.audit.limits import LARGEST_SHIFT, from_shift, gaussian_epsilon, shift_below
from dpcov.audit.neighboring import attaining, known_pairs, random_pair, turned
from dpcov.audit.outcomes import LOW_BITS, OFTEN, Reader
from dpcov.audit.scores import learn
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP
from dpcov.published.statistics import NoiseLaw, NoisyStatistics


@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("relation", NEIGHBORS)
def test_every_pair_is_neighboring_and_in_the_unit_ball(relation, columns):
    random = np.random.default_rng(1)
    for pair in [
        *known_pairs(relation, columns),
        *(random_pair(relation, columns, random) for _ in range(50)),
    ]:
        others = pair.second[1:] if relation == "replace-one" else pair.second
        assert np.array_equal(pair.first[1:], others)
        assert max(np.linalg.norm(rows, axis=1).max() for rows in (pair.first, pair.second)) <= 1
        assert pair.first.shape[1] == pair.second.shape[1] == columns


def test_a_turned_pair_moves_the_difference_off_the_diagonal():
    pair = turned(attaining("replace-one"))
    assert np.allclose(np.diag(pair.difference), 0)
    for columns in (2, 5):
        pair = turned(attaining("replace-one", columns))
        assert np.linalg.norm(pair.difference) == pytest.approx(np.sqrt(2))
        assert np.allclose(np.abs(pair.first[0]), 1 / np.sqrt(columns))


@pytest.mark.parametrize("shift", [0.5, 2.0, 10.0])
def test_the_normal_bound_is_close_to_the_truth_and_below_it(shift):
    random = np.random.default_rng(2)
    found = shift_below(random.normal(shift, size=20_000), random.normal(size=20_000), 1e-9)
    assert 0.8 * shift < found <= shift
    assert from_shift(ZCDP(rho=Fraction(1)), found) <= shift**2 / 2


def test_noise_that_never_varies_is_none():
    assert shift_below(np.ones(10), np.zeros(10), 1e-9) == LARGEST_SHIFT
    assert shift_below(np.ones(10), np.ones(10), 1e-9) == 0


@pytest.mark.parametrize(("epsilon", "delta"), [("1/2", "1e-6"), ("2", "1e-3"), ("8", "1e-9")])
def test_epsilon_of_a_shift_inverts_the_calibration(epsilon, delta):
    multiplier = gaussian_noise_multiplier(Fraction(epsilon), Fraction(delta))
    found = gaussian_epsilon(1 / float(multiplier), float(Fraction(delta)))
    assert found == pytest.approx(float(Fraction(epsilon)), rel=1e-6)
    promise = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta))
    assert from_shift(promise, 2 / float(multiplier)) > float(promise.epsilon)


def finished(*matrices, note="one"):
    return [
        NoisyStatistics(layout="estimate", arrays={"second_moment": each}, notes=(note,))
        for each in matrices
    ]


def test_shapes_notes_and_last_bits_are_all_read():
    tables = [
        finished(*(np.diag([rest + each % 3, 1.0]) for each in range(OFTEN)), note=note)
        for rest, note in ((0.0, "one"), (2.0**-10, "other"))
    ]
    first, second = map(Reader([*tables[0], *tables[1]], n_rows=4), tables)
    assert set(first.labels).isdisjoint(second.labels)
    assert set(first.numbers.ravel()) == {0.0, 1.0, 2.0}
    assert LOW_BITS[1] > 10
    assert any(
        set(a).isdisjoint(b) for a, b in zip(first.low_bits.T, second.low_bits.T, strict=True)
    )


def test_releases_whose_arrays_have_no_shape_in_common_are_read_by_their_matrices():
    law = NoiseLaw(family="discrete-gaussian", diagonal_variance="1", off_diagonal_variance="1")
    (one,) = finished(np.diag([1.0, 2.0]))
    other = NoisyStatistics(layout="sscp", arrays={"sscp": np.diag([12, 8])}, noise=law)
    read = Reader([one, other] * OFTEN, n_rows=4)
    first, second = map(read, ([one, other], [other, one]))
    assert sorted(first.labels) == list(range(2)) and list(first.labels) == list(
        reversed(second.labels)
    )
    assert np.array_equal(
        np.concatenate([first.numbers, second.numbers])[:, 0], [1.0, 3.0, 3.0, 1.0]
    )
    assert first.low_bits.shape == second.low_bits.shape == (2, 0)


def test_rare_labels_share_a_number_and_the_order_of_tables_shows_in_none():
    tables = [
        finished(*[np.eye(2)] * OFTEN, note=f"{table}, {kind}") for kind in "ab" for table in "21"
    ]
    few = [np.eye(2)] * (OFTEN - 1)
    rare = [*finished(*few, note="rare"), *finished(*few, note="as rare")]
    every = [release for table in tables for release in table]
    numbers = [
        Reader(known, n_rows=4)([*every, *rare]).labels
        for known in ([*every, *rare], [*rare, *every[::-1]])
    ]
    assert np.array_equal(*numbers)
    assert len(set(numbers[0])) == 5
    unseen = Reader(every, n_rows=4)([*rare, *finished(np.eye(2), note="never seen")])
    assert set(unseen.labels) == {4}


def test_trees_see_what_only_two_numbers_together_tell():
    # The sign of a product: no number tells anything by itself, and no projection does.
    random = np.random.default_rng(4)
    signs = random.choice([-1.0, 1.0], size=(3_000, 2))
    tables = [signs[signs.prod(axis=1) == side] for side in (1.0, -1.0)]
    noisy = [
        finished(*(np.diag(each + random.normal(size=2)) for each in table)) for table in tables
    ]
    first, second = map(Reader([*noisy[0], *noisy[1]], n_rows=4), noisy)
    halves = [
        (each.take(slice(0, None, 2)), each.take(slice(1, None, 2))) for each in (first, second)
    ]
    score = learn(halves[0][0], halves[1][0])["trees"]
    right = np.mean(score(halves[0][1]) > 0) + np.mean(score(halves[1][1]) < 0)
    assert right / 2 > 0.7
