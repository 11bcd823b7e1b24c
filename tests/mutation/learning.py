"""Learn which test runs which line of the four packages, and how long it takes, so that a mutant meets few tests.

python -m tests.mutation.learning --map build/tests.json [--branches build] FOLDER_OR_FILE ...

Each run adds its test files to the map and replaces what the map said of them.  What a fixture of more than one test
runs counts for all tests of its file, and caches of the package are emptied before every test, since a line that an
earlier test ran would not be seen.  ``--branches`` also leaves coverage files there, for ``coverage combine``.
"""

import argparse
import ast
import functools
import hashlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation.covering import PACKAGES, ROOT, modules, path_of

_PACKAGE = ROOT / "src/dpcov"
_WHOLE_FILE = "*"


@dataclass
class Learned:
    """Processor seconds of tests and of importing their files, and the tests that run each line of a module.

    A line knows its tests only as long as the module is as it was; ``digests`` tells.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    imports: dict[str, float] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Learned":
        """Read a map; an empty one where there is no file."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the map."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(vars(self)), encoding="utf-8")

    def knows(self, module: str) -> bool:
        """Whether the module is still the one that was run."""
        return self.digests.get(module) == digest(module)

    def tests(self, module: str, line: int) -> list[str]:
        """Tests that run a line; for one that is run on import, all tests that run anything of the module."""
        known = self.lines[module]
        wanted = _statements_in_functions(module).get(line)
        lines = known.values() if wanted is None else [known.get(str(each), []) for each in wanted]
        return sorted({test for tests in lines for test in tests if test in self.seconds})

    def forget(self, files: set[str]) -> None:
        """Drop what is known of test files."""
        self.seconds = {test: each for test, each in self.seconds.items() if file_of(test) not in files}
        for lines in self.lines.values():
            for line, tests in lines.items():
                lines[line] = [test for test in tests if file_of(test) not in files]

    def add(self, data: coverage.CoverageData) -> None:
        """Add what a run has measured."""
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            by_file[file_of(test)].append(test)
        for module in modules(list(PACKAGES)):
            if not self.knows(module):
                self.lines[module], self.digests[module] = {}, digest(module)
            known = self.lines[module]
            for line, contexts in data.contexts_by_lineno(str(_PACKAGE / path_of(module))).items():
                tests = set(known.get(str(line), ()))
                for context in filter(None, contexts):
                    file, _, test = context.partition("::")
                    tests.update(by_file[file] if test == _WHOLE_FILE else [context])
                if tests:
                    known[str(line)] = sorted(tests)


@functools.cache
def _statements_in_functions(module: str) -> dict[int, range]:
    """Lines of the statement that a line belongs to; without those run on import, by whatever test comes first."""
    tree = ast.parse((_PACKAGE / path_of(module)).read_bytes())
    found: dict[int, range] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in (node for part in function.body for node in ast.walk(part)):
            if isinstance(node, ast.stmt):
                body = getattr(node, "body", None)
                end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
                lines = range(node.lineno, max(end, node.lineno + 1))
                found.update(dict.fromkeys(lines, lines))
    return found


def digest(module: str) -> str:
    """Tell versions of a module apart."""
    return hashlib.sha256((_PACKAGE / path_of(module)).read_bytes()).hexdigest()


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


class _Learner:
    """Tells coverage which test is running, and measures."""

    def __init__(self, running: coverage.Coverage) -> None:
        self._running, self._test = running, ""
        self._passed: set[str] = set()
        self.seconds: dict[str, float] = {}
        self.imports: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        started = time.process_time()
        report = yield
        if isinstance(collector, pytest.Module):
            self.imports[collector.nodeid] = time.process_time() - started
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        empty_caches()
        self._test = item.nodeid
        self._running.switch_context(item.nodeid)
        started = time.process_time()
        result = yield
        if item.nodeid in self._passed:
            self.seconds[item.nodeid] = round(time.process_time() - started, 4)
        self._running.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        shared = fixturedef.scope != "function"
        if shared:
            self._running.switch_context(f"{file_of(self._test)}::{_WHOLE_FILE}")
        result = yield
        if shared:
            self._running.switch_context(self._test)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)


def empty_caches() -> None:
    """Forget what functions of the package remember."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dpcov":
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def main() -> int:
    """Run tests and write the map."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.learning")
    parser.add_argument("--map", type=Path, required=True)
    parser.add_argument("--branches", type=Path, help="folder for coverage's own files")
    parser.add_argument("tests", nargs="+")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = given.branches or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        name = f".coverage.{hashlib.sha256(' '.join(given.tests).encode()).hexdigest()[:12]}"
        running = coverage.Coverage(
            data_file=str(kept / name), branch=True, source=[str(_PACKAGE / each) for each in PACKAGES]
        )
        running.start()
        learner = _Learner(running)
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *given.tests], plugins=[learner])
        running.stop()
        running.save()
        learned = Learned.read(given.map)
        learned.forget(set(learner.imports))
        learned.imports.update(learner.imports)
        learned.seconds.update(learner.seconds)
        learned.add(running.get_data())
        learned.write(given.map)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
