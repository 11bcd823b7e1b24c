import math

import numpy as np
import pytest

from dpcov.mechanisms.stratified_rules import choose_runs, clear_shells

VARIANCE = 10_000
STD = 1000
"""Of a trace, exactly."""


def chosen(traces, d):
    return [tuple(run) for run in choose_runs(traces, VARIANCE, STD**2, d)]


def test_a_shell_counts_as_inhabited_above_its_threshold():
    assert clear_shells([5000, 5000, 5000], STD) == []
    assert clear_shells([0, 5001, 5000], STD) == [1]
    assert clear_shells([0, 0, 5001], STD) == [2]
    for distance in (1, 2, 9):
        needed = math.sqrt(9 + 2 * distance * math.log(4)) * STD
        for trace, clear in ((math.floor(needed), [distance]), (math.ceil(needed), [0, distance])):
            assert clear_shells([trace, *[0] * (distance - 1), 5001], STD) == clear
    # The distance is that to the nearest inhabited shell, not to the innermost.
    assert clear_shells([3600, 3600, 5001], STD) == [0, 1, 2]
    assert clear_shells([3600, 0, 5001], STD) == [2]


@pytest.mark.parametrize("d", [1, 10])
@pytest.mark.parametrize(
    ("inhabited", "runs"),
    [
        (None, [(0, 0, 5)]),
        (0, [(0, 0, 5)]),
        (2, [(0, 0, 5)]),
        (3, [(0, 2, 2), (3, 3, 5)]),
        (5, [(0, 4, 4), (5, 5, 5)]),
    ],
)
def test_few_columns_get_one_matrix_or_a_small_one_and_what_lies_beyond(d, inhabited, runs):
    assert chosen([5001 * (shell == inhabited) for shell in range(6)], d) == runs
    # The outermost inhabited shell decides.
    if inhabited is not None and inhabited < 5:
        assert chosen([5001 * (shell in {inhabited, 5}) for shell in range(6)], d) == runs


@pytest.mark.parametrize(("shows", "most"), [(True, 10), (False, 64)])
def test_of_few_columns_all_longer_rows_are_shortened_to_a_fitted_edge(shows, most):
    """Where no shell shows, of more columns as well."""
    given = [0, 0, 9000 * shows], VARIANCE, STD**2
    assert choose_runs(*given, most, fitted=1) == [(0, 1, 2)]
    assert (0, 1, 2) not in choose_runs(*given, most + 1, fitted=1)


def brute_force(traces, d):
    """Which shells are drawn, shell by shell, for standard deviations of 100 and 1000."""
    clear = clear_shells(traces, STD)
    above = clear[0] if clear else len(traces)
    found = []
    if d > 64:
        found += [(s, s, s) for s in range(above) if traces[s] > 500]
    elif not clear:
        found += [(0, 0, 0)] + [(s, s, s) for s in range(1, len(traces))]
    else:
        visible = [s for s in range(above - 1) if traces[s] > 2000]
        outermost = min([*visible, max(above - 1, 0)])
        found += [(0 if s == outermost else s, s, s) for s in range(outermost, above)]
    saturated = 16 * d * math.sqrt(2 * d * VARIANCE)
    for place, shell in enumerate(clear):
        if traces[shell] > saturated:
            return [*found, (shell, shell, len(traces) - 1)]
        last = clear[place + 1] - 1 if place + 1 < len(clear) else len(traces) - 1
        found.append((shell, shell, last))
    return found


@pytest.mark.parametrize("d", [11, 64, 65, 200])
def test_all_that_is_drawn_shell_by_shell(d):
    random, seen = np.random.default_rng(d), set()
    kinds = [0, 499, 500, 501, 1999, 2000, 2001, 3600, 5001, 9000, 10**9]
    for _ in range(400):
        traces = [int(x) for x in random.choice(kinds, size=random.integers(1, 7))]
        runs = chosen(traces, d)
        assert runs == brute_force(traces, d)
        seen.add(len(runs))
    assert len(seen) >= 5


@pytest.mark.parametrize("d", [11, 65])
def test_smaller_shells_join_one_above_its_saturation(d):
    saturated = 16 * d * math.sqrt(2 * d * VARIANCE)
    below, beyond = math.floor(saturated), math.ceil(saturated)
    assert chosen([below, 9000, 0], d) == [(0, 0, 0), (1, 1, 2)]
    assert chosen([beyond, 9000, 0], d) == [(0, 0, 2)]
