import numpy as np
import pytest

from dpcov.data.exact.moments import part_energies
from dpcov.mechanisms.stratified_fit import Cells, count_weight, fineness, shell_to_fit


@pytest.mark.parametrize(
    ("n_features", "groups", "parts"),
    [(1, 1, 16), (128, 1, 16), (129, 1, 8), (200, 1, 4), (362, 1, 2), (363, 1, 1), (3, 2, 1)],
)
def test_parts_are_as_fine_as_memory_allows_and_groups_have_whole_shells(n_features, groups, parts):
    assert 2 ** fineness(n_features, groups, 32) == parts


def test_a_look_costs_few_columns_more():
    assert (count_weight(10), count_weight(11)) == (0.25, 1 / 64)


@pytest.mark.parametrize(
    ("traces", "few", "more"),
    [
        ([0, 0, 4.9], None, None),
        ([9, 0, 9], None, 0),
        ([0, 39, 9], None, 1),
        ([0, 41, 9], 1, 1),
        ([0, 0, 5.1], 2, 2),
    ],
)
def test_rows_are_looked_at_where_a_smaller_radius_would_pay(traces, few, more):
    traces = [round(1000 * trace) for trace in traces]
    assert shell_to_fit(traces, 1000.0, 10) == few
    assert shell_to_fit(traces, 1000.0, 11) == more


@pytest.mark.parametrize("shell", [0, 1, 2, 5, 6])
def test_cells_divide_all_rows_up_to_the_next_shell(shell):
    shells, parts = 7, 4
    cells = Cells(shell, shells, parts)
    stop = min(shells, shell + 2) * parts
    rows = np.random.default_rng(shell).integers(0, 100, shells * parts)
    counts = cells.count(rows)
    assert counts.sum() == rows[:stop].sum()
    assert cells.starts[cells.border] == shell * parts
    single = stop - max(0, shell - 1) * parts
    assert counts[-single:].tolist() == rows[stop - single : stop].tolist()
    assert len(counts) == single + max(0, shell - 1)
    edges = [e / 4**s for s in range(shells + 1) for e in part_energies(parts)]
    assert cells.radii.tolist() == [edges[start] for start in cells.starts]
    assert np.all(cells.middles < cells.radii)
    assert np.all(cells.middles[:-1] > cells.radii[1:])


def edge(rows_in, d, std=2.0, noise=1.0, shell=3, seed=None):
    """The edge chosen for so many rows in parts, each shell having 16."""
    cells = Cells(shell, 32, 16)
    rows = np.zeros(32 * 16)
    for part, number in rows_in.items():
        rows[part] = number
    counts = cells.count(rows).astype(float)
    if seed is not None:
        counts += std * np.random.default_rng(seed).normal(size=len(counts))
    return cells.edge(counts, std, noise, d)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_of_few_columns_the_edge_is_where_rows_begin(d):
    for part in (33, 47, 48, 50, 63):
        assert edge({part: 5000}, d) == part
        assert edge(dict.fromkeys(range(part, 80), 500), d) == part
    # Too few rows to be worth the radius, and rows that nothing shows of.
    assert edge({48: 3, 53: 5000}, d) == 53
    assert edge({}, d) == 48
    # Rows far out, in a shell that is counted as a whole.
    assert edge({0: 500, 53: 5000}, d) == 0


@pytest.mark.parametrize("seed", range(5))
def test_few_false_alarms_come_of_noise_and_none_from_far_out(seed):
    found = [edge({50: 5000}, 1, seed=[seed, number]) for number in range(200)]
    # Rows that begin a little further in may look as if they began here.
    assert np.mean([part == 50 for part in found]) > 0.75
    assert min(found) > 32


def test_a_tail_is_gone_on_with_unless_counts_show_an_edge():
    # Each half of a shell has half as many rows as the next further in, as for t with 2 degrees.
    tail = {part: 8000 * 2.0 ** ((part - 79) / 8) for part in range(80)}
    cut = {part: rows for part, rows in tail.items() if part >= 52}
    assert edge(cut, 1) == 52
    # What does not show counts: it is hidden by the noise on counts.
    faint = {part: rows / 100 for part, rows in tail.items()}
    shown = {part: rows for part, rows in faint.items() if part >= 58}
    assert edge(shown, 1, std=20.0, noise=0.01) < edge(shown, 1, std=2.0, noise=0.01)


def test_of_more_columns_shells_move_only_if_nearly_all_rows_are_in_one():
    together = dict.fromkeys(range(56, 66), 1000)
    assert edge(together, 50) == 56
    assert edge(together | {48: 1}, 50) == 56
    # A twentieth of the rows further in or further out; a smaller radius that is not much smaller.
    assert edge(together | {75: 500}, 50) == 48
    assert edge(together | {48: 500}, 50) == 48
    assert edge(dict.fromkeys(range(51, 61), 1000), 50) == 48
    # Noise on the counts hides what would be lost.
    assert edge(together, 50, std=500.0) == 48
