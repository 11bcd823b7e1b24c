"""Examples in docstrings run; those of public names import all that they use."""

import doctest
import importlib
import re
import types
import warnings
from pathlib import Path

import pytest

import dpcov
from dpcov.errors import PrivacyWarning

SOURCES = Path(__file__).parents[2] / "src"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules():
    """Names of the modules that have examples."""
    for path in sorted(SOURCES.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(SOURCES).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__")


def failures(module):
    """What the examples of a module print that they should not."""
    runner, told = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS), []
    for test in doctest.DocTestFinder().find(module):
        inside = test.name.removeprefix(f"{module.__name__}.").split(".")[0]
        if inside in dpcov.__all__:
            test.globs = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            runner.run(test, out=told.append)
    return "".join(told)


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module_run(name):
    assert not failures(importlib.import_module(name))


def test_an_example_that_fails_is_seen():
    broken = types.ModuleType("broken", "\n>>> 1 + 1\n3\n")
    assert "Expected" in failures(broken)
    assert len(list(modules())) > 5


@pytest.mark.parametrize("room", ["dpcov", "dpcov.analysis"])
def test_every_public_name_is_in_the_reference(room):
    pages = (SOURCES.parent / "docs" / "reference").glob("*.md")
    told = re.findall(r"^::: ([\w.]+)", "\n".join(page.read_text() for page in pages), re.MULTILINE)
    listed = {name.rpartition(".")[2] for name in told}
    assert set(importlib.import_module(room).__all__) <= listed
