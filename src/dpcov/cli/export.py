"""``dpcov export``: estimates for other software."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from dpcov.cli import options

EXAMPLE = "Example: dpcov export patients.dpcov --what correlation --post psd -o correlation.csv"


def export(
    release: options.ReleaseFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write: .csv, .json, .npz or .R.")
    ],
    what: Annotated[
        str, typer.Option("--what", help="covariance, correlation, second-moment or mean.")
    ] = "covariance",
    group: Annotated[
        str | None, typer.Option("--group", help="One public group of a release made with --by.")
    ] = None,
    post: options.Post = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="csv, json, npz or r; by default the file's ending."),
    ] = None,
    force: options.Force = False,
) -> None:
    """Write a covariance, correlation, second moment matrix or the means to a file; costs no privacy."""
    from dpcov.published.estimate.post import POSTS
    from dpcov.published.export import FORMATS, QUANTITIES
    from dpcov.published.export import export as write
    from dpcov.published.release import Release

    _one_of("--what", what, QUANTITIES)
    if post is not None:
        _one_of("--post", post, tuple(POSTS))
    if format is not None:
        _one_of("--format", format, FORMATS)
    loaded = Release.load(release)
    if group is not None:
        loaded = loaded.group(group)
    write(
        loaded,
        output,
        quantity=cast(Any, what),
        post=cast(Any, post),
        format=cast(Any, format),
        overwrite=force,
    )
    typer.echo(
        f"Wrote {output}: {what} of {options.counted(len(loaded.feature_names), 'feature')}."
    )


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise typer.BadParameter(f"use one of {', '.join(known)}", param_hint=name)
