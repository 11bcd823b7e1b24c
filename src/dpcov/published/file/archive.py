"""One release, one file: a zip archive of .npy arrays and a JSON manifest.

Contract: numpy and zipfile can open it without dpcov; a damaged or altered file is refused; loading
never executes anything and never allocates more than the manifest's shapes allow.
"""

import hashlib
import io
import os
import struct
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpcov.errors import ReleaseError
from dpcov.files import as_path
from dpcov.published.file.manifest import FORMAT_NAME, FORMAT_VERSION, Manifest, MemberRecord
from dpcov.published.file.statistics import PublishedArray

MANIFEST_NAME = "manifest.json"
_COMMENT = "dpcov-release-1 sha256:"
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Limits on what an altered file can make this program allocate.
_MAX_MANIFEST = 64 * 2**20
_MAX_MEMBERS = 512
_MAX_ARRAY = 2**34
_NPY_HEADER_ROOM = 4096
# What zipfile raises on archives that are broken or hostile.
_WRONG = (OSError, EOFError, ArithmeticError, ValueError, RuntimeError)
_DAMAGE = (zipfile.BadZipFile, struct.error, *_WRONG)
_ALTERED = "The release file was altered or damaged after it was written; get a fresh copy."
_WRONG_ARRAY = "An array in the release file is not what its manifest says; get a fresh copy."

Arrays = dict[str, PublishedArray]


def npy_bytes(array: PublishedArray) -> bytes:
    """Content of a .npy file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def member_records(arrays: Mapping[str, PublishedArray]) -> dict[str, MemberRecord]:
    """Shapes, types and checksums of the array files."""
    return {
        name: MemberRecord(
            sha256=_digest(npy_bytes(array)),
            dtype="<i8" if array.dtype == np.int64 else "<f8",
            shape=tuple(array.shape),
        )
        for name, array in arrays.items()
    }


def fingerprint(manifest: Manifest) -> str:
    """SHA-256 of the manifest, which holds the checksums of all arrays: names the release."""
    return _digest(encode_manifest(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """Canonical bytes of a manifest."""
    record = _said(msgspec.to_builtins(manifest, order="deterministic"))
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def _said(record: dict[str, Any]) -> dict[str, Any]:
    # Later fields stand there only where they say something, so that older files stay as they are.
    for column in record["columns"]:
        if column.get("lower") is None:
            column.pop("lower", None)
            column.pop("upper", None)
    for name, nothing in (("lost", 0.0), ("linear_exponent", None), ("losses", None)):
        if record["statistics"][name] == nothing:
            del record["statistics"][name]
    for charge in (record["spent"], *record["also_spent"]):
        if charge is not None and charge["opened"] is None:
            del charge["opened"]
    record["combined"] = [_said(member) for member in record["combined"]]
    for name in ("disjoint", "combined", "pooled", "also_spent"):
        if not record[name]:
            del record[name]
    return record


def pack(manifest: Manifest, arrays: Arrays) -> bytes:
    """Bytes of a release file; the same release always gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), npy_bytes(arrays[name]))
        archive.writestr(zipfile.ZipInfo(MANIFEST_NAME, _EPOCH), encode_manifest(manifest))
        archive.comment = (_COMMENT + fingerprint(manifest)).encode()
    return buffer.getvalue()


def packed_size(shapes: list[tuple[int, ...]], manifest_room: int) -> int:
    """Upper estimate of a release file's size, for reserving space on the disk."""
    return sum(8 * int(np.prod(shape)) + _NPY_HEADER_ROOM for shape in shapes) + manifest_room


def unpack(path: str | Path) -> tuple[Manifest, Arrays]:
    """Read a release file; ReleaseError if it is damaged, altered or of a newer version."""
    try:
        with zipfile.ZipFile(as_path(path)) as archive:
            return _read(archive)
    except FileNotFoundError:
        raise ReleaseError(f"There is no file {path}. Check the path.") from None
    except (IsADirectoryError, PermissionError) as error:
        raise ReleaseError(
            f"Cannot open {path}: {error.strerror}. Check the path and its rights."
        ) from None
    except _DAMAGE:
        raise ReleaseError(f"{path} is no dpcov release, or damaged; get a fresh copy.") from None


def _read(archive: zipfile.ZipFile) -> tuple[Manifest, Arrays]:
    infos = archive.infolist()
    sizes = {info.filename: info for info in infos}
    if len(sizes) < len(infos) or len(sizes) > _MAX_MEMBERS or MANIFEST_NAME not in sizes:
        raise ReleaseError("This archive is no dpcov release, by its members; get a fresh copy.")
    # Stored members have the size that the archive says, all together at most its own: nothing can
    # grow while it is read.
    assert archive.fp is not None
    room, whole = archive.fp.seek(0, os.SEEK_END), sum(info.file_size for info in infos)
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos) or whole > room:
        raise ReleaseError("The release file was repacked; get the original.")
    small = sizes[MANIFEST_NAME].file_size <= _MAX_MANIFEST
    text = archive.read(MANIFEST_NAME) if small else b""
    if archive.comment.decode("ascii", "replace") != _COMMENT + _digest(text):
        raise ReleaseError(_ALTERED)
    manifest = _decode(text)
    if set(sizes) != {MANIFEST_NAME, *(f"{name}.npy" for name in manifest.members)}:
        raise ReleaseError("The file's members do not match its manifest; get a fresh copy.")
    members = manifest.members.items()
    return manifest, {name: _array(archive, name, record) for name, record in members}


def _decode(text: bytes) -> Manifest:
    try:
        record = msgspec.json.decode(text, type=dict[str, Any])
        # The version first: a newer format may have other fields.
        if record.get("format") == FORMAT_NAME and record.get("version") != FORMAT_VERSION:
            raise ReleaseError("The release was written by another version of dpcov; upgrade it.")
        manifest = msgspec.json.decode(text, type=Manifest)
        # Fields that the decoder would skip or fill in make the two readings differ.
        complete = record == msgspec.json.decode(encode_manifest(manifest))
    except (msgspec.MsgspecError, RecursionError):
        complete = False
    if not complete:
        raise ReleaseError("The manifest cannot be read; get a fresh copy, or upgrade dpcov.")
    return manifest


def _array(archive: zipfile.ZipFile, name: str, record: MemberRecord) -> PublishedArray:
    expected = 8 * int(np.prod(record.shape, dtype=object))
    header = archive.getinfo(f"{name}.npy").file_size - expected
    fits = 0 <= header <= _NPY_HEADER_ROOM and expected <= _MAX_ARRAY
    if not fits or any(length < 0 for length in record.shape):
        raise ReleaseError(_WRONG_ARRAY)
    # Only now is the size known to be what the manifest says.
    content = archive.read(f"{name}.npy")
    if _digest(content) != record.sha256:
        raise ReleaseError(_ALTERED)
    return _parse_npy(content, record)


def _parse_npy(content: bytes, record: MemberRecord) -> PublishedArray:
    # The header is believed only where it repeats the manifest.
    stream, header, dtype = io.BytesIO(content), None, np.dtype(record.dtype)
    try:
        if np.lib.format.read_magic(stream) == (1, 0):
            header = np.lib.format.read_array_header_1_0(stream)
    # Whatever Python's own parser says of a text that is no header.
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        pass
    if header != (record.shape, False, dtype):
        raise ReleaseError(_WRONG_ARRAY)
    return np.frombuffer(content, dtype=dtype, offset=stream.tell()).reshape(record.shape)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
