"""Show the progress of long work on stderr, and nothing that a guarantee hides."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def rows_progress(*, show_rows: bool, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show rows read so far (replace-one), or only that work goes on (their number is private)."""
    text = "{task.description}" + (" {task.completed:,.0f} rows" if show_rows else "")
    with _display(quiet, SpinnerColumn(), TextColumn(text), TimeElapsedColumn()) as display:
        task = display.add_task("Gathering exact moments", total=None)
        # Engines do not count where nobody looks.
        yield None if display.disable else lambda rows: display.advance(task, rows)


@contextmanager
def steps_progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for public steps whose number is known."""
    with _display(quiet) as display:
        task = display.add_task(what, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


def _display(quiet: bool, *columns: ProgressColumn) -> Progress:
    # Nothing is shown where nobody watches: a log file gets no trace of the work.
    hidden = quiet or not sys.stderr.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
