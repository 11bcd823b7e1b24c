"""The run: a random sample of mutants of ``privacy``, ``noise``, ``data`` and ``mechanisms``, each against its tests.

python -m tests.mutation --sample 100 --seconds 1200 [--seed 1] [--modules privacy noise.lattice] [--file-seconds 60]

The sample is drawn without replacement and tried in random order, so that a run that its time ends is still a random
sample.  Without ``--sample`` all mutants are tried.  ``--list`` only counts.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.mutation.changes import Mutant, mutants
from tests.mutation.covering import ROOT, covering, modules, path_of
from tests.mutation.trial import Bench, Verdict

Tried = list[tuple[str, Mutant, Verdict]]


def main() -> int:
    """Parse, run, print; 1 if a mutant survived."""
    given = _arguments()
    chosen = [(module, mutant) for module in modules(given.modules) for mutant in mutants(_source(module))]
    say(f"{len(chosen):,} mutants in {len({module for module, _ in chosen})} modules")
    if given.list:
        return 0
    random.Random(given.seed).shuffle(chosen)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Bench(ROOT / "src/dpcov", Path(folder), ROOT), given.file_seconds)
        tried = run.all(chosen[: given.sample], time.monotonic() + given.seconds)
    report(tried, run.left_out)
    return int(any(verdict.outcome == "survived" for _, _, verdict in tried))


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="Plant mistakes; see tests fail."
    )
    parser.add_argument("--sample", type=int, help="how many mutants; all without it")
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no mutant after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", nargs="+", help="modules or packages, such as privacy or noise.lattice")
    parser.add_argument(
        "--file-seconds", type=float, default=60.0, help="leave out test files that take longer"
    )
    parser.add_argument("--list", action="store_true", help="count the mutants only")
    return parser.parse_args()


def _source(module: str) -> str:
    return (ROOT / "src/dpcov" / path_of(module)).read_text(encoding="utf-8")


class Run:
    """Tries mutants; learns of each test file first how long it takes, and that it passes, on the package as it is."""

    def __init__(self, bench: Bench, file_seconds: float) -> None:
        self._bench, self._file_seconds = bench, file_seconds
        self._took: dict[str, float] = {}
        self.left_out: dict[str, str] = {}

    def all(self, chosen: list[tuple[str, Mutant]], until: float) -> Tried:
        """Try mutants until a time, or an interruption."""
        tried: Tried = []
        with suppress(KeyboardInterrupt):
            self._try(chosen, until, tried)
        return tried

    def _try(self, chosen: list[tuple[str, Mutant]], until: float, tried: Tried) -> None:
        for module, mutant in chosen:
            if time.monotonic() > until:
                return
            tests = [test for test in covering(module) if self._usable(test)]
            if not tests:
                self.left_out[module] = "no test file that passes in time"
                continue
            limit = 10 + 4 * sum(self._took[test] for test in tests)
            verdict = self._bench.run(
                [f"tests/{test}" for test in tests], limit, path_of(module), mutant.source
            )
            tried.append((module, mutant, verdict))
            where = f"{module}:{mutant.line}: {mutant.change}"
            say(f"{verdict.outcome:8} {verdict.seconds:5.1f} s  {where}  [{verdict.test}]")

    def _usable(self, test: str) -> bool:
        if test not in self._took and test not in self.left_out:
            verdict = self._bench.run([f"tests/{test}"], self._file_seconds)
            if verdict.outcome == "survived":
                self._took[test] = verdict.seconds
            elif verdict.outcome == "timeout":
                self.left_out[test] = f"takes more than {self._file_seconds:g} s"
            else:
                self.left_out[test] = f"fails on the package as it is: {verdict.test}"
        return test in self._took


def report(tried: Tried, left_out: dict[str, str]) -> None:
    """Print the table, the kill rate with its interval, and the survivors."""
    outcomes = ("killed", "survived", "timeout")
    counts: dict[str, Counter[str]] = {}
    for module, _, verdict in tried:
        for name in (module, module.partition(".")[0] + " (all)", "~all"):
            counts.setdefault(name, Counter())[verdict.outcome] += 1
    say(f"\n{'module':36} {'mutants':>8} {'killed':>8} {'survived':>8} {'timeout':>8}")
    for name, count in sorted(counts.items()):
        cells = " ".join(f"{count[outcome]:8}" for outcome in outcomes)
        say(f"{name.lstrip('~'):36} {count.total():8} {cells}")
    for name, why in sorted(left_out.items()):
        say(f"left out: {name}: {why}")
    if not tried:
        return
    from dpcov.audit.limits import clopper_pearson  # not at the top: every trial's process reads this module

    noticed = sum(verdict.outcome != "survived" for _, _, verdict in tried)
    low, high = clopper_pearson(noticed, len(tried), 0.025)
    say(f"\nnoticed (killed or timeout): {noticed / len(tried):.1%}; 95 % interval {low:.1%} to {high:.1%}")
    for module, mutant, verdict in sorted(tried, key=lambda each: (each[0], each[1].line)):
        if verdict.outcome == "survived":
            say(f"survived: {module}:{mutant.line}: {mutant.change}")


if __name__ == "__main__":
    sys.exit(main())
