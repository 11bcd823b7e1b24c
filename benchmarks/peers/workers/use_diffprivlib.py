"""diffprivlib's answers: ``models.utils.covariance_eig``, ``models.PCA`` and the samplers they
use."""

from importlib.metadata import version

import numpy as np
from diffprivlib.mechanisms import Bingham, GaussianAnalytic, Laplace, LaplaceBoundedDomain
from diffprivlib.models import PCA, LinearRegression
from diffprivlib.models.utils import covariance_eig
from serve import serve


def second_moment(rows, *, epsilon):
    eigenvalues, vectors = covariance_eig(rows, epsilon=epsilon, norm=1.0)
    return vectors * eigenvalues @ vectors.T / len(rows)


def components(rows, *, epsilon, count):
    # Declared as centered: no budget for a mean, and the second moment about zero as for everybody.
    fitted = PCA(n_components=count, epsilon=epsilon, data_norm=1.0, centered=True).fit(rows.copy())
    return fitted.components_


def regression(rows, *, epsilon, seed=None):
    """Weights of all columns but the last, each between -1 and 1, with the intercept first."""
    bounds = {"bounds_X": (-1, 1), "bounds_y": (-1, 1)}
    fitted = LinearRegression(epsilon=epsilon, random_state=seed, **bounds).fit(
        rows[:, :-1], rows[:, -1]
    )
    return np.append(fitted.intercept_, fitted.coef_)


def bingham(_, *, concentration, size):
    sampler = Bingham(epsilon=1.0, sensitivity=1.0)
    matrix = np.diag([4.0 * concentration, 0.0])
    return [sampler.randomise(matrix)[0] ** 2 for _ in range(size)]


def laplace(_, *, scale, size):
    sampler = Laplace(epsilon=1.0, sensitivity=scale)
    return [sampler.randomise(0.0) for _ in range(size)]


def bounded_laplace(_, *, epsilon, sensitivity, value, size):
    sampler = LaplaceBoundedDomain(
        epsilon=epsilon, sensitivity=sensitivity, lower=0, upper=float("inf")
    )
    return [sampler.randomise(value) for _ in range(size)]


def gaussian(_, *, epsilon, delta, size):
    sampler = GaussianAnalytic(epsilon=epsilon, delta=delta, sensitivity=1.0)
    return [sampler.randomise(0.0) for _ in range(size)]


if __name__ == "__main__":
    serve(
        version("diffprivlib"),
        {
            "covariance_eig": second_moment,
            "PCA": components,
            "LinearRegression": regression,
            "Bingham": bingham,
            "Laplace": laplace,
            "LaplaceBoundedDomain": bounded_laplace,
            "GaussianAnalytic": gaussian,
        },
    )
