"""Read DDI-Codebook 2 (XML), as data archives keep it.

Contract: reads the description of variables, never their statistics (``sumStat``, ``catStat``).
Documents with a document type are refused: entities could grow without limit or name other files.

References
----------
https://ddialliance.org/Specification/DDI-Codebook/2.5/
"""

from collections.abc import Iterator
from xml.etree import ElementTree

from dpcov.data.schema.codebooks.fields import (
    Field,
    Holds,
    codes_of_span,
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
    return Schema(
        columns={name: _field(each).declared() for name, each in columns.items()},
        title=next((_text(each) for each in root.iterfind(".//{*}titl")), ""),
    )


def _field(variable: ElementTree.Element) -> Field:
    form = next(variable.iterfind("{*}varFormat"), None)
    is_text = form is not None and form.get("type") == "character"
    is_date = form is not None and form.get("category") in ("date", "time")
    levels, missing = {}, list(_codes_of(variable))
    for category in variable.iterfind("{*}catgry"):
        for value in texts_of(map(_text, category.iterfind("{*}catValu"))):
            levels[value] = next(map(_text, category.iterfind("{*}labl")), "")
            if category.get("missing") == "Y":
                missing.append(value)
    lower, upper = _bounds(variable)
    # Labels of single values of a continuous variable do not make it categorical.
    continuous = variable.get("intrvl") == "contin"
    holds: Holds = "date" if is_date else "text" if is_text else "number"
    return Field(
        holds=holds,
        description=sentence(
            next(map(_text, variable.iterfind("{*}labl")), ""),
            next((_text(each) for each in variable.iterfind(".//{*}qstnLit")), ""),
        ),
        unit=variable.get("measUnit", ""),
        lower=lower,
        upper=upper,
        levels={} if continuous else levels,
        missing_codes=texts_of(missing),
    )


def _codes_of(variable: ElementTree.Element) -> Iterator[str]:
    for invalid in variable.iterfind("{*}invalrng"):
        for item in invalid.iterfind("{*}item"):
            yield item.get("VALUE", "")
        for span in invalid.iterfind("{*}range"):
            yield from codes_of_span(number_of(span.get("min")), number_of(span.get("max")))


def _bounds(variable: ElementTree.Element) -> tuple[str | None, str | None]:
    for valid in variable.iterfind("{*}valrng"):
        for span in valid.iterfind("{*}range"):
            return span.get("min"), span.get("max")
    return None, None


def _text(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())
