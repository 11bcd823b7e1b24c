"""Encrypted files: whole or refused, and nothing without the key."""

import hashlib
import json
import os

import pytest

from dpcov.data.vault import Key, lock_file, unlock_file, write_key
from dpcov.errors import DataError, ReleaseError, UsageError

KEY = Key(bytes(range(32)))
CHUNK = 2**20
SALT = bytes(range(100, 132)).hex()
LOCKED = bytes.fromhex("ef2d5d29ea823e4926c549e54392d0e11bee99395d1a37c1d47f405e4d")


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_what_was_locked_is_unlocked(tmp_path, size):
    content = bytes(i % 251 for i in range(size))
    lock_file(tmp_path / "a", content, KEY)
    assert unlock_file(tmp_path / "a", KEY) == content


def test_files_are_locked_as_ever_and_opened_for_ever(tmp_path, monkeypatch):
    facts = {"format": "dpcov-vault", "version": 1, "key": "file", "salt": SALT}
    (tmp_path / "old").write_bytes(json.dumps(facts).encode() + b"\n" + LOCKED)
    assert unlock_file(tmp_path / "old", KEY) == b"exact moments"
    monkeypatch.setattr("os.urandom", lambda count: bytes(range(100, 100 + count)))
    lock_file(tmp_path / "new", bytes(2 * 2**20 + 7), KEY)
    assert hashlib.sha256((tmp_path / "new").read_bytes()).hexdigest() == (
        "31481095bfc46299289786a105b3dc4d749f392c12fd5e208b301136267e1173"
    )


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
    header, step = good.index(b"\n") + 1, CHUNK + 16
    spoiled = [good[:-1], good[:-17], good + b"x", good[:header], good[: header + step]]
    for place in (header, len(good) // 2, -1):
        changed = bytearray(good)
        changed[place] ^= 1
        spoiled.append(bytes(changed))
    first, second, rest = (good[header + step * n :] for n in range(3))
    spoiled.append(good[:header] + second[:step] + first[:step] + rest)
    for content in spoiled:
        if content != good:
            path.write_bytes(content)
            with pytest.raises(DataError, match=r"cannot be opened|not a file of saved moments"):
                unlock_file(path, KEY)


def test_another_key_and_another_public_header_are_refused(tmp_path):
    path = tmp_path / "a"
    lock_file(path, b"x", KEY)
    with pytest.raises(DataError, match="key is another one"):
        unlock_file(path, Key(bytes(32)))
    line, body = path.read_bytes().split(b"\n", 1)
    header = json.loads(line)
    for change, message in (
        ({"version": 2}, "another version"),
        ({"format": "other"}, "not a file of saved moments"),
        ({"key": "passphrase"}, "not a file of saved moments"),
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


@pytest.mark.parametrize(("length", "taken"), [(4096, True), (4097, False)])
def test_the_public_line_has_up_to_4096_bytes(tmp_path, length, taken):
    path = tmp_path / "a"
    facts = {"format": "dpcov-vault", "version": 1, "key": "file", "salt": SALT}
    line = json.dumps(facts).encode().ljust(length - 1) + b"\n"
    nonce = bytes(11) + b"\x01"
    path.write_bytes(line + KEY.cipher(bytes.fromhex(SALT)).encrypt(nonce, b"content", line))
    if taken:
        assert unlock_file(path, KEY) == b"content"
        return
    with pytest.raises(DataError, match="cannot be opened"):
        unlock_file(path, KEY)


@pytest.mark.skipif(os.name != "posix", reason="permissions of other systems work differently")
def test_locked_files_are_their_owners_alone(tmp_path):
    path = tmp_path / "moments"
    for _ in range(2):
        lock_file(path, b"x", KEY, overwrite=True)
        assert path.stat().st_mode & 0o777 == 0o600


def test_key_files_are_private_and_never_replaced(tmp_path):
    path = tmp_path / "key"
    write_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(Key.from_file(path).secret) == 64
    with pytest.raises(UsageError, match="exists already"):
        write_key(path)
    with pytest.raises(ReleaseError, match="does not exist; create it first"):
        write_key(tmp_path / "absent" / "key")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        Key.from_file(tmp_path / "absent")
    with pytest.raises(DataError, match="cannot be read: no such file"):
        unlock_file(tmp_path / "absent", KEY)
    assert "\\x01" not in repr(KEY)


@pytest.mark.parametrize(
    ("size", "taken"), [(31, False), (32, True), (2**16 - 2, True), (2**16 - 1, False)]
)
def test_keys_have_32_bytes_to_64_kilobytes_without_the_blanks_around(tmp_path, size, taken):
    (tmp_path / "key").write_bytes(b" " + b"k" * size + b"\n")
    if taken:
        assert Key.from_file(str(tmp_path / "key")) == Key(b"k" * size)
        return
    with pytest.raises(UsageError, match="at least 32"):
        Key.from_file(tmp_path / "key")


def test_random_bytes_that_look_like_blanks_belong_to_the_key(tmp_path):
    secret = b"\n" + bytes(range(200, 230)) + b" "
    (tmp_path / "key").write_bytes(secret)
    assert Key.from_file(tmp_path / "key") == Key(secret)


def test_an_existing_file_is_not_replaced_unasked(tmp_path):
    lock_file(tmp_path / "a", b"x", KEY)
    with pytest.raises(ReleaseError, match="exists already"):
        lock_file(tmp_path / "a", b"y", KEY)
    lock_file(tmp_path / "a", b"y", KEY, overwrite=True)
    assert unlock_file(tmp_path / "a", KEY) == b"y"
