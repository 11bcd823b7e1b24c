"""``dpcov demo``: the whole way on a real table that statsmodels bundles, in one command."""

from pathlib import Path
from typing import Any

import typer

from dpcov.cli import options
from dpcov.extras import load_extra

RELEASE_FILE, COVARIANCE_FILE = Path("demo.dpcov"), Path("demo-covariance.csv")
NOISE_FILE = Path("demo-covariance-noise.csv")
HERE = Path(__file__).parent
# Columns of the table, and what they are called here.
QUESTIONS = {
    "rate_marriage": "satisfaction",
    "age": "age",
    "yrs_married": "years married",
    "children": "children",
    "religious": "religious",
    "educ": "education",
}


def demo(overwrite: options.Overwrite = False) -> None:
    """Release the covariance of 6,366 answers to a survey on marriage into this folder."""
    import dpcov
    from dpcov.published.export import export

    for path in (RELEASE_FILE, COVARIANCE_FILE, NOISE_FILE):
        options.check_free(path, overwrite)
    made = dpcov.release(answers(), **terms(), output=RELEASE_FILE, overwrite=overwrite)
    export(made, COVARIANCE_FILE, overwrite=overwrite)
    typer.echo(made.summary())
    typer.echo((HERE / "demo.txt").read_text(encoding="utf-8"), nl=False)


def terms() -> dict[str, Any]:
    """Public terms of the demo's release."""
    from dpcov import Budget, Schema

    budget = Budget(epsilon="1", delta="1e-6")
    return {"schema": Schema.from_toml(HERE / "demo.toml"), "budget": budget}


def answers() -> Any:
    """Survey of women on their marriages, 1974 (R. Fair, Journal of Political Economy 86, 1978)."""
    fair = load_extra("statsmodels.datasets.fair", "The demo", "demo")
    import pyarrow as pa

    told = fair.load_pandas().data
    table = pa.Table.from_pandas(told[list(QUESTIONS)], preserve_index=False)
    return table.rename_columns(QUESTIONS).append_column("affair", [told["affairs"] > 0])
