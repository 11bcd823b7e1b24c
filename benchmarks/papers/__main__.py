"""Measure the figures of the papers again.

    python -m benchmarks.papers all --quick --out DIR [--data DIR] [--jobs N] [--seed S]

Stop it at any time: the same command goes on where it was.  What to expect is said in
docs/measured/papers.md.
"""

import argparse
import os
import platform
from importlib.metadata import version
from math import inf
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from benchmarks.data import data_directory
from benchmarks.papers.catalog import FIGURES
from benchmarks.papers.figure import Effort
from benchmarks.papers.output import write
from benchmarks.papers.page import Section
from benchmarks.papers.store import Store
from benchmarks.papers.study import Study
from benchmarks.papers.trials import MANY_COLUMNS, MANY_ROWS

STORE = "store.sqlite"


def main(arguments: list[str] | None = None) -> None:
    chosen = _parse(arguments)
    effort: Effort = "quick" if chosen.quick else "full"
    names = list(FIGURES) if "all" in chosen.figures else list(dict.fromkeys(chosen.figures))
    chosen.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    with Store(chosen.out / STORE) as store:
        study = Study(
            figures=[FIGURES[name](effort) for name in names],
            store=store,
            directory=data_directory(chosen.data),
            seed=chosen.seed,
        )
        _run(study, chosen, console)
        facts = (
            f"dpcov {version('dpcov')} · {effort} run · seed {chosen.seed} · Python "
            f"{platform.python_version()}"
        )
        sections = write(study, chosen.out, facts)
    _report(study, sections, console)
    console.print(f"Written to {chosen.out}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("figures", nargs="+", choices=["all", *FIGURES], metavar="figure",
                        help=f"all, or any of: {', '.join(FIGURES)}")  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="fewer points and repetitions: minutes, not hours"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="where results, drawings and pages go"
    )
    parser.add_argument("--data", type=Path, help="where the data files are (or set DPCOV_DATA)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--large", type=int, default=inf, metavar="N",
                        help=f"repetitions on tables of {MANY_COLUMNS} columns or {MANY_ROWS} rows "
                        "and more (default: all)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of data and noise (default: 0)")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return chosen


def _run(study: Study, chosen: argparse.Namespace, console: Console) -> None:
    pending = study.pending(chosen.large)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("draws", total=len({value.trial for value in pending}))
        study.run(
            jobs=chosen.jobs, pending=pending, advance=lambda count: progress.advance(task, count)
        )


def _report(study: Study, sections: list[Section], console: Console) -> None:
    for line in dict.fromkeys(line for lines in study.skipped.values() for line in lines):
        console.print(line, style="dim", markup=False)
    for section in sections:
        for claim, verdict in section.verdicts:
            color = {"confirmed": "green", "failed": "red"}.get(verdict.status, "yellow")
            console.print(
                f"[{color}]{verdict.status:12}[/] {section.result.figure.name:16}", end=""
            )
            console.print(f"{claim.text}: {verdict.reason}", markup=False)


if __name__ == "__main__":
    main()
