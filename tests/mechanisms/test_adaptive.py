import math
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers.synthetic import synthetic_rows
from dpcov.audit import Neighboring, half_noise
from dpcov.mechanisms.adaptive import Adaptive
from dpcov.mechanisms.adaptive_rules import RULES, TYPICAL
from dpcov.mechanisms.blocks.tail_bounds import eta, nu, omega
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.published.linalg.symmetric import mirror_upper
from tests.audit.bounds import lower_bound_of_event, lower_bound_rho, released
from tests.mechanisms.chosen import drawn

SHELLS = 12
BETA = 0.05


def laplace(entropy):
    return (exponentials(1, entropy) - exponentials(1, entropy))[0]


def svt(queries, epsilon, threshold, entropy):
    # Algorithm 3, with half the noise on the queries: they are monotone.
    noisy = threshold + 2 / epsilon * laplace(entropy)
    for k, query in enumerate(queries, 1):
        if query + 2 / epsilon * laplace(entropy) >= noisy:
            return k
    return len(queries) + 1


def clip(rows, tau):
    return rows * np.minimum(1.0, tau / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]


def priv_radius(rows, epsilon, beta, entropy):
    radii = [2.0**-t for t in reversed(range(1, SHELLS))]
    queries = [-float(np.sum(np.linalg.norm(rows, axis=1) > radius)) for radius in radii]
    k = svt(queries, epsilon, -4 / epsilon * math.log(2 / beta), entropy)
    return ([*radii, 1.0])[k - 1]


class Naive:
    """Algorithm 2 of Dong, Liang, Yi on the rows, queries divided by the squared radius."""

    def __init__(self, rows, rho, entropy):
        self.n, self.d = rows.shape
        self.rho, self.entropy = rho, entropy
        r = priv_radius(rows, math.sqrt(rho) / 2, BETA / 8, entropy)
        self.rows = clip(rows, r)
        trace = np.sum(self.rows**2) / self.n
        std = 2 * r**2 / (math.sqrt(rho) * self.n)
        trace += std * normals(1, entropy)[0] + std * math.sqrt(2) * math.sqrt(math.log(8 / BETA))
        self.trace = max(0.0, min(trace, r**2))
        taus = [2.0**-t for t in range(round(-math.log2(r)), SHELLS)]
        queries = [
            (self.bias(tau) - min(self.gauss(tau), self.separate(tau))) * self.n / r**2
            for tau in taus
        ]
        k = svt(queries, math.sqrt(rho) / math.sqrt(2), 0.0, entropy)
        self.tau = taus[-1] if k > len(taus) else min(2 * taus[k - 1], r)

    def bias(self, tau):
        shells = 2.0 ** np.ceil(np.log2(np.maximum(np.linalg.norm(self.rows, axis=1), 1e-300)))
        return np.sum((shells**2 - tau**2) * (shells > tau)) / self.n

    def gauss(self, tau):
        return tau**2 / (math.sqrt(self.rho / 2) * self.n) * omega(self.d, BETA / 2)

    def separate(self, tau):
        rho = self.rho / 2
        turned = 2**1.25 * math.sqrt(self.trace) / (rho**0.25 * math.sqrt(self.n))
        turned *= math.sqrt(nu(self.d, BETA / 4))
        values = math.sqrt(2) / (math.sqrt(rho) * self.n) * eta(self.d, BETA / 4)
        return tau * turned + tau**2 * values

    def release(self):
        rho, n, d = self.rho / 2, self.n, self.d
        rows = clip(self.rows, self.tau) / self.tau
        sigma = rows.T @ rows / n
        std = 1 / (math.sqrt(rho) * n)
        if self.separate(self.tau) >= self.gauss(self.tau):
            noise = mirror_upper(normals((d, d), self.entropy))
            return self.tau**2 * (sigma + std * noise)
        values = np.linalg.eigvalsh(sigma) + math.sqrt(2) * std * normals(d, self.entropy)
        noisy = sigma + mirror_upper(normals((d, d), self.entropy)) / (math.sqrt(rho / 2) * n)
        vectors = np.linalg.eigh(noisy)[1]
        return self.tau**2 * vectors @ np.diag(values) @ vectors.T


@pytest.mark.parametrize(
    ("n_rows", "d", "bins", "rho", "norm"),
    [(400, 4, 4, 2.0, 1.0), (3000, 6, 6, 0.5, 0.1), (600, 300, 1, 0.1, 1.0), (60, 8, 9, 1.0, 0.3)],
)
def test_naive_transcription(n_rows, d, bins, rho, norm):
    rows = norm * synthetic_rows(n_rows, d, bins, np.random.default_rng(n_rows)) * 0.9
    mechanism = Adaptive(
        noise="entrywise", eigenvalues="raw", shells=SHELLS, failure_probability=BETA
    )
    for seed in range(4):
        (made,) = drawn(mechanism, rows, Budget(rho=str(rho)), seed=seed)
        expected = Naive(rows, rho, SeededEntropy(seed))
        matrix = expected.release()
        np.testing.assert_allclose(
            made.arrays["second_moment"], matrix, atol=1e-4 * np.abs(matrix).max()
        )
        assert made.notes[2].endswith("separately") == (d == 300)


@pytest.mark.parametrize(("rules", "beta"), [("theory", 0.05), ("tuned", TYPICAL)])
def test_both_mechanisms_are_compared_at_one_probability_of_failure(rules, beta):
    """The two bounds of separate noise share it: each fails with half of it."""
    together = SimpleNamespace(frobenius_bound=lambda d, b: d / b)
    separately = SimpleNamespace(
        matrix=SimpleNamespace(spectral_bound=lambda d, b: 4 * d / b),
        values=SimpleNamespace(norm_bound=lambda d, b: 5 * d / b),
    )
    found = RULES[rules].candidates(
        together, separately, trace=9.0, shells=range(1, 3), dimension=2, beta=0.05
    )
    norms, factor = np.array([0.5, 0.25]), RULES[rules].separate_factor
    expected = factor * (norms * 2 * np.sqrt(9 * 16 / beta) + norms**2 * 20 / beta)
    np.testing.assert_allclose(found.separately, expected, rtol=1e-12)
    np.testing.assert_allclose(found.together, norms**2 * 2 / beta, rtol=1e-12)


@pytest.mark.parametrize("constants", ["theory", "tuned"])
@pytest.mark.parametrize("budget", [Budget(rho=1), Budget(epsilon=4)])
def test_rows_far_below_the_norm_bound_are_found(constants, budget):
    rows = synthetic_rows(20_000, 10, 3, np.random.default_rng(0)) * 2.0**-10
    (made,) = drawn(Adaptive(constants=constants), rows, budget)
    zero = np.linalg.norm(rows.T @ rows) / len(rows)
    assert np.linalg.norm(made.arrays["second_moment"] - rows.T @ rows / len(rows)) < 0.5 * zero
    assert made.notes[0] == "rows were first clipped to 2^-10 of the norm bound"


# Published research code, tuned constants, mean error of many runs (n = 50,000, N = 4, rho = 0.1).
REFERENCE = [(10, 4, 0.00070), (100, 4, 0.0054), (100, 8, 0.0018)]


@pytest.mark.parametrize(("d", "bins", "published"), REFERENCE)
def test_tuned_constants_agree_with_or_beat_the_published_code(d, bins, published):
    rows = synthetic_rows(50_000, d, bins, np.random.default_rng(1))
    mechanism, moment = Adaptive(constants="tuned", radius=False), rows.T @ rows / len(rows)
    made = drawn(mechanism, rows, Budget(rho="0.1"), 5)
    errors = [np.linalg.norm(each.arrays["second_moment"] - moment) for each in made]
    assert np.mean(errors) <= published


# One long row against a short one, beside many that fix every private choice.
COMMON = np.tile([0.0, 1.0], (3000, 1))
PAIR = Neighboring(
    relation="replace-one",
    first=np.vstack([COMMON, [[1.0, 0.0]]]),
    second=np.vstack([COMMON, [[0.0, 1.0]]]),
)


def matrices(budget, draws):
    mechanism = Adaptive(constants="tuned", radius=False, eigenvalues="raw", shells=3)
    for each in released(mechanism, budget, PAIR, draws):
        yield np.array([one.arrays["second_moment"] for one in each]) * len(PAIR.first)


# Counts and traces of the tables are equal, so that only the matrix leaks: three quarters of the
# budget.
PART = 0.75


def test_audit_under_zcdp():
    def bound(budget, draws):
        return lower_bound_rho(*(each[:, 0, 0] - each[:, 1, 1] for each in matrices(budget, draws)))

    budget = Budget(rho=2)
    assert 0 < bound(budget, 1_000) <= 2 * PART
    assert bound(half_noise(budget), 2_000) > 2 * PART


def test_audit_under_pure_privacy():
    tables = [rows.T @ rows for rows in (PAIR.first, PAIR.second)]

    def likelihood(noisy):
        first, second = (np.abs(np.linalg.eigvalsh(noisy - table)).sum(axis=1) for table in tables)
        return second - first

    def bound(budget, draws):
        return lower_bound_of_event(
            *map(likelihood, matrices(budget, draws)), lambda score: score > 1.5
        )

    budget = Budget(epsilon=2)
    assert 0 < bound(budget, 2_000) <= 2 * PART
    assert bound(half_noise(budget), 5_000) > 2 * PART
