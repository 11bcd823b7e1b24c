"""The project's half of the exchange with a worker: write tasks, start it, read answers.

A folder holds ``tasks.json`` and ``tables.npz`` (ours), and ``version.txt``, ``answers.jsonl`` and
one ``KEY.npy`` for each answered task (the worker's).

Contract: a worker that dies is started again; it loses only the task in which it died.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One call of a peer's method, repeated while ``limit_s`` seconds last; one call may take three
    times as long."""

    key: str
    method: str
    table: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    repetitions: int = 1
    limit_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back for a task.

    Parameters
    ----------
    values : (repetitions, ...) float64
        Empty where the task was refused.
    seconds : tuple of float
        Processor time of every repetition, measured by the worker.
    note : str
        What the library says about the call.
    refused : str or None
        Why there are no values.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    seconds: tuple[float, ...] = ()
    note: str = ""
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All answers of a worker by the key of the task, and the version of the library."""

    version: str
    answers: Mapping[str, Answer]


def ask(
    python: Path,
    worker: Path,
    tasks: Sequence[Task],
    tables: Mapping[str, Array],
    folder: Path,
    *,
    limit_s: float,
) -> Answers:
    """Run a worker on tasks, again for what remains where it ended early, and read what it
    answered."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    needed = {task.table for task in tasks}
    np.savez(
        folder / "tables.npz", **{name: rows for name, rows in tables.items() if name in needed}
    )
    answers: dict[str, Answer] = {}
    end = monotonic() + limit_s
    while rest := [task for task in tasks if task.key not in answers]:
        (folder / "tasks.json").write_text(
            json.dumps([asdict(task) for task in rest]), encoding="utf-8"
        )
        ended = _run([str(python), str(worker), str(folder)], end - monotonic())
        found = _read(folder, rest)
        if not (folder / "version.txt").is_file() or monotonic() >= end:
            answers |= {task.key: Answer(refused=ended) for task in rest} | found
        elif not found:
            # It died in the first task that remained.
            answers[rest[0].key] = Answer(refused=ended)
        answers |= found
    version = folder / "version.txt"
    return Answers(
        version=version.read_text(encoding="utf-8") if version.is_file() else "", answers=answers
    )


def _run(command: list[str], limit_s: float) -> str:
    """Why the worker ended without answering everything, should it turn out that it did."""
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=os.environ | _ONE_THREAD,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no time was left"
    lines = ran.stderr.strip().splitlines()
    return (
        lines[-1] if ran.returncode and lines else f"the worker ended with status {ran.returncode}"
    )


def _read(folder: Path, tasks: Sequence[Task]) -> dict[str, Answer]:
    """Answers to these tasks."""
    written = folder / "answers.jsonl"
    lines = written.read_text(encoding="utf-8").splitlines() if written.is_file() else []
    given = {answer["key"]: answer for answer in map(json.loads, lines)}
    return {task.key: _answer(folder, given[task.key]) for task in tasks if task.key in given}


def _answer(folder: Path, given: dict[str, Any]) -> Answer:
    if "refused" in given:
        return Answer(refused=given["refused"])
    values = np.load(folder / f"{given['key']}.npy")
    return Answer(values=values, seconds=tuple(given["seconds"]), note=given["note"])
