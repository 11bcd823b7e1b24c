"""``dpcov release``: from a sensitive file to one publishable file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.noise.entropy import Entropy


def release(
    schema: options.SchemaFile,
    output: Annotated[Path, option("release output", "-o")],
    data: options.TableFile = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    key_file: options.KeyFile = None,
    passphrase_env: options.PassphraseEnv = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: options.Mechanism = "auto",
    option: options.MechanismOptions = None,
    neighbors: options.Relation = "replace-one",
    rows: Annotated[int | None, option("release rows")] = None,
    by: options.By = None,
    geometry: Annotated[str, option("release geometry")] = "private",
    accept_large_delta: Annotated[bool, option("release accept-large-delta")] = False,
    ledger: options.ChargedLedger = None,
    dataset: Annotated[str | None, option("release dataset")] = None,
    no_ledger: Annotated[bool, option("release no-ledger")] = False,
    engine: options.Engine = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    seed: Annotated[int | None, option("release seed")] = None,
    not_private: Annotated[bool, option("release not-private")] = False,
) -> None:
    """Release the second moments of a table once; everything after that costs no privacy."""
    import dpcov
    from dpcov.cli.progress import rows_progress
    from dpcov.privacy.guarantee import check_neighbors

    # Going without an account is a decision that has to be written down.
    if (ledger is None) != no_ledger:
        raise UsageError(
            "Name the ledger to charge (--ledger FILE --dataset NAME), or say --no-ledger; "
            "one of the two."
        )
    # Before anything is opened: a typo must not cost the table or the ledger.
    options.check_output(output, data, schema, ledger, key_file)
    table = _table(options.table_from(data, sql, db, db_env), key_file, passphrase_env)
    budget = options.budget_from(epsilon, delta, rho)
    entropy = _entropy(seed, not_private)
    with rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
        made = dpcov.release(
            table,
            schema=schema,
            budget=budget,
            mechanism=mechanism,
            neighbors=check_neighbors(neighbors),
            n_rows=rows,
            by=by,
            geometry=geometry,
            accept_large_delta=accept_large_delta,
            ledger=ledger,
            dataset=dataset,
            output=output,
            overwrite=overwrite,
            entropy=entropy,
            progress=progress,
            engine=engine,
            threads=threads,
            memory_limit=memory_limit,
            **options.parse_options(option),
        )
    features = options.counted(len(made.feature_names), "feature")
    name = shlex.quote(str(output))
    typer.echo(f"Wrote {output}: {made.guarantee.promise}, {features}.")
    typer.echo(f"Next: dpcov show {name}   ·   dpcov export {name} -o covariance.csv")


def _table(table: Any, key_file: Path | None, passphrase_env: str | None) -> Any:
    # Unlock saved moments; anything else is read as it is.
    if isinstance(table, str) and table.endswith(".moments"):
        from dpcov.data.checkpoint import Checkpoint

        return Checkpoint.load(table, options.key_from(key_file, passphrase_env))
    if key_file is not None or passphrase_env is not None:
        raise UsageError("A key is for saved moments, files that end in .moments.")
    return table


def _entropy(seed: int | None, not_private: bool) -> "Entropy | None":
    from dpcov.noise.entropy import SeededEntropy

    if seed is None:
        return None
    # Whoever knows the seed subtracts the noise.
    if not not_private:
        raise UsageError(
            "--seed makes the noise predictable, so the release protects nobody. "
            "Add --not-private to confirm."
        )
    return SeededEntropy(seed)
