"""The seal that keeps row values out of error messages.

Contract: whatever goes wrong while rows are read, the error that leaves carries no value of a row, neither in
its message nor in a chained exception.  Knows nothing of formats.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dpcov.errors import DataError, DpcovError

T = TypeVar("T")


def sealed(
    action: Callable[[], T], name: str, describe: Callable[[Exception], str] | None = None
) -> T:
    """Return what the action returns; replace any foreign error by a `DataError` without its text.

    Readers quote the value they stumble over, in the message or in a chained error.  The new error is therefore
    raised after the handler has ended: it then has no ``__context__`` at all.
    """
    try:
        return action()
    except DpcovError:
        raise
    except Exception as error:  # every reader has its own errors, and any of them may quote a row
        failure = DataError(f"'{name}' cannot be read: {(describe or explain)(error)}")
    raise failure


def sealed_iteration(
    start: Callable[[], Iterable[T]], name: str, describe: Callable[[Exception], str] | None = None
) -> Iterator[T]:
    """Iterate under the seal of `sealed`."""
    iterator = sealed(lambda: iter(start()), name, describe)
    nothing_left = object()
    while (
        item := sealed(lambda: next(iterator, nothing_left), name, describe)
    ) is not nothing_left:
        yield item  # type: ignore[misc]


def explain(error: Exception) -> str:
    """Say in public words why reading failed."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; use smaller blocks or a format that is read in pieces (Parquet, CSV)."
    if isinstance(error, FileNotFoundError):
        return "it is not there any more; put it back and try again."
    if isinstance(error, PermissionError):
        return "you have no permission to read it."
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; convert it to UTF-8."
    return "it is damaged, cut short, or not what its name says; write it again."
