"""Files with rows: mutated bytes, headers that promise too much, members of another kind."""

import functools
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric, Weights
from dpcov.data.schema.draft import describe
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from tests.data.reading import read_encoded, read_unit_ball
from tests.fuzz.contract import NUMBER_SENTINEL, TEXT_SENTINEL
from tests.fuzz.mutate import TEXTS, Detonator, mutate_bytes, words
from tests.fuzz.releases import saved

_BLOCK = 16
_ROWS = 40

_AGE = Numeric(lower=0, upper=120)
_SEX = Categorical(categories=("F", "M"))
NAMED = Schema(columns={"age": _AGE, "sex": _SEX, "ill": Boolean()})
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
        describe(source).dumps()
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


def csv_lines():
    """A table with sentinels in its first row."""
    rows = [
        f"{20 + place},{'FM'[place % 2]},{'true' if place % 3 else 'false'}"
        for place in range(_ROWS)
    ]
    return ["age,sex,ill", f"{NUMBER_SENTINEL},{TEXT_SENTINEL},true", *rows]


@functools.cache
def _csv():
    first = f'"{NUMBER_SENTINEL}","{TEXT_SENTINEL}\n4711",0'
    quoted = ['"age","sex","ill"', first, '" 12 "," F ",1', ",,"]
    tables = (csv_lines(), quoted, csv_lines()[:3], ["x0,x1", "0.5,1", "1,0"])
    return tuple("\n".join(lines).encode() for lines in tables)


def _write_json_lines(random):
    whole = tuple(
        "".join(
            f"{json.dumps(dict(zip(NAMED.columns, row.split(','), strict=True)))}\n" for row in rows
        )
        for rows in (csv_lines()[1:], csv_lines()[1:3])
    )
    content = tuple(text.replace('"true"', "true").encode() for text in whole)
    return "jsonl", mutate_bytes(random, random.choice(content), content)


def _write_csv(random):
    content = mutate_bytes(random, random.choice(_csv()), _csv())
    if random.random() < 0.1:
        lines = [",".join(f'"{random.choice(TEXTS)}"' for _ in range(3)) for _ in range(2)]
        content = ("age,sex,ill\n" + random.choice(("\n", "\r\n", "\r")).join(lines)).encode()
    kind = random.random()
    if kind < 0.6:
        return "csv", content
    if kind < 0.7:
        return "tsv", content.replace(b",", b"\t")
    packed = gzip.compress(content, compresslevel=1, mtime=0)
    if kind > 0.85:
        packed = pa.Codec("zstd").compress(content, asbytes=True)
    ending = "csv.gz" if kind <= 0.85 else "csv.zst"
    return ending, packed if random.random() < 0.5 else mutate_bytes(random, packed)


@functools.cache
def good_parquet():
    def written(table, **options):
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, **options)
        return sink.getvalue().to_pybytes()

    lists = pa.table({"age": [[1.0]], "sex": [{"a": 1}], "ill": [True]})
    dates = pa.table(
        [pa.array([7], pa.date32()), [b"F"], pa.array([1], pa.int8())], [*NAMED.columns]
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


NO_PYTHON = ("(" * 900, "-" * 9000, "{'descr': (" + "1," * 3000, "'''", "\\", "[" * 9000)
_SIZES = words("0 1 2 3 40 1000000 1000000000 2147483648 9223372036854775807 -1 None 1.5 True")


def _npy_header(random):
    """Return the head of a .npy file with an odd shape, type or order."""
    shape = ", ".join(random.choices(_SIZES, k=random.choice((0, 1, 2, 2, 2, 2, 3, 70))))
    kind = random.choice(words("<f8 >f8 <f4 <i8 |b1 |u1 |O <U5 |S0 <c16 |V8 <f16 <M8[s] x f8,f8"))
    text = npy_text(kind, f"({shape},)", random.random() < 0.2)
    if random.random() < 0.1:
        text = random.choice(NO_PYTHON)
    if random.random() < 0.1:
        text = mutate_bytes(random, text.encode()).decode("latin-1")
    return npy_magic(text, random.choice((1, 1, 1, 2, 3)))


def npy_text(kind, shape, order=False):
    return f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}"


def npy_magic(text, version=1):
    """Return a header with the given text."""
    head = text.encode("latin-1", "replace") + b"\n"
    length = (len(head) & 0xFFFF).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes((version, 0)) + length + head


@functools.cache
def _npy():
    numbers = np.random.default_rng(1).uniform(0, 1, (_ROWS, 2))
    numbers[0] = float(NUMBER_SENTINEL)
    whole, texts = numbers.astype(np.int8), np.array([["zebra4711", "x"]])
    arrays = (numbers, np.asfortranarray(numbers), numbers.astype("<f4"), whole, numbers > 0.5)
    return tuple(map(saved, (*arrays, texts)))


def _an_array(random):
    kind = random.random()
    if kind < 0.5:
        return mutate_bytes(random, random.choice(_npy()), _npy())
    if kind < 0.9:
        return _npy_header(random) + random.choice((b"", bytes(64), random.choice(_npy())[128:]))
    return saved(np.array([[Detonator(), 1]], dtype=object))


def _write_npy(random):
    return "npy", _an_array(random)


def _runner(write):
    def run(random, folder):
        ending, content = write(random)
        path = folder / f"in.{ending}"
        path.write_bytes(content)
        read_all(random, str(path))

    return run


run_csv, run_parquet, run_npy = map(_runner, (_write_csv, _write_parquet, _write_npy))
run_json_lines = _runner(_write_json_lines)
