"""From figures to trials, and how a group of trials on one table is run.

A trial is one draw of one contender on one table under one budget, measured by one or more metrics.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.data import MissingTable
from benchmarks.papers import contenders, extras, metrics, tables
from benchmarks.papers.figure import Contender, Figure, Point, Table
from benchmarks.papers.seeds import seed_of
from benchmarks.papers.sources import fingerprint
from dpcov import Budget, DpcovError

MANY_COLUMNS, MANY_ROWS = 400, 400_000
SECONDS = "seconds"
"""The metric that is the processor time of a draw."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is drawn; ``seed`` is that of the whole run."""

    contender: Contender
    table: Table
    budget: Budget
    repetition: int
    seed: int

    @property
    def identity(self) -> str:
        """Everything that the result depends on, but the code."""
        c = self.contender
        return (
            f"{c.mechanism} {c.options} {c.post} | {self.table} | {exact(self.budget)} | "
            f"{self.repetition}"
        )

    @property
    def noise_seed(self) -> int:
        """The same for all contenders, so that they are compared on the same draws and aliases
        agree."""
        return seed_of(self.seed, self.table, exact(self.budget), self.repetition)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A value that a panel shows."""

    figure: str
    panel: str
    curve: str
    x: float
    metric: str
    trial: Trial


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Measured values of one trial by metric, or the reason why there are none."""

    trial: Trial
    values: dict[str, float]
    seconds: float = 0.0
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Group:
    """Trials on one table, with the metrics each needs."""

    table: Table
    seed: int
    trials: tuple[tuple[Trial, tuple[str, ...]], ...]


def wanted(figure: Figure, seed: int) -> Iterator[Wanted]:
    """Every value that a figure shows."""
    for panel in figure.panels:
        for line in panel.lines:
            for point in line.points:
                for repetition in range(figure.repetitions):
                    yield Wanted(
                        figure=figure.name,
                        panel=panel.key,
                        curve=line.label,
                        x=point.x,
                        metric=point.metric or line.metric,
                        trial=_trial(line.contender, point, repetition, seed),
                    )


def _trial(contender: Contender, point: Point, repetition: int, seed: int) -> Trial:
    table = replace(point.table, draw=repetition) if point.table.redrawn else point.table
    nothing_extra = replace(contender, label="", delta=None)
    budget = contender.budget(point.budget)
    return Trial(
        contender=nothing_extra, table=table, budget=budget, repetition=repetition, seed=seed
    )


def groups(values: Iterable[Wanted]) -> list[Group]:
    """Sort trials by table, so that rows and moments are made once; large tables first."""
    names: dict[Trial, set[str]] = defaultdict(set)
    for value in values:
        names[value.trial].add(value.metric)
    by_table: dict[Table, list[Trial]] = defaultdict(list)
    for trial in names:
        by_table[trial.table].append(trial)
    made = [
        Group(
            table=table,
            seed=trials[0].seed,
            trials=tuple((trial, tuple(sorted(names[trial]))) for trial in trials),
        )
        for table, trials in by_table.items()
    ]
    return sorted(made, key=lambda group: -len(group.trials) * _size(group.table))


def is_large(table: Table) -> bool:
    """Whether draws on a table take so long that a run may begin with a few of them."""
    rows = dict(table.parameters).get("n") or 0
    return _columns(table) >= MANY_COLUMNS or float(rows) >= MANY_ROWS


def _size(table: Table) -> float:
    """Rough number of columns squared, for the order of work only."""
    return _columns(table) ** 2


def _columns(table: Table) -> float:
    known = dict(table.parameters)
    columns = known.get("d") or known.get("p") or {"mnist": 784, "adult": 108}.get(table.kind, 30)
    return float(columns)


def run_group(group: Group, directory: Path, report: Callable[[Outcome], None]) -> None:
    """Run the trials of a table one after the other; what cannot run once is not tried again."""
    try:
        data = _load(group, directory)
    except MissingTable as reason:
        for trial, _ in group.trials:
            report(
                Outcome(trial=trial, values={}, skipped=f"{group.table.kind}: {reason}; skipped")
            )
        return
    refused: dict[tuple[Contender, Budget], str] = {}
    for trial, names in group.trials:
        reason = refused.get((trial.contender, trial.budget)) or _too_large(trial.contender, data)
        outcome = (
            Outcome(trial=trial, values={}, skipped=reason) if reason else _run(trial, names, data)
        )
        if outcome.skipped:
            refused[trial.contender, trial.budget] = outcome.skipped
        report(outcome)


def _load(group: Group, directory: Path) -> tables.Data:
    if group.table.kind in extras.LOADERS:
        return extras.load(group.table, np.random.default_rng(seed_of(group.seed, group.table)))
    return tables.load(group.table, seed=group.seed, directory=directory)


def _too_large(contender: Contender, data: tables.Data) -> str | None:
    d = data.rows.shape[1]
    if contender.largest_d is None or d <= contender.largest_d:
        return None
    return f"{contender.mechanism}: not run above {contender.largest_d} columns in this setting"


def _run(trial: Trial, names: tuple[str, ...], data: tables.Data) -> Outcome:
    start = process_time()
    try:
        estimate = contenders.estimate(trial.contender, data, trial.budget, trial.noise_seed)
    except DpcovError as error:
        return Outcome(trial=trial, values={}, skipped=f"{trial.contender.mechanism}: {error}")
    except Exception as error:
        # One broken mechanism must not end a run of hours; the page says which one and why.
        return Outcome(
            trial=trial,
            values={},
            skipped=f"{trial.contender.mechanism} BROKE on {trial.table}: {error!r}",
        )
    seconds = process_time() - start
    values = {
        name: seconds if name == SECONDS else _measure(name, estimate, data) for name in names
    }
    return Outcome(trial=trial, values=values, seconds=seconds)


def _measure(metric: str, outcome: tables.Rows, data: tables.Data) -> float:
    module = extras if metric.partition(":")[0] in extras.METRICS else metrics
    return module.measure(metric, outcome, data)


def key_of(trial: Trial) -> str:
    """Under which a result is stored: the trial, the seed of the run and the code."""
    version = contenders.version(trial.contender)
    if trial.table.kind in extras.LOADERS:
        version += fingerprint(extras.__name__)
    return sha256(f"{trial.seed}\n{trial.identity}\n{version}".encode()).hexdigest()[:32]


def exact(budget: Budget) -> str:
    """A budget in exact numbers."""
    parts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)
