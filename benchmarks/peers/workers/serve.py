"""The worker's half of the exchange: read tasks, call a library, write answers.

Promise: needs NumPy and the standard library only, so that it runs in any peer's environment.  A task that fails is
answered with its reason; every answer is on disk before the next task starts.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

Method = Callable[..., Any]
"""Called with rows (None for a law) and the task's arguments; returns an array, or an array and a note."""


def serve(version: str, methods: dict[str, Method]) -> None:
    """Answer the tasks of the folder named on the command line."""
    folder = Path(sys.argv[1])
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    with np.load(folder / "tables.npz") as archive:
        tables = dict(archive)
    (folder / "version.txt").write_text(version, encoding="utf-8")
    with (folder / "answers.jsonl").open("w", encoding="utf-8") as answers:
        for task in tasks:
            answer = _answer(task, tables.get(task["table"]), methods, folder)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _answer(
    task: dict[str, Any], rows: np.ndarray | None, methods: dict[str, Method], folder: Path
) -> dict[str, Any]:
    """Repeat a task until it is done or its time is over; the first run is never cut short."""
    values, seconds, note, end = [], [], "", perf_counter() + task["limit_s"]
    try:
        while len(values) < task["repetitions"] and (not values or perf_counter() < end):
            start = process_time()
            outcome = methods[task["method"]](rows, **task["arguments"])
            seconds.append(process_time() - start)
            value, note = outcome if isinstance(outcome, tuple) else (outcome, "")
            values.append(np.asarray(value, dtype=np.float64))
    except Exception as error:
        # Whatever a library raises is its answer; the run goes on with the next task.
        return {"key": task["key"], "refused": f"{type(error).__name__}: {error}"[:300]}
    np.save(folder / f"{task['key']}.npy", np.stack(values))
    return {"key": task["key"], "seconds": seconds, "note": note}
