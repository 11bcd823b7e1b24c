"""SQLite's disk under our control: every change of a file passes a hook that may break it.

The functions of SQLite's default file system are replaced in the running process, so use it in a
child (:func:`in_child`).  Also here: the files that a power cut could leave behind.
"""

import _sqlite3
import ctypes
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

OK, FULL, WRITE_ERROR, SYNC_ERROR = 0, 13, 10 | 3 << 8, 10 | 4 << 8
_CREATE = 0x4
_SECTOR = 512


@dataclass(frozen=True)
class Operation:
    """``create``, ``write``, ``truncate``, ``sync`` or ``delete``; ``told`` marks progress."""

    kind: str
    path: str = ""
    offset: int = 0
    data: bytes = b""
    durable: bool = False


Hook = Callable[[Operation], int]
"""Returns 0 to go on, or the error that SQLite is to see."""

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_OPEN = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)
_DELETE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT)
_WRITE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _LONG)
_TRUNCATE = ctypes.CFUNCTYPE(_INT, _POINTER, _LONG)
_SYNC = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)


class _Vfs(ctypes.Structure):
    _fields_ = [
        *[("version", _INT), ("file_size", _INT), ("longest_path", _INT), ("next", _POINTER)],
        *[("name", ctypes.c_char_p), ("data", _POINTER), ("open", _POINTER), ("delete", _POINTER)],
    ]


class _Methods(ctypes.Structure):
    _fields_ = [
        *[("version", _INT), ("close", _POINTER), ("read", _POINTER), ("write", _POINTER)],
        *[("truncate", _POINTER), ("sync", _POINTER), ("rest", _POINTER * 13)],
    ]


class _File(ctypes.Structure):
    _fields_ = [("methods", ctypes.POINTER(_Methods))]


_kept: list[object] = []
"""What SQLite points to must outlive this module's functions."""


def install(hook: Hook) -> None:
    """Send every change of a file through the hook, for the rest of this process."""
    find = getattr(ctypes.CDLL(_sqlite3.__file__), "sqlite3_vfs_find", None)
    if find is None:
        pytest.skip("SQLite is built into Python in a way that hides its file system")
    find.restype = ctypes.POINTER(_Vfs)
    vfs = find(None).contents
    real_open, real_delete = _OPEN(vfs.open), _DELETE(vfs.delete)
    paths: dict[int, str] = {}
    patched: dict[int, object] = {}

    def wrap(file: int) -> None:
        methods = ctypes.cast(file, ctypes.POINTER(_File)).contents
        address = ctypes.addressof(methods.methods.contents)
        if address not in patched:
            patched[address] = _wrapped(methods.methods.contents, paths, hook)
        methods.methods = ctypes.pointer(patched[address])

    def opened(vfs_pointer, name, file, flags, out_flags):
        path = os.fsdecode(ctypes.string_at(name)) if name else ""
        if flags & _CREATE and path and not Path(path).exists():
            refused = hook(Operation("create", path))
            if refused:
                return refused
        code = real_open(vfs_pointer, name, file, flags, out_flags)
        if code == OK:
            paths[file] = path
            wrap(file)
        return code

    def deleted(vfs_pointer, name, sync):
        path = os.fsdecode(ctypes.string_at(name))
        refused = hook(Operation("delete", path, durable=bool(sync))) if Path(path).exists() else OK
        return refused or real_delete(vfs_pointer, name, sync)

    callbacks = _OPEN(opened), _DELETE(deleted)
    _kept.extend([*callbacks, patched, vfs])
    vfs.open, vfs.delete = (ctypes.cast(callback, _POINTER).value for callback in callbacks)


def _wrapped(real: _Methods, paths: dict[int, str], hook: Hook) -> _Methods:
    """Return a copy of the methods of a file whose changes pass the hook."""
    write, truncate, sync = _WRITE(real.write), _TRUNCATE(real.truncate), _SYNC(real.sync)

    def written(file, data, size, offset):
        asked = Operation("write", paths[file], offset, ctypes.string_at(data, size))
        return hook(asked) or write(file, data, size, offset)

    def truncated(file, size):
        return hook(Operation("truncate", paths[file], size)) or truncate(file, size)

    def synced(file, flags):
        return hook(Operation("sync", paths[file])) or sync(file, flags)

    callbacks = _WRITE(written), _TRUNCATE(truncated), _SYNC(synced)
    copy = _Methods.from_buffer_copy(real)
    copy.write, copy.truncate, copy.sync = (
        ctypes.cast(callback, _POINTER).value for callback in callbacks
    )
    _kept.extend([callbacks, write, truncate, sync])
    return copy


def in_child(work: Callable[[Callable[[bytes], None]], None]) -> tuple[int, bytes]:
    """Run work in a forked child, which may be killed; return its status and what it told."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(lambda text: os.write(writing, text))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    return os.waitpid(child, 0)[1], told


def die() -> None:
    """End as by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Disk:
    """Synced content of files that exist for good, and what may or may not have arrived."""

    files: dict[str, bytes] = field(default_factory=dict)
    pending: list[Operation] = field(default_factory=list)

    def do(self, operation: Operation) -> None:
        """Take one operation in."""
        self.pending.append(operation)
        if operation.kind == "sync":
            # SQLite syncs the folder with the first sync of a file that it has created.
            self._settle(lambda waiting: waiting.path == operation.path)
        elif operation.kind == "delete" and operation.durable:
            names = ("create", "delete")
            self._settle(lambda each: each.path == operation.path or each.kind in names)

    def _settle(self, belongs: Callable[[Operation], bool]) -> None:
        for waiting in (waiting for waiting in self.pending if belongs(waiting)):
            apply(self.files, waiting)
        self.pending = [waiting for waiting in self.pending if not belongs(waiting)]

    def after_power_cut(self, choice: random.Random | None) -> dict[str, bytes]:
        """Files as they may be found: nothing of what waits, or (with a choice) any part."""
        files = dict(self.files)
        for waiting in self.pending if choice is not None else []:
            if waiting.kind == "write":
                for start in range(0, len(waiting.data), _SECTOR):
                    if choice.random() < 0.5:
                        part = waiting.data[start : start + _SECTOR]
                        apply(files, Operation("write", waiting.path, waiting.offset + start, part))
            elif choice.random() < 0.5:
                apply(files, waiting)
        return files


def apply(files: dict[str, bytes], operation: Operation) -> None:
    """Change these files as the operation says."""
    content = files.get(operation.path, b"")
    if operation.kind == "create":
        files.setdefault(operation.path, b"")
    elif operation.kind == "write":
        start, end = operation.offset, operation.offset + len(operation.data)
        before = content.ljust(start, b"\0")[:start]
        files[operation.path] = before + operation.data + content[end:]
    elif operation.kind == "truncate":
        files[operation.path] = content[: operation.offset].ljust(operation.offset, b"\0")
    elif operation.kind == "delete":
        files.pop(operation.path, None)


def power_cuts(
    files: dict[str, bytes], operations: list[Operation], seeds: range
) -> Iterator[tuple[dict[str, bytes], list[str]]]:
    """Yield what may be found after a cut before each operation, and what was reported by then."""
    disk, told = Disk(files=dict(files)), []
    for operation in (*operations, Operation("told", "end")):
        found = (random.Random(f"{seed} {len(told)} {operation.kind}") for seed in seeds)
        for choice in (None, *found):
            yield disk.after_power_cut(choice), list(told)
        if operation.kind == "told":
            told.append(operation.path)
        else:
            disk.do(operation)
