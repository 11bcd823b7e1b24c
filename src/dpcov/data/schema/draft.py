"""Draft a schema for a table: names and types of the columns, no bound, category or value."""

from dpcov.data.schema.declared import Boolean, Categorical, Declared, Ignored, Numeric
from dpcov.data.schema.names import Proposal, grouped, propose
from dpcov.data.schema.schema import Schema
from dpcov.data.schema.toml import format_schema
from dpcov.data.schema.wildcards import is_pattern
from dpcov.data.sources import Source

_OTHER = (
    'neither a number nor a text, or empty so far; a date has the type "date"; otherwise '
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
    """Draft a schema with unfilled bounds and categories."""
    return _schema(source, {name: kind for name, (kind, _) in _proposals(source).items()})


def draft_text(source: Source) -> str:
    """Write the draft with a comment where a name says more than a type."""
    proposals = _proposals(source)
    schema = _schema(source, {name: kind for name, (kind, _) in proposals.items()})
    return format_schema(schema, {name: why for name, (_, why) in proposals.items()})


def _schema(source: Source, columns: dict[str, Declared]) -> Schema:
    # Names that hold wildcards themselves, and no group: names are names.
    literal = all(name in source.columns for name in columns)
    return Schema(columns=columns, wildcards=not (literal and any(map(is_pattern, columns))))


def _proposals(source: Source) -> dict[str, Proposal]:
    found: dict[str, Proposal] = {}
    for name, kind in source.kinds().items():
        nameless = Ignored(note=_NAMELESS), ""
        found[name] = propose(name, kind, _DECLARED[kind]) if name.strip() else nameless
    return grouped(found)
