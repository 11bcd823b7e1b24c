"""The comparison with other libraries, this one alone: complete, fair and without a network."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import i0, i1

from benchmarks.peers import compare as comparing
from benchmarks.peers import laws
from benchmarks.peers.cases import Case, score
from benchmarks.peers.catalog import METHODS, PEERS, SAMPLERS
from benchmarks.peers.compare import compare, measure, verdict
from benchmarks.peers.environment import Unavailable
from benchmarks.peers.exchange import Answer, Task, ask
from benchmarks.peers.laws import judge
from benchmarks.peers.report import write

CASE = Case(
    name="small", columns=np.random.default_rng(0).uniform(-1, 1, size=(400, 8)), lower=-1.0
)
ROWS = np.arange(6.0).reshape(3, 2)
WORKER = f"""
import os, sys, time
sys.path.insert(0, {str(PEERS[0].script.parent)!r})
from serve import serve

def double(rows, *, by=2):
    return rows * by, "doubled"

def threads(rows):
    return [float(os.environ["OMP_NUM_THREADS"])]

def refuse(rows):
    raise ValueError("cannot do that")

def die(rows):
    sys.stderr.write("first\\nlast words\\n")
    sys.stderr.flush()
    os._exit(3)

calls = []

def once(rows):
    calls.append(None)
    if len(calls) > 1:
        time.sleep(60)
    return [1.0]

def hang(rows):
    time.sleep(60)

serve("1.2.3", dict(once=once, double=double, threads=threads, refuse=refuse, die=die, hang=hang))
"""


@pytest.fixture
def answered(tmp_path):
    """Answers of the worker, or of another program, to tasks."""

    def answers(*tasks, program=WORKER):
        (tmp_path / "worker.py").write_text(program)
        where = tmp_path / "worker.py", tasks, {"t": ROWS}, tmp_path / "folder"
        return ask(Path(sys.executable), *where, limit_s=30.0)

    return answers


def task(method, *, key=None, **more):
    return Task(key=key or method, method=method, table="t", **more)


def test_values_times_and_notes_come_back(answered):
    found = answered(task("double", arguments={"by": 3}, repetitions=2), task("threads"))
    answer = found.answers["double"]
    assert np.array_equal(answer.values, [3 * ROWS, 3 * ROWS])
    assert (found.version, len(answer.seconds), answer.note) == ("1.2.3", 2, "doubled")
    assert found.answers["threads"].values[0] == 1


@pytest.mark.parametrize(
    ("method", "limit_s", "said"),
    [
        ("refuse", 10.0, "ValueError: cannot do that"),
        ("die", 10.0, "last words"),
        ("hang", 0.2, "no result within 0.6 s"),
    ],
)
def test_a_task_without_an_answer_does_not_end_the_others(answered, method, limit_s, said):
    tasks = task("double"), task(method, limit_s=limit_s), task("threads")
    found = answered(*tasks).answers
    assert said in found[method].refused
    assert found["double"].refused is found["threads"].refused is None


def test_values_before_a_call_without_end_are_kept(answered):
    found = answered(task("once", repetitions=5, limit_s=0.2))
    assert len(found.answers["once"].values) == 1


def test_old_answers_are_not_mistaken_for_new_ones(answered):
    answered(task("double"))
    assert answered(task("die", key="double")).answers["double"].refused == "last words"


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


def test_our_own_worker_answers_all_and_the_others_are_left_out_with_the_reason(found, tmp_path):
    assert found.skipped == dict.fromkeys(("diffprivlib", "opendp", "smartnoise"), "no network")
    assert [row.refused for row in found.measured] == [""] * sum(m.peer == "dpcov" for m in METHODS)
    assert all(0 < row.error < 100 and row.seconds > 0 for row in found.measured)
    assert [row.verdict for row in found.checked] == ["follows"] * 3
    write(found, tmp_path)
    made = {"errors.csv", "laws.csv", "peers.svg", "peers.png", "index.html"}
    assert made == {path.name for path in tmp_path.iterdir()}
    page = (tmp_path / "index.html").read_text()
    assert "no network" in page and "dpcov eigenvectors" in page and "<script" not in page


def test_a_planted_wrong_sampler_is_accused_and_one_that_refuses_is_not_acquitted():
    sampler = next(sampler for sampler in SAMPLERS if sampler.label == "diffprivlib Bingham")
    wrong = np.random.default_rng(1).beta(14, 0.5, size=4000)
    assert verdict(sampler, Answer(values=wrong[None])).verdict.startswith("BREAKS ITS LAW")
    assert verdict(sampler, Answer(refused="no")).verdict == "not checked: no"
    refused = measure(METHODS[0], CASE, Answer(refused="too large"))
    assert refused.refused == "too large" and np.isnan(refused.error)


def test_scores_are_zero_at_the_truth_and_one_for_the_zero_matrix():
    target, basis = np.diag([4.0, 3.0, 2.0, 1.0]), np.eye(4)
    assert score("second moment", np.array([target, 0 * target]), target) == pytest.approx([0, 1])
    components = score("components", np.array([basis[:2], basis[2:]]), target)
    assert components == pytest.approx([0, 4 / 7])


SIZE = 20_000
LAW, BUG = laws.bingham(5.0), laws.inverted_bingham(5.0)


def on_circle(concentration, *, inverted):
    """Rejection from the angular central Gaussian law, with the acceptance as asked for."""
    draw = np.random.default_rng(5)
    width = 1 - concentration + np.sqrt((concentration - 1) ** 2 + 2 * concentration)
    omega = np.array([1.0, 1 + 2 * concentration / width])
    proposals = draw.normal(size=(40 * SIZE, 2)) / np.sqrt(omega)
    squares = proposals**2 / (proposals**2).sum(axis=1, keepdims=True)
    form = squares @ omega
    density = np.exp(-concentration * squares[:, 1])
    kept = density / form if inverted else density * form
    limit = 1.0 if inverted else np.exp(-(2 - width) / 2) ** -1 * (width / 2) ** -1
    accepted = squares[draw.random(len(kept)) * limit < kept, 0]
    assert len(accepted) >= SIZE
    return accepted[:SIZE]


def test_means_on_the_circle_are_those_of_bessel_functions_and_of_the_known_bug():
    assert LAW.mean_of[2] == pytest.approx((1 + i1(2.5) / i0(2.5)) / 2, abs=1e-6)
    assert BUG.mean_of[2] == pytest.approx(0.965, abs=5e-4)


@pytest.mark.parametrize(
    ("inverted", "instead"), [(False, ""), (True, "Bingham with the acceptance inverted")]
)
def test_a_right_sampler_is_acquitted_and_an_inverted_acceptance_named(inverted, instead):
    found = judge(on_circle(5.0, inverted=inverted), LAW, BUG)
    assert (found.follows, found.instead) == (not inverted, instead)


@pytest.mark.parametrize("factor", [1.0, 0.8, 1.25])
def test_noise_with_a_wrong_scale_is_caught(factor):
    draw = np.random.default_rng(5)
    laplace, normal = draw.laplace(scale=2.0, size=SIZE), draw.normal(size=SIZE)
    assert judge(factor * laplace, laws.laplace(2.0)).follows is (factor == 1.0)
    assert judge(factor * 3.0 * normal, laws.gaussian(3.0)).follows is (factor == 1.0)


def test_bounded_laplace_is_the_conditioned_law_and_honors_epsilon():
    epsilon, sensitivity = 1.0, 2.0
    law = laws.bounded_laplace(epsilon, sensitivity, 0.5)
    scale = float(law.text.rsplit(" ", 1)[1])
    draws = np.random.default_rng(5).laplace(loc=0.5, scale=scale, size=3 * SIZE)
    assert judge(draws[draws >= 0], law).follows
    assert not judge(np.maximum(draws, 0), law).follows
    grid = np.linspace(0, 30, 3001)
    ends = (laws.bounded_laplace(epsilon, sensitivity, value).cdf(grid) for value in (0.0, 2.0))
    first, second = map(np.diff, ends)
    assert epsilon - 0.005 < np.abs(np.log(first / second)).max() <= epsilon + 1e-9
