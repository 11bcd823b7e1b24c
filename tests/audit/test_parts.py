"""The parts of an audit: tables that are neighbors, a stream without gaps, bounds that hold for known laws."""

from fractions import Fraction

import numpy as np
import pytest

from dpcov.audit.neighboring import attaining, perturbed, random_pair, turned
from dpcov.audit.normal import LARGEST_SHIFT, from_shift, gaussian_epsilon, shift_below
from dpcov.audit.outcomes import LOW_BITS, read
from dpcov.audit.releases import BufferedEntropy
from dpcov.audit.search import known_pairs
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP
from dpcov.published.statistics import NoiseLaw, NoisyStatistics


@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("relation", NEIGHBORS)
def test_every_pair_is_neighboring_and_in_the_unit_ball(relation, columns):
    random = np.random.default_rng(1)
    pairs = [*known_pairs(relation, columns), *(random_pair(relation, columns, random) for _ in range(50))]
    for pair in [*pairs, *(perturbed(pair, random, step=3.0) for pair in pairs)]:
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


def test_a_buffer_hands_out_the_source_word_by_word():
    buffered = BufferedEntropy(SeededEntropy(5), size=7)
    sizes = [3, 0, 5, 20, 1, 7, 8]
    found = np.concatenate([buffered.words(size) for size in sizes])
    assert np.array_equal(found, SeededEntropy(5).words(sum(sizes)))


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


def test_shapes_notes_and_last_bits_are_all_read():
    def table(rest, note):
        values = rest + np.arange(3.0)
        made = [np.diag([value, 1.0]) for value in values]
        return [
            NoisyStatistics(layout="estimate", arrays={"second_moment": each}, notes=(note,)) for each in made
        ]

    first, second = read([table(0.0, "one"), table(2.0**-10, "other")], n_rows=4)
    assert set(first.labels).isdisjoint(second.labels)
    assert first.numbers.shape[1] == 1
    assert LOW_BITS[1] > 10
    assert any(set(a).isdisjoint(b) for a, b in zip(first.low_bits.T, second.low_bits.T, strict=True))


def test_releases_whose_arrays_have_no_shape_in_common_are_read_by_their_matrices():
    law = NoiseLaw(family="discrete-gaussian", diagonal_variance="1", off_diagonal_variance="1")
    one = NoisyStatistics(layout="estimate", arrays={"second_moment": np.diag([1.0, 2.0])})
    other = NoisyStatistics(layout="sscp", arrays={"sscp": np.diag([12, 8])}, noise=law)
    first, second = read([[one, other], [other, one]], n_rows=4)
    assert list(first.labels) == list(reversed(second.labels)) == [0, 1]
    assert np.array_equal(np.concatenate([first.numbers, second.numbers])[:, 0], [1.0, 3.0, 3.0, 1.0])
    assert first.low_bits.shape == second.low_bits.shape == (2, 0)
