import math

import numpy as np
from scipy import stats

import dpcov
from dpcov.noise.entropy import SeededEntropy

N_ROWS = 300
ZCDP = dpcov.Budget(rho="0.1")


def unit_rows(d, n_rows=N_ROWS, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, d)) * np.arange(1, d + 1) ** -1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * 0.999


def test_the_error_bound():
    """Theorem 2 at beta = 0.1 on 60 releases; a correct sampler fails with probability 1e-9."""
    d, beta, repeats = 20, 0.1, 60
    X = unit_rows(d)
    moments, truth = dpcov.moments(X, norm_bound=1.0), X.T @ X / N_ROWS
    spectral, frobenius = 0, 0
    for seed in range(repeats):
        made = dpcov.second_moment(
            moments,
            budget=ZCDP,
            mechanism="projection",
            trace="public",
            entropy=SeededEntropy(seed),
        )
        variance = int(made.statistics.noise.diagonal_variance) / 16.0**20 / N_ROWS**2
        bound = math.sqrt(2 * variance * d) + math.sqrt(2 * variance * math.log(2 / beta))
        spectral += np.linalg.norm(made.second_moment("none") - truth, 2) > bound
        frobenius += np.linalg.norm(made.second_moment() - truth) > math.sqrt(2 * bound)
    allowed = stats.binom.isf(1e-9, repeats, beta)
    assert spectral <= allowed
    assert frobenius <= allowed


def test_the_noisy_trace_helps_short_rows():
    X = unit_rows(50) / 8
    truth = X.T @ X / N_ROWS
    noisy, public = (
        dpcov.second_moment(
            X,
            norm_bound=1.0,
            budget=ZCDP,
            mechanism="projection",
            trace=trace,
            entropy=SeededEntropy(1),
        )
        for trace in ("noisy", "public")
    )
    noisy, public = (np.linalg.norm(made.second_moment() - truth) for made in (noisy, public))
    assert noisy < 0.5 * public
