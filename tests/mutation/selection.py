"""Which tests a mutant meets, and in what order: those that run its line, first those in the file that mirrors the
module, then the file that is through soonest.

Without a map, or for a module that has changed since it was made, the test files that are named in ``covering``.
"""

from collections import defaultdict
from pathlib import Path

from tests.mutation.covering import covering
from tests.mutation.learning import Learned, file_of

_UNKNOWN_SECONDS = 30.0


class Selection:
    """Chooses tests by line, up to a number of processor seconds."""

    def __init__(self, learned: Learned, seconds: float) -> None:
        self._learned, self._seconds = learned, seconds
        self._left_out: set[str] = set()

    @classmethod
    def read(cls, path: Path | None, seconds: float) -> "Selection":
        """Choose by a map in a file, if there is one."""
        return cls(Learned() if path is None else Learned.read(path), seconds)

    def groups(self, module: str, line: int) -> tuple[list[list[str]], float]:
        """Tests by file, and the processor seconds after which they hang."""
        if not self._learned.knows(module):
            unfit = {file_of(test) for test in self._left_out}
            groups = [[f"tests/{file}"] for file in covering(module)]
            return [group for group in groups if group[0] not in unfit], 10 + 4 * _UNKNOWN_SECONDS
        files: dict[str, list[str]] = defaultdict(list)
        for test in self._learned.tests(module, line):
            if test not in self._left_out and file_of(test) not in self._left_out:
                files[file_of(test)].append(test)
        mirror = [f"tests/{file}" for file in covering(module)[:1]]
        ordered = sorted(
            (file not in mirror, self._cost(file, tests), tests) for file, tests in files.items()
        )
        chosen, total = [], 0.0
        for _, cost, tests in ordered:
            if chosen and total + cost > self._seconds:
                break
            quickest = sorted(tests, key=self._learned.seconds.__getitem__)
            chosen.append(self._affordable(quickest))
            total += cost
        return chosen, 10 + 4 * min(total, self._seconds)

    def leave_out(self, test: str) -> None:
        """Choose a test, or a file, no more."""
        self._left_out.add(test)

    def _cost(self, file: str, tests: list[str]) -> float:
        return self._learned.imports.get(file, 0.0) + sum(self._learned.seconds[test] for test in tests)

    def _affordable(self, tests: list[str]) -> list[str]:
        """The first tests, within the time of one mutant."""
        total = 0.0
        for place, test in enumerate(tests):
            total += self._learned.seconds[test]
            if place and total > self._seconds:
                return tests[:place]
        return tests
