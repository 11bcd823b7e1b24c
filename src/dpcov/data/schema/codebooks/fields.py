"""What all codebooks have in common: fields of one column, and how they become a declaration.

Contract: bounds, categories and labels are those that the codebook declares.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any, Literal

from dpcov.data.cells import MISSING_WORDS, text_of
from dpcov.data.layout import FileLayout
from dpcov.data.schema.declared import Boolean, Categorical, Date, Declared, Ignored, Numeric

Holds = Literal["number", "date", "boolean", "text"]
Span = tuple[float | None, float | None]
_LONGEST_SPAN, _LARGEST = 200, 1e300
_UNLISTED = (
    "values {spans} mean a missing one, by the codebook, and cannot be listed; make them empty in "
    "the data, then declare the column"
)
BOUNDED = (
    "Bounds as the codebook declares them, or the first and last label of an ordered scale. If a "
    "program took them from the rows, replace them by what anybody may know. List labels that are "
    'no point of the scale, such as "don\'t know", as missing_codes.'
)
BOUNDED_TOO = "Bounds of the codebook: see the first."
# Two labels are those of categories.
_LEAST_POINTS = 3


@dataclass(kw_only=True)
class Field:
    """One column as a codebook describes it."""

    holds: Holds = "text"
    description: str = ""
    unit: str = ""
    lower: Any = None
    upper: Any = None
    # Values and what they are called; the same text where there is no label.
    levels: Mapping[str, str] = field(default_factory=dict)
    # Whether the values are ordered, so that those that follow each other are numbers.
    is_ordered: bool = False
    # None: those of the table.
    missing_codes: tuple[str, ...] | None = None
    # Ranges of values that mean a missing one; an end may be open (None, or infinite).
    missing_spans: tuple[Span, ...] = ()
    date_format: str = ""
    marks: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def declared(self) -> Declared:
        """The declaration of the column; what is not said is left to be filled in."""
        words = {"description": self.description}
        if self.note:
            return Ignored(note=self.note, **words)
        if unlisted := [span for span in self.missing_spans if not codes_of_span(*span)]:
            return Ignored(note=_UNLISTED.format(spans=spans_in_words(unlisted)), **words)
        spans = [text for span in self.missing_spans for text in codes_of_span(*span)]
        missing = tuple(dict.fromkeys([*(self.missing_codes or ()), *spans]))
        is_said = self.missing_codes is not None or spans
        more: dict[str, Any] = {**words, "missing_codes": codes_of(missing) if is_said else None}
        if self.levels:
            levels = {text: label for text, label in self.levels.items() if text not in missing}
            if self.holds == "number" and self.is_ordered and (ends := ends_of_scale(levels)):
                more["description"] = sentence(self.description, labels_in_words(levels))
                return Numeric(lower=ends[0], upper=ends[1], unit=self.unit, **self.marks, **more)
            labels = {text: label for text, label in _distinct(levels).items() if label != text}
            return Categorical(categories=tuple(levels), labels=labels, **more)
        if self.holds == "boolean":
            return Boolean(**more)
        if self.holds == "date":
            lower, upper = year_of(self.lower, 0), year_of(self.upper, 1)
            return Date(format=self.date_format, lower=lower, upper=upper, **more)
        if self.holds == "number":
            lower, upper = number_of(self.lower), number_of(self.upper)
            return Numeric(lower=lower, upper=upper, unit=self.unit, **self.marks, **more)
        return Categorical(**more)


def as_scale(declared: Declared) -> Numeric | None:
    """Categories that follow each other, as numbers; None where it has no such ones."""
    if not isinstance(declared, Categorical) or not (ends := ends_of_scale(declared.categories)):
        return None
    labels = {text: declared.labels.get(text, "") for text in declared.categories}
    return Numeric(
        lower=ends[0],
        upper=ends[1],
        description=sentence(declared.description, labels_in_words(labels)),
        missing=declared.missing,
        missing_codes=declared.missing_codes,
    )


def _distinct(levels: dict[str, str]) -> dict[str, str]:
    # Two levels of one name would be two columns of one name; without a label its text is one.
    called = {text: label or text for text, label in levels.items()}
    counts = Counter(called.values())
    return {
        text: f"{label} ({text})" if counts[label] > 1 else label for text, label in called.items()
    }


def only(given: Iterable[dict[str, Any]], key: str, held: str, part: str) -> dict[str, Any]:
    """The only table, or the one called so by this key, of what holds a table's description."""
    tables = {str(each.get(key, "")): each for each in given if held in each}
    return tables[FileLayout(part=part).choose(list(tables), "the codebook", "tables")]


def words_of(value: Any) -> str:
    """A text in one language, of what may be a text, a list of texts, or texts by language."""
    if isinstance(value, Mapping):
        value = value.get("en") or value.get("@value") or next(iter(value.values()), "")
    if isinstance(value, list):
        value = value[0] if value else ""
    return " ".join(value.split()) if isinstance(value, str) else ""


def sentence(*parts: str) -> str:
    """Texts that say something, each once."""
    joined = ". ".join(dict.fromkeys(part.rstrip(". ") for part in parts if part.strip()))
    # A question has a mark of its own.
    return re.sub(r"(?<=[?!:])\. ", " ", joined)


def texts_of(values: Iterable[object]) -> tuple[str, ...]:
    """Values as categories are spelled; those of no text are left out."""
    spelled = (_spelled(value) for value in values)
    return tuple(dict.fromkeys(text for text in spelled if text))


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (text_of(value, "codebook") or "").strip()


def codes_of(texts: Iterable[str]) -> tuple[str | int | float, ...]:
    """Missing codes beside the words that always mean a missing value, numbers as numbers."""
    return tuple(code_of(text) for text in texts if text not in MISSING_WORDS)


def code_of(text: str) -> str | int | float:
    """A missing code; other digits, such as 09 and 1.50, would be another text as a number."""
    found = re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]+)?", text)
    if not found or text_of(float(text), "") != text:
        return text
    # A number is the same whatever decimal mark the file has.
    return float(text) if found[1] else int(text)


def codes_of_span(lower: float | None, upper: float | None) -> tuple[str, ...]:
    """The whole numbers between two, or the only number, where they are few."""
    if lower is None or upper is None or not 0 <= upper - lower <= _LONGEST_SPAN:
        return ()
    return texts_of([lower] if lower == upper else range(math.ceil(lower), math.floor(upper) + 1))


def spans_in_words(spans: Iterable[Span]) -> str:
    """Ranges as a person would write them."""
    return ", ".join(f"{_end(lo, 'lowest')} to {_end(hi, 'highest')}" for lo, hi in spans)


def _end(value: float | None, otherwise: str) -> str:
    # Statistical packages write the largest float for an open end.
    return otherwise if value is None or abs(value) > _LARGEST else f"{value:.15g}"


def are_codes(values: Iterable[float]) -> bool:
    """Whether labelled numbers are those of categories, and not the ends of a scale."""
    # Nor do labels of negative codes make a number categorical.
    return any(b - a == 1 for a, b in pairwise(sorted(value for value in values if value >= 0)))


def ends_of_scale(texts: Iterable[str]) -> tuple[float, float] | None:
    """The first and the last of whole numbers that follow each other, from 0 or 1, or around 0.

    Others may stand for missing values: -1 before 0, or 97 to 99 alone.
    """
    values = sorted(math.nan if (found := number_of(text)) is None else found for text in texts)
    if len(values) < _LEAST_POINTS or any(b - a != 1 for a, b in pairwise(values)):
        return None
    lower, upper = values[0], values[-1]
    return (lower, upper) if lower in (0, 1, -upper) else None


def labels_in_words(levels: Mapping[str, str]) -> str:
    """Labels of single values, for a description."""
    return ", ".join(f"{text} = {label}" for text, label in levels.items() if label)


def first_of(given: Mapping[str, Any], *keys: str) -> Any:
    """What the first of these keys says that is there; None without one."""
    return next((given[key] for key in keys if key in given), None)


def number_of(value: object) -> float | None:
    """A bound; None if it is no number."""
    try:
        return None if value is None or isinstance(value, bool) else float(str(value))
    except ValueError:
        return None


def year_of(value: object, later: int) -> float | None:
    """The year in which an ISO date lies, or so much later; None if it is no date."""
    try:
        return float(date.fromisoformat(str(value)[:10]).year + later)
    except ValueError:
        return None
