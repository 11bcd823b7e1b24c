"""Options that several commands share, declared once, and what they are turned into."""

import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dpcov.errors import UsageError, few_of, printable
from dpcov.files import ReservedFile, is_same_file
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors
from dpcov.privacy.ledger.ledger import Balance, Ledger

if TYPE_CHECKING:
    from rich.progress import Progress

    from dpcov.data.sources import Query
    from dpcov.data.vault import Key
    from dpcov.published.release import Release

# A password between name and host, or as a parameter of the URL.
_PASSWORD = re.compile(r"://[^/?@]*:[^/?@]+@|[?&]password=")


def _warned(url: str | None) -> str | None:
    # The list of processes, which other users can read, shows the command line.
    if url is not None and _PASSWORD.search(url):
        typer.echo(
            "Warning: other users of this machine can see a password on the command line. "
            "Use PGPASSWORD or .pgpass; for --db also --db-env.",
            err=True,
        )
    return url


_HELP = tomllib.loads(Path(__file__).with_name("help.toml").read_text(encoding="utf-8"))


def option(key: str, *short: str, **more: Any) -> Any:
    """Declare an option whose help is in help.toml; the last word of its key is the flag."""
    return Option(f"--{key.rpartition(' ')[2]}", *short, help=_HELP[key], **more)


def example(command: str) -> str:
    """What the help of a command ends with."""
    return f"Example: {_HELP[f'example {command}']}"


Epsilon = Annotated[str | None, option("epsilon")]
Delta = Annotated[str | None, option("delta")]
Rho = Annotated[str | None, option("rho")]
Relation = Annotated[Neighbors, option("neighbors")]
Post = Annotated[str | None, option("post")]
Overwrite = Annotated[bool, option("overwrite")]
ReleaseFile = Annotated[Path, Argument(help="A release file (.dpcov).", metavar="RELEASE")]
_FILES = "Release files (.dpcov), two or more."
ReleaseFiles = Annotated[list[Path], Argument(help=_FILES, metavar="RELEASE...")]
_SECOND = "The release that the first is taken from: of a later year, or of another site (.dpcov)."
SecondFile = Annotated[Path, Argument(help=_SECOND, metavar="SECOND")]
_PARENTS = "Release of the same table by larger groups, in the same geometry (.dpcov)."
ParentsFile = Annotated[Path, Argument(help=_PARENTS, metavar="PARENTS")]
Group = Annotated[str | None, option("group")]
Pooled = Annotated[bool, option("pooled")]
SchemaFile = Annotated[Path, option("schema")]
_PLACE = "The ledger: an SQLite file, or postgresql://USER@HOST/NAME."
LedgerPlace = Annotated[str, Argument(help=_PLACE, metavar="LEDGER", callback=_warned)]
ChargedLedger = Annotated[str | None, option("charged ledger", callback=_warned)]
ShownLedger = Annotated[str | None, option("shown ledger", callback=_warned)]
_TABLE = "CSV, Parquet, Excel, SPSS, Stata, SAS or another file; - reads CSV from stdin."
TableFile = Annotated[str | None, Argument(help=_TABLE, metavar="DATA")]
Sql = Annotated[str | None, option("sql")]
Db = Annotated[str | None, option("db", callback=_warned)]
DbEnv = Annotated[str | None, option("db-env", metavar="VARIABLE")]
Mechanism = Annotated[str, option("mechanism")]
MechanismOptions = Annotated[list[str] | None, option("option", metavar="NAME=VALUE")]
By = Annotated[str | None, option("by")]
Quiet = Annotated[bool, option("quiet")]
Json = Annotated[bool, option("json")]
KeyFile = Annotated[Path | None, option("key", metavar="FILE")]
Engine = Annotated[str | None, option("engine")]
Threads = Annotated[int | None, option("threads", min=1)]
MemoryLimit = Annotated[float | None, option("memory-limit")]


def budget_from(epsilon: str | None, delta: str | None, rho: str | None) -> Budget:
    """Build a budget from the three options, all decimal strings."""
    # No default: a budget that nobody stated is a promise that nobody made.
    if (epsilon, delta, rho) == (None, None, None):
        raise UsageError("State the budget: --epsilon E --delta D, --epsilon E, or --rho R.")
    return Budget(epsilon=epsilon, delta=delta, rho=rho)


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE pairs; values are TOML scalars (numbers, true, false) or plain words."""
    from inspect import signature

    import dpcov

    parsed: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError("Write mechanism options as NAME=VALUE, for example --option bits=18.")
        # What Python takes beside them; `name` is that of a checkpoint's part.
        if name == "name" or name in signature(dpcov.release).parameters:
            raise UsageError(
                f"{name} is no option of a mechanism. Use the command's own, listed by --help."
            )
        try:
            parsed[name] = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            # Also a number of thousands of digits, or brackets nested as deeply.
            parsed[name] = text
    return parsed


def as_json(found: object) -> str:
    """What was found as indented JSON; what is no number is null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def key_from(key_file: Path | None, *inputs: str | Path) -> "Key":
    """Return the key of saved moments, which must be given and be no other file of the command."""
    from dpcov.data.vault import Key

    if key_file is None:
        raise UsageError("Saved moments need their key: --key FILE.")
    # A schema is public, and whoever has the rows could open what is locked with them.
    if any(is_same_file(key_file, used) for used in inputs):
        raise UsageError(f"{key_file} is no secret key. Make one: dpcov moments key FILE.")
    return Key.from_file(key_file)


def load(release: Path, group: str | None = None, *, pooled: bool = False) -> "Release":
    """Read a release, or one group of it."""
    from dpcov.published.release import Release

    if pooled and group is None:
        raise UsageError("--pooled is about a group. Name it: --group NAME.")
    loaded = Release.load(release)
    return loaded if group is None else loaded.group(group, pooled=pooled)


def balance_of(release: "Release", ledger: str | None) -> Balance | None:
    """What is left of the account that paid for a release, where its ledger was given."""
    if ledger is None:
        return None
    if not (paid := release.manifest.charges):
        raise UsageError("This release was not charged to a ledger. Leave out --ledger.")
    book, names = Ledger(ledger), sorted({each.dataset for each in paid})
    if len(names) > 1:
        raise UsageError(
            f"These releases were charged to several accounts, {few_of(names, 10)}, of which each "
            "has something else left. Leave out --ledger."
        )
    balance, known = book.remaining(names[0]), {entry.id for entry in book.entries(names[0])}
    # What an older copy says to be left may be spent.
    if unknown := sorted({each.entry for each in paid} - known):
        raise UsageError(
            f"This ledger has no entry {unknown[0]} of dataset {names[0]!r}, which paid for the "
            "release: it is another ledger, or an old copy. Give the one that was charged."
        )
    return balance


def check_free(output: Path | None, overwrite: bool) -> None:
    """Refuse before the work what could not be written after it."""
    if output is not None:
        ReservedFile(output, overwrite=overwrite).discard()


def table_from(
    data: str | None, sql: str | None, db: str | None, db_env: str | None
) -> "str | Query":
    """Return what to read: a file, or a query to a database; exactly one of them."""
    if sql is None:
        if (db, db_env) != (None, None):
            raise UsageError("A database needs a statement: --sql 'SELECT ...'.")
        if data is None:
            raise UsageError("Name the table: a file, or --sql 'SELECT ...' with --db URL.")
        return data
    if data is not None:
        raise UsageError("Give a file or --sql, not both.")
    from dpcov.data.sources import Query

    if (db is None) == (db_env is None):
        raise UsageError("Say where --sql runs: --db URL, or --db-env VARIABLE; one of the two.")
    place = db or os.environ.get(db_env or "", "")
    if not place:
        raise UsageError("The variable that --db-env names is not set. Set it to the database URL.")
    return Query(sql, db=place)


def tell_of(made: "Release") -> None:
    """Print warnings and what can be read, below the line that says what was written."""
    for warning in made.manifest.warnings:
        typer.echo(printable(f"  WARNING: {warning}"))
    typer.echo(made.diagnose().headline)


@contextmanager
def rows_progress(*, show_rows: bool, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Show rows read so far (replace-one), or only that work goes on (their number is private)."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    text = "{task.description}" + (
        " {task.completed:,.0f} rows, counted every time they are read" if show_rows else ""
    )
    with _display(quiet, SpinnerColumn(), TextColumn(text), TimeElapsedColumn()) as display:
        task = display.add_task("Reading the table", total=None)
        # Engines do not count where nobody looks.
        yield None if display.disable else lambda rows: display.advance(task, rows)


@contextmanager
def steps_progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[float, int], None]]:
    """Show a bar for public steps whose number is known."""
    with _display(quiet) as display:
        task = display.add_task(what, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


def _display(quiet: bool, *columns: Any) -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    # Nothing is shown where nobody watches: a log file gets no trace of the work.
    # A service may start a program without one.
    hidden = quiet or sys.stderr is None or not sys.stderr.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
