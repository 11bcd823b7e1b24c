"""``dpcov desk``: the whole way from a table to a released file, on a page on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli.options import option
from dpcov.errors import UsageError


def desk(
    folder: Annotated[
        Path, typer.Argument(help="Where tables are, and files are written.")
    ] = Path(),
    port: Annotated[int, option("desk port", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, option("desk no-browser")] = False,
) -> None:
    """Open a page on this machine that goes from a table to a file that may be published.

    Only this machine can reach it, and only with the address that is printed.
    """
    try:
        from dpcov.desk.serve import serve
    except ImportError:
        raise UsageError("The desk needs an extra: pip install 'dpcov[desk]'.") from None
    if not folder.is_dir():
        raise UsageError(f"'{folder}' is not a folder. Name the one that your tables are in.")
    serve(folder.resolve(), port, show=typer.echo, browse=not no_browser)
