"""``dpcov demo``: the whole way on a real table that scikit-learn bundles, in one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLE = "Example: dpcov demo"
EPSILON, DELTA = "2", "1e-6"
RELEASE_FILE, COVARIANCE_FILE = Path("demo.dpcov"), Path("demo-covariance.csv")


def demo(force: options.Force = False) -> None:
    """Release the covariance of 569 breast-cancer biopsies (bundled with scikit-learn) into the current folder."""
    import dpcov
    from dpcov.published.export import export

    for path in (RELEASE_FILE, COVARIANCE_FILE):
        if path.exists() and not force:
            raise UsageError(
                f"{path} exists already in this folder. Move it away, or run: dpcov demo --force"
            )
    made = dpcov.release(_biopsies(), **terms(), output=RELEASE_FILE, overwrite=force)
    export(made, COVARIANCE_FILE, overwrite=force)
    typer.echo(made.summary())
    typer.echo(_what_next())


def terms() -> dict[str, Any]:
    """Public terms of the demo's release."""
    from dpcov import Budget, Schema

    schema = Schema.from_toml(Path(__file__).with_name("demo.toml"))
    return {"schema": schema, "budget": Budget(epsilon=EPSILON, delta=DELTA)}


def _biopsies() -> "pa.Table":
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise UsageError(
            "The demo's table comes with scikit-learn. Install it: pip install 'dpcov[demo]'"
        ) from None
    import pyarrow as pa

    bunch = load_breast_cancer()
    columns = {str(name): bunch.data[:, index] for index, name in enumerate(bunch.feature_names)}
    return pa.table({**columns, "benign": bunch.target.astype(bool)})


def _what_next() -> str:
    return f"""Two files are in this folder now, and both may be published:
  {RELEASE_FILE}           the release: noisy moments, the law of the noise, the guarantee
  {COVARIANCE_FILE}  the covariance matrix it implies, for R, pandas or a spreadsheet

Try next, at no further privacy cost:
  dpcov show {RELEASE_FILE} --json
  dpcov export {RELEASE_FILE} --what correlation -o demo-correlation.csv
  python -c "import dpcov; print(dpcov.load('{RELEASE_FILE}').correlation().round(2))"
Your own table:
  dpcov schema draft TABLE.csv -o schema.toml     then fill in the bounds, and
  dpcov release TABLE.csv --schema schema.toml --epsilon 2 --delta 1e-6 --no-ledger -o table.dpcov"""
