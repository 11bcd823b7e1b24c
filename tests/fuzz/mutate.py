"""Mutations of bytes, of JSON-like trees, and of zip archives."""

import io
import pickle
import zipfile


class Detonator:
    """An object that tells when somebody unpickles it."""

    went_off = False

    def __reduce__(self):
        return setattr, (Detonator, "went_off", True)


def words(text):
    return text.split()


NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 16, 64, 65, 255, 1024, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, -(10**30), 0.0, -0.0, 0.5, -1.5, 1e-320),
    *(1e-300, 1e300, 1.7976931348623157e308, float("inf"), float("nan")),
)
WHOLE = tuple(number for number in NUMBERS if isinstance(number, int))
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
    *(b"\x7f\xff\xff\xff", b"\0" * 8, b"\x00\x00\x00\x80", b"PK\x03\x04", b"PK\x05\x06"),
    *(b"\x93NUMPY", b"SQLite format 3\0", b"1979-05-27T07:32:00Z", b"\xef\xbb\xbf"),
    *(b"(1000000000, 1000000000)", b"(1000000000,)"),
)
LENGTHS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
BYTE_CHANGES = words("set set set set insert insert number number remove repeat cut swap")


def mutate_bytes(random, content, others=()):
    """Change a few bytes, runs, numbers or pieces of the content."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 1, 2, 4, 16))):
        _change_bytes(random, changed, random.choice(BYTE_CHANGES))
    if others and random.random() < 0.1:
        other = random.choice(others)
        cut = random.randrange(len(changed) + 1)
        changed[cut:] = other[min(cut, len(other)) :]
    return bytes(changed)


def _change_bytes(random, content, kind):
    start = random.randrange(len(content) + 1)
    run = slice(start, start + (1 << random.randrange(8)))
    if kind == "set" and start < len(content):
        flipped = content[start] ^ 1 << random.randrange(8)
        odd = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        content[start] = random.choice((flipped, odd))
    elif kind == "insert":
        token = random.choice(TOKENS)
        content[start : start + random.choice((0, len(token)))] = token
    elif kind == "number":
        # A length or an offset that promises too much, where one may stand.
        width = random.choice((2, 4, 8))
        value = random.choice((*LENGTHS, random.getrandbits(64))) & (256**width - 1)
        order = random.choice(("little", "big"))
        content[start : start + width] = value.to_bytes(width, order)
    elif kind == "remove":
        del content[run]
    elif kind == "repeat":
        content[start:start] = content[run] * random.choice((1, 1, 2, 30))
    elif kind == "cut":
        del content[start:]
    elif kind == "swap":
        lines = bytes(content).split(b"\n")
        random.shuffle(lines)
        content[:] = b"\n".join(lines)


def scalar(random):
    """Return some number, text, truth value or nothing."""
    other = (None, True, False, [], {}, random.random(), random.randrange(-5, 5))
    return random.choice(random.choices((NUMBERS, TEXTS, other), (2, 2, 1))[0])


def mutate_tree(random, tree):
    """Replace, remove, repeat, rename or nest something in dicts and lists, in place."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        places = _places(tree)
        if not places:
            return scalar(random)
        _change(random, *random.choice(places))
    return tree


def _change(random, holder, key):
    kind = random.random()
    if kind < 0.5:
        holder[key] = _near(random, holder[key]) if random.random() < 0.4 else scalar(random)
    elif kind < 0.62:
        del holder[key]
    elif kind < 0.82 and isinstance(holder, dict):
        renamed = holder.pop(key) if random.random() < 0.6 else scalar(random)
        holder[str(random.choice(TEXTS))] = renamed
    elif kind < 0.9 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * random.choice((1, 2, 40))
    else:
        for _ in range(1 if kind < 0.98 else random.choice((5, 100, 800))):
            holder[key] = [holder[key]]


def _near(random, value):
    """Change a little: the next number, another case, a character more."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice((value + 1, value - 1, -value, value * 2, value // 2))
    if isinstance(value, str):
        near = (value + "x", value[1:], value.upper(), value * 2, f"{value}\n", f"-{value}")
        return random.choice(near)
    return value


def _places(tree):
    places, stack = [], [tree]
    while stack and len(places) < 400:
        node = stack.pop()
        if isinstance(node, dict | list):
            keys = list(node) if isinstance(node, dict) else range(len(node))
            places += [(node, key) for key in keys]
            stack += [node[key] for key in keys]
    return places


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


def unzipped(content):
    """Return names and contents of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def change_members(random, listed):
    """Rename, repeat, remove, add or damage a member of an archive."""
    place = random.randrange(len(listed))
    name, content = listed[place]
    outside = ("../escaped.npy", "/escaped.npy", name, "a/../../escaped", "extra.npy")
    kind = random.randrange(6)
    if kind == 0:
        listed[place] = (str(random.choice(TEXTS)) + random.choice(("", ".npy")), content)
    elif kind == 1:
        listed.append((random.choice(outside), content))
    elif kind == 2:
        del listed[place]
    elif kind == 3:
        listed.append((random.choice(outside), pickle.dumps(Detonator())))
    elif kind == 4:
        listed += [(f"m{number}.npy", b"") for number in range(random.choice((1, 20, 2000)))]
    else:
        listed[place] = (name, mutate_bytes(random, content))
