"""Options that several commands share, declared once."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.data.sources.sql import Query
    from dpcov.data.vault import Key
    from dpcov.privacy.budget import Budget
    from dpcov.privacy.guarantee import Neighbors
    from dpcov.privacy.ledger.ledger import Balance
    from dpcov.published.release import Release

_PASSWORD = re.compile(r"://[^/?@]*:[^/?@]+@|[?&]password=")


def _warned(url: str | None) -> str | None:
    """Warn of a password that the list of processes shows."""
    if url is not None and _PASSWORD.search(url):
        typer.echo(
            "Warning: other users of this machine can see a password on the command line. Use PGPASSWORD or .pgpass; "
            "for --db also --db-env.",
            err=True,
        )
    return url


Epsilon = Annotated[
    str | None, typer.Option("--epsilon", help="Privacy budget epsilon, a decimal number.")
]
Delta = Annotated[
    str | None, typer.Option("--delta", help="Privacy budget delta, for example 1e-6.")
]
Rho = Annotated[
    str | None,
    typer.Option("--rho", help="Privacy budget rho of zCDP, instead of epsilon and delta."),
]
NeighborsOption = Annotated[
    str,
    typer.Option(
        "--neighbors",
        help="replace-one: the number of rows is public. add-remove-one: it is private, and estimated.",
    ),
]
Post = Annotated[
    str | None,
    typer.Option(
        "--post",
        help="Post-processing: none (unbiased), psd, clip, projection, shrink, threshold; free. "
        "Default: the mechanism's.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]
ReleaseFile = Annotated[Path, typer.Argument(help="A release file (.dpcov).", metavar="RELEASE")]
_LEDGER_HELP = "an SQLite file, or postgresql://USER@HOST/NAME."
LedgerPlace = Annotated[
    str, typer.Argument(help=f"The ledger: {_LEDGER_HELP}", metavar="LEDGER", callback=_warned)
]
ChargedLedger = Annotated[
    str | None,
    typer.Option("--ledger", help=f"Ledger that is charged: {_LEDGER_HELP}", callback=_warned),
]
ShownLedger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help=f"Also show what the dataset's ledger has left; for the publisher: {_LEDGER_HELP}",
        callback=_warned,
    ),
]
TableFile = Annotated[
    str | None,
    typer.Argument(
        help="CSV, Parquet, Arrow, npy or npz file; - reads CSV from stdin.", metavar="DATA"
    ),
]
Sql = Annotated[
    str | None,
    typer.Option(
        "--sql", help="A SELECT whose result is the table, instead of a file; needs --db."
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        help="Database of --sql: duckdb:///FILE, duckdb:// (over Parquet and CSV files), "
        "postgresql://USER@HOST/NAME, sqlite:///FILE, or any SQLAlchemy URL.",
        callback=_warned,
    ),
]
DbEnv = Annotated[
    str | None,
    typer.Option(
        "--db-env",
        metavar="VARIABLE",
        help="Environment variable that holds the database URL, so that its password is not seen.",
    ),
]

MechanismOption = Annotated[
    str,
    typer.Option("--mechanism", help="Which mechanism draws the noise; auto chooses and says why."),
]
MechanismOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Option of the mechanism; repeatable."),
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Categorical column: one matrix per category, at no further cost."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress display.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Key file that locks saved moments.")
]
PassphraseEnv = Annotated[
    str | None,
    typer.Option(
        "--passphrase-env",
        metavar="VARIABLE",
        help="Environment variable with a passphrase, instead of --key.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", help="Where to gather moments: local, dask, spark or device; same result."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of the local engine; all cores by default."),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        "--memory-limit", help="GiB that gathering may take; what cannot fit is refused first."
    ),
]


def budget_from(epsilon: str | None, delta: str | None, rho: str | None) -> "Budget":
    """Build a budget from the three options, all decimal strings."""
    from dpcov.privacy.budget import Budget

    if epsilon is None and delta is None and rho is None:
        raise UsageError(
            "State the privacy budget: --epsilon E --delta D, --epsilon E, or --rho R."
        )
    return Budget(epsilon=epsilon, delta=delta, rho=rho)


def neighbors_from(neighbors: str) -> "Neighbors":
    """Return the relation, or say which ones exist."""
    from dpcov.privacy.guarantee import check_neighbors

    return check_neighbors(neighbors)


def counted(number: int, thing: str) -> str:
    """Write a number of things: 1 feature, 2 features."""
    return f"{number} {thing}" + ("s" if number != 1 else "")


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE pairs; values are TOML scalars (numbers, true, false) or plain words."""
    import tomllib

    parsed: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError("Write mechanism options as NAME=VALUE, for example --option bits=18.")
        try:
            parsed[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[name] = text
    return parsed


def key_from(key_file: Path | None, passphrase_env: str | None) -> "Key":
    """Return the key of saved moments; exactly one of the two must be given."""
    from dpcov.data.vault import Key

    if (key_file is None) == (passphrase_env is None):
        raise UsageError(
            "Saved moments need their key: --key FILE, or --passphrase-env VARIABLE; one of the two."
        )
    if key_file is not None:
        return Key.from_file(key_file)
    passphrase = os.environ.get(passphrase_env or "", "")
    if not passphrase:
        raise UsageError(
            "The variable that --passphrase-env names is not set. Set it to the passphrase."
        )
    return Key.from_passphrase(passphrase)


def balance_of(release: "Release", ledger: str | None) -> "Balance | None":
    """What is left of the account that paid for a release, where its ledger was given."""
    if ledger is None:
        return None
    from dpcov.privacy.ledger.ledger import Ledger

    spent = release.manifest.spent
    if spent is None:
        raise UsageError("This release was not charged to a ledger. Leave out --ledger.")
    return Ledger(ledger).remaining(spent.dataset)


def check_output(output: Path, *inputs: object) -> None:
    """Refuse to write over what the command reads, also with --force: rows or a ledger would be lost."""
    for used in inputs:
        if (
            isinstance(used, str | Path)
            and output.exists()
            and Path(used).exists()
            and output.samefile(used)
        ):
            raise UsageError(
                f"{output} is read by this command, so it is not written. Choose another name."
            )


def table_from(
    data: str | None, sql: str | None, db: str | None, db_env: str | None
) -> "str | Query":
    """Return what to read: the file, or the query to a database; exactly one of them must be given."""
    if sql is None:
        if db is not None or db_env is not None:
            raise UsageError("A database needs a statement: --sql 'SELECT ...'.")
        if data is None:
            raise UsageError("Name the table: a file, or --sql 'SELECT ...' with --db URL.")
        return data
    if data is not None:
        raise UsageError("Give a file or --sql, not both.")
    from dpcov.data.sources.sql import Query

    return Query(sql, db=_database_url(db, db_env))


def _database_url(db: str | None, db_env: str | None) -> str:
    if (db is None) == (db_env is None):
        raise UsageError("Say where --sql runs: --db URL, or --db-env VARIABLE; one of the two.")
    if db_env is not None:
        url = os.environ.get(db_env, "")
        if not url:
            raise UsageError(
                "The variable that --db-env names is not set. Set it to the database URL."
            )
        return url
    assert db is not None
    return db
