"""The project's half of the exchange with a worker: write tasks, start it, read answers.

A folder holds ``tasks.json`` and ``tables.npz`` (ours) and ``version.txt``, ``answers.jsonl`` and one ``KEY.npy`` for
each answered task (the worker's).  Promise: a worker that fails or runs out of time loses only what it has not answered.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One call of a peer's method, repeated for at most ``limit_s`` seconds."""

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
    python: Path, worker: Path, tasks: Sequence[Task], tables: Mapping[str, Array], folder: Path, *, limit_s: float
) -> Answers:
    """Run a worker on tasks and read what it answered."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "tasks.json").write_text(json.dumps([asdict(task) for task in tasks]), encoding="utf-8")
    needed = {task.table for task in tasks}
    np.savez(folder / "tables.npz", **{name: rows for name, rows in tables.items() if name in needed})
    ended = _run([str(python), str(worker), str(folder)], limit_s)
    return _read(folder, tasks, ended)


def _run(command: list[str], limit_s: float) -> str:
    """Why the worker ended without answering everything, should it turn out that it did."""
    try:
        ran = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=limit_s, env=os.environ | _ONE_THREAD, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:g} s"
    lines = ran.stderr.strip().splitlines()
    return lines[-1] if ran.returncode and lines else f"the worker ended with status {ran.returncode}"


def _read(folder: Path, tasks: Sequence[Task], ended: str) -> Answers:
    version, written = folder / "version.txt", folder / "answers.jsonl"
    lines = written.read_text(encoding="utf-8").splitlines() if written.is_file() else []
    given = {answer["key"]: answer for answer in map(json.loads, lines)}
    return Answers(
        version=version.read_text(encoding="utf-8") if version.is_file() else "",
        answers={task.key: _answer(folder, task.key, given.get(task.key), ended) for task in tasks},
    )


def _answer(folder: Path, key: str, given: dict[str, Any] | None, ended: str) -> Answer:
    if given is None:
        return Answer(refused=ended)
    if "refused" in given:
        return Answer(refused=given["refused"])
    return Answer(values=np.load(folder / f"{key}.npy"), seconds=tuple(given["seconds"]), note=given["note"])
