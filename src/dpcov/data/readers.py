"""Say how every column of a schema is read: as numbers, truth values, days or codes of levels.

Contract: a reader is public, follows from the schema alone, and reads every cell by itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data import values
from dpcov.data.cells import text_of, transformed
from dpcov.data.dates import Floats, numbers_of_days
from dpcov.data.notation import Notation
from dpcov.data.schema.declared import NO_OTHER, Boolean, Categorical, Date, Declarations, Numeric
from dpcov.data.sources import Block, ReadAs

Read = Callable[[values.Column, str], NDArray[Any]]


@dataclass(frozen=True)
class Reader:
    """Read one column of a block; ``wanted`` says how a source should hand it out."""

    name: str
    wanted: ReadAs
    read: Read

    def of(self, block: Block) -> NDArray[Any]:
        """Numbers, NaN where missing; or codes of levels."""
        return self.read(values.column_of(block, self.name), self.name)


def reader_of(
    schema: Declarations, name: str, of_kind: Callable[..., Notation] = Notation
) -> Reader:
    """Return the reader of a feature, or of the column of weights."""
    declared, codes = schema.columns[name], schema.codes_of(name)
    if isinstance(declared, Categorical):
        return Reader(name, "text", level_codes(declared, codes))
    if isinstance(declared, Boolean):
        return Reader(name, "text", partial(values.truth_values, notation=Notation(codes=codes)))
    if isinstance(declared, Date):
        notation = of_kind(codes=codes, dates=declared.format)
        return Reader(name, notation, partial(_dates, declared=declared, notation=notation))
    decimal, thousands = schema.marks_of(name)
    notation = of_kind(codes=codes, decimal=decimal, thousands=thousands)
    read: Read = partial(values.numbers, notation=notation)
    if isinstance(declared, Numeric) and declared.transform is not None:
        read = partial(_transformed, declared=declared, notation=notation)
    return Reader(name, "number" if notation.is_plain else notation, read)


def level_codes(declared: Categorical, missing: Iterable[str | float]) -> Read:
    """Return the reader of the codes of a column's levels."""
    place = {level: code for code, level in enumerate(declared.levels)}
    spelled = {text: place[level] for level, of in declared.groups.items() for text in of}
    spelled |= {text: place[text] for text in declared.categories}
    code_of = values.codes_of_spellings(
        spelled, [str(text_of(code, "")) for code in missing], ignore_case=declared.ignore_case
    )
    return partial(
        values.category_codes,
        code_of=code_of,
        otherwise=values.UNKNOWN if declared.other == NO_OTHER else place[declared.other],
        ignore_case=declared.ignore_case,
    )


def _dates(column: values.Column, name: str, *, declared: Date, notation: Notation) -> Floats:
    return numbers_of_days(values.days(column, name, notation), declared.as_, declared.reference)


def _transformed(
    column: values.Column, name: str, *, declared: Numeric, notation: Notation
) -> Floats:
    # Within the bounds the function is defined.
    found = values.numbers(column, name, notation).astype(np.float64)
    return transformed(np.clip(found, declared.lower, declared.upper), declared.transform)
