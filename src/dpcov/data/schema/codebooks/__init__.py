"""Read codebooks: what others wrote about a table, as a draft of its schema.

Contract: descriptions, labels, declared ranges and missing codes only; rows, and statistics that a
codebook holds about rows, are never read.
"""

from pathlib import Path
from typing import Any

import msgspec

from dpcov.data.layout import FileLayout
from dpcov.data.schema.codebooks import csvw, ddi, dictionaries, frictionless
from dpcov.data.schema.schema import Schema
from dpcov.data.schema.toml import read_text
from dpcov.data.sources.statistical import ENDINGS, StatisticalSource
from dpcov.errors import SchemaError


def read_codebook(path: Path, layout: FileLayout | None = None) -> Schema:
    """Read a codebook as a draft; what it does not say is left to be filled in.

    It is a Frictionless Table Schema or Data Package, or CSVW metadata, also with its extension for
    differential privacy (``.json``, ``.jsonld``, ``.json-ld``); DDI-Codebook (``.xml``); or a file
    of SPSS, Stata or SAS, of which the dictionary is read.  SchemaError if it is none of these.
    The ``part`` of a layout chooses one of several tables by name.
    """
    ending = path.suffix.lower()
    if ending in ENDINGS:
        source = StatisticalSource(path, layout or FileLayout())
        return dictionaries.schema_of(source)
    if ending not in (".json", ".jsonld", ".json-ld", ".xml"):
        raise SchemaError(
            f"'{path.name}' is no codebook that is known by its ending. Use one of: .json (Data "
            f"Package, Table Schema, CSVW), .xml (DDI-Codebook), {', '.join(ENDINGS)}."
        )
    text, part = read_text(path, "codebook"), layout.part if layout else ""
    try:
        if ending == ".xml":
            return ddi.schema_of(text)
        table = _json(text, path.name)
        read = csvw.schema_of if csvw.is_csvw(table) else frictionless.schema_of
        return read(table, part)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        pass
    # Raised outside the handler: the error may quote the file.
    raise SchemaError(f"'{path.name}' does not have the form of its kind of codebook. Correct it.")


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        return decoded
    except (msgspec.MsgspecError, RecursionError):
        raise SchemaError(f"'{name}' is no JSON object. Give a Data Package or CSVW.") from None
