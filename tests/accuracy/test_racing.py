"""Racing drops only what is clearly behind, and stored repetitions are drawn once."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from benchmarks.accuracy import contestants, report
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.contestants import Contestant
from benchmarks.accuracy.measure import measure, open_store
from benchmarks.accuracy.populations import Population
from benchmarks.accuracy.racing import beaten
from benchmarks.accuracy.rows import zipf_rows

POPULATION = Population(
    name="d=4 n=500 N=2", group="CI", budgets=({"rho": 1.0},), load=partial(zipf_rows, 500, 4, 2)
)
ZERO = Contestant(label="zero", mechanism="zero")
GAUSSIAN = contestants.PUBLISHED_GAUSSIAN


BEST, CLOSE = np.linspace(0.99, 1.01, 6), np.linspace(1.24, 1.26, 6)
SAME = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8]


@pytest.mark.parametrize(
    ("errors", "out"),
    [
        ({"best": [1.0, 1.1, 0.9], "near": [1.2, 1.1, 1.3], "far": [4.0, 4.1, 3.9]}, {"far"}),
        # Two repetitions are too few.
        ({"best": [1.0, 1.0], "far": [9.0, 9.0]}, set()),
        # A large gap within the noise.
        ({"best": [1.0, 2.0, 0.5], "wild": [1.0, 9.0, 2.0]}, set()),
        # More repetitions allow a smaller gap.
        ({"best": BEST[:5], "close": CLOSE[:5]}, set()),
        ({"best": BEST, "close": CLOSE}, {"close"}),
        ({}, set()),
        # Of two that draw the same one stays.
        ({"one": SAME, "same": SAME, "other": SAME[::-1]}, {"same"}),
        ({"one": SAME[:5], "same": SAME[:5]}, set()),
    ],
)
def test_only_what_is_clearly_behind_is_beaten_and_never_the_best(errors, out):
    assert beaten(errors) == out


def test_a_race_repeats_ours_and_the_best_to_the_end_and_says_who_was_dropped():
    ours = replace(contestants.AUTO, mechanism="zero")
    measured, _ = measure(POPULATION, (ours, ZERO, GAUSSIAN), 8)
    assert [(m.repetitions, m.dropped) for m in measured] == [(8, False), (3, True), (8, False)]
    assert report.remarks(measured) == [
        "behind the best, not repeated to the end: zero: at 1 of 1 points, after 3 to 3 repetitions"
    ]


def test_an_improved_rival_does_not_end_the_race_of_the_best_published_one():
    improved = Contestant(label="tight", mechanism="gaussian", role="improved", posts=("clip",))
    easier = replace(POPULATION, budgets=({"rho": 1e-5},))
    measured, _ = measure(easier, (replace(improved, mechanism="zero"), GAUSSIAN), 5)
    assert measured[0].error < measured[1].error / 1.5
    assert [m.repetitions for m in measured] == [5, 5]


def test_finished_repetitions_are_not_drawn_again(tmp_path, monkeypatch):
    path = tmp_path / "store.sqlite"
    first, _ = measure(POPULATION, (GAUSSIAN, ZERO), 2, store=open_store(path))
    monkeypatch.setattr(Population, "blocks", lambda self: pytest.fail("rows were made"))
    again, _ = measure(POPULATION, (GAUSSIAN, ZERO), 2, store=open_store(path))
    assert [m.errors for m in again] == [m.errors for m in first]
    assert report.points(again) == report.points(first)


@pytest.fixture
def drawn(monkeypatch):
    """Labels of the contestants that draw, in order."""
    labels, release = [], Contestant.release
    monkeypatch.setattr(
        Contestant, "release", lambda self, *args: labels.append(self.label) or release(self, *args)
    )
    return labels


def test_more_repetitions_continue_and_fresh_ones_start_again(tmp_path, drawn):
    store = open_store(tmp_path / "store.sqlite")
    measure(POPULATION, (GAUSSIAN, ZERO), 2, store=store)
    measure(POPULATION, (GAUSSIAN, ZERO), 3, store=store)
    assert len(drawn) == 6
    measure(POPULATION, (GAUSSIAN, ZERO), 3, store=store, fresh={"zero"})
    assert drawn[6:] == ["zero"] * 3


def test_auto_is_measured_again_when_its_code_changed_and_rivals_are_not(monkeypatch, drawn):
    store = open_store()
    measure(POPULATION, (contestants.AUTO, ZERO), 1, store=store)
    drawn.clear()
    monkeypatch.setattr("benchmarks.papers.contenders.version", lambda contender: "other code")
    measure(POPULATION, (contestants.AUTO, ZERO), 1, store=store)
    assert drawn == ["auto"]


def test_auto_alone_is_drawn_only_where_a_rival_is_stored():
    store, competing = open_store(), (contestants.AUTO, ZERO)
    measured, _ = measure(POPULATION, competing, 3, store=store, drawn=("ours",))
    assert [m.skipped for m in measured] == ["nothing in the store"] * 2
    measure(POPULATION, (ZERO,), 2, store=store)
    measured, _ = measure(POPULATION, competing, 3, store=store, drawn=("ours",))
    assert [(m.repetitions, m.dropped) for m in measured] == [(3, False), (2, False)]


def test_the_command_measures_rivals_first_and_auto_alone_later(tmp_path, capsys):
    common = ["robustness", "--quick", "--repetitions", "2", "--jobs", "1", "--only"]
    common.append("spiked d=2 n=100$")
    main([*common, "--out", str(tmp_path / "store"), "--rivals"])
    assert not (tmp_path / "store" / "robustness.txt").exists()
    main([*common, "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"), "--auto"])
    assert "spiked: spiked d=2 n=100" in capsys.readouterr().out
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {f"robustness{end}" for end in (".txt", "-errors.csv", "-ratios.csv")}
