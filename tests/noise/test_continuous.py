import numpy as np
import pytest
from scipy import stats

from dpcov.errors import UsageError
from dpcov.noise.continuous import exponentials, gammas, haar_orthogonal, normals, uniforms
from dpcov.noise.entropy import SeededEntropy
from tests.statistical.goodness import assert_continuous_law, assert_mean_square, continuous_law_samples

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
