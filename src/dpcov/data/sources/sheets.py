"""Read one sheet of a workbook: Excel and OpenDocument.

Contract: a cell is what the workbook stores for it, with the type that it stores.  Rows begin below
the declared row of names, and a sheet has no blank row among them.  A sheet is held in memory, and
formats limit it to about a million rows.
"""

import zipfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from dpcov.data.layout import NAMES_BELOW, FileLayout
from dpcov.data.memory import allowed_bytes, gib
from dpcov.data.sources.base import (
    FEW_ROWS,
    FIRST_ROWS,
    Block,
    Kind,
    Source,
    Wanted,
    batch_of_cells,
    check_header,
    kind_of_cells,
)
from dpcov.errors import DataError, UsageError
from dpcov.extras import load_extra

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_SECONDS_PER_DAY = 86_400
# Bytes of memory for a byte of cells, packed into records or written as text.
_HELD = {False: 8, True: 4}


class SheetSource(Source):
    """The sheet that the layout names, or the only one; empty columns have no name and no cells."""

    def __init__(self, path: Path, layout: FileLayout, memory_limit: float | None) -> None:
        self.name = path.name
        self._path, self._layout = path, layout
        self._library = load_extra("python_calamine", f"Reading {path.suffix.lower()} files")
        self._sealed(lambda: _require_memory(path, memory_limit))
        self._sheet = self._sealed(self._load)
        labels = self._sealed(lambda: next(self._rows()))
        # A note may stand beside the table.
        self._places = [place for place, label in enumerate(labels) if str(label).strip()]
        self.unnamed = len(labels) - len(self._places)
        names = [str(labels[place]) for place in self._places]
        self.columns = check_header(names, path.name, layout.header)

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Look at the types of the first cells."""
        rows = self._sealed(lambda: list(map(self._cells, islice(self._rows(), 1, FIRST_ROWS + 1))))
        cells = zip(*rows, strict=True) if rows else ((),) * len(self.columns)
        named = zip(self.columns, cells, strict=True)
        return {name: kind_of_cells(_in_days(each), decimal) for name, each in named}

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        rows = self._rows()
        next(rows)
        while some := [self._cells(row) for row in islice(rows, min(block_rows, FEW_ROWS))]:
            cells = dict(zip(self.columns, zip(*some, strict=True), strict=True))
            yield batch_of_cells({name: _in_days(cells[name]) for name in wanted}, wanted)

    def _cells(self, row: list[Any]) -> list[Any]:
        # The cells below names; a blank row at the end is not in the file, others would be rows.
        cells = row if len(row) == len(self._places) else [row[place] for place in self._places]
        if cells.count("") == len(cells):
            raise DataError(
                f"'{self.name}' has a blank row. {NAMES_BELOW} Otherwise delete it, and notes and "
                "totals below the table, which would count as people."
            )
        return cells

    def _load(self) -> Any:
        with self._library.load_workbook(str(self._path)) as book:
            name = self._layout.choose(book.sheet_names, self.name, "sheets")
            return book.get_sheet_by_name(name)

    def _rows(self) -> Iterator[list[Any]]:
        # The row of names and all below, from the first column that holds anything.
        rows = islice(self._sheet.iter_rows(), self._layout.header - 1, None)
        first = next(rows, None)
        if first is None or not any(str(cell).strip() for cell in first):
            raise DataError(
                f"'{self.name}' has no names in row {self._layout.header} of the sheet. "
                "Declare header in the schema's [file] (schema draft: --header)."
            )
        yield first
        yield from rows

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        if type(error).__name__ == "PasswordError":
            return "a password protects it; save it without."
        return super()._explain(error, schema_names)


def _in_days(cells: Sequence[Any]) -> Sequence[Any]:
    # A duration is a number of days, as spreadsheets count.
    if timedelta not in set(map(type, cells)):
        return cells
    return [c.total_seconds() / _SECONDS_PER_DAY if type(c) is timedelta else c for c in cells]


def _require_memory(path: Path, memory_limit: float | None) -> None:
    # A sheet is held as a whole, and while it is read its text is held, too.
    n_bytes = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(part.file_size for part in archive.infolist())
    is_text = path.suffix.lower() not in (".xls", ".xlsb")
    needed, limit = n_bytes * _HELD[is_text], allowed_bytes(memory_limit)
    if needed > limit:
        raise UsageError(
            f"'{path.name}' is held in memory as a whole, which takes more than the "
            f"{gib(limit)} GiB allowed. Save the sheet as CSV, which is read in pieces, or allow "
            "more memory."
        )
