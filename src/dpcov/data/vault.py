"""Encrypt sensitive files at rest, under a key that the custodian gives.

Contract: without the key a file shows its length and nothing else; a file that was cut, reordered
or changed in any byte is refused as a whole.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpcov.errors import DataError, UsageError, require_kind
from dpcov.files import PRIVATE, as_path, reason_of, write_file

_MAGIC = "dpcov-vault"
_VERSION = 1
_CHUNK = 2**20
_TAG = 16
_MAX_HEADER = 4096
_MIN_KEY, _MAX_KEY = 32, 2**16

_WRONG = (
    "The file cannot be opened: the key is another one, or the file is damaged or was changed. "
    "Nothing was read. Give the key that it was locked with, or another copy."
)
_FOREIGN = (
    "This is not a file of saved moments, or one of another version of dpcov. Make one with `dpcov "
    "moments checkpoint`."
)


@dataclass(frozen=True)
class Key:
    """A secret of the custodian, random bytes."""

    secret: bytes = field(repr=False)

    @classmethod
    def from_file(cls, path: str | Path) -> "Key":
        """Read a key file of 32 random bytes or more, such as :func:`write_key` makes."""
        try:
            with as_path(path).open("rb") as file:
                content = file.read(_MAX_KEY + 1)
        except OSError as error:
            raise UsageError(
                f"The key file cannot be read: {reason_of(error)}. Check the path."
            ) from None
        # A text may end with a line break; in random bytes any byte counts.
        secret = content.strip()
        if len(secret) < _MIN_KEY and not content.isascii():
            secret = content
        if len(content) > _MAX_KEY or len(secret) < _MIN_KEY:
            raise UsageError("A key file has at least 32 random bytes. See `dpcov moments key`.")
        return cls(secret)

    def cipher(self, salt: bytes) -> Any:
        """Cipher of one file."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        hkdf = HKDF(algorithm=SHA256(), length=32, salt=salt, info=b"dpcov vault 1")
        return ChaCha20Poly1305(hkdf.derive(self.secret))


def write_key(path: str | Path) -> None:
    """Write a new random key file, readable by its owner alone; none is ever replaced."""
    if os.path.lexists(as_path(path)):
        raise UsageError(
            "The key file exists already, and files may be locked with it. Choose another name."
        )
    write_file(path, f"{os.urandom(_MIN_KEY).hex()}\n".encode(), mode=PRIVATE)


def lock_file(path: str | Path, content: bytes, key: Key, *, overwrite: bool = False) -> None:
    """Encrypt the content and write it for its owner alone, whole or not at all."""
    # A line of JSON (public, with the salt), then chunks of 1 MiB under ChaCha20-Poly1305 with
    # their number as nonce, the last one marked (Hoang, Reyhanitabar, Rogaway, Vizar 2015:
    # STREAM).  Every file has its own key, derived from the custodian's and a fresh salt, so that
    # no nonce is ever used twice.
    require_kind("key", key, Key)
    salt = os.urandom(32)
    facts = {"format": _MAGIC, "version": _VERSION, "key": "file", "salt": salt.hex()}
    header = json.dumps(facts).encode() + b"\n"
    cipher = key.cipher(salt)
    chunks = (cipher.encrypt(nonce, part, header) for nonce, part in _chunks(content, _CHUNK))
    write_file(path, header + b"".join(chunks), overwrite=overwrite, mode=PRIVATE)


def unlock_file(path: str | Path, key: Key) -> bytes:
    """Read and check a whole file; a `DataError` says in public words why that fails."""
    from cryptography.exceptions import InvalidTag

    require_kind("key", key, Key)
    try:
        with as_path(path).open("rb") as file:
            header = file.readline(_MAX_HEADER)
            cipher = key.cipher(_salt_of(header))
            body = file.read()
    except OSError as error:
        raise DataError(
            f"'{Path(path).name}' cannot be read: {reason_of(error)}. Check the path."
        ) from None
    try:
        chunks = _chunks(body, _CHUNK + _TAG)
        return b"".join(cipher.decrypt(nonce, part, header) for nonce, part in chunks)
    except InvalidTag:
        raise DataError(_WRONG) from None


def _salt_of(line: bytes) -> bytes:
    try:
        header = json.loads(line)
        salt = bytes.fromhex(header["salt"])
        facts = tuple(header[name] for name in ("format", "version", "key"))
        known = facts == (_MAGIC, _VERSION, "file") and len(salt) == 32
    except (ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known:
        raise DataError(_FOREIGN)
    return salt


def _chunks(content: bytes, size: int) -> Iterator[tuple[bytes, memoryview]]:
    # Cut the content, which may be empty; each part has its number, and whether it is the last.
    # An empty content has one empty chunk, which can be marked as the last.
    view = memoryview(content)
    starts = range(0, max(1, len(view)), size)
    for number, start in enumerate(starts):
        is_last = number == len(starts) - 1
        yield number.to_bytes(11, "little") + bytes([is_last]), view[start : start + size]
