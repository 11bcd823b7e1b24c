"""One mutant's trial: its tests run in a process of their own against a copy of the package, to the first failure.

The copy keeps compiled files of untouched modules; nothing else is written, and nothing of it outlives the trial.
A process that uses up its processor time, or far more on the clock, is ended with everything it started.
"""

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import pytest

Groups = Sequence[Sequence[str]]

_SHARED = [
    "numpy",
    "scipy.stats",
    "scipy.linalg",
    "pyarrow.parquet",
    "hypothesis",
    "mpmath",
    "pytest",
    "typer",
]
"""Imported once, before the processes part; never ``dpcov`` itself."""
_MEMORY = 16 * 2**30
_PATIENCE = 60.0, 6.0
"""Seconds on the clock allowed, and more for each second of processor time: the machine may have other work."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What happened: the test that failed first, if one did, and the processor seconds."""

    outcome: Literal["killed", "survived", "timeout"]
    test: str = ""
    seconds: float = 0.0


class Bench:
    """A copy of a package, where one module at a time is replaced."""

    def __init__(self, package: Path, folder: Path, root: Path) -> None:
        self.copy, self.root = folder / package.name, root
        shutil.copytree(package, self.copy)
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(_SHARED)

    def run(self, groups: Groups, seconds: float, path: Path | None = None, source: str = "") -> Verdict:
        """Run groups of tests with the module at a path below the package replaced; without a path, as it is.

        A group is collected when all before it have passed.
        """
        if path is None:
            return self._run(groups, seconds)
        target = self.copy / path
        kept = target.read_bytes(), target.stat()
        try:
            target.write_text(source, encoding="utf-8")
            for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
                compiled.unlink()
            return self._run(groups, seconds)
        finally:
            target.write_bytes(kept[0])
            os.utime(target, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))

    def _run(self, groups: Groups, seconds: float) -> Verdict:
        listening, saying = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(groups, self.copy, self.root, seconds, saying))
        process.start()
        saying.close()
        try:
            heard = listening.poll(_PATIENCE[0] + _PATIENCE[1] * seconds)
            return Verdict(**listening.recv()) if heard else Verdict(outcome="timeout", seconds=seconds)
        except EOFError:
            process.join()
            ended = process.exitcode == -signal.SIGXCPU
            return Verdict(
                outcome="timeout" if ended else "killed", test=f"process ended: {process.exitcode}"
            )
        finally:
            listening.close()
            _end(process.pid)
            process.join()


def _end(group: int | None) -> None:
    """End a process and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        if group is not None:
            os.killpg(group, signal.SIGKILL)


class _First:
    """Remembers the first failure."""

    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.test:
            self.test = f"{report.nodeid} (import)"


def _work(groups: Groups, copy: Path, root: Path, seconds: float, saying: Connection) -> None:
    """Run in the trial's own process."""
    folder, package = str(copy.parent), copy.name
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
    os.chdir(root)
    os.environ.update(
        PYTHONPATH=folder,
        PYTHONDONTWRITEBYTECODE="1",
        HYPOTHESIS_STORAGE_DIRECTORY=str(Path(folder, "examples")),
    )
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    first, started = _First(), time.process_time()
    plain = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "--hypothesis-seed=0"]
    code = pytest.ExitCode.OK
    for tests in groups:
        code = pytest.ExitCode(pytest.main([*plain, *tests], plugins=[first]))
        if code != pytest.ExitCode.OK:
            break
    used = time.process_time() - started
    outcome = "survived" if code == pytest.ExitCode.OK else "killed"
    test = first.test or ("" if outcome == "survived" else f"{code.name}: {tests[0]}")
    saying.send({"outcome": outcome, "test": test, "seconds": used})
    saying.close()
