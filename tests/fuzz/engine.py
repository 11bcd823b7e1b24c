"""What every fuzzing case has to obey, whatever is fuzzed.

A case is a pure function of (target, seed, index), so that a finding is named by three words and can be run again.
Either it succeeds, or it raises a DpcovError in a few clean words; it ends within its CPU time, takes little memory,
leaves no file that it does not own, and executes nothing that it was given.
"""

import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dpcov.errors import DpcovError

CASE_SECONDS = 10.0
"""CPU seconds of one case; a hundred times what the slowest usual one takes."""

CASE_BYTES = 384 * 2**20
"""Resident memory that one case may add to the peak of all cases before it."""

SIGNS = ("zebra4711", "4711", "31337")
"""Sentinels that stand in the rows of every table; no message may hold them."""

TEXT_SENTINEL, NUMBER_SENTINEL = "zebra4711", "31337.25"

DETONATIONS: list[object] = []


class Detonator:
    """An object that tells when somebody unpickles it."""

    def __reduce__(self) -> tuple[Callable[[bool], None], tuple[bool]]:
        return detonate, (True,)


def detonate(flag: bool) -> None:
    """Note an execution."""
    DETONATIONS.append(flag)


class HungError(BaseException):
    """Raised by the timer inside a case; nothing that catches Exception can hide it."""


@dataclass(frozen=True)
class Target:
    """Something that takes input from strangers.

    Parameters
    ----------
    name : str
    run : callable
        Makes the case from the random source and runs it in the folder.
    share : float
        Part of the cases of the deep run; quick targets have more.
    milliseconds : float
        What a case takes, roughly: the deep run divides its time by this.
    writes : bool
        Whether a case that succeeds may leave files in the folder, besides its input, whose name begins with ``in``.
    """

    name: str
    run: Callable[[Random, Path], None]
    share: float = 1.0
    milliseconds: float = 1.0
    writes: bool = False


@dataclass
class Finding:
    """A case that broke a promise."""

    target: str
    seed: int
    index: int
    what: str
    place: str


@dataclass
class Tally:
    """What became of many cases."""

    cases: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count another tally's cases as well."""
        self.cases += other.cases
        self.seconds += other.seconds
        self.outcomes.update(other.outcomes)
        self.findings += other.findings


def case_random(target: str, seed: int, index: int) -> Random:
    """Return the random source of a case."""
    return Random(f"{target}/{seed}/{index}")


def fuzz(
    target: Target, seed: int, indices: range, until: float = float("inf")
) -> Iterator[tuple[int, Tally]]:
    """Run cases and yield the index and the tally of each; stop at a moment of ``time.monotonic``."""
    with scratch() as (root, folder):
        for index in indices:
            if time.monotonic() > until:
                return
            yield index, one_case(target, seed, index, root, folder)


@contextmanager
def scratch() -> Iterator[tuple[Path, Path]]:
    """A folder in a folder, in memory where the system offers that; TMPDIR and the working directory are in it."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    folder, temporary, before = root / "work", root / "tmp", Path.cwd()
    folder.mkdir()
    temporary.mkdir()
    saved, tempfile.tempdir = tempfile.tempdir, str(temporary)
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield root, folder
    finally:
        os.chdir(before)
        tempfile.tempdir = saved
        shutil.rmtree(root, ignore_errors=True)


def one_case(target: Target, seed: int, index: int, root: Path, folder: Path) -> Tally:
    """Run one case, clean up behind it, and say what it broke."""
    tally = Tally(cases=1)
    wrong: list[tuple[str, str]] = []
    peak, start = _peak(), time.perf_counter()
    try:
        with _limited_time():
            target.run(case_random(target.name, seed, index), folder)
        outcome = "success"
    except DpcovError as error:
        outcome = type(error).__name__
        wrong += [(f"{outcome} is not clean: {reason}", "") for reason in unclean(error)]
    except HungError:
        outcome = "hang"
        wrong.append(("took too long", ""))
    except BaseException as error:
        outcome = type(error).__name__
        wrong.append((f"{outcome}: {str(error)[:200]}", _place(error)))
        if isinstance(error, KeyboardInterrupt):
            raise
    tally.seconds = time.perf_counter() - start
    if _peak() - peak > CASE_BYTES:
        wrong.append((f"took {(_peak() - peak) >> 20} MiB", ""))
    wrong += [
        (f"left {name}", "")
        for name in _clean(root, folder, target.writes and outcome == "success")
    ]
    if DETONATIONS:
        DETONATIONS.clear()
        wrong.append(("executed what it read", ""))
    tally.outcomes[outcome] += 1
    tally.findings = [Finding(target.name, seed, index, what, place) for what, place in wrong]
    return tally


def unclean(error: DpcovError) -> list[str]:
    """List what a message to a person must not be."""
    text = "\n".join((str(error), *getattr(error, "__notes__", ())))
    return [
        *(["empty"] if not text.strip() else []),
        *(["more than 25 lines"] if len(text.splitlines()) > 25 else []),
        *(["more than 10,000 characters"] if len(text) > 10_000 else []),
        *(["a traceback"] if "Traceback" in text else []),
        *([f"exit code {error.exit_code}"] if not 1 <= error.exit_code <= 8 else []),
        *(f"the sentinel {sign}" for sign in SIGNS if sign in text),
        *(["a chained exception"] if error.__cause__ is not None else []),
    ]


@contextmanager
def _limited_time() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/dpcov/" in frame.filename] or list(frames[-1:])
    last = [*ours[-1:], *frames[-1:]]
    return " > ".join(
        dict.fromkeys(f"{Path(frame.filename).name}:{frame.lineno}" for frame in last)
    )


def _clean(root: Path, folder: Path, keeps: bool) -> list[str]:
    """Remove everything, and name what should not have been there."""
    strange = [name for name in _names(root) if name not in ("work", "tmp")]
    strange += [f"work/{name}" for name in _names(folder) if not (keeps or name.startswith("in"))]
    strange += [f"tmp/{name}" for name in _names(root / "tmp")]
    for name in [*strange, *(f"work/{name}" for name in _names(folder))]:
        path = root / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
            missing_ok=True
        )
    return strange


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found]
