import math

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov.noise.entropy import SeededEntropy

N_ROWS = 300
ZCDP = dpcov.Budget(rho="0.1")
PURE = dpcov.Budget(epsilon=2)


def unit_rows(d, n_rows=N_ROWS, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, d)) * np.arange(1, d + 1) ** -1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * 0.999


def released(X, budget=ZCDP, seed=1, **options):
    return dpcov.second_moment(
        X,
        norm_bound=1.0,
        budget=budget,
        mechanism="projection",
        entropy=SeededEntropy(seed),
        **options,
    )


@pytest.mark.parametrize(
    ("budget", "family"), [(ZCDP, "gaussian"), (PURE, "laplace")], ids=["zcdp", "pure"]
)
def test_the_result_is_possible_and_the_noise_is_of_the_right_kind(budget, family):
    made = released(unit_rows(20), budget)
    assert family in made.statistics.noise.family
    values = np.linalg.eigvalsh(made.second_moment())
    assert values.min() >= -1e-12
    assert values.sum() <= 1 + 1e-9
    assert made.guarantee.promise == budget.promise


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
        np.linalg.norm(released(X, trace=trace).second_moment() - truth)
        for trace in ("noisy", "public")
    )
    assert noisy < 0.5 * public
