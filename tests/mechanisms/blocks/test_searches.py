import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.mechanisms.blocks import clip_search
from dpcov.mechanisms.blocks.clip_search import Candidates, choose_clip, clipping_bias
from dpcov.mechanisms.blocks.sparse_vector import private_radius, sparse_vector
from dpcov.noise.entropy import SeededEntropy
from tests.mechanisms.chosen import choose

ENTROPY = SeededEntropy(0)
COUNTS = np.array([3, 5, 0, 7, 11])


def choose_draws(monkeypatch, *draws):
    """Laplace numbers of scale 1, one after another: the threshold's, then one for every query."""
    waiting = list(draws)
    return choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.sparse_vector.laplaces",
        lambda size: np.array([*(waiting.pop(0) for _ in range(size)), 1e9]),
    )


@pytest.mark.parametrize(("monotone", "factor"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("sensitivity", [1.0, 3.0])
def test_noise_on_threshold_and_queries(monkeypatch, monotone, factor, sensitivity):
    """Scale 2 s / epsilon on the threshold, that or twice that on queries; equality ends it."""
    scale = 2 * sensitivity / 0.5
    level = 10.0 + scale * 0.25
    for short, expected in ((0.0, 1), (2.0**-20, 2)):
        drawn = choose_draws(monkeypatch, 0.25, -0.5, 1.5, -0.25)
        queries = [
            level + factor * scale * 0.5 - 0.5,
            level - factor * scale * 1.5 - short,
            level + factor * scale * 0.25,
        ]
        found = sparse_vector(
            queries,
            threshold=10.0,
            epsilon=Fraction(1, 2),
            sensitivity=sensitivity,
            monotone=monotone,
            entropy=ENTROPY,
        )
        assert found == expected
        assert drawn.asked == [(1,)] * (expected + 2)
    choose_draws(monkeypatch, 0.0, 0.0)
    assert sparse_vector([9.0], threshold=10.0, epsilon=1, entropy=ENTROPY) is None


def test_queries_are_general_and_move_by_one_unless_said_otherwise(monkeypatch):
    for short, expected in ((0.0, 0), (2.0**-20, None)):
        choose_draws(monkeypatch, 1.0, 1.0)
        # Threshold 7 + 2 / epsilon, noise 4 / epsilon.
        assert sparse_vector([5.0 - short], threshold=7.0, epsilon=1, entropy=ENTROPY) == expected


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_a_radius_is_found_where_outliers_are_few_enough(monkeypatch, k, beta):
    patience = 4 * k / 0.5 * math.log(2 / beta)
    least, most = math.floor(patience), math.ceil(patience)
    for outliers, expected in (
        ([most, least, 0], 1),
        ([most, most, 0], 2),
        ([least, most, 0], 0),
        ([10**9] * 3, 2),
        ([10**9], 0),
    ):
        choose_draws(monkeypatch, *[0.0] * 4)
        found = private_radius(outliers, epsilon=0.5, beta=beta, rows_per_person=k, entropy=ENTROPY)
        assert found == expected


def test_a_radius_is_searched_with_the_noise_of_monotone_counts(monkeypatch):
    search = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.sparse_vector.sparse_vector",
        lambda queries, **options: (list(queries), options)[0].index(-4.0),
    )
    assert private_radius([9, 4, 1], epsilon=0.5, beta=0.1, rows_per_person=3, entropy=ENTROPY) == 1
    assert search.asked[0][1:] == (pytest.approx(-24 * math.log(20)), 0.5, 3, True)


def test_the_bias_of_clipping_counts_rows_by_the_radius_of_their_shell():
    for first in range(4):
        for shell in range(first, 5):
            expected = sum(
                COUNTS[s] * (Fraction(1, 4 ** max(s, first)) - Fraction(1, 4**shell))
                for s in range(shell)
            )
            assert clipping_bias(COUNTS, first, shell) == float(expected)


@pytest.mark.parametrize("inner", [0, 1, 3])
def test_the_bound_on_the_bias_is_up_to_four_times_the_tail(inner):
    # Dong et al. state twice in (6) and (7): a row just longer than 2**-(s + 1) counts with 4**-s.
    counts, tail = np.eye(19, dtype=np.int64)[inner], 4.0 ** -(inner + 1)
    ratios = [clipping_bias(counts, 0, shell) / tail for shell in range(inner + 1, 20)]
    assert 2 < ratios[0] < ratios[-1] < 4


OFFERED = Candidates(
    shells=range(1, 5),
    together=np.array([8.0, 5.0, 1.0, 0.5]),
    separately=np.array([9.0, 4.0, 2.0, 0.5]),
)


def test_the_noise_of_a_candidate_is_that_of_the_better_mechanism():
    assert OFFERED.noise.tolist() == [8.0, 4.0, 1.0, 0.5]


def test_queries_of_a_balance_are_bias_less_noise_in_units_of_the_first_radius():
    found = list(clip_search._balance_queries(COUNTS, OFFERED))
    expected = [4 * (clipping_bias(COUNTS, 1, t) - OFFERED.noise[t - 1]) for t in range(1, 5)]
    assert found == pytest.approx(expected, rel=1e-14)
    later = Candidates(
        shells=range(3, 5), together=np.array([3.0, 2.0]), separately=np.array([4.0, 1.0])
    )
    found = list(clip_search._balance_queries(COUNTS, later))
    assert found == pytest.approx([-64 * 3.0, 64 * (clipping_bias(COUNTS, 3, 4) - 1.0)], rel=1e-14)


def test_queries_of_margins_are_rows_that_are_clipped_further_less_what_they_would_cost():
    found = list(clip_search._marginal_queries(COUNTS, OFFERED))
    rows = {2: 8, 3: 8, 4: 15}
    saved = {2: 4.0, 3: 3.0, 4: 0.5}
    expected = [rows[t] - saved[t] / (0.55 * 3 / 4**t) for t in (2, 3, 4)]
    assert found[0] == -math.inf
    assert found[1:] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("found", "choice"),
    [(None, (4, False)), (0, (1, False)), (1, (1, False)), (2, (2, True)), (3, (3, False))],
)
@pytest.mark.parametrize("search", ["balance", "marginal"])
def test_the_candidate_before_the_query_found_is_taken(monkeypatch, found, choice, search):
    asked = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.clip_search.sparse_vector",
        lambda queries, **options: found,
    )
    made = choose_clip(
        COUNTS, OFFERED, search=search, epsilon=0.5, rows_per_person=3, entropy=ENTROPY
    )
    assert (made.shell, made.separately) == choice
    assert asked.asked[0][1:] == (0.0, 0.5, 3, True)


def test_one_row_per_person_is_the_default(monkeypatch):
    asked = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.clip_search.sparse_vector",
        lambda queries, **options: None,
    )
    choose_clip(COUNTS, OFFERED, search="balance", epsilon=0.5, entropy=ENTROPY)
    assert asked.asked[0][3] == 1
    asked = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.sparse_vector.sparse_vector",
        lambda queries, **options: None,
    )
    private_radius([3, 2, 1], epsilon=0.5, beta=0.1, entropy=ENTROPY)
    assert asked.asked[0][3] == 1
