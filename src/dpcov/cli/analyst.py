"""Commands that read a release: show, report, export, sample and record; none costs privacy."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer import Option

from dpcov.cli import options
from dpcov.errors import UsageError

app = typer.Typer()

_PAGE = "The page to write, for example report.html."
_ESTIMATES = "File to write: .csv, .json, .npz or .R."
_FORMAT = "csv, json, npz or r; by default the file's ending."
_ROWS = "File to write: .csv or .parquet."
_RECORD = "File to write: JSON, or Markdown for a checklist."
_KIND = "registry: an entry for a deployment registry. checklist: for evaluators."


@app.command(epilog="Example: dpcov show patients.dpcov")
def show(
    release: options.ReleaseFile,
    group: options.Group = None,
    json: Annotated[bool, Option("--json", help="Print the full public record as JSON.")] = False,
) -> None:
    """Print what was released about whom, under which guarantee, and how large the noise is."""
    from dpcov.published.file import encode_manifest

    loaded = options.load(release, group)
    typer.echo(encode_manifest(loaded.manifest).decode() if json else loaded.summary(), nl=json)


@app.command(epilog="Example: dpcov report patients.dpcov -o patients.html")
def report(
    release: options.ReleaseFile,
    output: Annotated[Path, Option("-o", "--output", help=_PAGE)],
    ledger: options.ShownLedger = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Explain the release on a page: guarantee, correlations, spectrum, noise; costs no privacy."""
    from dpcov.files import ReservedFile
    from dpcov.report import render_release

    with ReservedFile(output, overwrite=overwrite) as file:
        loaded = options.load(release)
        balance = options.balance_of(loaded, ledger)
        file.write(render_release(loaded, file_name=release.name, balance=balance))
    typer.echo(f"Wrote {output}: one page, open it in a browser.")


@app.command(
    epilog="Example: dpcov export patients.dpcov --what correlation --post psd -o correlation.csv"
)
def export(
    release: options.ReleaseFile,
    output: Annotated[Path, Option("-o", "--output", help=_ESTIMATES)],
    what: Annotated[
        str, Option(help="covariance, correlation, second-moment or mean.")
    ] = "covariance",
    group: options.Group = None,
    post: options.Post = None,
    format: Annotated[str | None, Option(help=_FORMAT)] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a covariance, correlation or second moment matrix, or the means; costs no privacy."""
    from dpcov.published.estimate.post import POSTS
    from dpcov.published.export import FORMATS, QUANTITIES
    from dpcov.published.export import export as write

    known = (("--what", what, QUANTITIES), ("--post", post, POSTS), ("--format", format, FORMATS))
    for name, value, names in known:
        if value is not None and value not in names:
            raise typer.BadParameter(f"use one of {', '.join(names)}", param_hint=name)
    loaded = options.load(release, group)
    chosen = cast(Any, {"quantity": what, "post": post, "format": format})
    write(loaded, output, overwrite=overwrite, **chosen)
    features = options.counted(len(loaded.feature_names), "feature")
    typer.echo(f"Wrote {output}: {what} of {features}.")


@app.command(epilog="Example: dpcov sample patients.dpcov --rows 10000 -o synthetic.parquet")
def sample(
    release: options.ReleaseFile,
    output: Annotated[Path, Option("-o", "--output", help=_ROWS)],
    rows: Annotated[int, Option(min=1, help="How many rows to draw.")] = 1000,
    group: options.Group = None,
    seed: Annotated[int | None, Option(help="For the same rows again.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Draw synthetic rows with the release's means, correlations and bounds; costs no privacy."""
    import pyarrow as pa
    from pyarrow.csv import write_csv
    from pyarrow.parquet import write_table

    from dpcov.files import write_file

    write = {".csv": write_csv, ".parquet": write_table}.get(output.suffix.lower())
    if write is None:
        raise UsageError("End the file name in .csv or .parquet.")
    sink = pa.BufferOutputStream()
    write(options.load(release, group).sample(rows, seed=seed), sink)
    write_file(output, sink.getvalue().to_pybytes(), overwrite=overwrite)
    typer.echo(f"Wrote {output}: {rows} synthetic rows; they describe nobody.")


@app.command(
    epilog='Example: dpcov record patients.dpcov --curator "City Hospital" '
    '--intended-use "regression by researchers" -o patients.record.json · '
    "dpcov record patients.dpcov --kind checklist -o patients.checklist.md"
)
def record(
    release: options.ReleaseFile,
    output: Annotated[Path, Option("-o", "--output", help=_RECORD)],
    kind: Annotated[str, Option(help=_KIND)] = "registry",
    curator: Annotated[str, Option(help="Who holds the data and publishes.")] = "",
    intended_use: Annotated[str, Option(help="What the release is for.")] = "",
    description: Annotated[str, Option(help="What was released, in a sentence.")] = "",
    sector: Annotated[str, Option(help="For example health, official statistics.")] = "",
    published: Annotated[str, Option(metavar="YYYY-MM-DD", help="Date of publication.")] = "",
    link: Annotated[str, Option(help="Where the release is found.")] = "",
    justification: Annotated[str, Option(help="Why this budget was chosen.")] = "",
    ledger: options.ShownLedger = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a registry entry (JSON) or a NIST SP 800-226 checklist (Markdown); costs no privacy."""
    from dpcov.files import write_file
    from dpcov.report.checklist import checklist
    from dpcov.report.deployment import Deployment, registry_entry

    if kind not in ("registry", "checklist"):
        raise UsageError("--kind is registry or checklist.")
    loaded = options.load(release)
    balance = options.balance_of(loaded, ledger)
    if kind == "checklist":
        content = checklist(loaded, balance).encode()
    else:
        deployment = Deployment(
            curator=curator,
            intended_use=intended_use,
            description=description,
            sector=sector,
            published=published,
            link=link,
        )
        content = registry_entry(loaded, deployment, justification=justification, balance=balance)
    write_file(output, content, overwrite=overwrite)
    typer.echo(f"Wrote {output}.")
