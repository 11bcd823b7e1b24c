import math

import numpy as np
import pytest

from dpcov.mechanisms.separate import Separate, mend_spectrum
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.published.linalg.symmetric import mirror_upper
from tests.mechanisms.chosen import drawn, sscps

RNG = np.random.default_rng(8)
D, N_ROWS = 5, 40
ROWS = RNG.normal(size=(N_ROWS, D)) * 2.0 ** -np.arange(D)
ROWS /= np.maximum(1.0, np.linalg.norm(ROWS, axis=1))[:, None]


def laplaces(size, entropy):
    return exponentials(size, entropy) - exponentials(size, entropy)


def naive(rows, entropy, *, rho=None, epsilon=None):
    # Algorithm 1 and Appendix I of Dong, Liang, Yi, with the right sensitivity of the triangle.
    n, d = rows.shape
    sigma = rows.T @ rows / n
    values = np.sort(np.linalg.eigvalsh(sigma))
    if rho is not None:
        noisy = values + math.sqrt(2) / (math.sqrt(rho) * n) * normals(d, entropy)
        noise = mirror_upper(normals((d, d), entropy)) / (math.sqrt(rho / 2) * n)
    else:
        noisy = values + 2 / (epsilon / 2 * n) * laplaces(d, entropy)
        scale = math.sqrt(d**2 / 2 + d + 1) / (epsilon / 2 * n)
        noise = scale * mirror_upper(laplaces(d * d, entropy).reshape(d, d))
    vectors = np.linalg.eigh(sigma + noise)[1]
    return vectors @ np.diag(noisy) @ vectors.T


@pytest.mark.parametrize("budget", [{"rho": 0.7}, {"epsilon": 1.3}])
def test_naive_transcription(budget):
    mechanism = Separate(eigenvalues="raw", noise="entrywise")
    for seed in range(10):
        (made,) = drawn(mechanism, ROWS, Budget(**budget), seed=seed)
        assert made.post == "none"
        expected = naive(ROWS, SeededEntropy(seed), **budget)
        np.testing.assert_allclose(made.arrays["second_moment"], expected, atol=1e-4)


@pytest.mark.parametrize("rule", ["monotone", "clip"])
def test_mending_never_hurts_the_eigenvalues(rule):
    true, entropy = np.linalg.eigvalsh(ROWS.T @ ROWS), SeededEntropy(6)
    for _ in range(50):
        noisy = true + 5.0 * normals(D, entropy)
        mended = mend_spectrum(noisy, N_ROWS, rule)
        assert np.linalg.norm(mended - true) <= np.linalg.norm(noisy - true)
    matrix = sscps(Separate(eigenvalues=rule), ROWS, Budget(rho="0.05"))[0] / N_ROWS
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    assert np.trace(matrix) <= 1 + 1e-9 or rule == "clip"
