"""``dpcov schema``: draft a schema from a file's column names, and check what is missing."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from dpcov.cli import options
from dpcov.cli.options import example, option
from dpcov.errors import SchemaError

app = typer.Typer(no_args_is_help=True, help="Write and check the public description of a table.")


@app.command(epilog=example("schema draft"))
def draft(
    data: options.TableFile = None,
    sql: options.Sql = None,
    db: options.Db = None,
    db_env: options.DbEnv = None,
    output: Annotated[Path | None, option("schema output", "-o")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write column names and types, with bounds and categories left for you to fill in.

    Bounds must come from public knowledge (a questionnaire, a law, physics), never from the rows:
    the draft contains no value of the data.
    """
    from dpcov.data.schema.draft import draft as draft_schema
    from dpcov.data.sources import open_source
    from dpcov.files import write_file

    # Names and types only: a bound read from the rows would leak them.
    text = draft_schema(open_source(options.table_from(data, sql, db, db_env))).dumps()
    if output is None:
        typer.echo(text, nl=False)
        return
    write_file(output, text.encode(), overwrite=overwrite)
    typer.echo(f"Wrote {output}. Fill in bounds and categories; then: dpcov schema check {output}")


@app.command(epilog=example("schema check"))
def check(
    schema: Annotated[Path, Argument(help="A schema file (TOML).")],
    data: Annotated[str | None, option("schema data")] = None,
) -> None:
    """Say what a schema still lacks, or that it is ready and which norm bound follows from it."""
    from dpcov.data.schema.schema import Schema

    read = Schema.from_toml(schema)
    read.require_complete()
    if data is not None:
        from dpcov.data.encode import Encoder
        from dpcov.data.sources import open_source

        columns = open_source(data).columns
        if absent := [name for name in Encoder(read).wanted if name not in columns]:
            lacking = f"{len(absent)} columns of the schema: {', '.join(absent[:10])}"
            raise SchemaError(f"The table lacks {lacking}.")
    typer.echo(
        f"The schema is complete: {len(read.features)} columns encode to "
        f"{len(read.encoded_columns)}, norm bound {read.norm_bound_or_worst_case:.6g}."
    )
