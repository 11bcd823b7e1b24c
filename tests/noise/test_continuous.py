import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.noise.continuous import exponentials, haar_orthogonal, normals, uniforms
from dpcov.noise.entropy import SeededEntropy
from tests.statistical.goodness import assert_continuous_law

SIZE = 100_000


class Listed:
    """Words from a list."""

    private = False

    def __init__(self, words):
        self.rest = list(words)

    def words(self, count):
        taken, self.rest = self.rest[:count], self.rest[count:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize(
    ("draw", "law"), [(uniforms, stats.uniform), (exponentials, stats.expon), (normals, stats.norm)]
)
def test_standard_laws(draw, law):
    assert_continuous_law(draw(SIZE, SeededEntropy(1)), law.cdf)


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


@pytest.mark.parametrize("d", [1, 2, 6, 40])
def test_a_haar_matrix_is_the_orthogonal_factor_whose_triangular_one_has_a_positive_diagonal(d):
    orthogonal = haar_orthogonal(d, SeededEntropy(11))
    triangular = orthogonal.T @ normals((d, d), SeededEntropy(11))
    assert np.allclose(orthogonal @ orthogonal.T, np.eye(d), atol=1e-12)
    assert np.allclose(np.tril(triangular, -1), 0.0, atol=1e-12)
    assert np.all(np.diagonal(triangular) > 0.0)
