"""``dpcov sample``: synthetic rows for software that wants rows."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

EXAMPLE = "Example: dpcov sample patients.dpcov --rows 10000 -o synthetic.parquet"


def sample(
    release: options.ReleaseFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write: .csv or .parquet.")
    ],
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many rows to draw.")] = 1000,
    group: Annotated[
        str | None, typer.Option("--group", help="One public group of a release made with --by.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="For the same rows again.")] = None,
    force: options.Force = False,
) -> None:
    """Draw synthetic rows with the release's means and correlations, within its bounds; costs no privacy."""
    from dpcov.files import write_file
    from dpcov.published.release import Release

    if output.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("End the file name in .csv or .parquet.")
    loaded = Release.load(release)
    if group is not None:
        loaded = loaded.group(group)
    content = _content(loaded.sample(rows, seed=seed), output.suffix.lower())
    write_file(output, content, overwrite=force)
    typer.echo(f"Wrote {output}: {rows} synthetic rows; they describe nobody.")


def _content(table: Any, ending: str) -> bytes:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    sink = pa.BufferOutputStream()
    if ending == ".csv":
        pyarrow.csv.write_csv(table, sink)
    else:
        pyarrow.parquet.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
