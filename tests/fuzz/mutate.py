"""Mutations: of bytes, of JSON-like trees, and of zip archives.  All randomness comes from the given source."""

import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 16, 64, 65, 255, 1024, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, -(10**30)),
    *(
        0.0,
        -0.0,
        0.5,
        -1.5,
        1e-320,
        1e-300,
        1e300,
        1.7976931348623157e308,
        float("inf"),
        float("nan"),
    ),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "x",
        "0",
        "1",
        "-1",
        "nan",
        "inf",
        "1e999999999",
        "1e-999999999",
        "1/0",
        "9" * 5000,
    ),
    *(
        "../../escaped",
        "/escaped",
        "..\\escaped",
        "C:\\escaped",
        "a/b",
        ".",
        "..",
        "-",
        "con",
        "%s",
        "{0}",
        "\0",
    ),
    *(
        "\n",
        "\r\n",
        "\x1b[31m",
        "\x7f",
        "\u202e",
        "\ufeff",
        "\U0010ffff",
        "é",
        "=1+1",
        "<script>",
        "' OR 1=1 --",
    ),
    *(
        "(intercept)",
        "age",
        "sex",
        "sex=F",
        "ill",
        "true",
        "null",
        "numeric",
        "gaussian",
        "replace-one",
        "x" * 3000,
    ),
)
TOKENS = (
    *(
        b"\0",
        b"\xff",
        b"\n",
        b"\r",
        b'"',
        b"'",
        b",",
        b"\t",
        b"=",
        b"[",
        b"]",
        b"{",
        b"}",
        b"#",
        b"\\",
        b"\xef\xbb\xbf",
    ),
    *(
        b"nan",
        b"inf",
        b"-inf",
        b"1e999",
        b"-0",
        b"0x",
        b"true",
        b"9" * 400,
        b"9" * 5000,
        b"[[",
        b"\\u",
        b"\\ud800",
    ),
    *(
        b"[" * 300,
        b"{" * 300,
        b"{a=" * 200,
        b"(" * 300,
        b"\xff\xff\xff\xff",
        b"\xff" * 8,
        b"\x7f\xff\xff\xff",
        b"\0" * 8,
    ),
    *(
        b"\x00\x00\x00\x80",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PAR1",
        b"ARROW1",
        b"\x93NUMPY",
        b"SQLite format 3\0",
    ),
    *(
        b"1979-05-27T07:32:00Z",
        b"../",
        b"1000000000",
        b"(1000000000, 1000000000)",
        b"(1000000000,)",
        b"|O",
        b"<f8",
    ),
)


def mutate_bytes(random: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Change a few bytes, runs, numbers or pieces of the content."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 1, 2, 4, 16))):
        random.choice(_BYTE_CHANGES)(random, changed)
    if others and random.random() < 0.1:
        other = random.choice(others)
        cut = random.randrange(len(changed) + 1)
        changed[cut:] = other[min(cut, len(other)) :]
    return bytes(changed)


def _flip(random: Random, content: bytearray) -> None:
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _set(random: Random, content: bytearray) -> None:
    if content:
        content[random.randrange(len(content))] = random.choice(
            (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
        )


def _remove(random: Random, content: bytearray) -> None:
    start = random.randrange(len(content) + 1)
    del content[start : start + (1 << random.randrange(8))]


def _repeat(random: Random, content: bytearray) -> None:
    start = random.randrange(len(content) + 1)
    piece = content[start : start + (1 << random.randrange(8))]
    content[start:start] = piece * random.choice((1, 1, 2, 30))


def _insert(random: Random, content: bytearray) -> None:
    start = random.randrange(len(content) + 1)
    token = random.choice(TOKENS)
    content[start : start + random.choice((0, len(token)))] = token


def _number(random: Random, content: bytearray) -> None:
    """Put a length or an offset that promises too much where one may stand."""
    width = random.choice((2, 4, 8))
    if len(content) >= width:
        start = random.randrange(len(content) - width + 1)
        value = random.choice(
            (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, random.getrandbits(64))
        )
        content[start : start + width] = (value & (256**width - 1)).to_bytes(
            width, random.choice(("little", "big"))
        )


def _cut(random: Random, content: bytearray) -> None:
    del content[random.randrange(len(content) + 1) :]


def _swap(random: Random, content: bytearray) -> None:
    lines = bytes(content).split(b"\n")
    random.shuffle(lines)
    content[:] = b"\n".join(lines)


_BYTE_CHANGES: tuple[Callable[[Random, bytearray], None], ...] = (
    *(_flip, _flip, _set, _set, _remove, _repeat, _insert, _insert, _number, _number, _cut, _swap),
)


def scalar(random: Random) -> Any:
    """Return some number, text, truth value or nothing."""
    kind = random.random()
    if kind < 0.4:
        return random.choice(NUMBERS)
    if kind < 0.8:
        return random.choice(TEXTS)
    return random.choice((None, True, False, [], {}, random.random(), random.randrange(-5, 5)))


def deep(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    tree: list[Any] = []
    for _ in range(depth):
        tree = [tree]
    return tree


def mutate_tree(random: Random, tree: Any) -> Any:
    """Replace, remove, repeat, rename or nest something inside a tree of dicts and lists; works in place."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        holder, key = _pick(random, tree)
        if holder is None:
            return scalar(random)
        _change(random, holder, key)
    return tree


def _change(random: Random, holder: Any, key: Any) -> None:
    kind = random.random()
    if kind < 0.5:
        holder[key] = _near(random, holder[key]) if random.random() < 0.4 else scalar(random)
    elif kind < 0.62:
        del holder[key]
    elif kind < 0.74 and isinstance(holder, dict):
        holder[str(random.choice(TEXTS))] = holder.pop(key)
    elif kind < 0.82 and isinstance(holder, dict):
        holder[str(random.choice(TEXTS))] = scalar(random)
    elif kind < 0.9 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * random.choice((1, 2, 40))
    elif kind < 0.98:
        holder[key] = [holder[key]]
    else:
        holder[key] = deep(random.choice((5, 100, 800)))


def _near(random: Random, value: Any) -> Any:
    """Change a little: the next number, another case, a character more."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice((value + 1, value - 1, -value, value * 2, value // 2))
    if isinstance(value, str):
        return random.choice(
            (value + "x", value[1:], value.upper(), value * 2, f"{value}\n", f"-{value}")
        )
    return value


def _pick(random: Random, tree: Any) -> tuple[Any, Any]:
    places: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack and len(places) < 400:
        node = stack.pop()
        keys: Any = (
            list(node)
            if isinstance(node, dict)
            else range(len(node))
            if isinstance(node, list)
            else ()
        )
        for key in keys:
            places.append((node, key))
            stack.append(node[key])
    return random.choice(places) if places else (None, None)


def zipped(
    members: Sequence[tuple[str, bytes]],
    comment: bytes = b"",
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """Return an archive of members, names repeated or not."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=compression) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            archive.writestr(info, content)
        archive.comment = comment
    return buffer.getvalue()


def bomb(name: str, head: bytes, megabytes: int) -> bytes:
    """Return an archive with one member that begins with ``head`` and goes on with zeros, a thousandth of its size."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = bytearray(squeeze.compress(head))
    zeros, check, size = bytes(2**20), zlib.crc32(head), len(head) + megabytes * 2**20
    for _ in range(megabytes):
        body += squeeze.compress(zeros)
        check = zlib.crc32(zeros, check)
    body += squeeze.flush()
    return _one_member(name.encode(), bytes(body), check, size)


def _one_member(name: bytes, body: bytes, check: int, size: int) -> bytes:
    sizes = (
        check.to_bytes(4, "little")
        + len(body).to_bytes(4, "little")
        + (size & 0xFFFFFFFF).to_bytes(4, "little")
    )
    shared = b"\x14\0\0\0\x08\0\0\0!\0" + sizes + len(name).to_bytes(2, "little") + b"\0\0"
    local = b"PK\x03\x04" + shared + name + body
    central = b"PK\x01\x02\x14\0" + shared + bytes(2 + 2 + 2 + 4 + 4) + name
    ends = len(central).to_bytes(4, "little") + len(local).to_bytes(4, "little")
    return local + central + b"PK\x05\x06\0\0\0\0\x01\0\x01\0" + ends + b"\0\0"
