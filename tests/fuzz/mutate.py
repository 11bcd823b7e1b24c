"""Mutations of bytes, of JSON-like trees, and of zip archives."""

import io
import zipfile


def words(text):
    return text.split()


NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 16, 64, 65, 255, 1024, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, -(10**30), 0.0, -0.0, 0.5, -1.5, 1e-320),
    *(1e-300, 1e300, 1.7976931348623157e308, float("inf"), float("nan")),
)
TEXTS = (
    *words("a x 0 1 -1 nan inf 1e999999999 1e-999999999 1/0 - con %s {0} . .. a/b =1+1 <script>"),
    *words("../../escaped /escaped ..\\escaped C:\\escaped (intercept) age sex sex=F ill true"),
    *("null", "numeric", "gaussian", "replace-one", "x" * 3000, "9" * 5000, "' OR 1=1 --", "é"),
    *("", " ", "\0", "\n", "\r\n", "\x1b[31m", "\x7f", "\u202e", "\ufeff", "\U0010ffff"),
)
TOKENS = (
    *(bytes([sign]) for sign in b"\0\xff\n\r\t\"',=[]{}#\\"),
    *words(b"nan inf -inf 1e999 -0 0x true [[ \\u \\ud800 PAR1 ARROW1 ../ 1000000000 |O <f8"),
    *(b"9" * 400, b"9" * 5000, b"[" * 300, b"{" * 300, b"{a=" * 200, b"(" * 300, b"\xff" * 4),
    *(
        b"\xff" * 8,
        b"\x7f\xff\xff\xff",
        b"\0" * 8,
        b"\x00\x00\x00\x80",
        b"PK\x03\x04",
        b"PK\x05\x06",
    ),
    *(b"\x93NUMPY", b"SQLite format 3\0", b"1979-05-27T07:32:00Z", b"\xef\xbb\xbf"),
    *(b"(1000000000, 1000000000)", b"(1000000000,)"),
)


def mutate_bytes(random, content, others=()):
    """Change a few bytes, runs, numbers or pieces of the content."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 1, 2, 4, 16))):
        random.choice(_BYTE_CHANGES)(random, changed)
    if others and random.random() < 0.1:
        other = random.choice(others)
        cut = random.randrange(len(changed) + 1)
        changed[cut:] = other[min(cut, len(other)) :]
    return bytes(changed)


def _set(random, content):
    if content:
        place = random.randrange(len(content))
        flipped = content[place] ^ 1 << random.randrange(8)
        odd = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        content[place] = random.choice((flipped, odd))


def _remove(random, content):
    start = random.randrange(len(content) + 1)
    del content[start : start + (1 << random.randrange(8))]


def _repeat(random, content):
    start = random.randrange(len(content) + 1)
    piece = content[start : start + (1 << random.randrange(8))]
    content[start:start] = piece * random.choice((1, 1, 2, 30))


def _insert(random, content):
    start = random.randrange(len(content) + 1)
    token = random.choice(TOKENS)
    content[start : start + random.choice((0, len(token)))] = token


def _number(random, content):
    """Put a length or an offset that promises too much where one may stand."""
    width = random.choice((2, 4, 8))
    if len(content) >= width:
        start = random.randrange(len(content) - width + 1)
        large = (2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, random.getrandbits(64))
        value = random.choice((0, 1, *large)) & (256**width - 1)
        order = random.choice(("little", "big"))
        content[start : start + width] = value.to_bytes(width, order)


def _cut(random, content):
    del content[random.randrange(len(content) + 1) :]


def _swap(random, content):
    lines = bytes(content).split(b"\n")
    random.shuffle(lines)
    content[:] = b"\n".join(lines)


_COMMON = (_set, _set, _insert, _number)
_BYTE_CHANGES = (*_COMMON, *_COMMON, _remove, _repeat, _cut, _swap)


def scalar(random):
    """Return some number, text, truth value or nothing."""
    kind = random.random()
    if kind < 0.4:
        return random.choice(NUMBERS)
    if kind < 0.8:
        return random.choice(TEXTS)
    return random.choice((None, True, False, [], {}, random.random(), random.randrange(-5, 5)))


def deep(depth):
    """Return a list in a list in a list."""
    tree = []
    for _ in range(depth):
        tree = [tree]
    return tree


def mutate_tree(random, tree):
    """Replace, remove, repeat, rename or nest something in dicts and lists, in place."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        holder, key = _pick(random, tree)
        if holder is None:
            return scalar(random)
        _change(random, holder, key)
    return tree


def _change(random, holder, key):
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


def _near(random, value):
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


def _pick(random, tree):
    places, stack = [], [tree]
    while stack and len(places) < 400:
        node = stack.pop()
        keys = (
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


def zipped(members, comment=b"", compression=zipfile.ZIP_STORED):
    """Return an archive of members, names repeated or not."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=compression) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            archive.writestr(info, content)
        archive.comment = comment
    return buffer.getvalue()


def bomb(name, head, megabytes):
    """Return an archive with a member of ``head`` and then zeros, a thousandth of its size."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w") as member,
    ):
        member.write(head)
        for _ in range(megabytes):
            member.write(bytes(2**20))
    return buffer.getvalue()
