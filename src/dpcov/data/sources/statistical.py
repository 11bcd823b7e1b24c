"""Read files of SPSS, Stata and SAS in one pass, some rows at a time.

Contract: a cell is what the file holds, never its label.  Whether a column holds numbers, dates or
texts, and which of its values the file's dictionary declares missing, is written in the heading of
the file; it does not follow from rows.  Pyreadstat reads the dictionary.  It counts rows from the
first whenever it is called, so that it reads rows only where nothing else does.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.data.layout import PLAIN, FileLayout
from dpcov.data.sources.base import Block, Kind, Source, Wanted, check_names
from dpcov.data.sources.records import SpssRecords, TransportRecords, text_array
from dpcov.errors import DataError
from dpcov.extras import load_extra

# Values read at a time.
_VALUES = 2**19
_READERS = {
    **dict.fromkeys((".sav", ".zsav"), "read_sav"),
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
ENDINGS = tuple(_READERS)
# What is declared missing is told only where its values are asked for.
_TELLING: dict[str, Any] = {key: {"user_missing": True} for key in (".sav", ".zsav")}
# The first version of Stata's files whose text has one encoding: that of Stata 14.
_UNICODE_STATA = (b"<stata_dta><header><release>118", b"<stata_dta><header><release>119")
_DAY = 86_400
# The day from which dates are counted, and formats of dates and of dates with times, with the
# seconds of their unit.
_SPSS = ("1582-10-14", (r"(?:|A|E|J|S)DATE", 1.0), (r"DATETIME|YMDHMS", 1.0))
# A format of Stata that has no letters but those of hours, minutes and seconds is no date.
_STATA = ("1960-01-01", (r"%-?t?d.*", _DAY), (r"%-?t[cC](?![HhMmSsAaPp\W_]+$).*", 1e-3))
_SAS = (
    "1960-01-01",
    (r"DATE|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|JULIAN|(?:WEEK|WORD)DAT[EX]|(?:IS|E|B)8601DA", _DAY),
    (r"DATETIME|DATEAMPM|MDYAMPM|DTDATE|(?:IS|E|B)8601D[NTZ]", 1.0),
)
_DATES = {"sav/zsav": _SPSS, "dta": _STATA, "sas7bdat": _SAS, "xport": _SAS}
# Names of encodings that Python knows by others.
_CODECS = {"BIG-5": "big5", "WINDOWS-936": "gbk"}
# Encodings of which pyreadstat leaves a part of one text to the next, also of another row.
_LEFT_OVER = re.compile("(?:cp|windows-)1258|iso-2022-.*|utf-16", re.IGNORECASE)
_DEPENDENT = "has an encoding whose characters depend on each other. Write it again in UTF-8."
_DAMAGED = "'{name}' is damaged. Write it again."
_UNKNOWN = (
    "its character set is not known here; declare another one that fits as the encoding in the "
    "schema's [file] (schema draft: --encoding), or write it again in UTF-8."
)
_NO_ENCODING = (
    "its text is not in the encoding that it states; declare the encoding in the schema's [file] "
    "(schema draft: --encoding)."
)


class StatisticalSource(Source):
    """A file of a statistical package, read ``step`` rows at a time."""

    def __init__(self, path: Path, layout: FileLayout = PLAIN) -> None:
        self.name = path.name
        self._ending = ending = path.suffix.lower()
        readers = load_extra("pyreadstat", f"Reading {ending} files")
        self._options: dict[str, Any] = {}
        if layout.encoding is not None:
            # The library has another name of it, which Python knows, too.
            self._options["encoding"] = layout.codec.replace("mac-roman", "macintosh")
        self._reader: Callable[..., Any] = getattr(readers, _READERS[ending])
        self._path = path
        self._spss: SpssRecords | None = None
        if ending in _TELLING:
            self._sealed(self._check_heading)
        telling = self._options | _TELLING.get(ending, {}) | {"metadataonly": True}
        self.dictionary: Any = self._sealed(
            lambda: self._reader(str(path), output_format="dict", **telling)[1]
        )
        stated = self._options.get("encoding") or self.dictionary.file_encoding or "utf-8"
        if _LEFT_OVER.fullmatch(stated):
            raise DataError(f"'{self.name}' {_DEPENDENT}")
        self._codec = _CODECS.get(stated, stated)
        if None in self.dictionary.column_names:
            raise DataError(_DAMAGED.format(name=self.name))
        self.columns = check_names(self.dictionary.column_names, path.name)
        self.step = max(1, _VALUES // len(self.columns))
        self._holds: dict[str, str] = self.dictionary.readstat_variable_types

    def _check_heading(self) -> None:
        # At some contradictions, and at a labeled text in another encoding, pyreadstat ends the
        # process.  A heading that only pyreadstat reads is a codebook all the same.
        with suppress(DataError):
            self._spss = self._sealed(lambda: SpssRecords(self._path))
        if self._spss is not None:
            with suppress(LookupError):
                self._spss.check(self._options.get("encoding"))

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Read from the dictionary."""
        return {
            name: "text" if self._holds[name] == "string" else "number" for name in self.columns
        }

    @property
    def weights(self) -> str | None:
        """The column by which SPSS weights the rows of its file, where the heading names one."""
        if self._spss is not None:
            with suppress(UnicodeError, LookupError):
                name = self._spss.weights.decode(self._codec)
                return name if name in self.columns else None
        return None

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        for name in wanted:
            if re.match("%-?tC", str(self.dictionary.original_variable_types.get(name))):
                raise DataError(
                    f"Column '{name}' counts leap seconds (%tC). Convert it in Stata: generate "
                    "double new = cofC(old), and format new %tc."
                )
        for columns in self._columns(list(wanted)):
            arrays = [self._array(cells, name) for cells, name in zip(columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(wanted))

    def _columns(self, names: list[str]) -> Iterator[list[Any]]:
        # Numbers and texts of the columns, some rows at a time.
        if self._spss is not None:
            is_laid_out = len(self._spss.fields) == len(self.columns)
            return self._recorded(self._spss, names) if is_laid_out else self._counted(names)
        if self._ending in _TELLING:
            raise DataError(_DAMAGED.format(name=self.name))
        if self._ending == ".xpt":
            widths = self.dictionary.variable_storage_width
            records = TransportRecords(self._path, [widths[name] for name in self.columns])
            return self._recorded(records, names)
        if self._ending == ".sas7bdat":
            return self._sas(names)
        with self._path.open("rb") as file:
            is_unicode = file.read(len(_UNICODE_STATA[0])) in _UNICODE_STATA
        is_unicode &= self._options.get("encoding", "utf-8") == "utf-8"
        return self._stata(names) if is_unicode else self._counted(names)

    def _recorded(
        self, records: SpssRecords | TransportRecords, names: list[str]
    ) -> Iterator[list[Any]]:
        chosen = [(self.columns.index(name), self._holds[name] == "string") for name in names]
        fields = records.fields
        for rows in records.rows(self.step):
            yield [
                rows[:, fields[at]] if is_text else records.numbers(rows[:, fields[at]])
                for at, is_text in chosen
            ]

    def _sas(self, names: list[str]) -> Iterator[list[Any]]:
        # Numbers as they are; texts as bytes, because others would be decoded as far as possible.
        pandas = load_extra("pandas.io.sas.sas7bdat", "Reading .sas7bdat files")
        asked = {"convert_dates": False, "encoding": None, "chunksize": self.step}
        with ExitStack() as opened:
            reader = None
            with suppress(ValueError):
                reader = opened.enter_context(pandas.SAS7BDATReader(str(self._path), **asked))
            # Rows that SAS has deleted, and the file keeps, it counts or does not understand.
            if reader is None or reader.row_count != self.dictionary.number_rows:
                yield from self._counted(names)
                return
            # Its own names of columns beyond the first page may be empty, and then alike.
            if len(reader.column_names) != len(self.columns):
                raise DataError(_DAMAGED.format(name=self.name))
            reader.column_names = list(self.columns)
            for frame in reader:
                yield [frame[name] for name in names]

    def _stata(self, names: list[str]) -> Iterator[list[Any]]:
        pandas = load_extra("pandas", "Reading .dta files")
        asked = {"columns": names, "convert_dates": False, "convert_categoricals": False}
        with pandas.read_stata(self._path, chunksize=self.step, **asked) as reader:
            while True:
                with warnings.catch_warnings():
                    # Text that is not UTF-8 would be taken for Latin-1.
                    warnings.simplefilter("error", UnicodeWarning)
                    frame = next(reader, None)
                if frame is None:
                    return
                yield [frame[name] for name in names]

    def _counted(self, names: list[str]) -> Iterator[list[Any]]:
        options = {"output_format": "dict", "disable_datetime_conversion": True, **self._options}
        start, count = 0, self.step
        while count == self.step:
            cells, _ = self._reader(
                str(self._path), usecols=names, row_offset=start, row_limit=count, **options
            )
            count = len(cells[names[0]])
            start += count
            yield [cells[name] for name in names]

    def _array(self, cells: Any, name: str) -> pa.Array:
        spans = self.dictionary.missing_ranges.get(name, ())
        if self._holds[name] == "string":
            found = text_array(cells, self._codec)
            declared = pa.array([span["lo"] for span in spans], pa.string())
            return pc.if_else(pc.is_in(found, declared), None, found) if spans else found
        # Stata's single precision stays: missing codes are compared as such a column holds them.
        short = self._holds[name] == "float"
        numbers = np.array(cells, dtype=np.float32 if short else np.float64)
        for span in spans:
            numbers[(numbers >= span["lo"]) & (numbers <= span["hi"])] = np.nan
        if (date := date_of(self.dictionary, name)) is None:
            return pa.array(numbers, from_pandas=True)
        first, kind, unit = date
        with np.errstate(over="ignore"):
            return _moments(numbers.astype(np.float64) * unit, first, kind)

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        if "character set" in str(error) or type(error) is LookupError:
            return _UNKNOWN
        unreadable = "requested encoding" in str(error)
        unreadable |= isinstance(error, UnicodeError | UnicodeWarning)
        return _NO_ENCODING if unreadable else super()._explain(error, schema_names)


def date_of(dictionary: Any, name: str) -> tuple[str, str, float] | None:
    """What the numbers of a column are counted from, NumPy's kind of date, and how many of it."""
    written = str(dictionary.original_variable_types.get(name) or "")
    first, dates, times = _DATES[dictionary.file_format]
    for kind, (formats, seconds) in (("D", dates), ("us", times)):
        if re.fullmatch(rf"(?:{formats})(?:[0-9]+)?(?:\.[0-9]*)?", written):
            # A quotient of two small numbers may be no whole number of microseconds.
            return first, kind, seconds / _DAY if kind == "D" else seconds * 1e6
    return None


def _moments(numbers: NDArray[np.float64], first: str, kind: str) -> pa.Array:
    # Days or microseconds after a day; those beyond all calendars are the last of all.
    start = np.array(first, dtype=f"datetime64[{kind}]").astype(np.int64)
    last = 2**30 if kind == "D" else 2**62
    missing = np.isnan(numbers)
    whole = np.floor(np.clip(np.where(missing, 0, numbers), -last, last)).astype(np.int64)
    return pa.array((whole + start).astype(f"datetime64[{kind}]"), mask=missing)
