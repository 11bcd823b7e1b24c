from pathlib import Path

import pytest

from benchmarks.papers.baselines import BASELINES
from benchmarks.papers.figure import Figure, Line, Panel, Point, contender, lines, table
from benchmarks.papers.output import write
from benchmarks.papers.results import rows
from benchmarks.papers.sources import fingerprint
from benchmarks.papers.store import Store
from benchmarks.papers.study import Study, measure
from benchmarks.papers.trials import groups, key_of
from benchmarks.papers.workers import run_groups
from dpcov import Budget

POINTS = tuple(
    Point(x=d, table=table("zipf", n=200, d=d, N=2), budget=Budget(rho=1)) for d in (2, 4)
)
GAUSSIAN = contender("noise", "gaussian")


def figure(*contenders, points=POINTS, repetitions=2):
    panel = Panel(key="p", title="", x_label="d", lines=lines(contenders, points), points=points)
    return Figure(name="f", title="a < b", source="", panels=(panel,), repetitions=repetitions)


def values(store_path, made, *, jobs=1, seed=0):
    with Store(store_path) as store:
        study = Study(figures=[made], store=store, directory=Path("nowhere"), seed=seed)
        study.run(jobs=jobs, pending=study.pending())
        return [
            (row["curve"], row["x"], row["repetition"], row["value"])
            for row in rows(study.values["f"], store)
        ]


def test_same_seed_same_values_in_any_number_of_processes():
    made = figure(GAUSSIAN, contender("zero", "zero"))
    alone, together, other = (
        values(None, made),
        values(None, made, jobs=2),
        values(None, made, seed=1),
    )
    assert len(alone) == 8
    assert alone == together
    assert alone != other


def test_finished_trials_are_not_run_again(tmp_path):
    path = tmp_path / "store.sqlite"
    first = values(path, figure(GAUSSIAN))
    with Store(path) as store:
        more = Study(
            figures=[figure(GAUSSIAN, repetitions=3)], store=store, directory=tmp_path, seed=0
        )
        assert [value.trial.repetition for value in more.pending()] == [2, 2]
        other_seed = Study(figures=[figure(GAUSSIAN)], store=store, directory=tmp_path, seed=1)
        assert len(other_seed.pending()) == 4
    assert values(path, figure(GAUSSIAN)) == first


def test_results_are_kept_under_the_code_that_made_them(monkeypatch):
    with Store() as store:
        study = Study(figures=[figure(GAUSSIAN)], store=store, directory=Path("nowhere"), seed=0)
        trial = study.pending()[0].trial
        before = key_of(trial)
        monkeypatch.setattr("benchmarks.papers.contenders.version", lambda contender: "other code")
        assert key_of(trial) != before


def test_fingerprint_follows_imports_but_not_the_registry():
    from benchmarks.papers import sources

    assert "dpcov.noise.lattice" in sources._imports("dpcov.mechanisms.gaussian")
    assert fingerprint("dpcov.mechanisms.zero") != fingerprint("dpcov.mechanisms.gaussian")


def test_results_do_not_depend_on_what_is_said_about_them():
    from benchmarks.papers import sources

    assert "benchmarks.papers.claims" not in sources._imports("benchmarks.papers.figure")


def test_metrics_share_one_draw():
    points = tuple(
        Point(x=p, table=POINTS[0].table, budget=Budget(rho=1), metric=f"schatten:{p}")
        for p in (1, 2, 8)
    )
    panel = Panel(key="p", title="", x_label="p", lines=lines([GAUSSIAN], points))
    made = Figure(name="f", title="", source="", panels=(panel,), repetitions=1)
    one, two, eight = (value for *_, value in values(None, made))
    assert one >= two >= eight > 0


@pytest.mark.parametrize(
    ("odd", "points", "line"),
    [
        (contender("new", "not-there"), POINTS, "new: there is no mechanism not-there; skipped"),
        (contender("new", "zero", color=1), POINTS, "new: zero has no option color; skipped"),
        (
            contender("pure", "nuclear"),
            POINTS,
            "nuclear: The nuclear mechanism cannot honor (1)-zCDP; it can promise PureDP.",
        ),
        (
            contender("big", "zero", largest_d=1),
            POINTS,
            "zero: not run above 1 columns in this setting",
        ),
        (
            contender("zero", "zero"),
            (Point(x=1, table=table("mnist", n=10), budget=Budget(rho=1)),),
            "mnist: mnist_train.npz is not in nowhere; name its directory with --data or DPCOV_DATA; skipped",
        ),
    ],
)
def test_what_is_missing_is_skipped_with_a_line(odd, points, line):
    result = measure([figure(odd, points=points)], directory=Path("nowhere"), seed=0)["f"]
    assert result.skipped == (line,)
    assert result.panels["p"].curves == {}


def test_a_broken_mechanism_does_not_end_the_run(monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("by design")

    monkeypatch.setitem(BASELINES, "output perturbation", broken)
    made = figure(contender("odd", "output perturbation", alpha=1), contender("zero", "zero"))
    result = measure([made], directory=Path("nowhere"), seed=0)["f"]
    assert result.skipped[0].startswith("output perturbation BROKE on zipf")
    assert list(result.panels["p"].curves) == ["zero"]


def test_an_error_while_collecting_ends_the_run(tmp_path):
    made = figure(GAUSSIAN, repetitions=50)
    with Store() as store:
        pending = Study(figures=[made], store=store, directory=tmp_path, seed=0).pending()

    def full_disk(outcomes):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        run_groups(groups(pending), directory=tmp_path, jobs=2, report=full_disk)


def test_redrawn_tables_differ_between_repetitions():
    points = (Point(x=1, table=table("zipf", redrawn=True, n=50, d=2, N=1), budget=Budget(rho=1)),)
    (panel,) = (Panel(key="p", title="", x_label="", lines=(Line(label="z", contender=contender("z", "zero"),
                points=points),)),)  # fmt: skip
    made = Figure(name="f", title="", source="", panels=(panel,), repetitions=2)
    first, second = (value for *_, value in values(None, made))
    assert first != second


def test_output_is_one_page_and_tables(tmp_path):
    pytest.importorskip("matplotlib")
    made = figure(GAUSSIAN, contender("zero", "zero"))
    with Store() as store:
        study = Study(figures=[made], store=store, directory=tmp_path, seed=0)
        study.run(jobs=1, pending=study.pending())
        write(study, tmp_path, "facts")
    page = (tmp_path / "index.html").read_text()
    assert "a &lt; b" in page
    assert "<svg" in page
    assert "<img" not in page
    assert "<script" not in page
    expected = {"index.html", "claims.csv", "f.png", "f.svg", "results.csv", "results.parquet"}
    assert expected == {path.name for path in tmp_path.iterdir()}
