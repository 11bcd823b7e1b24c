"""Attacks on floating-point sums: rounding makes one row count for many.

Casacuberta, Shoemate, Vadhan, Wagaman (2022), Widespread underestimation of sensitivity in
differentially private libraries and how to fix it.  The victim sums squares in one float32
accumulator; float64 needs about 2**29 times as many rows for the same.
"""

import numpy as np
import pytest

from dpcov.audit import Neighboring
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.mechanisms.laplace import Laplace
from dpcov.privacy.budget import Budget
from tests.attacks import naive
from tests.audit.bounds import lower_bound_epsilon, released

FIRST, BINADES = 12, 4
DRAWS = 1_000
CLAIM = 1.0


def crafted_rows():
    """Rows of length at most 1; the first one alone moves every sum by 2**BINADES instead of 1.

    Ones bring the sum to a power of two, whose last place doubles there.  Squares just above half
    of the new last place are rounded up to all of it, but hardly at all in the sum that is still
    below the power; so the distance doubles until that one arrives as well.
    """
    rows, total, gap = [np.ones(2**FIRST, dtype=np.float32)], 2.0**FIRST, 1.0
    for binade in range(FIRST, FIRST + BINADES):
        last_place = 2.0 ** (binade - 23)
        steps = int(gap / (last_place / 2))
        rows.append(np.full(steps, np.sqrt(last_place / 2 * (1 + 2.0**-12)), dtype=np.float32))
        total += steps * last_place
        gap *= 2.0
        ones = int(2.0 ** (binade + 1) - total)
        rows.append(np.ones(max(0, ones), dtype=np.float32))
        total += max(0, ones)
    return np.concatenate(rows)


@pytest.fixture(scope="module")
def tables():
    rows = crafted_rows()
    return rows, rows[1:]


def test_one_row_and_the_order_of_rows_move_a_float_sum_by_more_than_a_row(tables):
    assert np.abs(tables[0]).max() <= 1
    first, second, reverse = (
        float(naive.sum_of_squares(rows)) for rows in (*tables, tables[0][::-1])
    )
    assert first - second >= 2**BINADES
    assert abs(first - reverse) > 1


def test_ideal_noise_on_a_float_sum_keeps_no_claim(tables):
    noise = np.random.default_rng(1).laplace(scale=1 / CLAIM, size=(2, DRAWS))
    scores = noise + [[float(naive.sum_of_squares(rows))] for rows in tables]
    assert lower_bound_epsilon(*scores) > 2 * CLAIM


def exact_sum(rows):
    moments = Moments(1, MomentsSpec())
    moments.add(rows.astype(np.float64)[:, None])
    return moments.strata[0].sscp.trace()


def test_one_row_moves_our_sum_by_its_length_in_any_order(tables):
    first, second = tables
    assert exact_sum(first) - exact_sum(second) == 4 ** MomentsSpec().bits
    assert exact_sum(first) == exact_sum(first[::-1])


def test_our_release_of_the_same_tables_keeps_its_claim(tables):
    first, second = (rows.astype(float)[:, None] for rows in tables)
    pair = Neighboring(relation="add-remove-one", first=first, second=second)
    both = released(Laplace(), Budget(epsilon=1), pair, DRAWS)
    scores = [np.array([float(each.arrays["sscp"][0, 0]) for each in table]) for table in both]
    assert lower_bound_epsilon(*scores) <= CLAIM
    # The same draws would show a sensitivity that is twice as large.
    unit = 4.0 ** MomentsSpec().bits
    assert lower_bound_epsilon(scores[0] + 3 * unit, scores[1]) > CLAIM
