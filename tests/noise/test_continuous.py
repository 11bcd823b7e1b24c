import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.errors import UsageError
from dpcov.noise import continuous
from dpcov.noise.continuous import exponentials, gammas, haar_orthogonal, normals, uniforms
from dpcov.noise.entropy import SeededEntropy
from tests.statistical.goodness import (
    assert_continuous_law,
    assert_mean_square,
    continuous_law_samples,
)

SIZE = 100_000


class ConstantEntropy:
    private = False

    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1])
def test_uniforms_are_inside_the_open_interval_for_every_word(word):
    assert 0.0 < uniforms(1, ConstantEntropy(word))[0] < 1.0
    assert np.isfinite(exponentials(1, ConstantEntropy(word))[0])
    assert np.all(np.isfinite(normals(2, ConstantEntropy(word))))


@pytest.mark.parametrize(
    ("draw", "law"), [(uniforms, stats.uniform), (exponentials, stats.expon), (normals, stats.norm)]
)
def test_standard_laws(draw, law):
    assert_continuous_law(draw(SIZE, SeededEntropy(1)), law.cdf)


def test_the_sample_size_suffices_to_reject_a_wrong_scale():
    assert continuous_law_samples(stats.norm.cdf, np.linspace(-4, 4, 999)) <= SIZE


@pytest.mark.parametrize("shape_parameter", [0.2, 0.5, 0.9, 1.0, 2.5, 30.0, 5000.0, 1e6])
def test_gamma_law_at_every_shape(shape_parameter):
    draws = gammas(shape_parameter, SIZE, SeededEntropy(2))
    assert_continuous_law(draws, stats.gamma(shape_parameter).cdf)


@pytest.mark.parametrize("shape_parameter", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_gamma_laws_are_refused(shape_parameter):
    with pytest.raises(UsageError):
        gammas(shape_parameter, 3, SeededEntropy(0))


@pytest.mark.parametrize("shape", [0, 5, (3, 3), (2, 3, 5)])
def test_normals_take_any_shape(shape):
    assert normals(shape, SeededEntropy(3)).shape == np.empty(shape).shape


def test_both_halves_of_the_normal_pairs_are_normal_and_uncorrelated():
    draws = normals(SIZE, SeededEntropy(4))
    first, second = draws[: SIZE // 2], draws[SIZE // 2 :]
    assert_continuous_law(first, stats.norm.cdf)
    assert_continuous_law(second, stats.norm.cdf)
    assert_mean_square((first + second) / np.sqrt(2.0), 1.0)


@pytest.mark.parametrize("dimension", [1, 2, 7, 40])
def test_haar_matrices_are_orthogonal(dimension):
    matrix = haar_orthogonal(dimension, SeededEntropy(5))
    assert np.allclose(matrix @ matrix.T, np.eye(dimension), atol=1e-12)


def test_haar_entries_and_traces_have_no_preferred_sign_or_axis():
    entropy = SeededEntropy(6)
    matrices = np.array([haar_orthogonal(3, entropy) for _ in range(8000)])
    # A coordinate of a uniform point on the sphere in three dimensions is uniform (Archimedes).
    for row, column in ((0, 0), (0, 2), (2, 2)):
        assert_continuous_law(matrices[:, row, column], stats.uniform(-1, 2).cdf)
    assert_mean_square(np.trace(matrices, axis1=1, axis2=2), 1.0)


def test_an_empty_orthogonal_matrix_is_refused():
    with pytest.raises(UsageError):
        haar_orthogonal(0, SeededEntropy(0))


class Listed:
    """Words from a list."""

    private = False

    def __init__(self, words):
        self.rest = list(words)

    def words(self, count):
        taken, self.rest = self.rest[:count], self.rest[count:]
        return np.array(taken, dtype=np.uint64)


class Scalars:
    """The same laws, one number after another, in plain floats and by the textbook's formulas."""

    def __init__(self, seed):
        self.entropy = SeededEntropy(seed)

    def uniforms(self, size):
        return [min((2 * int(word) + 1) / 2**65, 1 - 2**-53) for word in self.entropy.words(size)]

    def exponentials(self, size):
        return [-math.log(u) for u in self.uniforms(size)]

    def normals(self, size):
        pairs = math.ceil(size / 2)
        radii = [math.sqrt(2 * e) for e in self.exponentials(pairs)]
        angles = [math.tau * u for u in self.uniforms(pairs)]
        cosines = [r * math.cos(t) for r, t in zip(radii, angles, strict=True)]
        return (cosines + [r * math.sin(t) for r, t in zip(radii, angles, strict=True)])[:size]

    def gammas(self, a, size):
        if a < 1:
            shrink = [u ** (1 / a) for u in self.uniforms(size)]
            return [x * s for x, s in zip(self.gammas(a + 1, size), shrink, strict=True)]
        found, open_places, d = [math.nan] * size, list(range(size)), a - 1 / 3
        while open_places:
            xs = self.normals(len(open_places))
            still_open = []
            for place, x, u in zip(open_places, xs, self.uniforms(len(open_places)), strict=True):
                v = (1 + x / math.sqrt(9 * d)) ** 3
                found[place] = d * v
                if v <= 0 or math.log(u) >= x * x / 2 + d - d * v + d * math.log(v):
                    still_open.append(place)
            open_places = still_open
        return found


@pytest.mark.parametrize("word", [0, 1, 2, 3, 12345, 2**51 + 1, 2**52 - 1])
def test_a_uniform_is_the_middle_of_its_cell(word):
    assert uniforms(1, Listed([word]))[0] == Fraction(2 * word + 1, 2**65)


def test_the_last_cells_give_the_largest_number_below_one():
    drawn = uniforms(4, Listed([2**63, 2**64 - 2**11, 2**64 - 2**10, 2**64 - 1]))
    assert drawn.tolist() == [0.5, 1 - 2**-53, 1 - 2**-53, 1 - 2**-53]


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_exponentials_and_normals_follow_their_formulas_word_by_word(size):
    assert np.allclose(
        exponentials(size, SeededEntropy(8)), Scalars(8).exponentials(size), rtol=1e-14, atol=0
    )
    assert np.allclose(
        normals(size, SeededEntropy(9)), Scalars(9).normals(size), rtol=1e-12, atol=0
    )


def test_normals_fill_a_shape_row_by_row():
    assert np.array_equal(normals((3, 5), SeededEntropy(9)).ravel(), normals(15, SeededEntropy(9)))


@pytest.mark.parametrize("shape_parameter", [0.2, 0.999, 1.0, 1.5, 30.0])
def test_gammas_follow_their_formula_word_by_word(shape_parameter):
    drawn = gammas(shape_parameter, 3_000, SeededEntropy(10))
    assert np.allclose(drawn, Scalars(10).gammas(shape_parameter, 3_000), rtol=1e-9, atol=0)


def test_a_proposal_of_zero_is_not_accepted_and_its_logarithm_not_taken(monkeypatch):
    # With shape 4/3 the proposal is (1 + x / 3)**3.
    monkeypatch.setattr(
        continuous, "normals", lambda count, entropy: np.array([-3.0, -3.5, -1.5, 1.5])
    )
    proposals, accepted = continuous._propose_gammas(4 / 3, 4, Listed([0, 0, 0, 2**64 - 1]))
    assert np.allclose(proposals, [0.0, -1 / 216, 1 / 8, 27 / 8], atol=1e-15)
    assert accepted.tolist() == [False, False, True, False]


def test_a_haar_matrix_is_the_orthogonal_factor_whose_triangular_one_has_a_positive_diagonal():
    orthogonal = haar_orthogonal(6, SeededEntropy(11))
    triangular = orthogonal.T @ normals((6, 6), SeededEntropy(11))
    assert np.allclose(np.tril(triangular, -1), 0.0, atol=1e-12)
    assert np.all(np.diagonal(triangular) > 0.0)
