import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.mechanisms import stratified_nuclear as rules
from dpcov.mechanisms.stratified_nuclear import choose_fold, choose_runs, trace_weight
from dpcov.published.estimate import nuclear_law as ullman


@pytest.fixture
def round_thresholds(monkeypatch):
    # For scale 2 and d = 3 a shell is drawn above a trace of 5, and joined by smaller ones above
    # 60.
    monkeypatch.setattr(rules, "_direction_noise", lambda d: 1.0)
    monkeypatch.setattr(rules.ullman, "edge", lambda d: d + 1.0)


@pytest.mark.parametrize(
    ("traces", "runs"),
    [
        ([5, 5, 5], []),
        ([6, 5, 6], [(0, 0), (2, 2)]),
        ([60, 60, 60], [(0, 0), (1, 1), (2, 2)]),
        ([61, 99, 6], [(0, 2)]),
        ([0, 6, 61, 0], [(1, 1), (2, 3)]),
        ([0, 5, 61, 0], [(1, 1), (2, 3)]),
        ([6, 0, 61], [(0, 0), (1, 1), (2, 2)]),
        ([5, 61, 61], [(0, 0), (1, 2)]),
        ([-70, -70], []),
    ],
)
def test_which_shells_are_drawn_together(round_thresholds, traces, runs):
    found = choose_runs(traces, 2.0, 3)
    assert [(run[0], run[-1]) for run in found] == runs
    assert all(run.step == 1 for run in found)


def test_thresholds_of_runs_follow_the_noise():
    for d in (1, 4, 30):
        faint = 2.5 * 10.0 * math.sqrt(2 * ullman.off_diagonal_variance(d))
        clear = 2.5 * 10.0 * d * ullman.edge(d)
        assert choose_runs([math.floor(faint)], 10.0, d) == []
        assert choose_runs([math.ceil(faint), 0], 10.0, d) == [range(1)]
        assert choose_runs([math.floor(clear), 0], 10.0, d) == [range(1)]
        assert choose_runs([math.ceil(clear), 0], 10.0, d) == [range(2)]


def what_folds_explain(sizes, d):
    """4^-f (F - V), V being sqrt(d) times the noise of a direction and half that of the size."""
    weight, found = float(trace_weight(d)), []
    for fold in range(len(sizes)):
        factors = [Fraction(1, 4 ** max(s - fold, 0)) for s in range(len(sizes))]
        size = sum(float(f) * x for f, x in zip(factors, sizes, strict=True))
        noise = math.sqrt(2 * sum(float(f * f) for f in factors)) / weight
        lost = math.sqrt(d * 2 * ullman.off_diagonal_variance(d)) + noise / 2
        found.append(max(0.0, (size - lost) / 4**fold))
    return found


@pytest.mark.parametrize("d", [1, 5, 40])
def test_what_a_fold_explains_is_worked_out_shell_by_shell(d):
    random = np.random.default_rng(d)
    for shells in (1, 2, 6):
        sizes = random.uniform(0, 40 * d, size=shells)
        found = rules._explained(sizes, float(trace_weight(d)), d)
        np.testing.assert_allclose(found, what_folds_explain(sizes, d), rtol=1e-12)
    assert list(rules._explained(np.full(3, -5.0), 0.2, d)) == [0.0, 0.0, 0.0]


def test_the_fold_chosen_explains_most():
    random, seen = np.random.default_rng(0), set()
    for _ in range(200):
        d = int(random.integers(1, 12))
        top = 4.4 / float(trace_weight(d))
        traces = [int(x) for x in random.uniform(-top, top, size=5) * [40, 3, 3, 3, 3]]
        expected = int(np.argmax(what_folds_explain([trace / 3.0 for trace in traces], d)))
        assert choose_fold(traces, 3.0, d) == expected
        assert choose_fold(traces, 3.0, d, shorten=False) == 0
        seen.add(expected)
    assert len(seen) >= 3


@pytest.mark.parametrize("shell", [1, 2, 5])
def test_an_inner_shell_stands_out_by_more_the_smaller_it_is(shell):
    needed = (4.5 + 1.5 * math.log(shell + 1)) * 5 * 1000.0
    for trace, stands_out in ((math.floor(needed), False), (math.ceil(needed), True)):
        traces = [0] * 7
        traces[shell] = trace
        assert (choose_fold(traces, 1000.0, 1) is None) == stands_out
        assert choose_fold([10 * trace, *[0] * 6], 1000.0, 1) is not None
