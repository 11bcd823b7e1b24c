"""Run figures: from declarations to measured curves, through the store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from benchmarks.papers.contenders import missing
from benchmarks.papers.figure import Figure, FigureResult
from benchmarks.papers.results import gather
from benchmarks.papers.store import Store
from benchmarks.papers.trials import Outcome, Wanted, groups, is_large, wanted
from benchmarks.papers.workers import run_groups

Advance = Callable[[int], None]


@dataclass(kw_only=True)
class Study:
    """Figures with everything they want, what was found and what was skipped.

    Parameters
    ----------
    figures : list of Figure
    store : Store
    directory : Path
        Where the data files are.
    seed : int
    """

    figures: list[Figure]
    store: Store
    directory: Path
    seed: int
    skipped: dict[str, dict[str, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {figure.name: self._possible(figure) for figure in self.figures}

    def _possible(self, figure: Figure) -> list[Wanted]:
        """What a figure wants of contenders that exist."""
        absent = {
            (panel.key, line.label): reason
            for panel in figure.panels
            for line in panel.lines
            if (reason := missing(line.contender))
        }
        self.skipped[figure.name] = dict.fromkeys(absent.values())
        every = wanted(figure, self.seed)
        return [value for value in every if (value.panel, value.curve) not in absent]

    def pending(self, large: float = inf) -> list[Wanted]:
        """Values that are not in the store yet; of large tables no more than these repetitions."""
        return [
            value
            for values in self.values.values()
            for value in values
            if self.store.find(value.trial, value.metric) is None
            and (value.trial.repetition < large or not is_large(value.trial.table))
        ]

    def run(
        self, *, jobs: int, pending: list[Wanted], advance: Advance = lambda count: None
    ) -> None:
        """Measure what is pending; may be stopped at any time and run again."""
        reasons: dict[object, str] = {}

        def report(outcomes: list[Outcome]) -> None:
            self.store.add(outcomes)
            reasons.update(
                {outcome.trial: outcome.skipped for outcome in outcomes if outcome.skipped}
            )
            advance(len(outcomes))

        run_groups(groups(pending), directory=self.directory, jobs=jobs, report=report)
        for value in pending:
            if value.trial in reasons:
                self.skipped[value.figure][reasons[value.trial]] = None

    def result(self, figure: Figure) -> FigureResult:
        return gather(figure, self.values[figure.name], self.store, self.skipped[figure.name])


def measure(figures: list[Figure], *, directory: Path, seed: int) -> dict[str, FigureResult]:
    """Run figures in this process and memory; for tests and notebooks."""
    with Store() as store:
        study = Study(figures=figures, store=store, directory=directory, seed=seed)
        study.run(jobs=1, pending=study.pending())
        return {figure.name: study.result(figure) for figure in figures}
