"""Say what keeps a schema from being used, so that the person can correct it.

Contract: a schema without problems has a finite, positive norm bound that every encoded row obeys.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dpcov.data.schema.declared import (
    Categorical,
    Declarations,
    Declared,
    Ignored,
    Numeric,
    Weights,
    encoded_columns_of,
)
from dpcov.published.columns import LARGEST_SCALE, SMALLEST_SCALE

_MISSING = (None, "center", "indicator")
_MOST = 20


def listed(heading: str, problems: Sequence[str]) -> str:
    """One screen of problems, a line each, and how many more there are."""
    lines = [heading, *(f"  - {problem[:400]}" for problem in problems[:_MOST])]
    if len(problems) > _MOST:
        lines.append(f"  - and {len(problems) - _MOST} more")
    return "\n".join(lines)


def problems_of(schema: Declarations) -> list[str]:
    """List what is missing or contradictory, one sentence each."""
    columns = schema.columns.items()
    found = [problem for name, declared in columns for problem in _of_column(name, declared)]
    found += _of_table(schema)
    # Encoded columns can be named only where bounds and categories are filled in.
    return found or _of_names(schema)


def _of_column(name: object, declared: object) -> Iterator[str]:
    if not isinstance(name, str) or (not name.strip() and not isinstance(declared, Ignored)):
        yield "A column without a name can only be ignored; give it a name in the data."
    elif isinstance(declared, Numeric):
        yield from _of_bounds(name, declared.lower, declared.upper)
    elif isinstance(declared, Categorical):
        yield from _of_categories(f"Column '{name}'", declared.categories)
    elif not isinstance(declared, Declared):
        yield f"Column '{name}' must be Numeric, Boolean, Categorical or Ignored."
    if getattr(declared, "missing", None) not in _MISSING:
        yield f'Column \'{name}\': missing is "center" or "indicator".'


def _of_bounds(name: str, lower: float | None, upper: float | None) -> Iterator[str]:
    if lower is None or upper is None:
        bounds = {"lower": lower, "upper": upper}
        unfilled = " and ".join(word for word, bound in bounds.items() if bound is None)
        wrong = f"fill in {unfilled} from public knowledge, never from the data"
    elif not (math.isfinite(lower) and math.isfinite(upper)):
        wrong = "bounds must be finite numbers"
    elif lower > upper:
        wrong = "lower is above upper; exchange them"
    elif lower == upper:
        wrong = "lower and upper are equal; widen them, or ignore the column"
    elif upper / 2 - lower / 2 < SMALLEST_SCALE:
        wrong = "lower and upper are too close to be told apart; use another unit"
    elif upper / 2 - lower / 2 > LARGEST_SCALE:
        wrong = "lower and upper are so far apart that squares overflow; use another unit"
    else:
        return
    yield f"Column '{name}': {wrong}."


def _of_categories(what: str, categories: tuple[str, ...]) -> Iterator[str]:
    if not categories:
        yield f"{what}: list its categories from public knowledge, never from the data."
    if "" in categories:
        yield f"{what}: an empty text cannot be a category, it means a missing value."
    if repeated := sorted(label for label, count in Counter(categories).items() if count > 1):
        names = ", ".join(repeated)
        yield f"{what}: listed more than once (blanks around are ignored): {names}."


def _of_table(schema: Any) -> Iterator[str]:
    rows, bound = schema.rows_per_person, schema.norm_bound
    if not schema.features:
        yield "No column is numeric, boolean or categorical; there is nothing to release."
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        yield "rows_per_person must be a whole number, 1 or more."
    if not isinstance(schema.missing, str) or schema.missing not in _MISSING:
        yield 'missing is "center" or "indicator".'
    if not isinstance(schema.intercept, bool):
        yield "intercept is true or false."
    if not isinstance(schema.title, str):
        yield "title is a text."
    if schema.weights is not None:
        yield from _of_weights(schema, schema.weights)
    if bound is not None and not SMALLEST_SCALE <= bound < math.inf:
        yield "norm_bound must be a positive number."
    elif bound is not None and bound > schema.worst_case_norm:
        useless = f"norm_bound is above {schema.worst_case_norm:.6g}, which no row exceeds"
        yield f"{useless}, so it would only add noise; leave it out or lower it."


def _of_weights(schema: Declarations, weights: Weights) -> Iterator[str]:
    name, upper = weights.column, weights.upper
    declared = schema.columns.get(name)
    if declared is None:
        yield f"The weights' column '{name}' is not listed; list it as numeric or ignored."
    elif not isinstance(declared, Ignored | Numeric):
        yield f"Column '{name}' holds the weights; make it numeric, from 0 to upper, or ignored."
    elif isinstance(declared, Numeric) and (declared.lower, declared.upper) != (0.0, upper):
        yield f"Column '{name}' holds the weights; its bounds are 0 and the upper of the weights."
    if upper is None or not 0 < upper < math.inf:
        yield "The weights need upper, a positive public bound of the largest weight."
    if schema.intercept is not True:
        yield "Weights need the intercept; set intercept = true."


def _of_names(schema: Declarations) -> list[str]:
    # Two columns can get one name: a category ``a=b`` beside a column ``a=b``.
    names = Counter(column.name for column in encoded_columns_of(schema))
    repeated = [name for name, count in names.items() if count > 1]
    what = "rename a column or a category."
    return [f"Two encoded columns would be called '{name}'; {what}" for name in repeated]
