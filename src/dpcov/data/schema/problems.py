"""Say what keeps a schema from being used, so that the person can correct it.

Contract: a schema without problems has a finite, positive norm bound that every encoded row obeys.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec

from dpcov.data.cells import text_of, truth_value_of
from dpcov.data.dates import pattern_of
from dpcov.data.schema.declared import (
    Boolean,
    Categorical,
    Date,
    Declarations,
    Declared,
    Ignored,
    Missing,
    Numeric,
    Weights,
    encoded_columns_of,
)
from dpcov.data.values import codes_of_spellings
from dpcov.errors import DataError, SchemaError
from dpcov.published.file.columns import LARGEST_SCALE, SMALLEST_BOUND, SMALLEST_SCALE

_MISSING = (None, *get_args(Missing))
# What fields of the table may be.
_FIELDS = {
    **{"title": "a text", "wildcards": "true or false", "intercept": "true or false"},
    "missing": '"center", "indicator" or "never"',
    "decimal": '"." or ","',
    "thousands": "empty, or one of: , . ' and a blank",
}
# Learned here: msgspec crashes where two threads use a type first.
_KINDS = {field.name: field.type for field in msgspec.structs.fields(Declarations)}
_MOST = 20
# Floats count exactly up to here.
_MOST_ROWS = 2**53


def listed(heading: str, problems: Sequence[str]) -> str:
    """One screen of problems, a line each, and how many more there are."""
    lines = [heading, *(f"  - {problem[:400]}" for problem in problems[:_MOST])]
    if len(problems) > _MOST:
        lines.append(f"  - and {len(problems) - _MOST} more")
    return "\n".join(lines)


def problems_of(schema: Declarations) -> list[str]:
    """List what is missing or contradictory, one sentence each."""
    columns = schema.columns.items()
    found = [problem for name, kind in columns for problem in _of_column(schema, name, kind)]
    found += _of_table(schema)
    # Encoded columns can be named only where bounds and categories are filled in.
    return found or _of_names(schema)


def _of_column(schema: Declarations, name: object, declared: object) -> Iterator[str]:
    if not isinstance(name, str) or (not name.strip() and not isinstance(declared, Ignored)):
        yield "A column without a name can only be ignored; give it a name in the data."
    elif not isinstance(declared, Declared):
        yield f"Column '{name}' must be Numeric, Date, Boolean, Categorical or Ignored."
    elif getattr(declared, "missing", None) not in _MISSING:
        yield f'Column \'{name}\': missing is "center", "indicator" or "never".'
    elif wrong := _misfit(declared):
        yield f"Column '{name}': {wrong}."
    else:
        yield from (f"Column '{name}': {wrong}." for wrong in _of_kind(schema, name, declared))


def _misfit(declared: Declared) -> str:
    # What has another type than its field, or is none of the values that it may have.
    try:
        msgspec.convert(msgspec.to_builtins(declared), Declared)
    except (msgspec.ValidationError, TypeError) as error:
        return str(error).replace(" - at `$.", " at `")
    return ""


def _of_kind(schema: Declarations, name: str, declared: Declared) -> Iterator[str]:
    if isinstance(declared, Categorical):
        yield from _of_categories(declared)
    elif isinstance(declared, Numeric | Date):
        yield from _of_numbers(declared)
    if isinstance(declared, Date):
        yield from _of_date(declared)
    elif isinstance(declared, Boolean) and any(map(_is_truth, schema.codes_of(name))):
        yield "a code of missing values means true or false here, as 0 and yes do; set others"
    elif isinstance(declared, Numeric) and len(set(schema.marks_of(name))) < 2:
        yield "decimal and thousands are the same mark; set both"


def _is_truth(code: str | float) -> bool:
    # Sources differ in whether they hand out a truth value or its text.
    try:
        return truth_value_of(code, "") in (0, 1)
    except DataError:
        return False


def _of_numbers(declared: Numeric | Date) -> Iterator[str]:
    lower, upper = declared.lower, declared.upper
    if lower is None or upper is None:
        bounds = {"lower": lower, "upper": upper}
        unfilled = " and ".join(word for word, bound in bounds.items() if bound is None)
        yield f"fill in {unfilled} from public knowledge, never from the data"
    elif not (math.isfinite(lower) and math.isfinite(upper)):
        yield "bounds must be finite numbers"
    elif lower > upper:
        yield "lower is above upper; exchange them"
    elif lower == upper:
        yield "lower and upper are equal; widen them, or ignore the column"
    elif declared.function == "log1p" and lower <= -1:
        yield "log1p needs a lower bound above -1"
    elif declared.function == "sqrt" and lower < 0:
        yield "sqrt needs a lower bound of 0 or more"
    else:
        lowest, highest = declared.encoded_bounds
        if highest / 2 - lowest / 2 < SMALLEST_SCALE:
            yield "lower and upper are too close to be told apart; use another unit"
        elif highest / 2 - lowest / 2 > LARGEST_SCALE:
            yield "lower and upper are so far apart that squares overflow; use another unit"
        elif max(-lowest, highest) > 2 * LARGEST_SCALE:
            yield "lower and upper are so far out that squares overflow; use another unit"


def _of_date(declared: Date) -> Iterator[str]:
    if declared.as_ != "year" and declared.reference is None:
        yield f'"{declared.as_}" needs a reference, such as reference = 2020-12-31'
    try:
        pattern_of(declared.format)
    except SchemaError as error:
        yield str(error)


def _of_categories(declared: Categorical) -> Iterator[str]:
    own = declared.categories, *declared.groups.values()
    spelled = [text.casefold() if declared.ignore_case else text for of in own for text in of]
    codes = {str(text_of(code, "")) for code in declared.missing_codes or ()}
    counted = _counted(spelled, declared)
    if not declared.levels:
        yield "list its categories from public knowledge, never from the data"
    if "" in (*spelled, *declared.names):
        yield "an empty text cannot be a category, it means a missing value"
    if empty := sorted(name for name, of in declared.groups.items() if not of):
        yield f"groups without a spelling: {', '.join(empty)}"
    if repeated := sorted(label for label, count in Counter(spelled).items() if count > 1):
        yield f"listed more than once (blanks around are ignored): {', '.join(repeated)}"
    if both := sorted(code for code in codes if not counted.isdisjoint(_counted([code], declared))):
        yield f"both a category and a code of missing values: {', '.join(both)}"
    if unknown := sorted(set(declared.labels) - set(declared.levels)):
        yield f"labels of what is no category: {', '.join(unknown)}"


def _counted(spelled: Iterable[str], declared: Categorical) -> set[str]:
    # What counts as one of these spellings.
    return {*codes_of_spellings(dict.fromkeys(spelled, 0), ignore_case=declared.ignore_case)}


def _of_table(schema: Any) -> Iterator[str]:
    rows, bound = schema.rows_per_person, schema.norm_bound
    if not schema.features:
        yield "No column is numeric, boolean or categorical; there is nothing to release."
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        yield "rows_per_person must be a whole number, 1 or more."
    elif rows > _MOST_ROWS:
        yield f"rows_per_person is too large: it must be at most {_MOST_ROWS}."
    for name, words in _FIELDS.items():
        if not _is_of(_KINDS[name], getattr(schema, name)):
            yield f"{name} is {words}."
    yield from _of_missing(schema)
    if isinstance(schema.weights, Weights):
        yield from _of_weights(schema, schema.weights)
    elif schema.weights is not None:
        yield "weights are Weights(column=..., upper=...)."
    if bound is not None and not SMALLEST_BOUND <= bound < math.inf:
        yield "norm_bound must be a positive number."
    elif bound is not None and bound > schema.worst_case_norm:
        useless = f"norm_bound is above {schema.worst_case_norm:.6g}, which no row exceeds"
        yield f"{useless}, so it would only add noise; leave it out or lower it."


def _is_of(kind: Any, value: object) -> bool:
    try:
        msgspec.convert(value, kind)
    # A lone surrogate is no text that a message could hold.
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def _of_missing(schema: Declarations) -> Iterator[str]:
    names = [name for group in schema.missing_together for name in group]
    for name, count in Counter(names).items():
        what = f"missing_together names '{name}'"
        if name not in schema.features:
            yield f"{what}, which is no column that is encoded; correct it or leave it out."
        elif getattr(schema.columns[name], "missing", None) in ("center", "never"):
            yield f"{what}, whose own `missing` says otherwise; leave out one of them."
        elif count > 1:
            yield f"{what} twice; a column has one indicator."


def _of_weights(schema: Declarations, weights: Weights) -> Iterator[str]:
    name, upper = weights.column, weights.upper
    declared = schema.columns.get(name)
    if declared is None:
        yield f"The weights' column '{name}' is not listed; list it as numeric or ignored."
    elif not isinstance(declared, Ignored | Numeric):
        yield f"Column '{name}' holds the weights; make it numeric, from 0 to upper, or ignored."
    elif isinstance(declared, Numeric) and (declared.lower, declared.upper) != (0.0, upper):
        yield f"Column '{name}' holds the weights; its bounds are 0 and the upper of the weights."
    elif isinstance(declared, Numeric) and declared.transform is not None:
        yield f"Column '{name}' holds the weights, which take no transform."
    if upper is None or not 0 < upper < math.inf:
        yield "The weights need upper, a positive public bound of the largest weight."
    if schema.intercept is not True:
        yield "Weights need the intercept; set intercept = true."


def _of_names(schema: Declarations) -> list[str]:
    # Two columns can get one name: a category ``a=b`` beside a column ``a=b``.
    encoded = encoded_columns_of(schema)
    counts = Counter(column.name for column in encoded)
    sources = {column.name: column.source for column in encoded}
    return [
        f"Column '{sources[name]}' and another one would be encoded as '{name}'; rename a column "
        "or a category."
        for name, count in counts.items()
        if count > 1
    ]
