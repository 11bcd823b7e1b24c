"""Say how a file is laid out: delimiter, encoding, line of names, sheet.

Contract: a layout is public and declared; nothing of it is ever guessed from rows.
"""

import codecs
import re
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from dpcov.errors import DataError, SchemaError, few_of

# Encodings in which no character changes the meaning of a later one.
_ENCODINGS = re.compile(
    r"utf-8|utf-8-sig|utf-16|utf-16-[lb]e|ascii|iso8859-\d+|cp125\d|cp437|cp8\d\d|mac-\w+|koi8-\w"
)
_OneSign = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 1})]


class FileLayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the file of a table is laid out, as declared in a schema's ``[file]``.

    Parameters
    ----------
    delimiter : str, optional
        One ASCII character between cells of text; by the ending of the file if not given.
    quote : str
        The quotation mark around cells of text; empty where there is none.
    encoding : str, optional
        UTF-8, UTF-16 or one of the character sets with a byte for a character, such as ``latin-1``
        and ``windows-1252``.  If not given, text is UTF-8 and a statistical file says it itself.
    header : int
        The line or the row of the sheet with the names of the columns, counted from 1.
    part : str
        The sheet of a workbook or the file of a zip archive, where there are several.

    Raises
    ------
    SchemaError
        If a field cannot be used.
    """

    # Editors see lengths and limits; errors say them in words.
    delimiter: _OneSign | None = None
    quote: Annotated[str, Meta(extra_json_schema={"maxLength": 1})] = '"'
    encoding: str | None = None
    header: Annotated[int, Meta(extra_json_schema={"minimum": 1})] = 1
    part: str = ""

    def __post_init__(self) -> None:
        for what, sign in (("delimiter", self.delimiter), ("quotation mark", self.quote)):
            is_text = sign is None or isinstance(sign, str)
            if not is_text or (sign and (len(sign) != 1 or not sign.isascii() or sign in "\n\r")):
                raise SchemaError(f'The {what} of a file is one ASCII character, such as ";".')
        if self.delimiter is not None and self.delimiter in (self.quote, ""):
            raise SchemaError('The delimiter of a file is a character of its own, such as ";".')
        if type(self.header) is not int or self.header < 1:
            raise SchemaError("The header of a file is the number of its line of names, from 1.")
        if not _ENCODINGS.fullmatch(self.codec):
            raise SchemaError(
                "The encoding of a file is not known, or its characters depend on each other. Use "
                'a name such as "utf-8", "utf-16", "latin-1" or "windows-1252", or convert it.'
            )

    @classmethod
    def of(cls, known: "FileLayout | None" = None, /, **said: Any) -> "FileLayout | None":
        """What a person says, then what is known; None if that is nothing beyond the defaults."""
        said = {name: value for name, value in said.items() if value is not None}
        # Neither a command line nor a page takes the character itself.
        if said.get("delimiter") == "tab":
            said["delimiter"] = "\t"
        layout = cls(**asdict(known or cls()) | said)
        return None if layout == cls() else layout

    def choose(self, names: Sequence[str], within: str, kind: str) -> str:
        """The part that is declared, or the only one."""
        if self.part in names or (not self.part and len(names) == 1):
            return self.part or names[0]
        if not names:
            raise DataError(f"'{within}' holds no {kind}. Give a file that holds the table.")
        listed = few_of([f"'{name}'" for name in names], 10)
        raise DataError(
            f"'{within}' holds {len(names)} {kind}: {listed}. Choose one by part in the "
            "schema's [file] (--part)."
        )

    @property
    def codec(self) -> str:
        """Python's name of the encoding; empty if there is none."""
        try:
            return codecs.lookup("utf-8" if self.encoding is None else self.encoding).name
        except (LookupError, TypeError, ValueError):
            return ""


PLAIN = FileLayout()
NAMES_BELOW = (
    "If the names of the columns stand below a title, declare header in the schema's [file] "
    "(schema draft: --header)."
)
