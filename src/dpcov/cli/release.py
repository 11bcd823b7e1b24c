"""``dpcov release`` and ``dpcov survey``: from a sensitive file to one publishable file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcov.cli import options
from dpcov.cli.options import option
from dpcov.errors import UsageError
from dpcov.files import check_output
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors
from dpcov.published.digits import plural

if TYPE_CHECKING:
    from dpcov.data.schema.schema import Schema
    from dpcov.noise.entropy import SeededEntropy


def release(
    schema: options.SchemaFile,
    output: Annotated[Path | None, option("release output", "-o")] = None,
    data: options.TableFile = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    key_file: options.KeyFile = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: options.Mechanism = "auto",
    option: options.MechanismOptions = None,
    neighbors: options.Relation = "replace-one",
    rows: Annotated[int | None, option("release rows", min=1)] = None,
    by: options.By = None,
    title: Annotated[str | None, option("release title")] = None,
    geometry: Annotated[str | None, option("release geometry")] = None,
    accept_large_delta: Annotated[bool, option("release accept-large-delta")] = False,
    ledger: options.ChargedLedger = None,
    dataset: Annotated[str | None, option("release dataset")] = None,
    no_ledger: Annotated[bool, option("release no-ledger")] = False,
    engine: options.Engine = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    seed: Annotated[int | None, option("release seed", min=0)] = None,
    not_private: Annotated[bool, option("release not-private")] = False,
    dry_run: Annotated[bool, option("release dry-run")] = False,
) -> None:
    """Release the second moments of a table once; everything after that costs no privacy."""
    import dpcov
    from dpcov.data.sources import file_of, is_table
    from dpcov.pipeline.publish import unspent
    from dpcov.privacy.meaning import warn_of_large_delta

    if dry_run:
        chosen = {"mechanism": mechanism, "by": by, **options.parse_options(option)}
        budget = options.budget_from(epsilon, delta, rho)
        if not accept_large_delta:
            warn_of_large_delta(budget.promise, neighbors, rows)
        _rehearse(schema, budget, rows, neighbors, geometry or "private", chosen)
        return
    with unspent():
        if output is None:
            raise UsageError("Name the file to write: -o FILE.")
        _check_account(ledger, no_ledger=no_ledger)
        # Before anything is opened: a typo must not cost the table or the ledger.
        given = options.table_from(data, sql, db, db_env)
        check_output(output, file_of(given), schema, ledger, key_file, geometry)
        if is_table(output):
            raise UsageError(
                f"{output} is called as a table is, and a release is none: end its name in .dpcov. "
                "Then `dpcov export` writes its matrix as a table."
            )
        table = _table(given, key_file)
        budget = options.budget_from(epsilon, delta, rho)
        chosen, entropy = options.parse_options(option), _entropy(seed, not_private=not_private)
        declared = schema if title is None else _titled(schema, title)
    with options.rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
        made = dpcov.release(
            table,
            schema=declared,
            budget=budget,
            mechanism=mechanism,
            neighbors=neighbors,
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
            **chosen,
        )
    features, name = plural(len(made.feature_names), "feature"), shlex.quote(str(output))
    groups = f" of each of {plural(len(made.group_names), 'group')}" if made.group_names else ""
    typer.echo(f"Wrote {output}: {made.guarantee.promise}, {features}{groups}.")
    options.tell_of(made)
    typer.echo(f"Next: dpcov doctor {name}   ·   dpcov export {name} -o covariance.csv")


def _titled(schema: Path, title: str) -> "Schema":
    from msgspec.structs import replace

    from dpcov.data.schema.schema import Schema

    return replace(Schema.from_toml(schema, complete=True), title=title)


def _rehearse(
    schema: Path,
    budget: Budget,
    rows: int | None,
    neighbors: Neighbors,
    geometry: str,
    chosen: dict[str, Any],
) -> None:
    # The table is not opened: what a rehearsal prints must not depend on it.
    from dpcov.cli.plan import tell
    from dpcov.data.schema.schema import Schema
    from dpcov.pipeline.plan.rehearsal import Rehearsal
    from dpcov.pipeline.terms import read_geometry

    if rows is None:
        raise UsageError("A dry run reads no rows. Say how many the table has: --rows NUMBER.")
    declared = Schema.from_toml(schema, complete=True)
    if read_geometry(geometry) is not None:
        # Made-up rows do not lie where those of a known geometry do.
        typer.echo(
            "Rehearsed as if the release found its geometry itself, which costs a little more."
        )
        geometry = "private"
    terms: Any = {"neighbors": neighbors, "geometry": geometry, "options": chosen}
    tell(Rehearsal(schema=declared, n_rows=rows, **terms), budget)


def survey(
    schema: options.SchemaFile,
    output: Annotated[Path, option("survey output", "-o")],
    data: options.TableFile = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    for_epsilon: Annotated[str | None, option("survey for-epsilon")] = None,
    for_delta: Annotated[str | None, option("survey for-delta")] = None,
    for_rho: Annotated[str | None, option("survey for-rho")] = None,
    neighbors: options.Relation = "replace-one",
    rows: Annotated[int | None, option("release rows", min=1)] = None,
    by: options.By = None,
    accept_large_delta: Annotated[bool, option("release accept-large-delta")] = False,
    ledger: options.ChargedLedger = None,
    dataset: Annotated[str | None, option("release dataset")] = None,
    no_ledger: Annotated[bool, option("release no-ledger")] = False,
    engine: options.Engine = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    seed: Annotated[int | None, option("release seed", min=0)] = None,
    not_private: Annotated[bool, option("release not-private")] = False,
) -> None:
    """Find centers and scales of columns for later releases; charged once, a budget of its own."""
    import dpcov
    from dpcov.pipeline.publish import unspent
    from dpcov.published.assembly import SEEDED_WARNING

    with unspent():
        _check_account(ledger, no_ledger=no_ledger)
        table = options.table_from(data, sql, db, db_env)
        budget, coming = options.budget_from(epsilon, delta, rho), (for_epsilon, for_delta, for_rho)
        expected = None if coming == (None,) * 3 else options.budget_from(*coming)
        entropy = _entropy(seed, not_private=not_private)
    with options.rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
        found = dpcov.survey(
            table,
            schema=schema,
            budget=budget,
            coming=expected,
            neighbors=neighbors,
            n_rows=rows,
            by=by,
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
        )
    typer.echo(f"Wrote {output}: public, costs nothing to use.")
    if found.seeded:
        typer.echo(f"  WARNING: {SEEDED_WARNING}")
    typer.echo(f"Next: dpcov release --geometry {shlex.quote(str(output))} ...")


def _check_account(ledger: str | None, *, no_ledger: bool) -> None:
    # Going without an account is a decision that has to be written down.
    if (ledger is None) != no_ledger:
        raise UsageError("Give --ledger FILE --dataset NAME, or --no-ledger; one of the two.")


def _entropy(seed: int | None, *, not_private: bool) -> "SeededEntropy | None":
    from dpcov.noise.entropy import SeededEntropy

    # Whoever knows the seed subtracts the noise.
    if seed is not None and not not_private:
        raise UsageError("With --seed a release protects nobody. Confirm with --not-private.")
    return None if seed is None else SeededEntropy(seed)


def _table(table: Any, key_file: Path | None) -> Any:
    # Unlock saved moments; anything else is read as it is.
    if isinstance(table, str) and table.endswith(".moments"):
        from dpcov.data.checkpoint import Checkpoint

        return Checkpoint.load(table, options.key_from(key_file))
    if key_file is not None:
        raise UsageError("A key is for saved moments, files that end in .moments.")
    return table
