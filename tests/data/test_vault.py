"""Encrypted files: whole or refused, and nothing without the key."""

import json

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dpcov.data.vault import Key, lock_file, unlock_file, write_key
from dpcov.errors import DataError, ReleaseError, UsageError

KEY = Key(bytes(range(32)))
CHUNK = 2**20


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_what_was_locked_is_unlocked(tmp_path, size):
    content = bytes(i % 251 for i in range(size))
    lock_file(tmp_path / "a", content, KEY)
    assert unlock_file(tmp_path / "a", KEY) == content


def test_nothing_of_the_content_and_nothing_twice_is_seen_in_the_file(tmp_path):
    secret = b"SENTINEL" * 1000
    for name in "ab":
        lock_file(tmp_path / name, secret, KEY)
    first, second = ((tmp_path / name).read_bytes() for name in "ab")
    assert b"SENTINEL" not in first
    body = len(secret)
    assert sum(x == y for x, y in zip(first[-body:], second[-body:], strict=True)) < body / 64


@pytest.mark.parametrize("size", [100, 2 * CHUNK + 5])
def test_any_change_is_refused(tmp_path, size):
    path = tmp_path / "a"
    lock_file(path, bytes(size), KEY)
    good = path.read_bytes()
    header = good.index(b"\n") + 1
    spoiled = [good[:-1], good[:-17], good + b"x", good[:header], good[: header + CHUNK + 16]]
    spoiled += [
        good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        for place in (header, len(good) // 2, -1)
    ]
    if size > CHUNK:
        step = CHUNK + 16
        spoiled.append(
            good[:header] + good[header + step : header + 2 * step] + good[header : header + step]
        )
    for content in spoiled:
        if content == good:
            continue
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cannot be opened|not a file of saved moments"):
            unlock_file(path, KEY)


def test_another_key_and_another_kind_of_key_are_refused(tmp_path):
    lock_file(tmp_path / "a", b"x", KEY)
    with pytest.raises(DataError, match="key is another one"):
        unlock_file(tmp_path / "a", Key(bytes(32)))
    with pytest.raises(UsageError, match="locked with a file"):
        unlock_file(tmp_path / "a", Key.from_passphrase("a long passphrase"))


def test_a_passphrase_works(tmp_path):
    lock_file(tmp_path / "a", b"content", Key.from_passphrase("correct horse battery"))
    assert unlock_file(tmp_path / "a", Key.from_passphrase("correct horse battery")) == b"content"
    with pytest.raises(DataError):
        unlock_file(tmp_path / "a", Key.from_passphrase("correct horse batterie"))


def test_changing_the_public_header_is_refused(tmp_path):
    path = tmp_path / "a"
    lock_file(path, b"x", KEY)
    line, body = path.read_bytes().split(b"\n", 1)
    header = json.loads(line)
    for change, message in (
        ({"version": 2}, "another version"),
        ({"format": "other"}, "not a file of saved moments"),
        ({"salt": "00"}, "not a file of saved moments"),
        ({"salt": "00" * 32}, "cannot be opened"),
        ({"extra": 1}, "cannot be opened"),
    ):
        path.write_bytes(json.dumps(header | change).encode() + b"\n" + body)
        with pytest.raises(DataError, match=message):
            unlock_file(path, KEY)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"PK\x03\x04", b"[" * 4000, b"null\n", b'{"key": []}\n']
)
def test_foreign_files_are_named_as_such(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match="not a file of saved moments"):
        unlock_file(tmp_path / "a", KEY)


def test_key_files_are_private_never_replaced_and_long_enough(tmp_path):
    path = tmp_path / "key"
    write_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Key.from_file(path) == Key.from_file(path)
    with pytest.raises(UsageError, match="exists already"):
        write_key(path)
    (tmp_path / "short").write_text("secret")
    with pytest.raises(UsageError, match="at least 32"):
        Key.from_file(tmp_path / "short")
    with pytest.raises(UsageError, match="cannot be read"):
        Key.from_file(tmp_path / "absent")
    with pytest.raises(UsageError, match="at least 12"):
        Key.from_passphrase("short")


def test_keys_do_not_show_themselves():
    assert "\\x01" not in repr(KEY)


def test_an_existing_file_is_not_replaced_unasked(tmp_path):
    lock_file(tmp_path / "a", b"x", KEY)
    with pytest.raises(ReleaseError, match="exists already"):
        lock_file(tmp_path / "a", b"y", KEY)
    lock_file(tmp_path / "a", b"y", KEY, overwrite=True)
    assert unlock_file(tmp_path / "a", KEY) == b"y"


@pytest.mark.parametrize(("length", "taken"), [(4096, True), (4097, False)])
def test_the_public_line_has_up_to_4096_bytes(tmp_path, length, taken):
    path = tmp_path / "a"
    line = json.dumps(
        {"format": "dpcov-vault", "version": 1, "key": "file", "salt": "00" * 32}
    ).encode()
    line = line.ljust(length - 1) + b"\n"
    nonce = bytes(11) + b"\x01"
    cipher = ChaCha20Poly1305(KEY.derive("file", bytes(32)))
    path.write_bytes(line + cipher.encrypt(nonce, b"content", line))
    if taken:
        assert unlock_file(path, KEY) == b"content"
        return
    with pytest.raises(DataError, match="cannot be opened"):
        unlock_file(path, KEY)


def test_blanks_around_a_key_are_no_part_of_it(tmp_path):
    (tmp_path / "key").write_bytes(b" " + b"k" * 32 + b"\n")
    assert Key.from_file(str(tmp_path / "key")) == Key(b"k" * 32)
    assert (Key(b"k").kind, Key.from_passphrase("twelve chars").secret) == ("file", b"twelve chars")
    write_key(tmp_path / "made")
    assert len(Key.from_file(tmp_path / "made").secret) == 64
