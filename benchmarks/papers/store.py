"""Where finished trials are kept, so that a run can be stopped and resumed.

Contract: a value is found again only under the same trial, seed and code, or whatever else the
caller's key holds.
"""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from benchmarks.papers.trials import Outcome, Trial, exact, key_of

_TABLES = """
create table if not exists trials (
    key text primary key, mechanism text, options text, post text, data text, budget text,
    repetition integer, seed text, seconds real
);
create table if not exists results (key text, metric text, value real, primary key (key, metric));
"""


class Store:
    """A file of finished trials, or memory only if no path is given; several processes may write to
    one file."""

    def __init__(self, path: Path | None = None, *, key: Callable[[Trial], str] = key_of) -> None:
        self._key = key
        self._connection = sqlite3.connect(path or ":memory:", timeout=60.0)
        self._connection.executescript(_TABLES)
        self._known = {
            (key, metric): value
            for key, metric, value in self._connection.execute(
                "select key, metric, value from results"
            )
        }
        self._seconds = dict(self._connection.execute("select key, seconds from trials"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def find(self, trial: Trial, metric: str) -> float | None:
        return self._known.get((self._key(trial), metric))

    def seconds(self, trial: Trial) -> float:
        return self._seconds.get(self._key(trial), float("nan"))

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Keep finished trials; skipped ones are tried again next time."""
        with self._connection:
            for outcome in outcomes:
                if not outcome.skipped:
                    self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        key, trial, contender = self._key(outcome.trial), outcome.trial, outcome.trial.contender
        self._connection.execute(
            "insert or replace into trials values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                contender.mechanism,
                str(dict(contender.options)),
                contender.post,
                str(trial.table),
                exact(trial.budget),
                trial.repetition,
                str(trial.seed),
                outcome.seconds,
            ),
        )
        self._seconds[key] = outcome.seconds
        for metric, value in outcome.values.items():
            self._connection.execute(
                "insert or replace into results values (?, ?, ?)", (key, metric, value)
            )
            self._known[key, metric] = value
