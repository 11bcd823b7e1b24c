"""Every error dpcov raises on purpose.

Contract: a message says what is wrong and what to do next, and never contains a value from a row.
"""

import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar
from unicodedata import normalize


class DpcovError(Exception):
    """Root of all errors of this package; ``exit_code`` is what the command line returns for it."""

    exit_code: ClassVar[int] = 1


class PrivacyWarning(UserWarning):
    """A promise that protects people less than one would think."""


class ReleaseWarning(UserWarning):
    """What a person should know of a release that is made all the same."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, naming the line that called this package: the nearest one that is not its own.

    scikit-learn calls estimators for others, such as `fit` in `fit_transform`.
    """
    between, level = (__name__.partition(".")[0], "contextlib", "sklearn"), 2
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in between:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class UsageError(DpcovError):
    """An argument or option that cannot be used as given."""

    exit_code = 2


def require_kind(name: str, value: object, kind: type) -> None:
    """Refuse an argument of another class; the message says which one is expected."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}.")


class SchemaError(DpcovError):
    """The schema is incomplete, contradictory or does not fit the data's columns."""

    exit_code = 3


class DataError(DpcovError):
    """The data cannot be read as the schema says."""

    exit_code = 4


class BudgetError(DpcovError):
    """The budget is not usable, or this mechanism cannot honor it."""

    exit_code = 5


class LedgerError(DpcovError):
    """The ledger refuses: overspend, unknown dataset, or a file it cannot trust."""

    exit_code = 6


class NoLedgerError(LedgerError):
    """There is no ledger yet where it should be: no file, an empty one, or a database without."""


class ReleaseError(DpcovError):
    """A release file cannot be written, read or trusted."""

    exit_code = 7


class MovedError(ReleaseError):
    """A file is whole, but at ``path``: its name was taken, or its place lost, in the meantime."""

    def __init__(self, wanted: Path, path: Path, *, taken: bool) -> None:
        why = f"{wanted} could not be written any more."
        if taken:
            why = f"Another program wrote {wanted} in the meantime; it is kept."
        super().__init__(
            f"{why} What was made here is whole, in {path}: nothing has to be made again."
        )
        self.path = path


class NumericError(DpcovError):
    """A computation failed (overflow, NaN, no convergence).

    A release that was being made is none; a note of the error says whether its budget is spent.
    """

    exit_code = 8


def few_of(names: Sequence[str], most: int) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def closest(given: object, known: Iterable[str]) -> str:
    """The known name that may have been meant; empty where none is close."""
    return next(iter(get_close_matches(str(given), list(known), n=1)), "")


def printable(told: str) -> str:
    """Text without control codes: names come from a file that anybody may have written."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in told)


def as_seen(name: str) -> str:
    """What names have in common that look alike.

    Letters with an accent have two forms in Unicode, and capitals are not remembered.
    """
    return " ".join(normalize("NFKC", name).casefold().split())


def place_of(error: BaseException) -> str:
    """Type and place of an unforeseen exception, whose own text may quote a row."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(frame.f_code.co_filename).name}:{line}"
