"""Read DDI-Codebook 2 (XML), as data archives keep it.

Contract: reads the description of variables, never their statistics (``sumStat``, ``catStat``).
Documents with a document type are refused: entities could grow without limit or name other files.

References
----------
https://ddialliance.org/Specification/DDI-Codebook/2.5/
"""

from xml.etree import ElementTree

from dpcov.data.schema.codebooks.fields import (
    Field,
    Holds,
    are_codes,
    first_of,
    labels_in_words,
    number_of,
    sentence,
    texts_of,
)
from dpcov.data.schema.schema import Schema
from dpcov.errors import SchemaError


def schema_of(text: str) -> Schema:
    """Make a draft of all variables."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise SchemaError("The codebook has a document type. Remove <!DOCTYPE ...> from it.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError:
        raise SchemaError("The codebook is no well-formed XML. Export it again.") from None
    variables = list(root.iterfind(".//{*}var"))
    if not variables:
        raise SchemaError("The codebook describes no variable (var). Give a DDI-Codebook.")
    columns = {each.get("name") or each.get("ID") or "": each for each in variables}
    title = next(map(_text, root.iterfind(".//{*}titl")), "")
    fields = {name: _field(each) for name, each in columns.items()}
    return Schema(columns={name: each.declared() for name, each in fields.items()}, title=title)


def _field(variable: ElementTree.Element) -> Field:
    form = variable.find("{*}varFormat")
    is_text = form is not None and form.get("type") == "character"
    is_date = form is not None and form.get("category") in ("date", "time")
    missing = [item.get("VALUE", "") for item in variable.iterfind("{*}invalrng/{*}item")]
    levels = dict[str, str]()
    for category in variable.iterfind("{*}catgry"):
        label = next(map(_text, category.iterfind("{*}labl")), "")
        # A value that is counted and has no label is one that occurs in the rows.
        occurs = not label and category.find("{*}catStat") is not None
        for value in texts_of(map(_text, category.iterfind("{*}catValu"))):
            if category.get("missing") == "Y":
                missing.append(value)
            elif not occurs:
                levels[value] = label
    lower, upper = _bounds(variable)
    holds: Holds = "date" if is_date else "text" if is_text else "number"
    # Labels of single values of a continuous variable, or of the ends of a scale, do not make it
    # categorical.
    valid = {text: label for text, label in levels.items() if text not in missing}
    numbers = [number for text in valid if (number := number_of(text)) is not None]
    of_numbers = holds == "number" and len(numbers) == len(valid) and not are_codes(numbers)
    continuous, said = variable.get("intrvl") == "contin" or of_numbers, ""
    if continuous:
        said, levels = labels_in_words(valid), {}
    return Field(
        holds=holds,
        description=sentence(
            next(map(_text, variable.iterfind("{*}labl")), ""),
            next((_text(each) for each in variable.iterfind(".//{*}qstnLit")), ""),
            said,
        ),
        unit=variable.get("measUnit", ""),
        lower=lower,
        upper=upper,
        levels=levels,
        is_ordered=variable.get("nature") in ("ordinal", "interval", "ratio"),
        missing_codes=texts_of(missing) or None,
        missing_spans=tuple(
            (number_of(span.get("min")), number_of(span.get("max")))
            for span in variable.iterfind("{*}invalrng/{*}range")
        ),
    )


def _bounds(variable: ElementTree.Element) -> tuple[str | float | None, str | float | None]:
    ranges = list(variable.iterfind("{*}valrng/{*}range"))
    ends = ("min", "minExclusive"), ("max", "maxExclusive")
    lowest, highest = ([first_of(span.attrib, *end) for span in ranges] for end in ends)
    if len(ranges) == 1:
        # Dates, too.
        return lowest[0], highest[0]
    lower = [number for x in lowest if (number := number_of(x)) is not None]
    upper = [number for x in highest if (number := number_of(x)) is not None]
    if not ranges or len(lower) + len(upper) < 2 * len(ranges):
        return None, None
    return min(lower), max(upper)


def _text(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())
