"""Write estimates of a release for other software: CSV, JSON, npz, R.

Contract: reads a release only; files appear whole or not at all.
"""

import csv
import io
from pathlib import Path
from typing import Literal, get_args

import msgspec
import numpy as np

from dpcov.errors import UsageError
from dpcov.files import write_file
from dpcov.privacy.options import plain
from dpcov.published.base import BaseRelease
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import Post

Format = Literal["csv", "json", "npz", "r"]
Quantity = Literal["covariance", "correlation", "second-moment", "mean"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
FORMATS: tuple[Format, ...] = get_args(Format)


def export(
    release: BaseRelease,
    path: str | Path,
    *,
    quantity: Quantity = "covariance",
    post: Post | None = None,
    format: Format | None = None,
    overwrite: bool = False,
) -> None:
    """Write one estimate of a release to a file (docs/exports.md).

    The ending of ``path`` chooses the format unless ``format`` does; ``r`` is a script that defines
    a list ``dpcov``.  ``post`` is ignored for the mean.
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if format is None and ending not in FORMATS:
        known = ", .".join(FORMATS)
        raise UsageError(f"No format in the file name; end it in .{known} or say --format.")
    kind = plain("format", format or ending, Format)
    labels, values = estimate(release, quantity, post)
    write = {"csv": _csv, "json": _json, "npz": _npz, "r": _r}[kind]
    write_file(path, write(release, quantity, labels, values), overwrite=overwrite)


def estimate(
    release: BaseRelease, quantity: Quantity, post: Post | None
) -> tuple[tuple[str, ...], Array]:
    """Labels and values of one quantity."""
    quantity = plain("quantity", quantity, Quantity)
    if quantity == "mean":
        return release.feature_names, release.mean()
    if quantity == "second-moment":
        labels = tuple(column.name for column in release.manifest.columns)
        return labels, release.second_moment(post)
    read = release.covariance if quantity == "covariance" else release.correlation
    return release.feature_names, read(post)


def _csv(release: BaseRelease, quantity: str, labels: tuple[str, ...], values: Array) -> bytes:
    # repr gives the shortest text that reads back as the same number.
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["", *labels])
    names = labels if values.ndim == 2 else ("mean",)
    for name, row in zip(names, np.atleast_2d(values), strict=True):
        writer.writerow([name, *(repr(float(value)) for value in row)])
    return buffer.getvalue().encode()


def _json(release: BaseRelease, quantity: str, labels: tuple[str, ...], values: Array) -> bytes:
    # JSON has no NaN: msgspec writes null for what is not known.
    record = {
        "quantity": quantity,
        "features": labels,
        "values": values.tolist(),
        "n_rows": release.n_rows,
        "guarantee": str(release.guarantee),
        "fingerprint": release.fingerprint,
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _npz(release: BaseRelease, quantity: str, labels: tuple[str, ...], values: Array) -> bytes:
    # Text of a fixed width loads without pickle.
    buffer = io.BytesIO()
    np.savez(buffer, values=values, features=np.array(labels, dtype=np.str_))
    return buffer.getvalue()


def _r(release: BaseRelease, quantity: str, labels: tuple[str, ...], values: Array) -> bytes:
    # R fills matrices column by column.
    names = f"c({', '.join(_r_string(label) for label in labels)})"
    numbers = f"c({', '.join(_r_number(value) for value in values.T.ravel())})"
    shown = f"stats::setNames({numbers}, {names})"
    if values.ndim == 2:
        shown = f"matrix({numbers}, nrow = {len(labels)}, dimnames = list({names}, {names}))"
    lines = (
        f"{quantity.replace('-', '.')} = {shown}",
        f"n.rows = {_r_number(release.n_rows)}",
        f"guarantee = {_r_string(str(release.guarantee))}",
        f"fingerprint = {_r_string(release.fingerprint)}",
    )
    return "dpcov <- list(\n  {}\n)\n".format(",\n  ".join(lines)).encode()


def _r_number(value: float) -> str:
    return repr(float(value)) if np.isfinite(value) else "NA_real_"


def _r_string(text: str) -> str:
    # Names are anybody's text: quoted they stay text, control characters by their code.
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in quoted) + '"'
