import numpy as np
import pytest

from dpcov.errors import NumericError
from dpcov.mechanisms.blocks.whitening import inverse_root, mahalanobis_error


def random_covariance(seed, d=5):
    factor = np.random.default_rng(seed).normal(size=(d, 2 * d))
    return factor @ factor.T


def test_the_inverse_root_whitens():
    covariance = random_covariance(1)
    root = inverse_root(covariance)
    np.testing.assert_array_equal(root, root.T)
    np.testing.assert_allclose(root @ covariance @ root, np.eye(5), atol=1e-9)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.diag([1.0, -1.0])])
def test_matrices_that_are_not_positive_definite_are_refused(matrix):
    with pytest.raises(NumericError):
        inverse_root(matrix)


def test_the_mahalanobis_error_does_not_change_with_the_units():
    covariance, estimate = random_covariance(1), random_covariance(2)
    change = np.random.default_rng(3).normal(size=(5, 5))
    error = mahalanobis_error(estimate, covariance)
    other = mahalanobis_error(change @ estimate @ change.T, change @ covariance @ change.T)
    assert other == pytest.approx(error)
    assert mahalanobis_error(covariance, covariance) < 1e-9
