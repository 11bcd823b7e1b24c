"""Draft a schema for a table: names and types of the columns, no bound, category or value."""

from dpcov.data.schema.declared import Boolean, Categorical, Declared, Ignored, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Source

_OTHER = (
    "neither a number nor a text (a date, a list, ...) or empty so far; "
    "derive a number in the data to use it"
)
_NAMELESS = "has no name, which is usual for row numbers; name it in the data to use it"
_DECLARED: dict[str, Declared] = {
    "number": Numeric(),
    "boolean": Boolean(),
    "text": Categorical(),
    "other": Ignored(note=_OTHER),
}


def draft(source: Source) -> Schema:
    """Draft a schema with unfilled bounds and categories; write it with `Schema.save`."""
    nameless = Ignored(note=_NAMELESS)
    kinds = source.kinds().items()
    return Schema(
        columns={name: _DECLARED[kind] if name.strip() else nameless for name, kind in kinds}
    )
