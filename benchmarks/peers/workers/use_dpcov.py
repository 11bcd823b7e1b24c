"""This library's answers, in the same run and by the same rules as the peers'."""

from importlib.metadata import version

import numpy as np
from serve import serve

import dpcov
from dpcov.noise.eigenvectors import sample_binghams


def _budget(epsilon, delta=None):
    return dpcov.Budget(epsilon=epsilon, delta=delta)


def _note(made):
    return f"{made.manifest.mechanism.name}: {made.manifest.guarantee.numerics}"


def second_moment(rows, *, epsilon, delta=None, mechanism="auto", **options):
    made = dpcov.second_moment(
        rows, norm_bound=1.0, budget=_budget(epsilon, delta), mechanism=mechanism, **options
    )
    return made.second_moment(), _note(made)


def components(rows, *, epsilon, count, delta=None, mechanism="auto"):
    released, note = second_moment(rows, epsilon=epsilon, delta=delta, mechanism=mechanism)
    return np.linalg.eigh(released)[1].T[::-1][:count], note


def covariance(rows, *, epsilon, lower, upper, delta=None):
    bounds = dpcov.Numeric(lower=lower, upper=upper)
    schema = dpcov.Schema(columns={f"x{index}": bounds for index in range(rows.shape[1])})
    made = dpcov.release(rows, schema=schema, budget=_budget(epsilon, delta))
    return made.covariance_matrix(), _note(made)


def bingham(_, *, concentration, size):
    return sample_binghams(np.diag([concentration, 0.0]), size, dpcov.SystemEntropy())[:, 0] ** 2


def gaussian_off_diagonal(_, *, rho, d, size):
    """Noise beside the diagonal, on the scale of the sum of products; its law is published with a
    release."""
    return _gaussian(rho, d, size, np.triu_indices(d, 1))


def gaussian_diagonal(_, *, rho, d, size):
    return _gaussian(rho, d, size, np.diag_indices(d))


def _gaussian(rho, d, size, where):
    n = 10
    budget = dpcov.Budget(rho=rho)
    drawn: list[float] = []
    while len(drawn) < size:
        made = dpcov.second_moment(
            np.zeros((n, d)), norm_bound=1.0, budget=budget, mechanism="gaussian"
        )
        drawn.extend(n * made.second_moment(post="none")[where])
    return drawn[:size]


if __name__ == "__main__":
    serve(
        version("dpcov"),
        {
            "second_moment": second_moment,
            "components": components,
            "covariance": covariance,
            "sample_binghams": bingham,
            "gaussian, off the diagonal": gaussian_off_diagonal,
            "gaussian, diagonal": gaussian_diagonal,
        },
    )
