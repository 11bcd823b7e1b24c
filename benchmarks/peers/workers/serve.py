"""The worker's half of the exchange: read tasks, call a library, write answers.

Contract: needs NumPy and the standard library only, so that it runs in any peer's environment. A
task that fails is answered with its reason. Every answer is on disk before the next task starts. A
call that takes too long ends the whole process once that is written down, because native code
cannot be left in any other way; the caller starts it again for what remains.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

Method = Callable[..., Any]
"""Called with rows (None for a law) and the task's arguments; returns an array, or an array and a
note."""

PATIENCE = 3
"""One call may take this many times the time in which calls are repeated."""


@dataclass
class _Run:
    """A task with what it has given so far."""

    task: dict[str, Any]
    folder: Path
    values: list[np.ndarray] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    note: str = ""

    def write(self, refused: str = "") -> None:
        """Append the answer; values that are there count more than a reason why there are no
        more."""
        if self.values:
            np.save(self.folder / f"{self.task['key']}.npy", np.stack(self.values))
            answer = {"key": self.task["key"], "seconds": self.seconds, "note": self.note}
        else:
            answer = {"key": self.task["key"], "refused": refused}
        with (self.folder / "answers.jsonl").open("a", encoding="utf-8") as answers:
            answers.write(json.dumps(answer) + "\n")

    def give_up(self, *_: object) -> None:
        """Answer the alarm: everything that ran is written, and the process ends here."""
        self.write(f"no result within {PATIENCE * self.task['limit_s']:g} s")
        os._exit(0)


def serve(version: str, methods: dict[str, Method]) -> None:
    """Answer the tasks of the folder named on the command line."""
    folder = Path(sys.argv[1])
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    with np.load(folder / "tables.npz") as archive:
        tables = dict(archive)
    (folder / "version.txt").write_text(version, encoding="utf-8")
    for task in tasks:
        _answer(_Run(task, folder), tables.get(task["table"]), methods)


def _answer(run: _Run, rows: np.ndarray | None, methods: dict[str, Method]) -> None:
    """Repeat a task until it is done or its time is over."""
    task, refused = run.task, ""
    end = perf_counter() + task["limit_s"]
    signal.signal(signal.SIGALRM, run.give_up)
    try:
        while len(run.values) < task["repetitions"] and (not run.values or perf_counter() < end):
            signal.setitimer(signal.ITIMER_REAL, PATIENCE * task["limit_s"])
            start = process_time()
            outcome = methods[task["method"]](rows, **task["arguments"])
            run.seconds.append(process_time() - start)
            value, run.note = outcome if isinstance(outcome, tuple) else (outcome, "")
            run.values.append(np.asarray(value, dtype=np.float64))
    except Exception as error:
        # Whatever a library raises is its answer; the run goes on with the next task.
        refused = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    run.write(refused)
