"""Methods, tables and bounds behind the claims in the papers' text are what the papers say."""

import numpy as np
import pytest
from scipy.special import iv

from benchmarks.papers import extras
from benchmarks.papers.figure import Point, table
from benchmarks.papers.figures import dong_bounds, dong_text
from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.papers.tables import Data
from dpcov import Budget, SeededEntropy


def unit_rows(n, d):
    return Data(rows=synthetic_rows(n, d, 1, np.random.default_rng(0)))


def test_accepted_directions_follow_the_bingham_law():
    """exp(5 u1**2) on the circle: E u1**2 = (1 + I1(5/2) / I0(5/2)) / 2; five standard errors."""
    entropy, number = SeededEntropy(1), 4000
    drawn = [
        extras._first_accepted(np.array([0.0, 5.0]), entropy)[1][0] ** 2 for _ in range(number)
    ]
    expected = (1 + iv(1, 2.5) / iv(0, 2.5)) / 2
    assert abs(np.mean(drawn) - expected) < 5 * np.std(drawn) / number**0.5


def test_the_count_of_proposals_is_that_of_the_acceptance():
    """A flat density accepts every proposal; of a steep one the inverse of the rate is the mean."""
    entropy = SeededEntropy(2)
    assert all(extras._first_accepted(np.zeros(5), entropy)[0] == 1 for _ in range(20))
    falls = np.array([0.0, 50.0, 50.0, 50.0])
    counts = [extras._first_accepted(falls, entropy)[0] for _ in range(3000)]
    # The rest of the unit vector is about normal with variance 1 / 100 (docs/bingham.md).
    points = np.random.default_rng(0).standard_normal((400_000, 4))
    b = extras.envelope_width(falls)
    points /= np.sqrt(1 + 2 * falls / b)
    squares = points**2 / (points**2).sum(1, keepdims=True)
    stretched = squares @ (1 + 2 * falls / b)
    kept = np.exp(2 * np.log(stretched) - squares @ falls - ((b - 4) / 2 + 2 * np.log(4 / b)))
    assert kept.max() <= 1
    assert np.mean(counts) == pytest.approx(1 / kept.mean(), rel=0.1)


def test_every_direction_but_the_last_is_counted():
    counts = extras.proposals(unit_rows(2000, 6), Budget(epsilon=100), SeededEntropy(0))
    assert counts.shape == (5,)
    assert counts.min() >= 1


@pytest.mark.parametrize("k", [1, 3])
def test_a_large_budget_finds_the_best_matrix_of_rank_k(k):
    data = unit_rows(100_000, 5)
    found = extras.low_rank(data, Budget(epsilon=100), SeededEntropy(0), k=k)
    assert np.linalg.matrix_rank(found, tol=1e-9) == k
    assert extras.best_low_rank(found, data, k) < 0.01
    assert extras.best_low_rank(found, data, k + 1) > extras.best_low_rank(found, data, k)


def test_shells_have_the_norms_and_directions_stated():
    rows = extras.shells(
        np.random.default_rng(0), d=7, directions=2, rows="3 of 1.0, 10 of 0.25"
    ).rows
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1] * 3 + [0.25] * 10)
    assert np.linalg.matrix_rank(rows) == 2


def test_the_noise_of_equation_4_is_that_of_figure_1_on_unit_rows():
    point = Point(x=30, table=table("zipf", n=1000, d=30, N=1), budget=Budget(rho=0.1))
    (shell,) = dong_text.zipf_shells(point)
    assert shell == (1000, 1.0)
    beta = dong_bounds.BETA
    assert dong_text.gauss_noise((shell,), 30, 1.0, 0.1, beta) == pytest.approx(
        dong_bounds.gaussian_bound(point)
    )
    assert dong_text.separate_noise((shell,), 30, 1.0, 0.1, beta) == pytest.approx(
        dong_bounds.separate_bound(point)
    )


def test_the_tail_holds_rows_longer_than_the_clip():
    rows = dong_text.second_table(2.0**32)
    assert dong_text.tail(rows, 1.0) == 0
    assert dong_text.tail(rows, 0.5) == pytest.approx(2.0**-32)
    assert dong_text.tail(rows, 0.0) == pytest.approx(sum(c * r**2 for c, r in rows) / 2.0**32)
