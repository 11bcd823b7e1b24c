"""``dpcov demo``: the whole way on a real table that scikit-learn bundles, in one command."""

from pathlib import Path
from typing import Any

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

RELEASE_FILE, COVARIANCE_FILE = Path("demo.dpcov"), Path("demo-covariance.csv")
NOISE_FILE = Path("demo-covariance-noise.csv")
HERE = Path(__file__).parent


def demo(overwrite: options.Overwrite = False) -> None:
    """Release the covariance of 569 breast-cancer biopsies (scikit-learn's) into this folder."""
    import dpcov
    from dpcov.published.export import export

    for path in (RELEASE_FILE, COVARIANCE_FILE, NOISE_FILE):
        options.check_free(path, overwrite)
    made = dpcov.release(_biopsies(), **terms(), output=RELEASE_FILE, overwrite=overwrite)
    export(made, COVARIANCE_FILE, overwrite=overwrite)
    typer.echo(made.summary())
    typer.echo((HERE / "demo.txt").read_text(encoding="utf-8"), nl=False)


def terms() -> dict[str, Any]:
    """Public terms of the demo's release."""
    from dpcov import Budget, Schema

    return {
        "schema": Schema.from_toml(HERE / "demo.toml"),
        "budget": Budget(epsilon="2", delta="1e-6"),
    }


def _biopsies() -> Any:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise UsageError("The demo needs scikit-learn: pip install 'dpcov[demo]'.") from None
    import pyarrow as pa

    bunch = load_breast_cancer()
    columns = {str(name): bunch.data[:, index] for index, name in enumerate(bunch.feature_names)}
    return pa.table({**columns, "benign": bunch.target.astype(bool)})
