"""``dpcov schema``: draft a schema by names, write out its patterns, check it and its table."""

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from dpcov.cli import options
from dpcov.cli.options import example, option
from dpcov.errors import UsageError, few_of, printable
from dpcov.files import check_output, write_file
from dpcov.published.digits import plural

if TYPE_CHECKING:
    from dpcov.data.schema.schema import Schema

app = typer.Typer(no_args_is_help=True, help="Write and check the public description of a table.")


def _json_schema(wanted: bool) -> None:
    if wanted:
        from dpcov.data.schema.reference import json_schema

        typer.echo(json_schema())
        raise typer.Exit


_JSON_SCHEMA = option("schema json-schema", callback=_json_schema, is_eager=True)


@app.callback()
def schema(json_schema: Annotated[bool, _JSON_SCHEMA] = False) -> None:
    """Write and check the public description of a table."""


@app.command(epilog=example("schema draft"))
def draft(
    data: options.TableFile = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    codebook: Annotated[Path | None, option("schema codebook", metavar="FILE")] = None,
    delimiter: Annotated[str | None, option("schema delimiter")] = None,
    quote: Annotated[str | None, option("schema quote")] = None,
    decimal: Annotated[str | None, option("schema decimal")] = None,
    encoding: Annotated[str | None, option("schema encoding")] = None,
    header: Annotated[int | None, option("schema header", min=1)] = None,
    part: Annotated[str | None, option("schema part", metavar="NAME")] = None,
    ordered: Annotated[list[str] | None, option("schema ordered", metavar="NAME")] = None,
    output: Annotated[Path | None, option("schema output", "-o")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write column names and types, with bounds and categories left for you to fill in.

    Bounds must come from public knowledge (a questionnaire, a law, physics), never from the rows:
    the draft contains no value of the data.  A codebook may declare them: a Data Package, CSVW,
    DDI-Codebook, or a file of SPSS, Stata or SAS, of which the dictionary is read.
    """
    from dpcov.data.layout import NAMES_BELOW, FileLayout
    from dpcov.data.schema.codebooks import read_codebook
    from dpcov.data.schema.draft import describe
    from dpcov.data.sources import file_of, open_source

    said = {"delimiter": delimiter, "quote": quote, "encoding": encoding, "header": header}
    said["part"] = part
    is_named = codebook is None or (data, sql, db, db_env) != (None,) * 4
    table = options.table_from(data, sql, db, db_env) if is_named else None
    if output is not None:
        check_output(output, file_of(table), codebook)
    known = None if codebook is None else read_codebook(codebook, FileLayout.of(**said))
    layout = FileLayout.of(known.file if known else None, **said)
    # Names and types only: a bound read from the rows would leak them.
    source = None if table is None else open_source(table, layout)
    made = describe(source, known, layout, decimal, ordered or ())
    if made.absent:
        lacking = plural(len(made.absent), "column")
        listed = few_of(made.absent, 10)
        typer.echo(f"The table lacks {lacking} of the codebook: {listed}", err=True)
    if source is not None and source.unnamed:
        unread = f"{plural(source.unnamed, 'column')} of the sheet without a name: not read."
        typer.echo(f"{unread} {NAMES_BELOW}", err=True)
    next_step = f"Fill in bounds and categories; then: dpcov schema check {output}"
    _write(made.dumps(), output, overwrite, f"Wrote {output}. {next_step}")


@app.command(epilog=example("schema resolve"))
def resolve(
    schema: Annotated[Path, Argument(help="A schema file (TOML).")],
    data: Annotated[str | None, option("schema names data")] = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    output: Annotated[Path | None, option("schema output", "-o")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write out the columns that patterns such as "BILL_AMT*" stand for; reads names only."""
    from dpcov.data.schema.schema import Schema
    from dpcov.data.sources import file_of, open_source

    table = options.table_from(data, sql, db, db_env)
    if output is not None:
        check_output(output, schema, file_of(table))
    read = Schema.from_toml(schema)
    resolved = read.resolve(open_source(table, read.file).columns)
    columns = plural(len(resolved.columns), "column")
    _write(resolved.dumps(), output, overwrite, f"Wrote {output}: {columns}.")


@app.command(epilog=example("schema check"))
def check(
    schema: Annotated[Path, Argument(help="A schema file (TOML).")],
    data: Annotated[str | None, option("schema data")] = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    as_json: Annotated[bool, option("schema json")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a schema still lacks, and with --data how the rows fit it: for the custodian only.

    What is read from the rows counts cells and tells none, but it is not private: do not publish
    it.  Ends with 1 where a column cannot be used.
    """
    from dpcov.data.schema.schema import Schema

    read = Schema.from_toml(schema, complete=True)
    if (data, sql, db, db_env) == (None,) * 4:
        if as_json:
            raise UsageError("Name the table whose fit is told: --data FILE, or --sql with --db.")
        _tell_complete(read)
        return
    from dpcov.data.fit import fit
    from dpcov.data.sources import open_source

    source = open_source(options.table_from(data, sql, db, db_env), read.file)
    read = read.resolve(source.columns)
    with options.rows_progress(show_rows=True, quiet=quiet) as progress:
        found = fit(source, read, progress)
    if as_json:
        typer.echo(options.as_json(found))
    else:
        _tell_complete(read)
        typer.echo(f"\n{fill(found.note, 100)}\n\n{found.summary()}")
    if not found.usable:
        raise typer.Exit(1)


def _write(text: str, output: Path | None, overwrite: bool, told: str) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    write_file(output, text.encode(), overwrite=overwrite)
    typer.echo(told)


def _tell_complete(schema: "Schema") -> None:
    if schema.patterns:
        typer.echo(
            "The schema is complete. Its patterns stand for several columns. Which ones: "
            "dpcov schema resolve SCHEMA --data FILE"
        )
        return
    typer.echo(
        f"The schema is complete: {plural(len(schema.features), 'column')}, encoded as "
        f"{len(schema.encoded_columns)}, norm bound {schema.norm_bound_or_worst_case:.6g}."
    )
    weights = schema.weights
    if weights is not None and weights.column not in schema.features:
        typer.echo(
            f"Make '{printable(weights.column)}' numeric, from 0 to {weights.upper:g}. While "
            "it is ignored, sampling errors are those of the most unequal weights."
        )
