"""The comparison with other libraries, this one alone: complete, fair and without a network."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import compare as comparing
from benchmarks.peers.cases import Case, score, task_of
from benchmarks.peers.catalog import METHODS, PEERS, SAMPLERS
from benchmarks.peers.compare import compare, measure, verdict
from benchmarks.peers.environment import Unavailable
from benchmarks.peers.exchange import Answer
from benchmarks.peers.report import HEADINGS, Comparison, write

ROWS = np.random.default_rng(0).uniform(-1, 1, size=(400, 8))
CASE = Case(name="small", columns=ROWS, lower=-1.0)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """This library against itself: everybody else is unavailable."""
    pythons = {peer.name: Unavailable(reason="no network") for peer in PEERS}
    pythons["dpcov"] = Path(sys.executable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "cases", lambda seed: [CASE])
        shorter = [replace(sampler, quick_size=2000) for sampler in SAMPLERS]
        patch.setattr(comparing, "SAMPLERS", shorter)
        return compare(pythons, tmp_path_factory.mktemp("exchange"), quick=True, seed=0)


def test_our_own_worker_answers_everything_and_the_others_are_left_out_with_the_reason(found):
    assert found.skipped == dict.fromkeys(("diffprivlib", "opendp", "smartnoise"), "no network")
    assert {row.peer for row in found.measured} == {"dpcov"}
    assert [row.refused for row in found.measured] == [""] * sum(m.peer == "dpcov" for m in METHODS)
    assert all(0 < row.error < 100 and row.seconds > 0 for row in found.measured)


def test_our_samplers_follow_their_laws(found):
    assert {row.sampler: row.verdict for row in found.checked} == {
        "dpcov sample_binghams": "follows",
        "dpcov gaussian, off the diagonal": "follows",
        "dpcov gaussian, diagonal": "follows",
    }


def test_the_report_is_complete_and_loads_nothing(found, tmp_path):
    write(found, tmp_path)
    made = {"errors.csv", "laws.csv", "peers.svg", "peers.png", "index.html"}
    assert made == {path.name for path in tmp_path.iterdir()}
    page = (tmp_path / "index.html").read_text()
    assert "no network" in page and "dpcov eigenvectors" in page
    assert all(word not in page for word in ("<script", "<link", 'src="http', 'href="http'))
    assert len((tmp_path / "errors.csv").read_text().splitlines()) == 1 + len(found.measured)


def test_a_planted_wrong_sampler_is_accused_and_one_that_refuses_is_not_acquitted():
    sampler = next(sampler for sampler in SAMPLERS if sampler.label == "diffprivlib Bingham")
    wrong = np.random.default_rng(1).beta(14, 0.5, size=4000)
    accused = verdict(sampler, Answer(values=wrong[None]))
    assert accused.verdict.startswith("BREAKS ITS LAW")
    assert accused.p_value < 1e-9
    assert verdict(sampler, Answer(refused="no")).verdict == "not checked: no"
    refused = measure(METHODS[0], CASE, Answer(refused="too large"))
    assert refused.refused == "too large"
    assert np.isnan(refused.error)


def test_scores_are_zero_at_the_truth_and_one_for_the_zero_matrix():
    target, basis = np.diag([4.0, 3.0, 2.0, 1.0]), np.eye(4)
    assert score("second moment", np.array([target, 0 * target]), target) == pytest.approx([0, 1])
    components = score("components", np.array([basis[:2], basis[2:]]), target)
    assert components == pytest.approx([0, 4 / 7])


def test_rows_and_columns_say_the_same_about_bounds():
    assert np.abs(CASE.columns).max() <= 1
    assert np.linalg.norm(CASE.unit_rows, axis=1).max() <= 1
    covariance = next(method for method in METHODS if method.kind == "covariance")
    asked = task_of(covariance, CASE, repetitions=1, limit_s=1.0)
    assert (asked.arguments["lower"], asked.arguments["upper"]) == (-1.0, 1.0)


def test_methods_and_samplers_have_names_of_their_own():
    for named in (METHODS, SAMPLERS):
        assert len({each.label for each in named}) == len(named)
    keys = {task_of(method, CASE, repetitions=1, limit_s=1.0).key for method in METHODS}
    assert len(keys) == len(METHODS)
    assert {method.kind for method in METHODS} == set(HEADINGS)


def test_the_command_names_what_it_leaves_out(monkeypatch, tmp_path, capsys):
    def without_network(name, requirements, directory):
        assert directory == tmp_path / "environments"
        return Unavailable(reason=f"no network for {name}")

    def nobody(pythons, folder, **options):
        absent = {k: v.reason for k, v in pythons.items() if isinstance(v, Unavailable)}
        return Comparison(measured=[], checked=[], versions={}, skipped=absent, facts="")

    monkeypatch.setattr(command, "prepare", without_network)
    monkeypatch.setattr(command, "compare", nobody)
    where = ["--out", str(tmp_path / "out"), "--venvs", str(tmp_path / "environments")]
    command.main(["--quick", *where, "--only", "opendp", "smartnoise"])
    shown = capsys.readouterr().out
    assert "opendp: no network for opendp; skipped" in shown
    assert "diffprivlib: not asked for; skipped" in shown
    assert (tmp_path / "out" / "index.html").is_file()
