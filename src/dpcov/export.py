"""Write estimates of a release for other software: CSV, JSON, npz.

Promise: reads a release only; files appear whole or not at all.
"""

import csv
import io
import json
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpcov.artifact import Release
from dpcov.errors import UsageError
from dpcov.output import write_file
from dpcov.statistics import Post

Format = Literal["csv", "json", "npz"]
Quantity = Literal["covariance", "correlation", "second-moment", "mean"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
FORMATS: tuple[Format, ...] = get_args(Format)


def export(
    release: Release,
    path: str | Path,
    *,
    quantity: Quantity = "covariance",
    post: Post | None = None,
    format: Format | None = None,
    overwrite: bool = False,
) -> None:
    """Write one estimate of a release to a file.

    Parameters
    ----------
    release : Release
    path : path
        Its ending chooses the format unless ``format`` does.
    quantity : {"covariance", "correlation", "second-moment", "mean"}
    post : Post
        Post-processing; ignored for the mean.
    format : {"csv", "json", "npz"}, optional
    overwrite : bool
    """
    kind = _format_of(Path(path)) if format is None else format
    if kind not in FORMATS:
        raise UsageError(f"Unknown format. Use one of: {', '.join(FORMATS)}.")
    labels, values = estimate(release, quantity, post)
    content = {"csv": _csv, "json": _json, "npz": _npz}[kind](release, quantity, labels, values)
    write_file(path, content, overwrite=overwrite)


def estimate(
    release: Release, quantity: Quantity, post: Post | None
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Labels and values of one quantity."""
    if quantity == "covariance":
        return release.feature_names, release.covariance(post)
    if quantity == "correlation":
        return release.feature_names, release.correlation(post)
    if quantity == "mean":
        return release.feature_names, release.mean()
    if quantity == "second-moment":
        return tuple(column.name for column in release.manifest.columns), release.second_moment(post)
    raise UsageError(f"Unknown quantity. Use one of: {', '.join(QUANTITIES)}.")


def _format_of(path: Path) -> Format:
    for known in FORMATS:
        if path.suffix.lower() == f".{known}":
            return known
    raise UsageError(
        f"Cannot tell the format from the file name; end it in .{', .'.join(FORMATS)} or say --format."
    )


def _csv(release: Release, quantity: Quantity, labels: tuple[str, ...], values: NDArray[np.float64]) -> bytes:
    """One row and one column per feature, names in both; the mean as one row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["", *labels])
    for label, row in zip(labels if values.ndim == 2 else ("mean",), np.atleast_2d(values), strict=True):
        writer.writerow([label, *(repr(float(value)) for value in row)])
    return buffer.getvalue().encode()


def _json(
    release: Release, quantity: Quantity, labels: tuple[str, ...], values: NDArray[np.float64]
) -> bytes:
    """Values with labels, guarantee and fingerprint; NaN becomes null."""
    cells = np.where(np.isfinite(values), values.astype(object), np.array(None)).tolist()
    record = {
        "quantity": quantity,
        "features": labels,
        "values": cells,
        "n_rows": release.n_rows if np.isfinite(release.n_rows) else None,
        "guarantee": str(release.guarantee),
        "fingerprint": release.fingerprint,
    }
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()


def _npz(release: Release, quantity: Quantity, labels: tuple[str, ...], values: NDArray[np.float64]) -> bytes:
    """Arrays ``values`` and ``features`` that load without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, values=values, features=np.array(labels, dtype=np.str_))
    return buffer.getvalue()
