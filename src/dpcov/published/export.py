"""Write estimates of a release for other software: CSV, JSON, npz, R, Data Package, DCAT.

Contract: reads what was released and public metadata only; files appear whole or not at all.

References
----------
https://datapackage.org/standard/data-package/ ; https://www.w3.org/TR/vocab-dcat-3/
"""

import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from dpcov.errors import UsageError
from dpcov.files import ReservedFile, write_file
from dpcov.privacy.options import plain
from dpcov.published.digits import plural
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import DEVIATIONS, covariance_noise, mean_noise
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.file.statistics import Post
from dpcov.published.linalg.symmetric import Array
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.encoded import noise_of
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.scripts import quoted_for_r
from dpcov.published.words.design import rows_worth

Quantity = Literal["covariance", "correlation", "second-moment", "mean"]
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_CONTEXT = {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/"}


def export(
    release: BaseRelease,
    path: str | Path,
    *,
    quantity: Quantity = "covariance",
    post: Post | None = None,
    missing: MissingAs = "pairwise",
    overwrite: bool = False,
) -> None:
    """Write one estimate of a release to a file (docs/exports.md).

    The ending of ``path`` chooses the format: ``.csv``, ``.json``, ``.npz``; ``.R``, a script that
    defines a list ``dpcov``; ``datapackage.json``, a Data Package with the numbers and a table of
    the columns; ``.jsonld``, a DCAT description for catalogs.  ``post`` is ignored for the mean.
    The standard deviation of the noise, but for second moments, is in the file too, and for CSV in
    a second one, ``NAME-noise.csv``.  With ``missing="at-random"`` it is not known.

    Raises UsageError for a name without a format, second moments that are not pairwise, and a file
    of noise that stays from another export.
    """
    path = Path(path)
    write = next((own for end, own in _WRITERS.items() if path.name.lower().endswith(end)), None)
    if write is None:
        raise UsageError(f"No format in the file name; end it in {', '.join(_WRITERS)}.")
    labels, values = estimate(release, quantity, post, missing)
    # Intervals simulate what noise does to values that are predicted.
    noise = noise_std(release, quantity, post) if missing == "pairwise" else None
    facts: Any = {"release": release, "quantity": quantity, "labels": labels}
    made = Exported(**facts, values=values, noise=noise, missing=missing)
    # A table of numbers has no room for a second one.
    beside = path.with_name(f"{path.stem}-noise{path.suffix}")
    if write is not _csv or made.noise is None:
        if write is _csv and beside.exists():
            raise UsageError(
                f"{beside.name} is of another export, and would pass for the noise of this one. "
                "Delete it, or choose another name."
            )
        write_file(path, write(made), overwrite=overwrite)
        return
    with (
        ReservedFile(path, overwrite=overwrite) as file,
        ReservedFile(beside, overwrite=overwrite) as second,
    ):
        second.write(_csv(replace(made, values=made.noise)))
        file.write(_csv(made))


@dataclass(frozen=True, kw_only=True, eq=False)
class Exported:
    """A quantity with labels, and the standard deviation of its noise where that is known."""

    release: BaseRelease
    quantity: Quantity
    labels: tuple[str, ...]
    values: Array
    noise: Array | None
    missing: MissingAs = "pairwise"

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """The columns that the labels name."""
        whole = self.quantity == "second-moment"
        return self.release.manifest.columns if whole else self.release.features

    @property
    def below_noise(self) -> Any:
        """Where noise alone may have made a number, bool; None where it is not known."""
        if self.noise is None:
            return None
        # Also where the noise on one number is not known, or has no bound.
        return ~(np.abs(self.values) >= DEVIATIONS * self.noise)


@on_one_thread
def noise_std(release: BaseRelease, quantity: Quantity, post: Post | None) -> Array | None:
    """Standard deviation of the noise, as docs/report.md has it; None where it is not known."""
    law = noise_of(release, "none" if quantity == "mean" else post)
    if law is None or quantity == "second-moment":
        return None
    scales = release.half_ranges
    means = (release.mean_vector() - release.centers) / scales
    if quantity == "mean":
        return mean_noise(means, law) * scales
    units = np.outer(scales, scales)
    encoded = release.covariance_matrix(post) / units
    if quantity == "correlation":
        return correlation_noise(means, encoded, law)
    return covariance_noise(means, encoded, law) * units


def estimate(
    release: BaseRelease, quantity: Quantity, post: Post | None, missing: MissingAs = "pairwise"
) -> tuple[tuple[str, ...], Array]:
    """Labels and values of one quantity."""
    quantity = plain("quantity", quantity, Quantity)
    if quantity == "mean":
        return release.feature_names, release.mean_vector(missing=missing)
    if quantity == "second-moment":
        if plain("missing", missing, MissingAs) != "pairwise":
            raise UsageError(
                "Second moments are those of encoded rows, where missing values are zeros. Leave "
                "out missing (--missing), or export covariance or correlation."
            )
        labels = tuple(column.name for column in release.manifest.columns)
        return labels, release.second_moment(post)
    if quantity == "covariance":
        return release.feature_names, release.covariance_matrix(post, missing=missing)
    return release.feature_names, release.correlation_matrix(post, missing=missing)


def _csv(made: Exported) -> bytes:
    # Readers take a carriage return for the end of a line unless it is quoted.
    odd = any("\r" in label for label in made.labels)
    how: Any = {"quoting": csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL}
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n", **how)
    writer.writerow(["", *made.labels])
    names = made.labels if made.values.ndim == 2 else ("mean",)
    # A number is written as the shortest text that reads back as the same.
    for name, row in zip(names, np.atleast_2d(made.values).tolist(), strict=True):
        writer.writerow([name, *row])
    return buffer.getvalue().encode()


def _json(made: Exported) -> bytes:
    record = {
        "quantity": made.quantity,
        "features": made.labels,
        "units": [column.unit for column in made.columns],
        "descriptions": [column.description for column in made.columns],
        "values": made.values.tolist(),
        "noise_std": None if made.noise is None else made.noise.tolist(),
        "below_noise": None if made.noise is None else made.below_noise.tolist(),
        "n_rows": made.release.n_rows,
        "n_effective": rows_worth(made.release),
        "guarantee": str(made.release.guarantee),
        "fingerprint": made.release.fingerprint,
    }
    return json_text(record)


def _package(made: Exported) -> bytes:
    """A Data Package that holds the tables, (d, d) or (d,), and a table of the columns."""
    release, tables = made.release, dict[str, Array]({made.quantity: made.values})
    if made.noise is not None:
        tables |= {"noise-std": made.noise}
    resources = [_table_resource(made, name, values) for name, values in tables.items()]
    return json_text(
        {
            "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
            "name": f"dpcov-{release.fingerprint[:12].lower()}",
            "id": release.fingerprint,
            "title": _title(release),
            "description": _described(release),
            "resources": [*resources, _columns_resource(made)],
        }
    )


def _table_resource(made: Exported, name: str, values: Array) -> dict[str, Any]:
    row_label = "column"
    while row_label in made.labels:
        row_label += "_"
    fields = [{"name": row_label, **_TEXT}, *(_field(x, made.quantity) for x in made.columns)]
    rows = made.labels if values.ndim == 2 else [name]
    return {
        "name": name,
        "schema": {"fields": fields, "primaryKey": [row_label]},
        "data": [
            {row_label: row, **dict(zip(made.labels, numbers, strict=True))}
            for row, numbers in zip(rows, np.atleast_2d(values).tolist(), strict=True)
        ],
    }


def _columns_resource(made: Exported) -> dict[str, Any]:
    kinds = dict.fromkeys(("name", "source", "kind", "unit", "description"), _TEXT)
    bounds = {"lower": _NUMBER, "upper": _NUMBER}
    has_bounds = not made.release.is_array
    return {
        "name": "columns",
        "schema": {"fields": [{"name": key, **kind} for key, kind in (kinds | bounds).items()]},
        "data": [
            {key: getattr(column, key) for key in kinds}
            | dict(zip(bounds, column.bounds if has_bounds else (None, None), strict=True))
            for column in made.columns
        ],
    }


def _dcat(made: Exported) -> bytes:
    """A ``dcat:Dataset``; its distribution still needs the address at which it is published."""
    release, columns = made.release, made.columns
    distribution = {
        "@type": "dcat:Distribution",
        "dct:title": f"{made.quantity} of {plural(len(columns), 'column')}",
        "dct:description": "Written by dpcov; add dcat:downloadURL where it is published.",
    }
    return json_text(
        {
            "@context": _CONTEXT,
            "@type": "dcat:Dataset",
            "dct:identifier": release.fingerprint,
            "dct:title": _title(release),
            "dct:description": _described(release),
            "dct:accessRights": f"Released under differential privacy: {release.guarantee}",
            "dcat:keyword": ["differential privacy", *dict.fromkeys(c.source for c in columns)],
            "dcat:distribution": distribution,
        }
    )


def _field(column: EncodedColumn, quantity: str) -> dict[str, Any]:
    told = {"title": column.description, "unit": column.unit if quantity == "mean" else ""}
    return {"name": column.name, **_NUMBER, **{key: word for key, word in told.items() if word}}


def _title(release: BaseRelease) -> str:
    return release.manifest.title or "Table"


def _described(release: BaseRelease) -> str:
    n_rows = f" of {release.n_rows:,.0f} rows" if math.isfinite(release.n_rows) else ""
    return (
        f"Moments{n_rows}, released once under differential privacy: {release.guarantee}. "
        "Numbers contain random noise, whose standard deviation is given where it is known."
    )


def json_text(record: dict[str, Any]) -> bytes:
    """A JSON file, one field a line; NaN, which JSON has not, becomes null."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _npz(made: Exported) -> bytes:
    # Text of a fixed width loads without pickle.
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"values": made.values}
    if made.noise is not None:
        arrays |= {"noise_std": made.noise, "below_noise": made.below_noise}
    np.savez(buffer, features=np.array(made.labels, dtype=np.str_), **arrays)
    return buffer.getvalue()


def _r(made: Exported) -> bytes:
    name = made.quantity.replace("-", ".")
    lines = [f"{name} = {_r_array(made.labels, made.values)}"]
    if made.noise is not None:
        lines.append(f"noise.std = {_r_array(made.labels, made.noise)}")
        lines.append(f"below.noise = {_r_array(made.labels, made.below_noise)}")
    if made.quantity in ("covariance", "correlation"):
        means = estimate(made.release, "mean", None, made.missing)
        lines.append(f"mean = {_r_array(*means)}")
    lines += [
        f"n.rows = {_r_cell(made.release.n_rows)}",
        f"n.effective = {_r_cell(rows_worth(made.release))}",
        f"guarantee = {quoted_for_r(str(made.release.guarantee))}",
        f"fingerprint = {quoted_for_r(made.release.fingerprint)}",
    ]
    return "dpcov <- list(\n  {}\n)\n".format(",\n  ".join(lines)).encode()


def _r_array(labels: tuple[str, ...], values: Any) -> str:
    # R fills matrices column by column.
    names = f"c({', '.join(quoted_for_r(label) for label in labels)})"
    numbers = f"c({', '.join(_r_cell(cell) for cell in values.T.ravel().tolist())})"
    if values.ndim == 2:
        return f"matrix({numbers}, nrow = {len(labels)}, dimnames = list({names}, {names}))"
    return f"stats::setNames({numbers}, {names})"


def _r_cell(value: float | bool) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(float(value)) if math.isfinite(value) else "NA_real_"


# By what the names of files end in: the first that fits.
_WRITERS = {
    ".csv": _csv,
    ".npz": _npz,
    ".r": _r,
    "datapackage.json": _package,
    ".json": _json,
    ".jsonld": _dcat,
}
