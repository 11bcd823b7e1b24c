"""``dpcov report``: one page about a release, for people."""

from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli import options

EXAMPLE = "Example: dpcov report patients.dpcov -o patients.html"


def report(
    release: options.ReleaseFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The page to write, for example report.html.")
    ],
    ledger: options.ShownLedger = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--force", help="Overwrite an existing output file.")
    ] = False,
) -> None:
    """Write a page that explains the release: guarantee, correlations, spectrum, noise; costs no privacy."""
    from dpcov.files import ReservedFile
    from dpcov.published.release import Release
    from dpcov.report import render_release

    with ReservedFile(output, overwrite=overwrite) as file:
        loaded = Release.load(release)
        file.write(
            render_release(
                loaded, file_name=release.name, balance=options.balance_of(loaded, ledger)
            )
        )
    typer.echo(f"Wrote {output}: one page, open it in a browser.")
