"""``dpcov moments``: save exact moments under a key, resume and merge them, release once."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from dpcov.cli import options
from dpcov.cli.options import example, option
from dpcov.errors import DataError, UsageError
from dpcov.files import check_output, last_written
from dpcov.published.digits import plural

if TYPE_CHECKING:
    from dpcov.data.checkpoint import Checkpoint

_BOUNDS = (
    "They are in the geometry of the bounds. Where bounds are wide, find one with `dpcov survey` "
    "and give it with --geometry."
)

app = typer.Typer(no_args_is_help=True, help="Save sensitive moments under a key; merge them.")


def _check_ending(output: Path) -> Path:
    if output.suffix != ".moments":
        raise UsageError("End the file name in .moments: so a release knows saved moments.")
    return output


Saved = Annotated[Path, option("moments output", "-o", callback=_check_ending)]


@app.command(epilog=example("moments key"))
def key(path: Annotated[Path, Argument(help="Key file to write.")]) -> None:
    """Write a new random key; keep it apart from the files, which cannot be opened without it."""
    from dpcov.data.vault import write_key

    write_key(path)
    typer.echo(f"Wrote {path}, readable by its owner alone.")


@app.command(epilog=example("moments checkpoint"))
def checkpoint(
    parts: Annotated[list[str], Argument(help="Files with the table's rows, each read once.")],
    schema: options.SchemaFile,
    output: Saved,
    key_file: options.KeyFile = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: options.Mechanism = "auto",
    option: options.MechanismOptions = None,
    neighbors: options.Relation = "replace-one",
    by: options.By = None,
    geometry: Annotated[str, option("moments geometry")] = "schema",
    resume: Annotated[bool, option("moments resume")] = False,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Gather the moments that a release with the same options will want; spends nothing.

    The file is saved after every part, so that `--resume` can go on after an interruption.
    """
    import dpcov
    from dpcov.data.checkpoint import Checkpoint

    secret = options.key_from(key_file, schema, geometry, *parts)
    _check_parts(parts)
    check_output(output, schema, key_file, geometry, *parts)
    options.check_free(output, overwrite or resume)
    held = Checkpoint.load(output, secret) if resume and output.exists() else None
    # The same file by whatever name, and from whatever folder: its rows must not count twice.
    counted = set() if held is None else {Path(name).resolve() for name in held.parts.values()}
    new = [part for part in parts if Path(part).resolve() not in counted]
    _refuse_moved(new, counted)
    if held is not None:
        _refuse_changed(held)
    _check_columns(new, schema)
    for number, part in enumerate(new):
        # Under add-remove-one the number of rows is private, also on the screen.
        with options.rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
            made = dpcov.checkpoint(
                part,
                schema=schema,
                budget=options.budget_from(epsilon, delta, rho),
                mechanism=mechanism,
                neighbors=neighbors,
                by=by,
                geometry=geometry,
                name=str(Path(part).resolve()),
                progress=progress,
                **options.parse_options(option),
            )
        held = made if held is None else held.merge(made)
        _refuse_changed(held)
        # Saved after every part: an interruption loses one part at most.
        held.save(output, secret, overwrite=overwrite or resume or number > 0)
    assert held is not None  # there is a part
    _tell(output, len(held.parts))
    if geometry == "schema" and dpcov.Schema.from_toml(schema).norm_bound is None:
        typer.echo(_BOUNDS)


@app.command(epilog=example("moments merge"))
def merge(
    files: Annotated[list[Path], Argument(help="Files of moments, all locked with the same key.")],
    output: Saved,
    key_file: options.KeyFile = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Add the moments of several files or sites; a part that is in two of them is refused."""
    from dpcov.data.checkpoint import Checkpoint

    if len(files) < 2:
        raise UsageError("Name two or more files of moments to merge.")
    check_output(output, key_file, *files)
    secret = options.key_from(key_file)
    total = Checkpoint.load(files[0], secret)
    for file in files[1:]:
        total = total.merge(Checkpoint.load(file, secret))
    total.save(output, secret, overwrite=overwrite)
    _tell(output, len(total.parts))


def _check_parts(parts: Iterable[str]) -> None:
    # Refuse a part that is named twice, or missing, before the first is read.
    seen: set[Path] = set()
    for part in parts:
        path = Path(part)
        if part == "-" or not path.is_file():
            raise DataError(f"There is no file '{path.name}'. Check the path; parts are files.")
        # By its resolved name: ./jan.csv is jan.csv.
        if path.resolve() in seen:
            raise UsageError("A part is named twice; its rows would count twice. Name it once.")
        seen.add(path.resolve())


def _check_columns(parts: Iterable[str], path: Path) -> None:
    # A part that lacks a column is refused before another is read, which may take hours.
    from dpcov.data.encode import Encoder
    from dpcov.data.gather import Gathering
    from dpcov.data.schema.schema import Schema
    from dpcov.data.sources import open_source

    declared = Schema.from_toml(path, complete=True)
    for part in parts:
        resolved, data = Gathering().resolve(declared, part)
        open_source(data, declared.file).check_wanted(Encoder(resolved).wanted)


def _refuse_moved(new: Iterable[str], counted: set[Path]) -> None:
    # A part that was counted may have been moved, or be seen from another machine.
    gone = {path.name for path in counted if not path.exists()}
    for name in (Path(part).resolve().name for part in new):
        if name in gone:
            raise UsageError(
                f"A part called {name} was counted, from a place where there is no file now. "
                "If this is the same file, put it back; if it is another one, rename it, or "
                "gather it by itself and merge: its rows must not count twice."
            )


def _refuse_changed(held: "Checkpoint") -> None:
    # Rows that were added would be left out, and rows that another part has by now count twice.
    for path, number in sorted((Path(name), number) for number, name in held.parts.items()):
        if path.exists() and last_written(path) != held.written.get(number):
            why = (
                f"{path.name} was written since its rows were read, or replaced"
                if number in held.written
                else f"The file of moments does not say when {path.name} was written"
            )
            raise UsageError(f"{why}. Gather all parts anew, without --resume.")


def _tell(output: Path, parts: int) -> None:
    held = plural(parts, "part")
    typer.echo(f"Wrote {output}: {held}. Sensitive; keep it as safe as the rows.")
