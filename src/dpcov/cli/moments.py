"""``dpcov moments``: exact moments that are saved under a key, resumed and merged before anything is released."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.errors import DataError, UsageError

if TYPE_CHECKING:
    from dpcov.data.checkpoint import Checkpoint

app = typer.Typer(
    no_args_is_help=True,
    help="Save sensitive moments under a key; merge those of several files or sites; release once.",
)

KEY = "Example: dpcov moments key site.key"
GATHER = (
    "Example: dpcov moments gather jan.parquet feb.parquet --schema patients.toml --epsilon 1 --delta 1e-6 "
    "--key site.key -o north.moments"
)
MERGE = "Example: dpcov moments merge north.moments south.moments --key site.key -o all.moments"


def _check_ending(output: Path) -> Path:
    if output.suffix != ".moments":
        raise UsageError(
            "End the file name in .moments; that is how a release knows saved moments."
        )
    return output


Saved = Annotated[
    Path,
    typer.Option(
        "-o", "--output", help="File of moments to write (.moments).", callback=_check_ending
    ),
]


@app.command(epilog=KEY)
def key(path: Annotated[Path, typer.Argument(help="Key file to write.")]) -> None:
    """Write a new random key. Keep it apart from the files that it locks; without it they cannot be opened."""
    from dpcov.data.vault import write_key

    write_key(path)
    typer.echo(f"Wrote {path}, readable by its owner alone.")


@app.command(epilog=GATHER)
def gather(
    parts: Annotated[
        list[str], typer.Argument(help="Files with the table's rows, each read once.")
    ],
    schema: Annotated[
        Path, typer.Option("--schema", help="Schema file with public bounds (TOML).")
    ],
    output: Saved,
    key_file: options.KeyFile = None,
    passphrase_env: options.PassphraseEnv = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: options.MechanismOption = "auto",
    option: options.MechanismOptions = None,
    neighbors: options.NeighborsOption = "replace-one",
    by: options.By = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the output file: parts that it holds are not read again."
        ),
    ] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Gather the moments that a release with the same options will want; spends nothing.

    The file is saved after every part, so that `--resume` can go on after an interruption.
    """
    import dpcov
    from dpcov.cli.progress import rows_progress
    from dpcov.data.checkpoint import Checkpoint
    from dpcov.files import ReservedFile

    secret = options.key_from(key_file, passphrase_env)
    _check_parts(parts)
    options.check_output(output, schema, key_file, *parts)
    # What cannot be written is refused before a part is read, not after it.
    ReservedFile(output, overwrite=force or resume).discard()
    held = Checkpoint.load(output, secret) if resume and output.exists() else None
    for number, part in enumerate(parts):
        if held is not None and held.holds(part):
            continue
        with rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
            gathered = dpcov.checkpoint(
                part,
                schema=schema,
                budget=options.budget_from(epsilon, delta, rho),
                mechanism=mechanism,
                neighbors=options.neighbors_from(neighbors),
                by=by,
                name=part,
                progress=progress,
                **options.parse_options(option or []),
            )
        held = gathered if held is None else held.merge(gathered)
        held.save(output, secret, overwrite=force or resume or number > 0)
    typer.echo(f"Wrote {output}: {_count(held)}. Sensitive; keep it as safe as the rows.")


@app.command(epilog=MERGE)
def merge(
    files: Annotated[
        list[Path], typer.Argument(help="Files of moments, all locked with the same key.")
    ],
    output: Saved,
    key_file: options.KeyFile = None,
    passphrase_env: options.PassphraseEnv = None,
    force: options.Force = False,
) -> None:
    """Add the moments of several files or sites; a part that is in two of them is refused."""
    from dpcov.data.checkpoint import Checkpoint

    if len(files) < 2:
        raise UsageError("Name two or more files of moments to merge.")
    secret = options.key_from(key_file, passphrase_env)
    total = Checkpoint.load(files[0], secret)
    for file in files[1:]:
        total = total.merge(Checkpoint.load(file, secret))
    total.save(output, secret, overwrite=force)
    typer.echo(f"Wrote {output}: {_count(total)}. Sensitive; keep it as safe as the rows.")


def _check_parts(parts: Iterable[str]) -> None:
    """Refuse a part that is named twice, or missing, before the first is read."""
    seen: set[Path] = set()
    for part in parts:
        if part == "-" or not Path(part).is_file():
            raise DataError(
                f"There is no file '{Path(part).name}'. Check the path; parts are files."
            )
        if (place := Path(part).resolve()) in seen:
            raise UsageError("A part is named twice; its rows would count twice.")
        seen.add(place)


def _count(held: "Checkpoint | None") -> str:
    return options.counted(0 if held is None else len(held.parts), "part")
