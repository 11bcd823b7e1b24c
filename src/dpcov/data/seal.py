"""Keep row values out of error messages.

Contract: whatever goes wrong while rows are read, the error that leaves carries no value of a row,
neither in its message nor in a chained exception.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dpcov.errors import DataError, DpcovError

T = TypeVar("T")

_REASONS: dict[type[Exception], str] = {
    MemoryError: (
        "there is not enough memory; use fewer columns, or a format that is read in pieces "
        "(Parquet, CSV)."
    ),
    FileNotFoundError: "it is not there any more; put it back and try again.",
    PermissionError: "you have no permission to read it; change its rights.",
    UnicodeDecodeError: "it is not UTF-8 text; convert it to UTF-8.",
    NotImplementedError: (
        "it is packed or written in a way that is not known here; unpack it, or write it anew."
    ),
    Exception: "it is damaged, cut short, or not what its name says; write it again.",
}


def explain(error: Exception) -> str:
    """Say in public words why reading failed."""
    return next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))


def sealed(
    action: Callable[[], T], name: str, describe: Callable[[Exception], str] | None = None
) -> T:
    """Return what the action returns; replace any foreign error by a `DataError`."""
    try:
        return action()
    except DpcovError:
        raise
    except Exception as error:  # every reader has its own errors, and any of them may quote a row
        failure = DataError(f"'{name}' cannot be read: {(describe or explain)(error)}")
    except BaseException as error:
        # A library of Rust ends on what it did not foresee with what is no `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        failure = DataError(f"'{name}' cannot be read: {explain(Exception())}")
    # Raised after the handler has ended: a chained error may quote a row, too.
    raise failure


def sealed_iteration(
    start: Callable[[], Iterable[T]], name: str, describe: Callable[[Exception], str] | None = None
) -> Iterator[T]:
    """Iterate under the seal of `sealed`."""
    iterator = sealed(lambda: iter(start()), name, describe)
    end = object()
    while (item := sealed(lambda: next(iterator, end), name, describe)) is not end:
        yield item  # type: ignore[misc]
