"""Encryption of sensitive files at rest, under a key that the custodian gives.

Contract: without the key a file shows its length and nothing else; a file that was cut, reordered or changed
in any byte is refused as a whole.  Knows nothing of moments.

A file is a line of JSON (public: which key derivation, and its salt), then chunks of 1 MiB under ChaCha20-Poly1305 with
their number as nonce, the last one marked (Hoang, Reyhanitabar, Rogaway, Vizar 2015: STREAM).  Every file has its own
key, derived from the custodian's and a fresh salt, so that no nonce is ever used twice.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dpcov.errors import DataError, UsageError
from dpcov.files import write_file

_MAGIC = "dpcov-vault"
_VERSION = 1
_CHUNK = 2**20
_TAG = 16
_MAX_HEADER = 4096
_MIN_KEY, _MAX_KEY = 32, 2**16
_MIN_PASSPHRASE = 12
_SCRYPT_COST = 2**17

_WRONG = "The file cannot be opened: the key is another one, or the file is damaged or was changed. Nothing was read."
_FOREIGN = "This is not a file of saved moments. Make one with `dpcov moments checkpoint`."


@dataclass(frozen=True)
class Key:
    """A secret of the custodian.

    Parameters
    ----------
    secret : bytes
    kind : {"file", "passphrase"}
        A passphrase is stretched by scrypt (128 MiB, about a second); the content of a key file is not.
    """

    secret: bytes = field(repr=False)
    kind: Literal["file", "passphrase"] = "file"

    @classmethod
    def from_file(cls, path: str | Path) -> "Key":
        """Read a key file of 32 random bytes or more, such as :func:`write_key` makes."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(_MAX_KEY + 1).strip()
        except OSError as error:
            raise UsageError(
                f"The key file cannot be read: {(error.strerror or 'unknown reason').lower()}."
            ) from None
        if not _MIN_KEY <= len(content) <= _MAX_KEY:
            raise UsageError(
                "A key file has at least 32 random bytes. Make one with `dpcov moments key`."
            )
        return cls(content)

    @classmethod
    def from_passphrase(cls, text: str) -> "Key":
        """Use a passphrase of at least 12 characters."""
        if len(text) < _MIN_PASSPHRASE:
            raise UsageError(
                f"A passphrase has at least {_MIN_PASSPHRASE} characters; a key file is safer."
            )
        return cls(text.encode(), "passphrase")

    def derive(self, kind: str, salt: bytes) -> bytes:
        """Key of one file."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        if kind != self.kind:
            raise UsageError(f"This file was locked with a {kind}; give that instead.")
        if kind == "passphrase":
            return Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=8, p=1).derive(self.secret)
        return HKDF(algorithm=SHA256(), length=32, salt=salt, info=b"dpcov vault 1").derive(
            self.secret
        )


def write_key(path: str | Path) -> None:
    """Write a new random key file, readable by its owner alone; an existing file is never replaced."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise UsageError(
            "The key file exists already, and files may be locked with it. Choose another name."
        ) from None
    except OSError as error:
        raise UsageError(
            f"The key file cannot be written: {(error.strerror or 'unknown').lower()}."
        ) from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(os.urandom(_MIN_KEY).hex() + "\n")


def lock_file(path: str | Path, content: bytes, key: Key, *, overwrite: bool = False) -> None:
    """Encrypt the content and write it, whole or not at all."""
    salt = os.urandom(32)
    header = (
        json.dumps(
            {"format": _MAGIC, "version": _VERSION, "key": key.kind, "salt": salt.hex()}
        ).encode()
        + b"\n"
    )
    write_file(
        path,
        header + b"".join(_locked(content, key.derive(key.kind, salt), header)),
        overwrite=overwrite,
    )


def unlock_file(path: str | Path, key: Key) -> bytes:
    """Read and check a whole file.

    Raises
    ------
    DataError
        Missing, not such a file, damaged, or locked with another key; in words that say nothing of its content.
    """
    try:
        with Path(path).open("rb") as file:
            header = file.readline(_MAX_HEADER)
            kind, salt = _read_header(header)
            body = file.read()
    except OSError as error:
        raise DataError(
            f"'{Path(path).name}' cannot be read: {(error.strerror or 'unknown').lower()}."
        ) from None
    return b"".join(_unlocked(body, key.derive(kind, salt), header))


def _read_header(line: bytes) -> tuple[str, bytes]:
    try:
        header = json.loads(line)
        kind, salt, version = header["key"], bytes.fromhex(header["salt"]), header["version"]
        known = header["format"] == _MAGIC and kind in ("file", "passphrase") and len(salt) == 32
    except (ValueError, KeyError, TypeError, RecursionError):
        known, version = False, None
    if not known:
        raise DataError(_FOREIGN)
    if version != _VERSION:
        raise DataError(
            "These moments were saved by another version of dpcov. Upgrade dpcov and try again."
        )
    return kind, salt


def _locked(content: bytes, key: bytes, header: bytes) -> Iterator[bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    cipher, view = ChaCha20Poly1305(key), memoryview(content)
    starts = range(0, max(1, len(view)), _CHUNK)
    for number, start in enumerate(starts):
        nonce = _nonce(number, last=number == len(starts) - 1)
        yield cipher.encrypt(nonce, view[start : start + _CHUNK], header)


def _unlocked(body: bytes, key: bytes, header: bytes) -> Iterator[bytes]:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    cipher, view = ChaCha20Poly1305(key), memoryview(body)
    starts = range(0, max(1, len(view)), _CHUNK + _TAG)
    for number, start in enumerate(starts):
        nonce = _nonce(number, last=number == len(starts) - 1)
        try:
            yield cipher.decrypt(nonce, view[start : start + _CHUNK + _TAG], header)
        except InvalidTag:
            raise DataError(_WRONG) from None


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "little") + bytes([last])
