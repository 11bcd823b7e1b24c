"""The public description of a sensitive table, as a custodian writes and keeps it.

Contract: a schema is written from what anybody may know about the table, never from its rows.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

from dpcov.data.exact.moments import DEFAULT_BITS
from dpcov.data.schema.declared import Declarations, Declared, encoded_columns_of
from dpcov.data.schema.problems import listed, problems_of
from dpcov.data.schema.toml import format_schema, parse_schema, read_text
from dpcov.data.schema.wildcards import UNRESOLVED, assign, is_pattern, quoted
from dpcov.errors import SchemaError
from dpcov.files import as_path, write_file
from dpcov.markup import CELL, Child, card, el, facts, listing, name_of
from dpcov.privacy.options import plain
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.file.stated import learned


@learned
class Schema(Declarations, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public description of a sensitive table.

    Parameters
    ----------
    columns : mapping of str to Numeric, Date, Boolean, Categorical or Ignored
        In the order of the encoded table.  Columns of the data that are not listed are not read.
        A name such as ``"BILL_AMT*"`` stands for every column that fits; see :meth:`resolve`.
    title : str
    wildcards : bool
        Whether ``*``, ``?`` and ``[...]`` in a name stand for other characters.
    intercept : bool
        Whether a column of ones comes first, which gives means and centered covariances.
    missing : {"indicator", "center", "never"}
        For all columns that do not say otherwise.
    missing_together : sequence of sequences of str
        Columns whose values are missing in the same rows share one indicator; where one of them is
        missing, all of them count as missing.
    missing_codes : sequence of str or number
        Cells that mean "missing", for all columns that do not list their own.
    decimal, thousands : str
        Marks of numbers in texts, for all columns that do not state their own.
    weights : Weights, optional
        A row is multiplied by ``sqrt(weight / upper)``; needs the intercept.
    rows_per_person : int
        The largest number of rows one person can have in the table.
    norm_bound : float, optional
        A public bound on the l2 norm of an encoded row, below the worst case; longer rows are
        scaled down.  A release then keeps the geometry of the bounds.
    file : FileLayout, optional
        How files with the table are laid out, where that does not follow from their ending.

    Notes
    -----
    A schema may be a draft with unfilled bounds (``None``, or ``nan`` in a file) and empty lists of
    categories; `require_complete` refuses it.

    Examples
    --------
    >>> from dpcov import Categorical, Numeric, Schema
    >>> columns = {"age": Numeric(lower=17, upper=90), "sex": Categorical(categories=("F", "M"))}
    >>> schema = Schema(columns=columns, missing="never")
    >>> [column.name for column in schema.encoded_columns]
    ['(intercept)', 'age', 'sex=F', 'sex=M']
    >>> round(schema.worst_case_norm**2, 9)
    3.0
    """

    def _repr_html_(self) -> str:
        # One line for every column, and what is still to be filled in.
        kinds = self.columns.items()
        rows = [(name_of(name, CELL), type(k).__name__.lower(), _said(k)) for name, k in kinds]
        caption = f"{len(rows)} column{'s' * (len(rows) != 1)}: what anybody may know"
        listed = _differing(self, "columns", "title")
        said = [(name.replace("_", " "), value) for name, value in listed]
        return card(
            "Schema",
            self.title or "untitled table",
            listing(("Column", "Type", "Declared"), rows, caption, numeric=False),
            facts(said) if said else None,
            _missing(self.problems()),
        )

    @property
    def norm_bound_or_worst_case(self) -> float:
        """The norm bound that rows are divided by; with an intercept, it is whole on the grid."""
        if self.norm_bound is not None:
            return self.norm_bound
        longest, grid = self.worst_case_norm, 2**DEFAULT_BITS
        steps = math.floor(grid / longest) if self.intercept else 0
        # Truncated, means near a bound would be shorter than their intercept, and spreads larger.
        return max(longest, math.nextafter(grid / steps, 0.0)) if steps else longest

    @property
    def encoded_columns(self) -> tuple[EncodedColumn, ...]:
        """The columns of the encoded table; the schema must be complete."""
        self.require_complete()
        return encoded_columns_of(self)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names that stand for several columns, unless a table has a column so called."""
        return tuple(filter(is_pattern, self.columns)) if self.wildcards is True else ()

    def resolve(self, names: Iterable[str]) -> "Schema":
        """Write out the columns that patterns stand for.

        A column's own name comes first, then the pattern with most characters outside of
        wildcards.  Capitals count.

        Parameters
        ----------
        names : iterable of str
            All column names of the table, which are public.

        Returns
        -------
        Schema
            Without patterns, its columns in the order of the table; the schema itself if it has
            none.

        Raises
        ------
        SchemaError
            If a pattern fits no column, or two fit one equally well, or only patterns such as
            ``*`` fit, so that nothing shows that the names are names.

        Examples
        --------
        >>> from dpcov import Ignored, Numeric, Schema
        >>> schema = Schema(columns={"id": Ignored(), "PAY_[1-6]": Numeric(lower=-2, upper=9)})
        >>> list(schema.resolve(["id", "PAY_1", "PAY_2"]).columns)
        ['id', 'PAY_1', 'PAY_2']
        """
        if not self.patterns:
            return self
        table = dict.fromkeys(names)
        columns = self.columns
        if not set(self.patterns) <= set(table):
            entry_of = assign(columns, table)
            found = {name: columns[entry] for name, entry in entry_of.items()}
            # What the table lacks is refused where it is read.
            columns = found | {name: columns[name] for name in columns if not is_pattern(name)}
        wildcards = not any(map(is_pattern, columns))
        return msgspec.structs.replace(self, columns=columns, wildcards=wildcards)

    def problems(self) -> list[str]:
        """List what must be corrected before the schema can be used, one sentence each."""
        return problems_of(self)

    def require_complete(self) -> None:
        """Raise a `SchemaError` that lists every problem, if there is one."""
        problems = self.problems()
        if self.patterns:
            problems.append(UNRESOLVED.format(what=quoted(self.patterns)))
        if problems:
            raise SchemaError(listed("The schema cannot be used yet:", problems))

    @classmethod
    def loads(cls, text: str, *, complete: bool = False) -> "Schema":
        """Read a schema from TOML text; a ``complete`` one has no problems, either."""
        return parse_schema(plain("text", text, str), cls, complete=complete)

    @classmethod
    def from_toml(cls, path: str | Path, *, complete: bool = False) -> "Schema":
        """Read a schema from a TOML file; errors quote the line."""
        file = as_path(path)
        name = f"'{file.name}'"
        return parse_schema(read_text(file), cls, name=name, complete=complete)

    def dumps(self) -> str:
        """Write the schema as TOML text, with comments where something has to be filled in."""
        return format_schema(self)

    @property
    def meaning(self) -> str:
        """As TOML text, without what only says how files are laid out."""
        return msgspec.structs.replace(self, file=None).dumps()

    def save(self, path: str | Path) -> None:
        """Write the schema to a TOML file, which is replaced as a whole or not at all."""
        write_file(path, self.dumps().encode(), overwrite=True)


_PROBLEMS = 8


def _said(kind: Declared) -> str:
    return " · ".join(f"{name} {value}" for name, value in _differing(kind))


def _differing(told: Any, *known: str) -> list[tuple[str, str]]:
    # Of a declaration's fields those that somebody has filled in.
    values = ((field, getattr(told, field.name)) for field in fields(told))
    return [
        (field.name, _written(value))
        for field, value in values
        if field.name not in known and value != field.default and value not in ((), {})
    ]


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        shown = ", ".join(map(str, value[:8]))
        return f"{shown}, … ({len(value)})" if len(value) > 8 else shown
    if isinstance(value, dict):
        return _written([f"{key} = {_written(each)}" for key, each in value.items()])
    if hasattr(value, "__struct_fields__"):
        return ", ".join(f"{name} {each}" for name, each in _differing(value))
    return str(value)


def _missing(problems: list[str]) -> Child:
    if not problems:
        return None
    more = [f"… and {len(problems) - _PROBLEMS} more"] if len(problems) > _PROBLEMS else []
    lines = [el("li", line) for line in [*problems[:_PROBLEMS], *more]]
    return [el("p", el("strong", "To be corrected before it can be used:")), el("ul", lines)]
