"""Studies of the papers repeat, continue, and survive what is missing or broken."""

from pathlib import Path

import pytest

from benchmarks.papers import sources
from benchmarks.papers.baselines import BASELINES
from benchmarks.papers.figure import Figure, Panel, Point, contender, lines, table
from benchmarks.papers.results import rows
from benchmarks.papers.store import Store
from benchmarks.papers.study import Study, measure
from benchmarks.papers.trials import groups, key_of
from benchmarks.papers.workers import run_groups
from dpcov import Budget

BUDGET, NOWHERE = Budget(rho=1), Path("nowhere")
POINTS = tuple(Point(x=d, table=table("zipf", n=200, d=d, N=2), budget=BUDGET) for d in (2, 4))
GAUSSIAN, ZERO = contender("noise", "gaussian"), contender("zero", "zero")


def figure(*contenders, points=POINTS, repetitions=2):
    panel = Panel(key="p", title="", x_label="d", lines=lines(contenders, points), points=points)
    return Figure(name="f", title="a < b", source="", panels=(panel,), repetitions=repetitions)


def study_of(made, store, seed=0):
    return Study(figures=[made], store=store, directory=NOWHERE, seed=seed)


def values(made, *, path=None, jobs=1, seed=0):
    with Store(path) as store:
        study = study_of(made, store, seed)
        study.run(jobs=jobs, pending=study.pending())
        found = rows(study.values["f"], store)
        return [(row["curve"], row["x"], row["repetition"], row["value"]) for row in found]


def test_same_seed_same_values_in_any_number_of_processes():
    made = figure(GAUSSIAN, ZERO)
    alone = values(made)
    assert alone == values(made, jobs=2)
    assert alone != values(made, seed=1)


def test_results_are_kept_under_the_code_that_made_them(monkeypatch):
    assert "dpcov.noise.lattice" in sources._imports("dpcov.mechanisms.gaussian")
    assert "benchmarks.papers.claims" not in sources._imports("benchmarks.papers.figure")
    with Store() as store:
        trial = study_of(figure(GAUSSIAN), store).pending()[0].trial
    before = key_of(trial)
    monkeypatch.setattr("benchmarks.papers.contenders.version", lambda contender: "other code")
    assert key_of(trial) != before


def test_finished_trials_are_not_run_again(tmp_path):
    path = tmp_path / "store.sqlite"
    first = values(figure(GAUSSIAN), path=path)
    with Store(path) as store:
        more = study_of(figure(GAUSSIAN, repetitions=3), store).pending()
        assert [value.trial.repetition for value in more] == [2, 2]
        assert len(study_of(figure(GAUSSIAN), store, seed=1).pending()) == 4
    assert values(figure(GAUSSIAN), path=path) == first


def test_a_run_may_begin_with_few_repetitions_on_large_tables():
    small, large = POINTS[0], Point(x=9, table=table("zipf", n=10, d=400, N=1), budget=BUDGET)
    made = figure(ZERO, points=(small, large), repetitions=3)
    with Store() as store:
        few = study_of(made, store).pending(large=1)
        assert sorted((v.x, v.trial.repetition) for v in few) == [(2, 0), (2, 1), (2, 2), (9, 0)]
        assert len(study_of(made, store).pending()) == 6


MNIST = (Point(x=1, table=table("mnist", n=10), budget=BUDGET),)


@pytest.mark.parametrize(
    ("odd", "points", "line"),
    [
        (contender("new", "not-there"), POINTS, "new: there is no mechanism not-there; skipped"),
        (contender("new", "zero", color=1), POINTS, "new: zero has no option color; skipped"),
        (contender("pure", "nuclear"), POINTS, "nuclear: The nuclear mechanism cannot honor"),
        (contender("big", "zero", largest_d=1), POINTS, "zero: not run above 1 columns"),
        (ZERO, MNIST, "mnist: mnist_train.npz is not in nowhere; name its directory with --data"),
    ],
)
def test_what_is_missing_is_skipped_with_a_line(odd, points, line):
    result = measure([figure(odd, points=points)], directory=NOWHERE, seed=0)["f"]
    (skipped,) = result.skipped
    assert skipped.startswith(line)
    assert result.panels["p"].curves == {}


def test_a_broken_mechanism_does_not_end_the_run(monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("by design")

    monkeypatch.setitem(BASELINES, "output perturbation", broken)
    made = figure(contender("odd", "output perturbation", alpha=1), ZERO)
    result = measure([made], directory=NOWHERE, seed=0)["f"]
    assert result.skipped[0].startswith("output perturbation BROKE on zipf")
    assert list(result.panels["p"].curves) == ["zero"]


def test_an_error_while_collecting_ends_the_run(tmp_path):
    with Store() as store:
        pending = study_of(figure(GAUSSIAN, repetitions=50), store).pending()

    def full_disk(outcomes):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        run_groups(groups(pending), directory=tmp_path, jobs=2, report=full_disk)
