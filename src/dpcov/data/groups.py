"""Tell which public group a row belongs to.

Contract: a row's group depends on that row alone, and every row has exactly one: unlisted and
missing values go to the last group, so that no row is lost.  The groups' names are public.
"""

from collections.abc import Iterable
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.data import values
from dpcov.data.notation import Notation
from dpcov.data.readers import Read, Reader, level_codes
from dpcov.data.schema.declared import Boolean, Categorical, Ignored
from dpcov.data.schema.given import Codes
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block
from dpcov.errors import SchemaError, few_of
from dpcov.published.file.columns import OTHER


class Grouping:
    """Rows grouped by a column with public categories; the last name is :data:`OTHER`."""

    def __init__(
        self, column: str, categories: Iterable[str] | Categorical | Boolean, missing: Codes = ()
    ) -> None:
        labels, read = labels_and_codes(categories, missing)
        # The letters of a text are a list, too.
        one_text = isinstance(categories, str)
        if one_text or not labels or len(set(labels)) != len(labels) or OTHER in labels:
            raise SchemaError(f"Groups need a list of distinct categories other than {OTHER}.")
        self.reader = Reader(column, "text", read)
        self.names = (*labels, OTHER)

    def codes(self, block: Block) -> NDArray[np.intp]:
        """Group number of every row of a block."""
        return self.codes_of(values.column_of(block, self.reader.name))

    def codes_of(self, column: values.Column) -> NDArray[np.intp]:
        """Group number of every value."""
        codes = self.reader.read(column, self.reader.name)
        # Unlisted and missing values have codes below 0.
        return np.where(codes >= 0, codes, len(self.names) - 1).astype(np.intp)


def labels_and_codes(
    categories: Iterable[str] | Categorical | Boolean, missing: Codes
) -> tuple[tuple[str, ...], Read]:
    """What levels are called, and what reads their numbers; others are below 0."""
    if isinstance(categories, Boolean):
        return ("true", "false"), partial(_truth_codes, notation=Notation(codes=missing))
    if isinstance(categories, Categorical):
        return categories.names, level_codes(categories, missing)
    labels = tuple(map(str, categories if isinstance(categories, Iterable) else ()))
    return labels, level_codes(Categorical(categories=labels), missing)


def split_schema(schema: Schema, by: str) -> tuple[Schema, Grouping]:
    """Take the grouping column out of the features: within a group it is constant."""
    declared = schema.columns.get(by)
    if not isinstance(declared, Boolean | Categorical):
        raise SchemaError(
            "Group by a column that the schema declares as categorical or boolean: "
            f"{few_of(schema.groupings, 10) or 'it has none'}."
        )
    rest = msgspec.structs.replace(schema, columns={**schema.columns, by: Ignored(note="groups")})
    rest.require_complete()
    return rest, Grouping(by, declared, schema.codes_of(by))


def _truth_codes(column: values.Column, name: str, *, notation: Notation) -> NDArray[np.intp]:
    # As in a release without groups; numbers other than 1 and 0 are not listed.
    found = values.truth_values(column, name, notation)
    return np.where(found == 1, 0, np.where(found == 0, 1, values.UNKNOWN))
