"""Read the dictionary in a file of SPSS, Stata or SAS.

Contract: reads names, labels, formats and declared missing values; no row is read.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from dpcov.data.schema.codebooks.fields import Field, Holds, sentence, texts_of, words_of
from dpcov.data.schema.schema import Schema
from dpcov.data.sources.statistical import date_of


def schema_of(dictionary: Any) -> Schema:
    """Make a draft of a `pyreadstat` metadata container."""
    return Schema(
        columns={name: _field(dictionary, name).declared() for name in dictionary.column_names},
        title=words_of(dictionary.file_label),
    )


def _field(dictionary: Any, name: str) -> Field:
    is_text = dictionary.readstat_variable_types[name] == "string"
    holds: Holds = "text" if is_text else "date" if date_of(dictionary, name) else "number"
    spans = [(span["lo"], span["hi"]) for span in dictionary.missing_ranges.get(name, ())]
    labels = dictionary.variable_value_labels.get(name, {})
    # Letters are Stata's and SAS's special missing values, which hold no number.
    given = {
        value: label for value, label in labels.items() if is_text or not isinstance(value, str)
    }
    valid = {v: label for v, label in given.items() if not any(lo <= v <= hi for lo, hi in spans)}
    levels = {text: words_of(label) for v, label in valid.items() for text in texts_of([v])}
    said, label = "", words_of(dictionary.column_names_to_labels.get(name))
    if not (is_text or _are_codes(valid)):
        said, levels = ", ".join(f"{text} = {label}" for text, label in levels.items()), {}
    return Field(
        holds=holds,
        description=sentence(label, said),
        levels=levels,
        # Other values within a span are read as missing, too.
        missing_codes=texts_of(
            [lo for lo, hi in spans if lo == hi] + [v for v in given if v not in valid]
        ),
    )


def _are_codes(values: Iterable[float]) -> bool:
    # Labels of the ends of a scale, or of negative codes, do not make it categorical.
    return any(b - a == 1 for a, b in pairwise(sorted(value for value in values if value >= 0)))
