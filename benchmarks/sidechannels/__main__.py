"""Time, memory and file sizes of commands, for tables that differ in private things only.

python -m benchmarks.sidechannels [--rows 100000] [--rounds 9]

Every run is a forked process, so that its CPU time and its peak memory are its own. All tables take
turns. A difference is called visible where the medians are further apart than three standard errors
of their difference, as the rounds' own scatter tells, and further than the reference is from
itself.
"""

import contextlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

import dpcov
from benchmarks.measured import table
from benchmarks.options import asked
from benchmarks.sidechannels.tables import REFERENCE, SCHEMA, variants, write

# Imported before the forks, so that no run pays for them.
from dpcov.cli.main import app
from dpcov.data.engines import local
from dpcov.data.sources import open_source
from dpcov.mechanisms.registry import names

_SETTINGS = "--schema schema.toml --rho 1 --neighbors add-remove-one --quiet"
_RELEASE = f"{_SETTINGS} --threads 1 --no-ledger -o out"
COMMANDS = {
    "release gaussian, csv": f"release {{stem}}.csv {_RELEASE} --mechanism gaussian",
    "release gaussian, parquet": f"release {{stem}}.parquet {_RELEASE} --mechanism gaussian",
    "release stratified, by group": f"release {{stem}}.parquet {_RELEASE} --mechanism stratified "
    f"--by g",
    "moments checkpoint": f"moments checkpoint {{stem}}.parquet {_SETTINGS} --key key --mechanism "
    f"stratified -o out",
    "schema draft": "schema draft {stem}.csv -o out",
    "schema check": "schema check schema.toml --data {stem}.csv",
}


@dataclass(frozen=True)
class Run:
    """What an observer of one run sees."""

    milliseconds: float
    mebibytes: float
    output_bytes: int
    screen_bytes: int


def run(words: list[str]) -> Run:
    """Fork, run a command, and measure it."""
    for name in ("out", "screen"):
        Path(name).unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _command(words)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(words)} failed: {Path('screen').read_text()}")
    size = Path("out").stat().st_size if Path("out").exists() else 0
    spent = 1000 * (usage.ru_utime + usage.ru_stime)
    return Run(spent, usage.ru_maxrss / 1024, size, Path("screen").stat().st_size)


def _command(words: list[str]) -> None:
    screen = os.open("screen", os.O_CREAT | os.O_WRONLY, 0o600)
    os.dup2(screen, 1)
    os.dup2(screen, 2)
    code = 1
    try:
        app(words, standalone_mode=False)
        code = 0
    finally:
        os._exit(code)


def measure(n_rows: int, rounds: int) -> dict[str, dict[str, list[Run]]]:
    """Return the runs of every command on every table."""
    Path("schema.toml").write_text(SCHEMA)
    dpcov.data.vault.write_key("key")
    tables = variants(n_rows)
    for place, (_, made) in enumerate(tables.values()):
        write(made, Path(f"t{place:02}"))
    found: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    turns = [(command, place, name) for command in COMMANDS for place, name in enumerate(tables)]
    for _ in track(range(rounds), description="Rounds"):
        for command, place, name in turns:
            found[command][name].append(run(COMMANDS[command].format(stem=f"t{place:02}").split()))
    return found


def rows(runs: dict[str, list[Run]]) -> Iterator[tuple[str, ...]]:
    """Yield what the table shows of one command."""
    reference = runs[REFERENCE]
    chance = abs(_difference(runs["the same again"], reference, _time))
    for name, measured in runs.items():
        difference, error = _difference(measured, reference, _time), _error(measured, reference)
        visible = name != REFERENCE and abs(difference) > max(3 * error, chance)
        memory = _difference(measured, reference, lambda each: each.mebibytes)
        yield (
            name,
            f"{np.median([_time(each) for each in measured]):.1f}",
            f"{difference:+.1f} ± {error:.1f}",
            "yes" if visible else "",
            f"{memory:+.1f}",
            _one_of({each.output_bytes for each in measured}),
            _one_of({each.screen_bytes for each in measured}),
        )


def _time(each: Run) -> float:
    return each.milliseconds


def _difference(ours: list[Run], theirs: list[Run], of: Callable[[Run], float]) -> float:
    return float(np.median([of(each) for each in ours]) - np.median([of(each) for each in theirs]))


def _error(ours: list[Run], theirs: list[Run]) -> float:
    """Standard error of the difference of two medians, from the median absolute deviations."""
    variance = 0.0
    for runs in (ours, theirs):
        times = np.array([_time(each) for each in runs])
        scatter = 1.4826 * np.median(np.abs(times - np.median(times)))
        variance += np.pi / 2 * scatter**2 / len(runs)
    return float(np.sqrt(variance))


def _one_of(sizes: set[int]) -> str:
    return " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))


def main() -> None:
    """Measure and print."""
    given = asked(__doc__, rows=100_000, rounds=9)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _warm()
        found = measure(given.rows, given.rounds)
    heads = ("table", "CPU ms", "difference", "visible", "peak MiB, difference")
    for command, runs in found.items():
        lines = [(*heads, "output bytes", "screen bytes"), *rows(runs)]
        print(f"\n{command}, {given.rows:,} rows\n\n{table(lines)}")


def _warm() -> None:
    """Load what commands load late."""
    names()
    assert local is not None
    open_source(np.eye(2)).kinds()
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1)})
    for mechanism in ("gaussian", "stratified"):
        dpcov.release(
            np.eye(3, 1), schema=schema, budget=dpcov.Budget(rho=1), mechanism=mechanism, threads=1
        )


if __name__ == "__main__":
    main()
