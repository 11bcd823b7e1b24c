"""``dpcov release``: from a sensitive file to one publishable file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.noise.entropy import Entropy
    from dpcov.privacy.guarantee import Neighbors

EXAMPLE = (
    "Example: dpcov release patients.parquet --schema patients.toml --epsilon 1 --delta 1e-6 "
    "--ledger ledger.sqlite --dataset patients -o patients.dpcov"
)


def release(
    data: Annotated[
        str, typer.Argument(help="CSV, Parquet, Arrow, npy or npz file; - reads CSV from stdin.")
    ],
    schema: Annotated[Path, typer.Option("--schema", help="Schema file with public bounds (TOML).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Release file to write.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="Which mechanism draws the noise; auto chooses and says why.")
    ] = "auto",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Option of the mechanism; repeatable."),
    ] = None,
    neighbors: options.NeighborsOption = "replace-one",
    rows: Annotated[
        int | None, typer.Option("--rows", help="Public number of rows; a contradicting file is refused.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="Categorical column: one matrix per category, at no further cost."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Ledger that is charged.")] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Name of the dataset in the ledger.")
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Run without a ledger; you keep the account yourself.")
    ] = False,
    force: options.Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Reproducible randomness, for research on public data.")
    ] = None,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="Confirms that --seed gives no privacy at all.")
    ] = False,
) -> None:
    """Release the second moments of a table once; everything after that costs no privacy."""
    import dpcov
    from dpcov.cli.progress import rows_progress

    if (ledger is None) != no_ledger:
        raise UsageError(
            "Name the ledger to charge (--ledger FILE --dataset NAME), or say --no-ledger; one of the two."
        )
    budget = options.budget_from(epsilon, delta, rho)
    randomness = _entropy(seed, not_private)
    with rows_progress(show_rows=neighbors == "replace-one", quiet=quiet) as progress:
        made = dpcov.release(
            data,
            schema=schema,
            budget=budget,
            mechanism=mechanism,
            neighbors=_neighbors(neighbors),
            n_rows=rows,
            by=by,
            ledger=ledger,
            dataset=dataset,
            output=output,
            overwrite=force,
            entropy=randomness,
            progress=progress,
            **parse_options(option or []),
        )
    typer.echo(f"Wrote {output}: {made.guarantee.promise}, {len(made.feature_names)} features.")
    typer.echo(f"Next: dpcov show {output}   ·   dpcov export {output} -o covariance.csv")


def _neighbors(neighbors: str) -> "Neighbors":
    from dpcov.privacy.guarantee import check_neighbors

    return check_neighbors(neighbors)


def _entropy(seed: int | None, not_private: bool) -> "Entropy | None":
    from dpcov.noise.entropy import SeededEntropy

    if seed is None:
        return None
    if not not_private:
        raise UsageError(
            "--seed makes the noise predictable, so the release protects nobody. Add --not-private to confirm."
        )
    return SeededEntropy(seed)


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE pairs; values are TOML scalars (numbers, true, false) or plain words."""
    import tomllib

    parsed: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError("Write mechanism options as NAME=VALUE, for example --option bits=18.")
        try:
            parsed[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[name] = text
    return parsed
