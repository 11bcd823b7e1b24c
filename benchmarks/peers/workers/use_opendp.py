"""OpenDP's answers: its eigendecomposition and PCA on rows known to lie in the unit ball, and its
noise."""

from importlib.metadata import version

import numpy as np
import opendp.prelude as dp
from opendp.extras.sklearn.decomposition import PCAEpsilons, make_private_pca
from serve import serve

dp.enable_features("honest-but-curious", "contrib", "idealized-numerics")

ONE_REPLACED = 2
"""Symmetric distance between tables that differ in one row."""


def _pca(rows, epsilon, count=None):
    n, d = rows.shape
    # A known origin: no budget for a mean, and the second moment about zero as for everybody.
    domain = dp.numpy.array2_domain(
        num_columns=d, size=n, norm=1.0, p=2, origin=np.zeros(d), T=float
    )
    measurement = make_private_pca(domain, dp.symmetric_distance(), epsilon, num_components=count)
    return measurement(rows), f"spends epsilon = {measurement.map(ONE_REPLACED):.4g}"


def second_moment(rows, *, epsilon):
    made, note = _pca(rows, epsilon)
    return made.Vt.T * made.S**2 @ made.Vt / len(rows), note


def components(rows, *, epsilon, count):
    made, note = _pca(rows, epsilon, count)
    return made.Vt[:count], note


def estimator(rows, *, epsilon, count):
    """The scikit-learn wrapper with its own reading of epsilon, which also spends on a mean."""
    n, d = rows.shape
    made = dp.sklearn.decomposition.PCA(
        epsilon=epsilon, row_norm=1.0, n_samples=n, n_features=d, n_components=count
    )
    note = f"spends epsilon = {made.measurement().map(ONE_REPLACED):.4g}"
    return made.fit(rows).components_, note


def bingham(_, *, concentration, size):
    """First directions of 4 * concentration copies of e_1, at epsilon = 1 each."""
    copies = round(4 * concentration)
    rows = np.tile([1.0, 0.0], (copies, 1))
    domain = dp.numpy.array2_domain(
        num_columns=2, size=copies, norm=1.0, p=2, origin=np.zeros(2), T=float
    )
    budget = PCAEpsilons(eigvals=1.0, eigvecs=[1.0], mean=None)
    measurement = make_private_pca(domain, dp.symmetric_distance(), budget)
    return [measurement(rows).Vt[0, 0] ** 2 for _ in range(size)]


def laplace(_, *, scale, size):
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return dp.m.make_laplace(*space, scale=scale)([0.0] * size)


def gaussian(_, *, scale, size):
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=scale)([0.0] * size)


if __name__ == "__main__":
    serve(
        version("opendp"),
        {
            "eigendecomposition": second_moment,
            "PCA": components,
            "PCA estimator": estimator,
            "eigenvector": bingham,
            "make_laplace": laplace,
            "make_gaussian": gaussian,
        },
    )
