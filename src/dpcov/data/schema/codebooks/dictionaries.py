"""Read the dictionary in a file of SPSS, Stata or SAS.

Contract: reads names, labels, formats and declared missing values; no row is read.
"""

from dataclasses import replace
from typing import Any

from dpcov.data.schema.codebooks.fields import (
    Field,
    Holds,
    are_codes,
    labels_in_words,
    sentence,
    spans_in_words,
    texts_of,
    words_of,
)
from dpcov.data.schema.schema import Schema
from dpcov.data.sources.statistical import StatisticalSource, date_of

_WEIGHTS = (
    "SPSS weights the rows of its file by this column (WEIGHT BY); a release does if the schema "
    'says weights = {column = "...", upper = ...} at its top'
)


def schema_of(source: StatisticalSource, *, of_itself: bool = False) -> Schema:
    """Make a draft of the dictionary in a file.

    ``of_itself``: the table is the same file, whose reader knows what means a missing value: ranges
    stay in words.
    """
    dictionary = source.dictionary
    names = dictionary.column_names
    fields = {name: _field(dictionary, name, of_itself=of_itself) for name in names}
    if source.weights is not None:
        fields[source.weights] = replace(fields[source.weights], note=_WEIGHTS)
    columns = {name: field.declared() for name, field in fields.items()}
    return Schema(columns=columns, title=words_of(dictionary.file_label))


def _field(dictionary: Any, name: str, *, of_itself: bool) -> Field:
    is_text = dictionary.readstat_variable_types[name] == "string"
    holds: Holds = "text" if is_text else "date" if date_of(dictionary, name) else "number"
    spans = [(span["lo"], span["hi"]) for span in dictionary.missing_ranges.get(name, ())]
    labels = dictionary.variable_value_labels.get(name, {})
    # Letters are Stata's and SAS's special missing values, which hold no number.
    given = {v: label for v, label in labels.items() if is_text or not isinstance(v, str)}
    valid = {v: label for v, label in given.items() if not any(lo <= v <= hi for lo, hi in spans)}
    levels = {text: words_of(label) for v, label in valid.items() for text in texts_of([v])}
    said, label = "", words_of(dictionary.column_names_to_labels.get(name))
    if not (is_text or are_codes(valid)):
        said, levels = labels_in_words(levels), {}
    # Labelled values within a span, and the only ones of a span.
    missing = texts_of([v for v in given if v not in valid] + [lo for lo, hi in spans if lo == hi])
    spans = [] if is_text else [(lo, hi) for lo, hi in spans if lo < hi]
    if of_itself and spans:
        said, spans = sentence(said, f"{spans_in_words(spans)} = missing"), []
    return Field(
        holds=holds,
        description=sentence(label, said),
        levels=levels,
        # The level of measurement, which SPSS alone states.
        is_ordered=dictionary.variable_measure.get(name) in ("ordinal", "scale"),
        missing_codes=missing or None,
        missing_spans=tuple(spans),
    )
