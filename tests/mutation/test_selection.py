"""Few tests for a mutant, and the right ones: by line, the quickest file first, within a time; samples spread out."""

import random
import subprocess
import sys

import pytest

from tests.mutation.__main__ import named, sample
from tests.mutation.covering import ROOT, covering
from tests.mutation.learning import Learned, digest, file_of
from tests.mutation.selection import Selection

MODULE = "privacy.guarantee"
SOURCE = (ROOT / "src/dpcov/privacy/guarantee.py").read_text().splitlines()
INSIDE = 1 + next(place for place, line in enumerate(SOURCE) if "for known in NEIGHBORS" in line)
OUTSIDE = 1 + next(place for place, line in enumerate(SOURCE) if line.startswith("NEIGHBORS"))
SECONDS = {"tests/a.py::one": 1.0, "tests/a.py::two": 4.0, "tests/b.py::three": 2.0, "tests/c.py::four": 0.1}


@pytest.fixture
def learned():
    return Learned(
        seconds=dict(SECONDS),
        imports={"tests/a.py": 0.5, "tests/b.py": 0.1, "tests/c.py": 9.0},
        digests={MODULE: digest(MODULE)},
        lines={
            MODULE: {
                str(INSIDE): ["tests/a.py::one", "tests/a.py::two", "tests/b.py::three", "tests/gone.py::x"],
                str(INSIDE + 1): ["tests/c.py::four"],
            }
        },
    )


def test_a_line_meets_the_tests_that_run_it_the_quickest_file_first(learned):
    groups, limit = Selection(learned, 60.0).groups(MODULE, INSIDE)
    assert groups == [["tests/b.py::three"], ["tests/a.py::one", "tests/a.py::two"]]
    assert limit == pytest.approx(10 + 4 * 7.6)


def test_tests_in_the_file_that_mirrors_the_module_come_first_whatever_they_cost(learned):
    mirror = "tests/privacy/test_guarantee.py::long"
    learned.seconds[mirror] = 30.0
    learned.lines[MODULE][str(INSIDE)].append(mirror)
    assert Selection(learned, 60.0).groups(MODULE, INSIDE)[0][0] == [mirror]
    assert Selection(learned, 12.0).groups(MODULE, INSIDE)[0] == [[mirror]]


def test_a_line_that_is_run_on_import_meets_all_tests_of_the_module(learned):
    groups, _ = Selection(learned, 60.0).groups(MODULE, OUTSIDE)
    assert [file_of(group[0]) for group in groups] == ["tests/b.py", "tests/a.py", "tests/c.py"]


def test_a_line_that_no_test_runs_meets_none(learned):
    assert Selection(learned, 60.0).groups(MODULE, len(SOURCE))[0] == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1.0, [["tests/b.py::three"]]),
        (5.0, [["tests/b.py::three"]]),
        (8.0, [["tests/b.py::three"], ["tests/a.py::one", "tests/a.py::two"]]),
    ],
)
def test_tests_are_left_out_when_the_time_is_used(learned, seconds, expected):
    assert Selection(learned, seconds).groups(MODULE, INSIDE)[0] == expected


@pytest.mark.parametrize("left_out", ["tests/b.py::three", "tests/b.py"])
def test_what_fails_anyway_is_not_chosen_again(learned, left_out):
    selection = Selection(learned, 60.0)
    selection.leave_out(left_out)
    assert [file_of(group[0]) for group in selection.groups(MODULE, INSIDE)[0]] == ["tests/a.py"]


def test_a_module_that_has_changed_meets_the_files_that_answer_for_it(learned):
    learned.digests[MODULE] = "other"
    groups, _ = Selection(learned, 60.0).groups(MODULE, INSIDE)
    assert groups == [[f"tests/{file}"] for file in covering(MODULE)]


def test_a_file_with_a_test_that_fails_anyway_is_not_tried_for_ever(learned):
    learned.digests[MODULE] = "other"
    selection = Selection(learned, 60.0)
    for file in covering(MODULE):
        selection.leave_out(f"tests/{file}::test_that_fails_anyway")
    assert selection.groups(MODULE, INSIDE)[0] == []


def test_a_map_is_kept_and_test_files_are_forgotten(learned, tmp_path):
    learned.write(tmp_path / "build/map.json")
    again = Learned.read(tmp_path / "build/map.json")
    assert again == learned
    again.forget({"tests/a.py"})
    assert set(again.seconds) == {"tests/b.py::three", "tests/c.py::four"}
    assert again.tests(MODULE, INSIDE) == ["tests/b.py::three"]
    assert Learned.read(tmp_path / "absent") == Learned()


def test_a_run_learns_who_runs_a_line(tmp_path):
    path = tmp_path / "map.json"
    tests = ["tests/privacy/test_guarantee.py", "tests/privacy/ledger/test_spend.py"]
    command = [sys.executable, "-m", "tests.mutation.learning", "--map", path, "--branches", tmp_path, *tests]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    found = Learned.read(path).tests(MODULE, INSIDE)
    assert any("test_relations_are_known_by_name" in test for test in found)
    assert not any("test_numbers_are_exact" in test for test in found)
    assert list(tmp_path.glob(".coverage.*"))


def test_a_sample_is_spread_over_everything_and_of_the_size_asked_for():
    every = list(range(1000))
    found = sample(every, 50, random.Random(1))
    assert len(set(found)) == 50
    assert found != sorted(found)
    assert {place // 20 for place in found} == set(range(50))
    assert sorted(sample(every, 5000, random.Random(1))) == every


@pytest.mark.parametrize(
    ("told", "test"),
    [
        ("tests/a.py::test_b[{'x': [1, 2]}]", "tests/a.py::test_b[{'x': [1, 2]}]"),
        ("tests/a.py (import)", "tests/a.py"),
        ("INTERNAL_ERROR: tests/a.py::test_b[{'x': 1}]", "tests/a.py::test_b[{'x': 1}]"),
    ],
)
def test_a_verdict_names_its_test(told, test):
    assert named(told) == test
