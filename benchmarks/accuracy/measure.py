"""Errors of every contestant on one population, all drawing from the same exact moments.

Repetition k of all contestants at a budget uses the same seed, so that mechanisms with the same
noise are compared on the same draws.  Finished repetitions are kept in a store and not drawn again.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import get_args

import numpy as np

from benchmarks.accuracy.contestants import Contestant, Role
from benchmarks.accuracy.oracle import floors
from benchmarks.accuracy.populations import Population
from benchmarks.accuracy.racing import beaten
from benchmarks.accuracy.tables import Table
from benchmarks.data import MissingTable
from benchmarks.papers import contenders
from benchmarks.papers.figure import contender, table
from benchmarks.papers.results import standard_error
from benchmarks.papers.store import Store
from benchmarks.papers.trials import Outcome, Trial
from dpcov.errors import DpcovError
from dpcov.mechanisms.auto import AUTO

SEED = 1
WRITE_EVERY = 2.0
"""Seconds between two writes to the store: a write takes as long as a release of few columns."""

SETTINGS = 1
"""To be raised when a change of populations or rivals makes stored errors wrong."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Mean error of one contestant at one budget; ``skipped`` says why there is none.

    ``relative`` is the error over the norm of the truth, ``oracle`` the mean error of the best
    eigenvalues on the released eigenvectors, in the same units as ``error``.  ``errors`` are those
    of all ``repetitions``; ``dropped`` says that there are fewer than wanted, because the
    contestant was behind another one or its copy.
    """

    group: str
    population: str
    d: int = 0
    n: int = 0
    budget: str
    contestant: str
    role: str
    reading: str = ""
    repetitions: int = 0
    dropped: bool = False
    error: float = float("nan")
    standard_error: float = float("nan")
    relative: float = float("nan")
    oracle: float = float("nan")
    seconds: float = float("nan")
    skipped: str = ""
    errors: tuple[float, ...] = field(default=(), repr=False)

    def row(self) -> dict[str, object]:
        """For a CSV file: everything but the single repetitions."""
        return {name: value for name, value in asdict(self).items() if name != "errors"}


def key_of(trial: Trial) -> str:
    """Under which an error is stored: the trial, the settings, and for ``auto`` the code.

    A rival's error is found again whatever happened to the code: run with ``--fresh`` after
    changing a rival.
    """
    version = contenders.version(trial.contender) if trial.contender.mechanism == AUTO else SETTINGS
    return sha256(f"{trial.seed}\n{trial.identity}\n{version}".encode()).hexdigest()[:32]


def open_store(path=None) -> Store:
    return Store(path, key=key_of)


def measure(
    population: Population,
    contestants: Sequence[Contestant],
    repetitions: int,
    *,
    store: Store | None = None,
    fresh: Collection[str] = (),
    drawn: Collection[Role] = get_args(Role),
) -> tuple[list[Measurement], str]:
    """Measure all contestants; returns the measurements and a line that says how long it took, or
    what is missing.

    Stored repetitions of the contestants named in ``fresh`` are drawn again. Contestants whose role
    is not among ``drawn`` take part with the repetitions that are stored; where there is no rival,
    nothing is drawn at all.
    """
    data, started = Table(population), time.perf_counter()
    kept = store or open_store()
    competing = [c for c in contestants if population.group.startswith(c.only)]
    found: list[Measurement] = []
    try:
        for numbers in population.budgets:
            race = _Race(population, data, numbers, competing, kept, fresh, drawn)
            found += race.run(repetitions * population.factor)
    except MissingTable as missing:
        return [], f"skipped {population.name}: {missing}"
    return found, f"{population.group}: {population.name} ({time.perf_counter() - started:.0f} s)"


@dataclass(kw_only=True)
class _Entry:
    """One contestant at one budget: values of all repetitions so far."""

    contestant: Contestant
    values: list[dict[str, float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    skipped: str = ""
    dropped: bool = False
    exhausted: bool = False

    @property
    def running(self) -> bool:
        return not (self.skipped or self.dropped or self.exhausted)

    def reading(self) -> str:
        """The best way to read the releases, on average."""
        return min(self.contestant.posts, key=lambda post: float(np.mean(self.errors(post))))

    def errors(self, post: str) -> list[float]:
        return [values[f"error {post}"] for values in self.values]


class _Race:
    """All contestants on one population at one budget."""

    def __init__(
        self,
        population: Population,
        data: Table,
        numbers: Mapping[str, float],
        contestants: Sequence[Contestant],
        store: Store,
        fresh: Collection[str],
        drawn: Collection[Role],
    ) -> None:
        self._population, self._data, self._numbers = population, data, numbers
        self._store, self._fresh, self._drawn = store, fresh, drawn
        self._entries = [_Entry(contestant=contestant) for contestant in contestants]
        self._unwritten: list[Outcome] = []
        self._written = time.perf_counter()

    def run(self, repetitions: int) -> list[Measurement]:
        try:
            self._repeat(repetitions)
        finally:
            self._write()
        return [self._measurement(entry) for entry in self._entries]

    def _repeat(self, repetitions: int) -> None:
        ours = [entry for entry in self._entries if entry.contestant.role == "ours"]
        others = [entry for entry in self._entries if entry.contestant.role != "ours"]
        for repetition in range(repetitions):
            self._advance_all(others, repetition)
            if others and not any(entry.values for entry in others):
                break
            self._advance_all(ours, repetition)
            if repetition + 1 < repetitions:
                self._drop()

    def _advance_all(self, entries: Sequence[_Entry], repetition: int) -> None:
        outcomes = [self._advance(entry, repetition) for entry in entries if entry.running]
        self._unwritten += [outcome for outcome in outcomes if outcome is not None]
        if time.perf_counter() - self._written > WRITE_EVERY:
            self._write()

    def _write(self) -> None:
        self._store.add(self._unwritten)
        self._unwritten, self._written = [], time.perf_counter()

    def _advance(self, entry: _Entry, repetition: int) -> Outcome | None:
        """Find a repetition in the store, or draw it and return what is to be stored."""
        trial = self._trial(entry.contestant, repetition)
        names = [f"error {post}" for post in entry.contestant.posts] + ["truth", "d", "n"]
        names += ["oracle"] if entry.contestant.role == "ours" else []
        stored = {name: self._store.find(trial, name) for name in names}
        if entry.contestant.label not in self._fresh and None not in stored.values():
            entry.values.append(
                {name: value for name, value in stored.items() if value is not None}
            )
            entry.seconds.append(self._store.seconds(trial))
            return None
        if entry.contestant.role not in self._drawn:
            entry.exhausted = True
            return None
        try:
            outcome = self._draw(entry.contestant, trial)
        except DpcovError as error:
            entry.skipped = str(error)
            return None
        entry.values.append(outcome.values)
        entry.seconds.append(outcome.seconds)
        return outcome

    def _trial(self, contestant: Contestant, repetition: int) -> Trial:
        return Trial(
            contender=contender("", contestant.mechanism, **contestant.options),
            table=table(self._population.name, norm=self._population.norm),
            budget=contestant.budget(self._numbers),
            repetition=repetition,
            seed=SEED,
        )

    def _draw(self, contestant: Contestant, trial: Trial) -> Outcome:
        problem = self._data.problem
        if problem.n_features > contestant.largest_d:
            raise DpcovError(f"slow above d = {contestant.largest_d}")
        moments = self._data.moments(contestant.spec(problem, trial.budget))
        started = time.perf_counter()
        release = contestant.release(moments, problem, trial.budget, trial.noise_seed)
        readings = contestant.readings(release, problem, trial.budget)
        seconds = time.perf_counter() - started
        values = {f"error {post}": self._distance(estimate) for post, estimate in readings.items()}
        values |= {"truth": self._distance(0.0 * self._data.truth)}
        values |= {"d": float(problem.n_features), "n": float(self._data.blocks.n)}
        if contestant.role == "ours":
            own = next(iter(readings.values()))
            values["oracle"] = min(self._distance(floor) for floor in floors(release, own, moments))
        return Outcome(trial=trial, values=values, seconds=seconds)

    def _distance(self, estimate: np.ndarray) -> float:
        order = 2 if self._population.norm == "spectral" else "fro"
        return float(np.linalg.norm(estimate - self._data.truth, order))

    def _drop(self) -> None:
        """Take rivals out that are behind the best rival, and improved ones behind the best of
        all."""
        racing = [
            e for e in self._entries if e.running and e.contestant.role in ("rival", "improved")
        ]
        errors = {entry.contestant.label: entry.errors(entry.reading()) for entry in racing}
        rivals = {entry.contestant.label for entry in racing if entry.contestant.role == "rival"}
        behind = beaten({label: errors[label] for label in errors if label in rivals}) | (
            beaten(errors) - rivals
        )
        for entry in racing:
            entry.dropped = entry.contestant.label in behind

    def _measurement(self, entry: _Entry) -> Measurement:
        described = {
            "group": self._population.group,
            "population": self._population.name,
            "budget": " ".join(f"{name}={value:.4g}" for name, value in self._numbers.items()),
            "contestant": entry.contestant.label,
            "role": entry.contestant.role,
        }
        if entry.skipped or not entry.values:
            return Measurement(**described, skipped=entry.skipped or "nothing in the store")
        first, reading = entry.values[0], entry.reading()
        errors = np.array(entry.errors(reading))
        floor = [values["oracle"] for values in entry.values if "oracle" in values]
        return Measurement(
            **described,
            d=int(first["d"]),
            n=int(first["n"]),
            reading=reading,
            repetitions=len(errors),
            dropped=entry.dropped,
            error=float(errors.mean()),
            standard_error=standard_error(errors),
            relative=float(errors.mean() / first["truth"]),
            oracle=float(np.mean(floor)) if floor else float("nan"),
            seconds=float(np.mean(entry.seconds)),
            errors=tuple(errors),
        )
