"""Draft a schema for a table: names and types of the columns, no bound, category or value."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from dpcov.data.layout import FileLayout
from dpcov.data.schema.codebooks import read_codebook
from dpcov.data.schema.codebooks.dictionaries import schema_of
from dpcov.data.schema.codebooks.fields import BOUNDED, BOUNDED_TOO, as_scale
from dpcov.data.schema.declared import Boolean, Date, Declared, Ignored
from dpcov.data.schema.names import BY_KIND, Proposal, grouped, propose_described
from dpcov.data.schema.schema import Schema
from dpcov.data.schema.toml import format_schema
from dpcov.data.schema.wildcards import is_pattern
from dpcov.data.sources import Source, file_of, open_source
from dpcov.data.sources.statistical import StatisticalSource
from dpcov.errors import SchemaError, UsageError, few_of
from dpcov.files import as_path, check_output, write_file

_STRANGE = (
    "The table has none of the columns of the codebook: {absent}. Give the codebook of this table. "
    "The file needs a line of column names, and capitals count in them."
)
_NAMELESS = "has no name, which is usual for row numbers; name it in the data to use it"


@dataclass(frozen=True)
class Draft:
    """A schema with unfilled bounds and categories, and why columns are declared so."""

    schema: Schema
    comments: dict[str, str]
    # Columns of the codebook that the table lacks.
    absent: tuple[str, ...] = ()

    def dumps(self) -> str:
        """Write the schema with its comments."""
        return format_schema(self.schema, self.comments)


def draft(
    data: Any,
    output: str | Path | None = None,
    *,
    codebook: str | Path | None = None,
    ordered: str | Collection[str] = (),
    overwrite: bool = False,
) -> str:
    """Draft a schema of a table, or of what its codebook says: TOML text, to be filled in.

    Names and types are read, of a text file as its first rows tell them.  Bounds and categories
    come from public knowledge, so they are left for you: fill them in, and read the file with
    ``Schema.from_toml``.

    Parameters
    ----------
    data : file, data frame or another table
        As :func:`dpcov.release` takes.
    output : path, optional
        The file to write the draft to.
    codebook : path, optional
        A Data Package, CSVW, DDI-Codebook, or a file of SPSS, Stata or SAS.
    ordered : str or collection of str
        Columns, or patterns such as ``"q*"``, whose labeled codes are an ordered scale although the
        codebook does not say so: they become numbers.  Raises UsageError for one without any.
    """
    if output is not None:
        check_output(output, file_of(data), codebook)
    known = None if codebook is None else read_codebook(as_path(codebook))
    layout = None if known is None else known.file
    named = [ordered] if isinstance(ordered, str) else ordered
    text = describe(open_source(data, layout), known, layout, ordered=named).dumps()
    if output is not None:
        write_file(output, text.encode(), overwrite=overwrite)
    return text


def describe(
    source: Source | None,
    codebook: Schema | None = None,
    layout: FileLayout | None = None,
    decimal: str | None = None,
    ordered: Collection[str] = (),
) -> Draft:
    """Draft a schema from the names and types of a table, and from what a codebook says.

    Without a table all columns of the codebook are declared.  A file of a statistical package is
    its own codebook.  ``layout`` and ``decimal``, the decimal mark of numbers that are written as
    text, are written into the draft.  Labeled codes of ``ordered`` columns are numbers.
    """
    if codebook is None and isinstance(source, StatisticalSource):
        codebook = schema_of(source, of_itself=True)
    known = _with_scales({} if codebook is None else codebook.columns, ordered)
    names = tuple(known) if source is None else source.columns
    absent = tuple(name for name in known if name not in names)
    # Where the line of names was forgotten, they are values.
    if known and len(absent) == len(known):
        raise SchemaError(_STRANGE.format(absent=few_of(absent, 10)))
    described = Schema(columns={}) if codebook is None else codebook
    if decimal not in (None, ".", ","):
        raise UsageError('The decimal mark is "." or ",".')
    if decimal is not None:
        described = msgspec.structs.replace(described, decimal=decimal)
    named = {name: _described(_by_name(name, known[name]), known[name]) for name in known}
    proposals = _proposals(source, known, described.decimal) if source else named
    columns = {name: declared for name, (declared, _) in proposals.items()}
    # Names that hold wildcards themselves, and no group: names are names.
    literal = all(name in names for name in columns)
    wildcards = not (literal and any(map(is_pattern, columns)))
    schema = msgspec.structs.replace(
        described, columns=columns, wildcards=wildcards, file=layout or described.file
    )
    comments = {name: why for name, (_, why) in proposals.items()}
    bounded = [name for name, why in comments.items() if why == BOUNDED]
    return Draft(schema, comments | dict.fromkeys(bounded[1:], BOUNDED_TOO), absent)


def _with_scales(known: Mapping[str, Declared], ordered: Collection[str]) -> dict[str, Declared]:
    made = dict(known)
    for pattern in ordered:
        named = [name for name in known if fnmatchcase(name, pattern)]
        scales = {name: scale for name in named if (scale := as_scale(known[name])) is not None}
        if not scales:
            raise UsageError(
                "The codebook has no labels of an ordered scale, three or more codes that follow "
                f"each other, for '{pattern}'."
            )
        made |= scales
    return made


def _proposals(source: Source, known: Mapping[str, Declared], decimal: str) -> dict[str, Proposal]:
    found: dict[str, Proposal] = {}
    for name, kind in source.kinds(decimal).items():
        nameless = Ignored(note=_NAMELESS), ""
        said = known[name].description if name in known else ""
        found[name] = propose_described(name, kind, said) if name.strip() else nameless
    described = {name: _described(found[name], known[name]) for name in found if name in known}
    others = grouped({name: each for name, each in found.items() if name not in known})
    # In the order of the table, unless columns share an entry.
    return {name: described[name] for name in found if name in described} | others


def _by_name(name: str, declared: Declared) -> Proposal:
    kind = next(kind for kind, (each, _) in BY_KIND.items() if isinstance(declared, type(each)))
    return propose_described(name, kind, declared.description)


def _described(guess: Proposal, declared: Declared) -> Proposal:
    # A name says more than a codebook that has a description only.
    bare = type(declared)(description=declared.description)
    if declared != bare or isinstance(declared, Ignored | Date | Boolean):
        return _told(declared)
    proposed, why = guess
    return msgspec.structs.replace(proposed, description=declared.description), why


def _told(declared: Declared) -> Proposal:
    bounds = {getattr(declared, name, None) for name in ("lower", "upper")}
    if bounds != {None}:
        return declared, BOUNDED
    is_year = isinstance(declared, Date) and declared.as_ == "year"
    return declared, BY_KIND["date"][1] if is_year else ""
