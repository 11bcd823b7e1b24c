"""Describe a release for catalogs: a Frictionless Data Package, and DCAT as JSON-LD.

Contract: reads what was released and public metadata only.

References
----------
https://datapackage.org/standard/data-package/ ; https://www.w3.org/TR/vocab-dcat-3/
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dpcov.published.base import BaseRelease
from dpcov.published.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array

_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_CONTEXT = {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/"}


def data_package(
    release: BaseRelease, quantity: str, columns: Sequence[EncodedColumn], tables: dict[str, Array]
) -> bytes:
    """A Data Package that holds the tables, (d, d) or (d,), and a table of the columns."""
    labels = [column.name for column in columns]
    row_label = "column"
    while row_label in labels:
        row_label += "_"
    fields = [{"name": row_label, **_TEXT}, *(_field(column, quantity) for column in columns)]
    resources = [
        {
            "name": name,
            "schema": {"fields": fields, "primaryKey": [row_label]},
            "data": [
                {row_label: row, **dict(zip(labels, numbers, strict=True))}
                for row, numbers in zip(
                    labels if values.ndim == 2 else [name],
                    np.atleast_2d(values).tolist(),
                    strict=True,
                )
            ],
        }
        for name, values in tables.items()
    ]
    kinds = {"name": _TEXT, "source": _TEXT, "kind": _TEXT, "unit": _TEXT, "description": _TEXT}
    bounds = {"lower": _NUMBER, "upper": _NUMBER}
    resources.append(
        {
            "name": "columns",
            "schema": {"fields": [{"name": key, **kind} for key, kind in (kinds | bounds).items()]},
            "data": [
                {key: getattr(column, key) for key in kinds}
                | dict(zip(bounds, column.bounds, strict=True))
                for column in columns
            ],
        }
    )
    return json_text(
        {
            "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
            "name": f"dpcov-{release.fingerprint[:12].lower()}",
            "id": release.fingerprint,
            "title": _title(release),
            "description": _described(release),
            "resources": resources,
        }
    )


def dcat(release: BaseRelease, quantity: str, columns: Sequence[EncodedColumn]) -> bytes:
    """A ``dcat:Dataset``; its distribution still needs the address at which it is published."""
    distribution = {
        "@type": "dcat:Distribution",
        "dct:title": f"{quantity} of {len(columns)} columns",
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
    n_rows = f"{release.n_rows:,.0f} rows"
    return (
        f"Moments of {n_rows}, released once under differential privacy: {release.guarantee}. "
        "Numbers contain random noise, whose standard deviation is given where it is known."
    )


def json_text(record: dict[str, Any]) -> bytes:
    """A JSON file, one field a line; NaN, which JSON has not, becomes null."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
