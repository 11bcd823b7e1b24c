"""A first schema for a table, for the custodian to fill in.

Contract: a draft holds the names and types of the columns and nothing else: no bound, no category, no value.
"""

from dpcov.data.schema.declared import Boolean, Categorical, Declared, Ignored, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Kind, Source

_OTHER = "neither a number nor a text (a date, a list, ...) or empty so far; derive a number in the data to use it"
_NAMELESS = "has no name, which is usual for row numbers; name it in the data to use it"


def draft(source: Source) -> Schema:
    """Draft a schema with unfilled bounds and categories; write it with `Schema.dumps` or `Schema.save`."""
    return Schema(columns={name: _declared(name, kind) for name, kind in source.kinds().items()})


def _declared(name: str, kind: Kind) -> Declared:
    if not name.strip():
        return Ignored(note=_NAMELESS)
    match kind:
        case "number":
            return Numeric()
        case "boolean":
            return Boolean()
        case "text":
            return Categorical()
        case _:
            return Ignored(note=_OTHER)
