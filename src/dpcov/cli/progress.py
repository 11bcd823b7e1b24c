"""Progress of long work, on stderr, without saying anything that a guarantee hides."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int], None]


@contextmanager
def rows_progress(*, show_rows: bool, quiet: bool) -> Iterator[Progress | None]:
    """Show rows read so far (replace-one), or only that work goes on (the number of rows is private).

    Nothing is shown where nobody watches: a log file gets no trace of the work.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Display
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    text = "{task.description}" + (" {task.completed:,.0f} rows" if show_rows else "")
    columns = (SpinnerColumn(), TextColumn(text), TimeElapsedColumn())
    with Display(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("Gathering exact moments", total=None)
        yield lambda rows: display.advance(task, rows)


@contextmanager
def steps_progress(
    what: str, *, quiet: bool = False
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar for public steps whose number is known; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Display

    with Display(console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)
