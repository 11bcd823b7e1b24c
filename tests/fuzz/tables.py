"""Files with rows: mutated bytes, headers that promise too much, members of another kind."""

import functools
import gzip
import io
import zipfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse

from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric, Weights
from dpcov.data.schema.draft import draft
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from tests.data.reading import read_encoded, read_unit_ball
from tests.fuzz.contract import NUMBER_SENTINEL, TEXT_SENTINEL, Detonator
from tests.fuzz.mutate import NUMBERS, TEXTS, bomb, mutate_bytes, words, zipped
from tests.fuzz.releases import change_members, members_of, saved

_BLOCK = 16
_ROWS = 40

NAMED = Schema(
    columns={
        "age": Numeric(lower=0, upper=120),
        "sex": Categorical(categories=("F", "M")),
        "ill": Boolean(),
    }
)
WEIGHTED = Schema(
    columns={"age": Numeric(lower=0, upper=120, missing="indicator"), "ill": Ignored()},
    weights=Weights(column="ill", upper=1),
)
PLACED = Schema(columns={"x0": Numeric(lower=0, upper=1), "x1": Boolean()})


def read_all(random, data):
    """Do with rows what some command does: draft a schema, or encode them."""
    source = open_source(data)
    kind = random.random()
    if kind < 0.2:
        draft(source).dumps()
    elif kind < 0.3:
        for _ in read_unit_ball(source, 2.0, _BLOCK):
            pass
    else:
        for block in read_encoded(source, random.choice((NAMED, NAMED, WEIGHTED, PLACED)), _BLOCK):
            assert np.isfinite(block).all()
            assert (np.einsum("ij,ij->i", block, block) <= 1 + 1e-9).all(), "a row is too long"


def _table():
    ages = [float(NUMBER_SENTINEL), None, *(20.0 + place for place in range(_ROWS - 2))]
    sexes = [TEXT_SENTINEL, None, *(("F", "M")[place % 2] for place in range(_ROWS - 2))]
    return pa.table({"age": ages, "sex": sexes, "ill": [place % 3 == 0 for place in range(_ROWS)]})


@functools.cache
def _csv():
    rows = [
        f"{20 + place},{'FM'[place % 2]},{'true' if place % 3 else 'false'}"
        for place in range(_ROWS)
    ]
    usual = ["age,sex,ill", f"{NUMBER_SENTINEL},{TEXT_SENTINEL},true", *rows]
    quoted = [
        '"age","sex","ill"',
        f'"{NUMBER_SENTINEL}","{TEXT_SENTINEL}\n4711",0',
        '" 12 "," F ",1',
        ",,",
    ]
    return tuple(
        "\n".join(lines).encode() for lines in (usual, quoted, usual[:3], ["x0,x1", "0.5,1", "1,0"])
    )


def _write_csv(random):
    content = mutate_bytes(random, random.choice(_csv()), _csv())
    if random.random() < 0.1:
        cells = [b'"' + str(random.choice(TEXTS)).encode() + b'"' for _ in range(6)]
        content = (
            b"age,sex,ill\n"
            + b",".join(cells[:3])
            + random.choice((b"\n", b"\r\n", b"\r"))
            + b",".join(cells[3:])
        )
    kind = random.random()
    if kind < 0.6:
        return "csv", content
    if kind < 0.7:
        return "tsv", content.replace(b",", b"\t")
    if kind < 0.85:
        packed = gzip.compress(content, compresslevel=1, mtime=0)
        return "csv.gz", packed if random.random() < 0.5 else mutate_bytes(random, packed)
    packed = pa.Codec("zstd").compress(content, asbytes=True)
    return "csv.zst", packed if random.random() < 0.5 else mutate_bytes(random, packed)


@functools.cache
def good_parquet():
    def written(table, **options):
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, **options)
        return sink.getvalue().to_pybytes()

    lists = pa.table({"age": [[1.0]], "sex": [{"a": 1}], "ill": [True]})
    dates = pa.table(
        {
            "age": pa.array([7], pa.date32()),
            "sex": pa.array([b"F"]),
            "ill": pa.array([1], pa.int8()),
        }
    )
    return (
        written(_table()),
        written(_table(), compression="zstd", row_group_size=10),
        written(_table(), use_dictionary=False, compression="none", data_page_size=64),
        written(_table(), data_page_version="2.0", compression="gzip"),
        written(lists),
        written(dates),
    )


def _write_parquet(random):
    content = random.choice(good_parquet())
    if random.random() < 0.6:
        return "parquet", mutate_bytes(random, content, good_parquet())
    # The footer is what says where everything is; it stands at the end, behind its own length.
    length = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - length], mutate_bytes(random, content[-8 - length : -8])
    return "parquet", body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@functools.cache
def _arrow():
    def written(open_sink: Callable[..., object], table, **options):
        sink = pa.BufferOutputStream()
        with open_sink(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    folded = _table().set_column(1, "sex", _table()["sex"].dictionary_encode())
    return (
        written(pa.ipc.new_file, _table()),
        written(pa.ipc.new_stream, _table()),
        written(pa.ipc.new_file, folded),
        written(pa.ipc.new_file, _table(), compression="zstd"),
        written(pa.ipc.new_stream, folded, compression="lz4"),
    )


def _write_arrow(random):
    ending = random.choice(("arrow", "feather", "ipc"))
    return ending, mutate_bytes(random, random.choice(_arrow()), _arrow())


NO_PYTHON = ("(" * 900, "-" * 9000, "{'descr': (" + "1," * 3000, "'''", "\\", "[" * 9000)


def npy_header(random):
    """Return the head of a .npy file with an odd shape, type or order."""
    sizes = (0, 1, 2, 3, 40, 10**6, 10**9, 2**31, 2**63 - 1, 2**64, -1, "None", "1.5", "True")
    shape = ", ".join(
        str(random.choice(sizes)) for _ in range(random.choice((0, 1, 2, 2, 2, 2, 3, 70)))
    )
    kind = random.choice(words("<f8 >f8 <f4 <i8 |b1 |u1 |O <U5 |S0 <c16 |V8 <f16 <M8[s] x f8,f8"))
    order = random.random() < 0.2
    text = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({shape},), }}"
    if random.random() < 0.1:
        text = random.choice(NO_PYTHON)
    if random.random() < 0.1:
        text = mutate_bytes(random, text.encode()).decode("latin-1")
    return npy_magic(text, random.choice((1, 1, 1, 2, 3)))


def npy_magic(text, version=1):
    """Return a header with the given text."""
    head = text.encode("latin-1", "replace") + b"\n"
    return (
        b"\x93NUMPY"
        + bytes((version, 0))
        + (len(head) & 0xFFFF).to_bytes(2 if version == 1 else 4, "little")
        + head
    )


@functools.cache
def _npy():
    numbers = np.random.default_rng(1).uniform(0, 1, (_ROWS, 2))
    numbers[0] = float(NUMBER_SENTINEL)
    return (
        *(saved(numbers), saved(np.asfortranarray(numbers)), saved(numbers.astype("<f4"))),
        *(
            saved(numbers.astype(np.int8)),
            saved(numbers > 0.5),
            saved(np.array([["zebra4711", "x"]])),
        ),
    )


def _an_array(random):
    kind = random.random()
    if kind < 0.5:
        return mutate_bytes(random, random.choice(_npy()), _npy())
    if kind < 0.9:
        return npy_header(random) + random.choice((b"", bytes(64), random.choice(_npy())[128:]))
    return saved(np.array([[Detonator(), 1]], dtype=object))


def _write_npy(random):
    return "npy", _an_array(random)


@functools.cache
def _npz():
    numbers = np.random.default_rng(1).uniform(0, 1, (_ROWS, 2))
    plain, packed, *sparse = (io.BytesIO() for _ in range(6))
    np.savez(plain, X=numbers, y=numbers[:, 0])
    np.savez_compressed(packed, data=numbers)
    for buffer, layout in zip(sparse, ("csr", "csc", "coo", "bsr"), strict=True):
        scipy.sparse.save_npz(
            buffer, scipy.sparse.csr_array(numbers * (numbers > 0.5)).asformat(layout)
        )
    return tuple(buffer.getvalue() for buffer in (plain, packed, *sparse))


def _write_npz(random):
    if random.random() < 0.4:
        return "npz", mutate_bytes(random, random.choice(_npz()), _npz())
    listed = list(members_of(random.choice(_npz())))
    place = random.randrange(len(listed))
    name, content = listed[place]
    kind = random.random()
    if kind < 0.4:
        listed[place] = (name, _an_array(random))
    elif kind < 0.7:
        listed[place] = (name, _other_numbers(random, content))
    else:
        change_members(random, listed)
    packing = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return "npz", zipped(listed, compression=packing)


def _other_numbers(random, content):
    """Change numbers of an array: the shape, the pointers or the places of a sparse matrix."""
    array = np.load(io.BytesIO(content)).copy()
    if array.dtype.kind not in "if" or array.size == 0:
        return saved(np.array(random.choice(("csr", "csc", "dia", "x" * 100))))
    whole = [number for number in NUMBERS if isinstance(number, int) and abs(number) < 2**63]
    flat = array.reshape(-1)
    for _ in range(random.choice((1, 1, 3))):
        with np.errstate(all="ignore"):
            flat[random.randrange(flat.size)] = np.array(random.choice(whole)).astype(array.dtype)
    return saved(array)


def _runner(write):
    def run(random, folder):
        ending, content = write(random)
        path = folder / f"in.{ending}"
        path.write_bytes(content)
        read_all(random, str(path))

    return run


run_csv, run_parquet, run_arrow, run_npy, run_npz = map(
    _runner, (_write_csv, _write_parquet, _write_arrow, _write_npy, _write_npz)
)


def header_bomb():
    """Return a .npz file whose array has a header of 64 MiB."""
    return bomb("X.npy", b"\x93NUMPY\x02\x00" + (2**26 - 16).to_bytes(4, "little"), 64)
