"""The deep run: as many cases as asked for, each target in a process of its own.

python -m tests.fuzz --cases 1000000 --seconds 3600 [--seed 7] [--target csv --target npz]

A finding is named by target, seed and index; ``python -m tests.fuzz --again TARGET SEED INDEX`` runs it once more and
shows its traceback.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.catalog import TARGETS
from tests.fuzz.engine import Finding, Tally, case_random, scratch

_CONSOLE = Console(width=160)
_STUCK_SECONDS = 120.0
"""Wall seconds without a finished case after which a worker is ended; its timer only reaches Python code."""


def main() -> int:
    """Parse, run, print; 1 if there is a finding."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Fuzz everything that reads input."
    )
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--again", nargs=3, metavar=("TARGET", "SEED", "INDEX"))
    given = parser.parse_args()
    if given.again:
        return again(given.again[0], int(given.again[1]), int(given.again[2]))
    names = given.target or list(TARGETS)
    until, tallies = time.monotonic() + given.seconds, {}
    cases = share(given.cases, [TARGETS[name].share for name in names])
    for place, name in enumerate(names):
        work = [
            cases[later] * TARGETS[names[later]].milliseconds for later in range(place, len(names))
        ]
        seconds = (until - time.monotonic()) * work[0] / sum(work)
        tallies[name] = deep(name, given.seed, round(cases[place]), seconds)
        _CONSOLE.print(
            f"{name}: {tallies[name].cases:,} cases, {len(tallies[name].findings)} findings"
        )
    report(tallies)
    return int(any(tally.findings for tally in tallies.values()))


def share(amount: float, weights: list[float]) -> list[float]:
    """Divide by weight."""
    return [amount * weight / sum(weights) for weight in weights]


def deep(name: str, seed: int, cases: int, seconds: float) -> Tally:
    """Run a target's cases, going on behind a case that ended its process."""
    total, start, until = Tally(), 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report"
        while start < cases and time.monotonic() < until:
            path.write_bytes(b"")
            Path(f"{path}.at").write_bytes(bytes(8))
            code = _work(
                [name, str(seed), str(start), str(cases), str(until - time.monotonic()), str(path)],
                path,
            )
            for line in path.read_text().splitlines():
                total.add(_read(line))
            at = int.from_bytes(Path(f"{path}.at").read_bytes(), "little")
            if code == 0:
                return total
            what = f"ended the process: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
            total.add(
                Tally(
                    cases=1, outcomes=Counter([what]), findings=[Finding(name, seed, at, what, "")]
                )
            )
            start = at + 1
    return total


def _work(arguments: list[str], path: Path) -> int:
    """Run a worker to its end, or end it where one case takes too long."""
    command = [sys.executable, "-m", "tests.fuzz.worker", *arguments]
    marks = Path(f"{path}.at")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        last, since = b"", time.monotonic()
        while True:
            try:
                return process.wait(1.0)
            except subprocess.TimeoutExpired:
                now = marks.read_bytes()
                if now != last:
                    last, since = now, time.monotonic()
                elif time.monotonic() - since > _STUCK_SECONDS:
                    process.kill()


def _read(line: str) -> Tally:
    record = json.loads(line)
    findings = [Finding(**finding) for finding in record.pop("findings")]
    return Tally(**{**record, "outcomes": Counter(record["outcomes"])}, findings=findings)


def report(tallies: dict[str, Tally]) -> None:
    """Print the table and the findings, equal ones once."""
    table = Table(
        "target", "cases", "seconds", "cases/s", "succeeded", "kinds of error", "findings"
    )
    for name, tally in [*tallies.items(), ("all", _sum(tallies))]:
        errors = sorted(outcome for outcome in tally.outcomes if outcome != "success")
        speed = f"{tally.cases / max(tally.seconds, 1e-9):,.0f}"
        good = f"{tally.outcomes['success']:,}"
        cells = (
            f"{tally.cases:,}",
            f"{tally.seconds:,.0f}",
            speed,
            good,
            ", ".join(errors),
            str(len(tally.findings)),
        )
        table.add_row(name, *cells)
    _CONSOLE.print(table)
    seen: Counter[tuple[str, str]] = Counter()
    for finding in (finding for tally in tallies.values() for finding in tally.findings):
        key = (finding.target, finding.place or finding.what)
        seen[key] += 1
        if seen[key] == 1:
            words = (
                f"{finding.target} {finding.seed} {finding.index}: {finding.what} {finding.place}"
            )
            _CONSOLE.print(words[:400], markup=False)


def _sum(tallies: dict[str, Tally]) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total


def again(name: str, seed: int, index: int) -> int:
    """Run one case in this process and show what happens."""
    with scratch() as (_, folder):
        try:
            TARGETS[name].run(case_random(name, seed, index), folder)
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
