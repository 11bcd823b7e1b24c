"""Release files: damaged, or forged with right checksums; what loads must be readable."""

import functools
import hashlib
import io
import json
from contextlib import suppress
from typing import get_args

import numpy as np
import pyarrow as pa

import dpcov
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.estimate.post import POSTS
from dpcov.published.export import Quantity, export
from dpcov.published.file.archive import MANIFEST_NAME
from dpcov.published.release import Release
from tests.fuzz.mutate import (
    NUMBERS,
    WHOLE,
    Detonator,
    change_members,
    mutate_bytes,
    mutate_tree,
    unzipped,
    words,
    zipped,
)
from tests.fuzz.schemas import GOOD


@functools.cache
def good():
    """Return releases of every layout."""
    schema, random = dpcov.Schema.loads(GOOD[0]), np.random.default_rng(1)
    table = {
        "age": random.uniform(20, 90, 300).tolist(),
        "sex": random.choice(["F", "M"], 300).tolist(),
        "ill": random.choice([True, False], 300).tolist(),
    }
    wanted = (
        {"mechanism": "gaussian", "neighbors": "add-remove-one"},
        {"mechanism": "gaussian", "neighbors": "replace-one"},
        {"mechanism": "stratified", "by": "sex"},
        {"mechanism": "stratified-nuclear", "budget": dpcov.Budget(epsilon=1)},
        {"mechanism": "coinpress"},
    )
    usual = {"schema": schema, "budget": dpcov.Budget(rho=1), "entropy": SeededEntropy(1)}

    def release(**options):
        return dpcov.release(pa.table(table), **{**usual, **options})

    single = [release(**options) for options in wanted]
    one, by_sex = single[1:3]
    other = release(**wanted[1] | {"entropy": SeededEntropy(2)})
    place = wanted[2] | {"geometry": "schema"}
    nested, _ = release(**place).nest(release(**place | {"entropy": SeededEntropy(2)}), {})
    pooled = by_sex.group("F", pooled=True)
    made_of_others = one.combine(other), one.unite(other), nested["F"], pooled
    return tuple(each.to_bytes() for each in (*single, *made_of_others))


@functools.cache
def members():
    """Return the parts of the good releases."""
    return tuple(map(unzipped, good()))


def run_bytes(random, folder):
    """Load a file somebody damaged."""
    content = good()
    _read(random, folder, mutate_bytes(random, random.choice(content), content), chance=0.05)


def run_forged(random, folder):
    """Load, and read, a file made by somebody who knows the format."""
    # The manifest, the arrays or the list of members change, and the checksums are put right.
    parts = dict(random.choice(members()))
    record = json.loads(parts[MANIFEST_NAME])
    kind = random.random()
    if kind < 0.5:
        record = mutate_tree(random, record)
    if 0.35 < kind < 0.9:
        _change_array(random, parts, record)
    try:
        dumped = json.dumps(record, ensure_ascii=random.random() < 0.5)
        text = dumped.encode("utf-8", "surrogatepass")
    except RecursionError:  # deeper than Python writes, not deeper than a file can be
        text = b'{"columns":' + b"[" * 10**5
    if kind > 0.97:
        text = mutate_bytes(random, text)
    parts[MANIFEST_NAME] = text
    listed = list(parts.items())
    if kind > 0.9:
        change_members(random, listed)
    _read(random, folder, signed(text, listed), chance=0.5)


def signed(text, listed):
    comment = b"dpcov-release-1 sha256:" + hashlib.sha256(text).hexdigest().encode()
    return zipped(listed, comment)


def _change_array(random, parts, record):
    """Change numbers, shape, type or bytes of an array, and its entry in the manifest."""
    name = random.choice([name for name in parts if name.endswith(".npy")])
    parts[name] = content = _changed(random, parts[name])
    # Whatever numpy or a changed manifest say of it, the manifest then keeps what it says.
    with suppress(Exception):
        entry = record["members"][name.removesuffix(".npy")]
        entry["sha256"] = hashlib.sha256(content).hexdigest()
        if random.random() < 0.9:
            array = np.load(io.BytesIO(content), allow_pickle=False)
            entry["shape"], entry["dtype"] = list(array.shape), array.dtype.str


def _changed(random, content):
    """Return a .npy file like this one."""
    if random.random() < 0.2:
        return mutate_bytes(random, content)
    if random.random() < 0.05:
        return saved(np.array([Detonator(), 1], dtype=object))
    array = np.load(io.BytesIO(content)).copy()
    flat = array.reshape(-1)
    for _ in range(random.choice((1, 1, 2, 9)) if flat.size else 0):
        flat[random.randrange(flat.size)] = _fitting(random, array.dtype)
    if random.random() < 0.3:
        flat[:] = _fitting(random, array.dtype)
    if random.random() < 0.6 and array.ndim >= 2 and array.shape[-1] == array.shape[-2]:
        array = np.minimum(array, array.swapaxes(-1, -2))
    if random.random() < 0.15:
        shapes = (array[..., :1], array[:0], array[None], array.ravel(), array.T, array[..., 0])
        array = random.choice(shapes)
    if random.random() < 0.1:
        array = array.astype(random.choice(words("<f8 <i8 <f4 >i8 <U8 <c16 ?")), casting="unsafe")
    return saved(array)


def _fitting(random, dtype):
    if dtype.kind == "i":
        return max(-(2**63), min(2**63 - 1, random.choice(WHOLE)))
    return random.choice([number for number in NUMBERS if isinstance(number, float)])


def saved(array):
    """Return the content of a .npy file, pickled where the array holds objects."""
    buffer = io.BytesIO()
    with np.errstate(all="ignore"):
        np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _read(random, folder, content, chance):
    path = folder / "in.dpcov"
    path.write_bytes(content)
    with np.errstate(all="ignore"):
        loaded = Release.load(path)
        if random.random() < chance:
            use(random, loaded, folder)


def use(random, loaded, folder):
    """Read a release in some of the ways that commands offer."""
    if loaded.group_names and random.random() < 0.1:
        assert len(loaded.pooled.names) == len(loaded.group_names)
        return
    if loaded.group_names and random.random() < 0.7:
        loaded = loaded.group(random.choice(loaded.group_names))
    post, ending = random.choice(tuple(POSTS)), random.choice(("csv", "json", "npz", "r"))
    place = folder / f"in.{ending}"
    uses = (
        lambda: (loaded.summary(), repr(loaded)),
        lambda: (loaded.second_moment(post), loaded.expected_error(post)),
        lambda: loaded.covariance(post),
        lambda: (loaded.correlation(post), loaded.mean()),
        lambda: export(loaded, place, quantity=random.choice(get_args(Quantity)), overwrite=True),
        lambda: loaded.save(place),
    )
    chosen = random.choice(uses)
    chosen()
    if chosen is uses[-1]:
        assert Release.load(place) == loaded, "a release and its file differ"
