"""A mistake that tests see is called killed, one that they cannot see survived, one that never ends a timeout."""

import ast
from pathlib import Path

import pytest

from tests.mutation.changes import mutants
from tests.mutation.covering import ROOT, covering, modules, path_of
from tests.mutation.trial import Bench

SOURCE = '''"""A planted package."""


def clip(value: int | None, limit: int = 3) -> int:
    """Cut off."""
    if not value:
        return 0
    if value > limit:
        raise ValueError("too large" + "!")
    while limit > 99:
        limit -= 1
    return value * 2
'''
TEST = """from dpcov_planted.clipping import clip


def test_double():
    assert clip(2) == 4
    assert clip(3) == 6
    assert clip(None) == 0
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    package, root = folder / "dpcov_planted", folder / "root"
    package.mkdir()
    root.mkdir()
    (package / "__init__.py").write_text("")
    (package / "clipping.py").write_text(SOURCE)
    (root / "test_clipping.py").write_text(TEST)
    (folder / "copy").mkdir()
    return Bench(package, folder / "copy", root)


def planted(change):
    return next(mutant for mutant in mutants(SOURCE) if mutant.change.startswith(change))


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("value * 2 -> value / 2", "killed"),
        ("value > limit -> value >= limit", "killed"),
        ("raise ValueError", "survived"),
        ("99 -> 98", "survived"),
        ("limit > 99 -> limit <= 99", "timeout"),
    ],
)
def test_planted_mistakes_are_told_apart(bench, change, outcome):
    verdict = bench.run([["test_clipping.py"]], 1.0, Path("clipping.py"), planted(change).source)
    assert verdict.outcome == outcome
    assert (bench.copy / "clipping.py").read_text() == SOURCE
    if outcome == "killed":
        assert verdict.test == "test_clipping.py::test_double"


def test_the_package_as_it_is_survives(bench):
    assert bench.run([["test_clipping.py"]], 5.0).outcome == "survived"


def test_every_mutant_is_another_program_and_annotations_stay():
    original = ast.unparse(ast.parse(SOURCE))
    found = list(mutants(SOURCE))
    assert len({mutant.source for mutant in found}) == len(found) >= 12
    for mutant in found:
        assert ast.unparse(ast.parse(mutant.source)) != original
        assert "int | None" in mutant.source
        assert "too large" in mutant.source or "raise" in mutant.change


def test_every_module_has_test_files_that_exist():
    for module in modules():
        assert (ROOT / "src/dpcov" / path_of(module)).is_file()
        if (ROOT / "src/dpcov" / path_of(module)).read_text().count("\n") > 5:
            assert covering(module), module
        for test in covering(module):
            assert (ROOT / "tests" / test).is_file(), test
