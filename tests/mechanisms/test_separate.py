import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.audit import Neighboring, half_noise
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise
from dpcov.mechanisms.blocks.matrix_noise import matrix_noise
from dpcov.mechanisms.separate import Separate, SeparateNoise, mend_spectrum, separate_sscp
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.linalg.symmetric import mirror_upper
from tests.audit.bounds import lower_bound_of_event, lower_bound_rho, released
from tests.mechanisms.chosen import drawn, problem, sscps

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


def test_clipping_is_the_mechanism_on_clipped_rows_scaled_back():
    tau = 0.25
    shorter = ROWS * np.minimum(1.0, tau / np.linalg.norm(ROWS, axis=1))[:, None]
    (clipped,) = drawn(Separate(clip=tau), ROWS, Budget(rho=1))
    (by_hand,) = drawn(Separate(), shorter / tau, Budget(rho=1))
    np.testing.assert_allclose(
        clipped.arrays["second_moment"], tau**2 * by_hand.arrays["second_moment"], atol=1e-6
    )
    assert clipped.radius == tau


def error_and_bound(mechanism, budget, rows, seed, beta):
    d, sscp = rows.shape[1], rows.T @ rows
    noise = mechanism.calibrate(problem(d, n_rows=len(rows)), budget).noise
    (made,) = sscps(mechanism, rows, budget, seed=seed)
    # separate.md, Theorem 2.
    turned = 2 * math.sqrt(np.trace(sscp) * noise.matrix.spectral_bound(d, beta / 2))
    return np.linalg.norm(made - sscp), turned + noise.values.norm_bound(d, beta / 2)


@pytest.mark.parametrize(
    "options", [{}, {"noise": "entrywise", "eigenvalues": "raw"}, {"eigenvalues": "clip"}]
)
@pytest.mark.parametrize("budget", [Budget(rho="0.5"), Budget(epsilon=2)])
def test_theorem_bounds_the_error(options, budget):
    rows = np.repeat(np.eye(30)[:, :30], 10, axis=0)
    pairs = [error_and_bound(Separate(**options), budget, rows, seed, 0.1) for seed in range(40)]
    assert sum(error > bound for error, bound in pairs) <= stats.binom.isf(1e-9, 40, 0.1)


def test_the_theorem_needs_the_calibrated_noise():
    rows = np.repeat(np.eye(30), 10, axis=0)
    _, bound = error_and_bound(Separate(), Budget(rho="0.5"), rows, 0, 0.1)
    errors = [
        error_and_bound(Separate(eigenvalues="raw"), Budget(rho="1e-4"), rows, s, 0.1)[0]
        for s in range(5)
    ]
    assert min(errors) > bound


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


# Eigenvalues 11, 5 against 10, 6: the pair that attains their sensitivity.
HEAVY = np.repeat(np.eye(2), [10, 5], axis=0)
PAIR = Neighboring(
    relation="replace-one",
    first=np.vstack([HEAVY, [[1.0, 0.0]]]),
    second=np.vstack([HEAVY, [[0.0, 1.0]]]),
)


def eigenvalue_scores(budget, draws):
    mechanism = Separate(eigenvalues="raw", eigenvalue_share=0.999)
    return [
        np.array([np.ptp(np.linalg.eigvalsh(one.arrays["second_moment"])) for one in each])
        for each in released(mechanism, budget, PAIR, draws)
    ]


def test_audit_under_zcdp():
    budget = Budget(rho=2)
    assert lower_bound_rho(*eigenvalue_scores(budget, 1_500)) <= 2
    assert lower_bound_rho(*eigenvalue_scores(half_noise(budget), 1_500)) > 2


def test_audit_under_pure_privacy():
    def likelihood(each):
        values = np.linalg.eigvalsh(np.array([one.arrays["second_moment"] for one in each]) * 16)
        return np.abs(values - [6, 10]).sum(axis=1) - np.abs(values - [5, 11]).sum(axis=1)

    def bound(budget, draws):
        mechanism = Separate(eigenvalues="raw", eigenvalue_share=0.999)
        both = released(mechanism, budget, PAIR, draws)
        return lower_bound_of_event(*map(likelihood, both), lambda score: score > 1.999)

    assert 0 < bound(Budget(epsilon=2), 1_000) <= 2
    assert bound(half_noise(Budget(epsilon=2)), 2_500) > 2


def test_audit_of_the_eigenvectors():
    # Almost exact eigenvalues 1 and 0, so that the release shows the eigenvectors alone.
    public, entropy = problem(2, n_rows=1), SeededEntropy(3)

    def scores(rho, sscp):
        noise = SeparateNoise(
            values=AdditiveNoise(law="gaussian", scale=1e-9),
            matrix=matrix_noise(ZCDP(rho=Fraction(rho)), public),
        )
        options = {"rule": "raw", "trace_bound": 1.0, "entropy": entropy}
        return np.array([separate_sscp(sscp, noise, **options)[0, 0] for _ in range(3_000)])

    def bound(rho):
        return lower_bound_rho(scores(rho, np.diag([1.0, 0.0])), scores(rho, np.diag([0.0, 1.0])))

    assert 0 < bound(1) <= 1
    assert bound(16) > 1
