"""The run: a sample of the mutants of ``privacy``, ``noise``, ``data`` and ``mechanisms``, each against its tests.

python -m tests.mutation --sample 400 --map build/tests.json --log build/run.jsonl --seconds 480 [--seed 1]

The sample is systematic with a random start: every mutant is as likely, and modules are met by size.  It is tried in
random order, so that a run that its time ends is still a random sample; with ``--log`` the next run goes on.  Without
``--sample`` all mutants are tried.  ``--list`` only counts.  The map is made by ``tests.mutation.learning``.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutation.changes import Mutant, mutants
from tests.mutation.covering import ROOT, modules, path_of
from tests.mutation.selection import Selection
from tests.mutation.trial import Bench, Verdict


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A mutant and what became of it."""

    module: str
    number: int
    line: int
    change: str
    outcome: str
    test: str
    seconds: float


def main() -> int:
    """Parse, run, print; 1 if a mutant survived."""
    given = _arguments()
    every = [
        (module, number, mutant)
        for module in modules(given.modules)
        for number, mutant in enumerate(mutants(_source(module)))
    ]
    say(f"{len(every):,} mutants in {len({module for module, _, _ in every})} modules")
    if given.list:
        return 0
    chosen = sample(every, given.sample or len(every), random.Random(given.seed))
    log = Log(given.log)
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        bench = Bench(ROOT / "src/dpcov", Path(folder), ROOT)
        run = Run(bench, Selection.read(given.map, given.mutant_seconds))
        until = time.monotonic() + given.seconds
        for module, number, mutant in chosen:
            if time.monotonic() > until:
                break
            if not log.holds(module, number, mutant):
                log.add(run.one(module, number, mutant))
    wanted = {(module, number) for module, number, _ in chosen}
    tried = [each for each in log.tried if (each.module, each.number) in wanted]
    report(tried)
    say(f"{len(tried)} of {len(chosen)} tried")
    return int(any(each.outcome == "survived" for each in tried))


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
    parser.add_argument("--map", type=Path, help="which tests run which line; without it, tests by file name")
    parser.add_argument("--log", type=Path, help="file of verdicts; mutants in it are not tried again")
    parser.add_argument(
        "--mutant-seconds", type=float, default=60.0, help="run at most this much of tests for a mutant"
    )
    parser.add_argument("--list", action="store_true", help="count the mutants only")
    return parser.parse_args()


def _source(module: str) -> str:
    return (ROOT / "src/dpcov" / path_of(module)).read_text(encoding="utf-8")


def sample(every: list[Any], count: int, source: random.Random) -> list[Any]:
    """Take ``count`` evenly spaced ones from a random start, in random order."""
    step = len(every) / min(count, len(every))
    start = source.random() * step
    chosen = [every[int(start + place * step)] for place in range(min(count, len(every)))]
    source.shuffle(chosen)
    return chosen


class Log:
    """Verdicts, kept in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.tried = [Tried(**json.loads(line)) for line in lines]

    def holds(self, module: str, number: int, mutant: Mutant) -> bool:
        """Whether this very mutant was tried."""
        return any(
            (each.module, each.number, each.line, each.change) == (module, number, mutant.line, mutant.change)
            for each in self.tried
        )

    def add(self, tried: Tried) -> None:
        """Keep and print a verdict."""
        self.tried.append(tried)
        say(
            f"{tried.outcome:8} {tried.seconds:5.1f} s  {tried.module}:{tried.line}: {tried.change}  [{tried.test}]"
        )
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(tried)) + "\n")


class Run:
    """Tries mutants; a test's failure counts only if the test passes on the package as it is."""

    def __init__(self, bench: Bench, selection: Selection) -> None:
        self._bench, self._selection = bench, selection
        self._sound: set[str] = set()

    def one(self, module: str, number: int, mutant: Mutant) -> Tried:
        """Try a mutant, without the tests that turn out to fail anyway."""
        while True:
            groups, limit = self._selection.groups(module, mutant.line)
            if not groups:
                verdict = Verdict(outcome="survived", test="no test runs this line")
                break
            verdict = self._bench.run(groups, limit, path_of(module), mutant.source)
            if verdict.outcome != "killed" or self._is_sound(verdict.test):
                break
            self._selection.leave_out(named(verdict.test))
        return Tried(module=module, number=number, line=mutant.line, change=mutant.change, **asdict(verdict))

    def _is_sound(self, test: str) -> bool:
        if test.startswith("process ended"):
            return True
        test = named(test)
        if test not in self._sound and self._bench.run([[test]], 600.0).outcome == "survived":
            self._sound.add(test)
        return test in self._sound


def named(told: str) -> str:
    """Return the test of a verdict, which may come with an exit code or a remark; its own name may hold colons."""
    test = told.removesuffix(" (import)")
    code, _, rest = test.partition(": ")
    return rest if code.isupper() else test


def report(tried: list[Tried]) -> None:
    """Print the table, the kill rate with its interval, and the survivors."""
    outcomes = ("killed", "survived", "timeout")
    counts: dict[str, Counter[str]] = {}
    for each in tried:
        for name in (each.module, each.module.partition(".")[0] + " (all)", "~all"):
            counts.setdefault(name, Counter())[each.outcome] += 1
    say(
        f"\n{'module':36} {'mutants':>8} {'killed':>8} {'survived':>8} {'timeout':>8}   noticed, 95 % interval"
    )
    for name, count in sorted(counts.items()):
        cells = " ".join(f"{count[outcome]:8}" for outcome in outcomes)
        share = f"   {_interval(count)}" if name.endswith(("~all", "(all)")) else ""
        say(f"{name.lstrip('~'):36} {count.total():8} {cells}{share}")
    for each in sorted(tried, key=lambda each: (each.module, each.line)):
        if each.outcome == "survived":
            say(f"survived: {each.module}:{each.line}: {each.change} {each.test}".rstrip())


def _interval(count: Counter[str]) -> str:
    """The share of mutants killed or timed out."""
    from dpcov.audit.limits import clopper_pearson  # not at the top: every trial's process reads this module

    noticed, size = count.total() - count["survived"], count.total()
    low, high = clopper_pearson(noticed, size, 0.025)
    return f"{noticed / size:.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    sys.exit(main())
