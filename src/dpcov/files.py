"""Write files that appear whole or not at all.

Contract: the space is taken before anything is spent, the final name appears in one step, a failure
leaves no partial file behind, and no file is lost that another program wrote meanwhile.
"""

import contextlib
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Self

from dpcov.errors import MovedError, ReleaseError, UsageError

# What file systems answer that cannot take space in advance.
_CANNOT_RESERVE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
# What SQLite keeps beside a database, and deletes.
_BESIDE = ("-journal", "-wal", "-shm")
# Who may read a file: everybody what is public, its owner alone what is not.
_PUBLIC, PRIVATE = 0o644, 0o600
# Folders in use, and how often removing one is tried while a library still writes into it.
_IN_USE: set[str] = set()
_TRIES = 20
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def as_path(path: object) -> Path:
    """Return the path of a file, or refuse what is none."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"A file is named by a text or a Path, not {type(path).__name__}.")
    return Path(path)


class ReservedFile:
    """A file to be written later, with ``size`` bytes already taken on the disk.

    ReleaseError where the name is taken and nobody said ``overwrite``, the folder is missing or not
    writable, or the disk is full; MovedError where the block ends, if the name was taken since.
    """

    def __init__(
        self, path: str | Path, size: int = 0, *, overwrite: bool = False, mode: int = _PUBLIC
    ) -> None:
        self.path = self._wanted = as_path(path)
        if overwrite not in (True, False):
            raise UsageError("overwrite must be True or False.")
        self._overwrite, self._mode = overwrite, mode
        # Known before the file is there: an interrupt at any moment finds what to remove.
        self._temporary = self.path.parent / f".dpcov-{secrets.token_hex(8)}.part"
        self._handle, self._failed = -1, False
        try:
            _refuse_bad_target(self.path, overwrite)
            self._handle = os.open(self._temporary, _NEW, PRIVATE)
            _take_space(self._handle, size)
        except OSError as error:
            self.discard()
            raise _explain(self.path, error) from None
        except BaseException:
            self.discard()
            raise

    def write(self, content: bytes) -> None:
        """Write the content, flush it to the disk and give the file its final name."""
        try:
            with os.fdopen(self._handle, "wb") as file:
                self._handle = -1
                # Overwrite, then cut: reserved space is not given back before it is used.
                file.write(content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            self._temporary.chmod(self._mode)
            self._give_name()
            _sync_folder(self.path.parent)
        except OSError as error:
            self._failed = True
            self.discard()
            raise _explain(self.path, error) from None

    def write_elsewhere(self, content: bytes) -> None:
        """Write what cannot be made again to the system's folder for temporary files.

        After a failure of :meth:`write`; MovedError where the block ends.
        """
        name = self._wanted.with_stem(f"{self._wanted.stem}-{secrets.token_hex(4)}").name
        place = Path(tempfile.gettempdir()) / name
        write_file(place, content, mode=self._mode)
        self.path, self._failed = place, False

    @property
    def is_whole(self) -> bool:
        """Whether the content has its final name; asked after :meth:`write` was begun."""
        # The disk knows it, wherever an interrupt came: the name is given before this one goes.
        there = os.path.lexists(self._temporary)
        return not self._failed and (not there or is_same_file(self._temporary, self.path))

    def _give_name(self) -> None:
        # What is paid for is kept: where the name is taken by now, under a free one.
        if self._overwrite:
            self._temporary.replace(self.path)
            return
        places = (self._wanted.with_stem(f"{self._wanted.stem}-{n}") for n in count(2))
        while not _moved(self._temporary, self.path):
            self.path = next(places)

    def discard(self) -> None:
        """Remove whatever is not finished."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def __del__(self) -> None:
        # An interrupt between making the file and entering the block: nobody else would remove it.
        if "_handle" in self.__dict__:
            self.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *raised: object) -> None:
        self.discard()
        if kind is None and self.path != self._wanted:
            taken = not self._overwrite and os.path.lexists(self._wanted)
            raise MovedError(self._wanted, self.path, taken=taken)


def write_file(
    path: str | Path, content: bytes, *, overwrite: bool = False, mode: int = _PUBLIC
) -> None:
    """Write a whole file at once, or nothing."""
    with ReservedFile(path, len(content), overwrite=overwrite, mode=mode) as file:
        file.write(content)


@contextlib.contextmanager
def folder_for_rows() -> Iterator[str]:
    """A private folder in ``TMPDIR``, removed at the end, also by :func:`remove_folders`."""
    with tempfile.TemporaryDirectory(prefix="dpcov-") as folder:
        _IN_USE.add(folder)
        try:
            yield folder
        finally:
            _IN_USE.discard(folder)


def remove_folders() -> None:
    """Remove the folders in use: a process that ends now does not wait for the threads in them."""
    for folder in tuple(_IN_USE):
        for _ in range(_TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.lexists(folder):
                break


def last_written(path: object) -> int | None:
    """When a file was last written, in nanoseconds; None for what is no file."""
    with contextlib.suppress(OSError, ValueError):
        if isinstance(path, str | Path):
            return Path(path).stat().st_mtime_ns
    return None


def is_same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two names are of one file, which need not be there yet."""
    # What cannot be looked up is said where it is opened.
    with contextlib.suppress(OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other) or Path(one).samefile(other)
    return False


def is_of_database(path: str | Path, database: str | Path) -> bool:
    """Whether a name is that of a database, or of a file that SQLite keeps beside it."""
    with contextlib.suppress(OSError, ValueError):
        real = os.path.realpath(database)
        names = [database, *(f"{real}{end}" for end in _BESIDE)]
        return any(is_same_file(path, each) for each in names)
    return False


def check_output(output: str | Path, *inputs: object) -> None:
    """Refuse to write over what is read, also where writing over a file is allowed."""
    output = as_path(output)
    for used in inputs:
        # The same file by whatever name: rows or a ledger would be lost.
        if isinstance(used, str | Path) and is_of_database(output, used):
            raise UsageError(f"{output} is read here, and would be lost. Choose another name.")


def reason_of(error: OSError) -> str:
    """Say why the system refused, in its own words; the error's text would hold the path."""
    return os.strerror(error.errno).lower() if error.errno else "unknown reason"


def _refuse_bad_target(path: Path, overwrite: bool) -> None:
    try:
        # A name that the system cannot have fails now, not when all is written.
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except ValueError:
        raise ReleaseError(
            "The name of the file holds a letter that this system's names cannot; choose another."
        ) from None
    there = os.path.lexists(path)
    if str(path) == "-":
        wrong = "A file is written whole or not at all, standard output is not; name a file."
    elif path.is_dir():
        wrong = f"{path} is a directory; name a file in it."
    elif not path.parent.is_dir():
        wrong = f"The folder {path.parent} does not exist; create it first."
    elif there and not path.is_file():
        wrong = f"{path} is not an ordinary file; choose another name."
    elif there and not overwrite:
        how = "Choose another name, or allow to write over it (overwrite=True, --overwrite)."
        wrong = f"{path} exists already. {how}"
    else:
        return
    raise ReleaseError(wrong)


def _take_space(handle: int, size: int) -> None:
    if size <= 0 or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in _CANNOT_RESERVE:
            raise


def _moved(source: Path, target: Path) -> bool:
    """Rename, but not over a file that is there."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:
        # File systems without links leave a moment between question and answer.
        if os.path.lexists(target):
            return False
        source.replace(target)
    else:
        with contextlib.suppress(OSError):
            source.unlink()
    return True


def _sync_folder(folder: Path) -> None:
    # The new name survives a power cut, where the system allows it.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _explain(path: Path, error: OSError) -> ReleaseError:
    reason = f"Cannot write {path}: {reason_of(error)}. Nothing was written"
    return ReleaseError(f"{reason}; check space and permissions, then try again.")
