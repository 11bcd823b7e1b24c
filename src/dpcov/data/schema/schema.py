"""The public description of a sensitive table, as a custodian writes and keeps it.

Contract: a schema is written from what anybody may know about the table, never from its rows.
"""

from pathlib import Path

from dpcov.data.schema.card import schema_card
from dpcov.data.schema.declared import Declarations, encoded_columns_of
from dpcov.data.schema.problems import listed, problems_of
from dpcov.data.schema.toml import format_schema, parse_schema, read_text
from dpcov.errors import SchemaError
from dpcov.files import write_file
from dpcov.published.columns import EncodedColumn


class Schema(Declarations, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public description of a sensitive table.

    Parameters
    ----------
    columns : mapping of str to Numeric, Boolean, Categorical or Ignored
        In the order of the encoded table.  Columns of the data that are not listed are not read.
    title : str
    intercept : bool
        Whether a column of ones comes first, which gives means and centered covariances.
    missing : {"center", "indicator"}
        For all columns that do not say otherwise.
    weights : Weights, optional
        A row is multiplied by ``sqrt(weight / upper)``; needs the intercept.
    rows_per_person : int
        The largest number of rows one person can have in the table.
    norm_bound : float, optional
        A public bound on the l2 norm of an encoded row, below the worst case; longer rows are
        scaled down.

    Notes
    -----
    A schema may be a draft with unfilled bounds (``None``, or ``nan`` in a file) and empty lists of
    categories; `require_complete` refuses it.

    Examples
    --------
    >>> sex = Categorical(categories=("F", "M"))
    >>> schema = Schema(columns={"age": Numeric(lower=17, upper=90), "sex": sex})
    >>> [column.name for column in schema.encoded_columns]
    ['(intercept)', 'age', 'sex=F', 'sex=M']
    >>> round(schema.worst_case_norm**2, 9)
    3.0
    """

    def _repr_html_(self) -> str:
        return schema_card(self)

    @property
    def norm_bound_or_worst_case(self) -> float:
        """The norm bound that rows are divided by."""
        return self.worst_case_norm if self.norm_bound is None else self.norm_bound

    @property
    def encoded_columns(self) -> tuple[EncodedColumn, ...]:
        """The columns of the encoded table; the schema must be complete."""
        self.require_complete()
        return encoded_columns_of(self)

    def problems(self) -> list[str]:
        """List what must be corrected before the schema can be used, one sentence each."""
        return problems_of(self)

    def require_complete(self) -> None:
        """Raise a `SchemaError` that lists every problem, if there is one."""
        if problems := self.problems():
            raise SchemaError(listed("The schema cannot be used yet:", problems))

    @classmethod
    def loads(cls, text: str) -> "Schema":
        """Read a schema from TOML text."""
        return parse_schema(text, cls)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema from a TOML file."""
        return parse_schema(read_text(Path(path)), cls)

    def dumps(self) -> str:
        """Write the schema as TOML text, with comments where something has to be filled in."""
        return format_schema(self)

    def save(self, path: str | Path) -> None:
        """Write the schema to a TOML file, which is replaced as a whole or not at all."""
        write_file(path, self.dumps().encode(), overwrite=True)
