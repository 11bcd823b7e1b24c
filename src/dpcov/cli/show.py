"""``dpcov show``: what a release says about itself."""

from typing import Annotated

import typer

from dpcov.cli import options

EXAMPLE = "Example: dpcov show patients.dpcov"


def show(
    release: options.ReleaseFile,
    group: Annotated[
        str | None, typer.Option("--group", help="One public group of a release made with --by.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the full public record as JSON.")
    ] = False,
) -> None:
    """Print what was released about whom, under which guarantee, and how large the noise is."""
    from dpcov.published.file import encode_manifest
    from dpcov.published.release import Release

    loaded = Release.load(release)
    if group is not None:
        loaded = loaded.group(group)
    typer.echo(encode_manifest(loaded.manifest).decode() if json else loaded.summary(), nl=json)
