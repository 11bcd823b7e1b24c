"""Read files of SPSS, Stata and SAS, a bounded number of rows at a time.

Contract: a cell is what the file holds, never its label.  Whether a column holds numbers, dates or
texts, and which of its values the file's dictionary declares missing, is written in the heading of
the file; it does not follow from rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcov.data.layout import PLAIN, FileLayout
from dpcov.data.seal import explain, sealed
from dpcov.data.sources.base import Block, Kind, ReadAs, Source, check_names, column_of_cells
from dpcov.data.sources.extras import load_extra

# Values read at a time: every reading looks for its first row anew.
_VALUES = 2**21
_READERS = {
    **dict.fromkeys((".sav", ".zsav"), "read_sav"),
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
ENDINGS = tuple(_READERS)
# What is declared missing is told only where its values are asked for.
_TELLING: dict[str, Any] = {key: {"user_missing": True} for key in (".sav", ".zsav")}
_STATA_FORMATS = {
    "extra_date_formats": ("%td", "%d", "%-td", "%-d"),
    "extra_datetime_formats": ("%tc", "%-tc"),
}
_NO_ENCODING = (
    "its text is not in the encoding that it states; declare the encoding in the schema's [file] "
    "(schema draft: --encoding)."
)


class StatisticalSource(Source):
    """A file of a statistical package, read ``step`` rows at a time."""

    def __init__(self, path: Path, layout: FileLayout = PLAIN) -> None:
        self.name = path.name
        ending = path.suffix.lower()
        readers = load_extra("pyreadstat", f"Reading {ending} files")
        options: dict[str, Any] = {"output_format": "dict"}
        if layout.encoding != PLAIN.encoding:
            options["encoding"] = layout.codec
        self._reader: Callable[..., Any] = getattr(readers, _READERS[ending])
        self._path, self._options = str(path), options
        telling = options | _TELLING.get(ending, {}) | {"metadataonly": True}
        self.dictionary: Any = sealed(
            lambda: self._reader(self._path, **telling)[1], path.name, _describe
        )
        # Stata has as many formats of dates as there are ways to write one.
        formats = {str(each) for each in self.dictionary.original_variable_types.values()}
        for option, marks in _STATA_FORMATS.items():
            options[option] = [each for each in formats if each.startswith(marks)]
        self.columns = check_names(self.dictionary.column_names, path.name)
        self.step = max(1, _VALUES // len(self.columns))
        self._holds: dict[str, str] = self.dictionary.readstat_variable_types

    def kinds(self) -> dict[str, Kind]:
        """Read from the dictionary."""
        return {
            name: "text" if self._holds[name] == "string" else "number" for name in self.columns
        }

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        names, start = list(wanted), 0
        while True:
            cells, _ = self._reader(
                self._path, usecols=names, row_offset=start, row_limit=self.step, **self._options
            )
            if not (count := len(cells[names[0]])):
                return
            columns = [self._column(cells.pop(name), name, wanted[name]) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=names)
            if count < self.step:
                return
            start += self.step

    def _column(self, cells: list[Any], name: str, reading: ReadAs) -> pa.Array:
        if self._holds[name] != "string":
            # Dates are no numbers: cells of such a column are all dates, or missing.
            with suppress(pa.ArrowException):
                return pa.array(cells, pa.float64())
        return column_of_cells(cells, name, reading)

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        return _describe(error)


def _describe(error: Exception) -> str:
    unreadable = "requested encoding" in str(error) or "character set" in str(error)
    return _NO_ENCODING if unreadable else explain(error)
