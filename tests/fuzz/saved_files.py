"""Files that a custodian keeps: saved moments (also forged with the key) and ledgers."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np

import dpcov
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.schema.schema import Schema
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.spend import Spend
from tests.fuzz.mutate import mutate_bytes, mutate_tree

_KEY = Key(b"k" * 32)
_OTHER = Key(b"x" * 32)


@functools.cache
def _moments():
    """Return locked files of two checkpoints, what is in these, and a third one."""
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1), "x1": dpcov.Boolean()})
    rows = np.random.default_rng(1).uniform(0, 1, (30, 2)).round()
    made = [
        dpcov.checkpoint(rows, schema=schema, budget=dpcov.Budget(rho=1), mechanism=mechanism)
        for mechanism in ("gaussian", "stratified", "gaussian")
    ]
    files, contents = [], []
    with tempfile.TemporaryDirectory() as folder:
        for held in made[:2]:
            path = Path(folder) / "x.moments"
            held.save(path, _KEY, overwrite=True)
            files.append(path.read_bytes())
            contents.append(unlock_file(path, _KEY))
    return files, contents, made[2]


def run_moments(random, folder):
    """Open saved moments, and merge or use them."""
    files, contents, other = _moments()
    path = folder / "in.moments"
    if random.random() < 0.5:
        path.write_bytes(mutate_bytes(random, random.choice(files), files + contents))
    else:
        lock_file(path, _forged(random, random.choice(contents)), _KEY)
    held = Checkpoint.load(path, _OTHER if random.random() < 0.02 else _KEY)
    repr(held)
    if random.random() < 0.1:
        schema = Schema.loads(held.schema_toml)
        mechanism = random.choice(("gaussian", "stratified"))
        dpcov.release(held, schema=schema, budget=dpcov.Budget(rho=1), mechanism=mechanism)
    else:
        held.merge(Checkpoint.load(path, _KEY) if random.random() < 0.1 else other)


def _forged(random, content):
    kind = random.random()
    if kind < 0.2:
        return mutate_bytes(random, content)
    length = int.from_bytes(content[:8], "little")
    heading, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    if kind < 0.8:
        heading = mutate_tree(random, heading)
    else:
        numbers = mutate_bytes(random, numbers)
    text = json.dumps(heading).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + numbers


@functools.cache
def _ledgers():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        book = Ledger(path)
        book.create("patients", dpcov.Budget(rho=2), "replace-one")
        book.create("staff", dpcov.Budget(epsilon=1, delta="1e-6"), "add-remove-one")
        empty = path.read_bytes()
        for number in range(3):
            entry = book.reserve("patients", _spend(), "replace-one")
            entry.mark_drawn()
            if number:
                entry.commit("f" * 64)
        return empty, path.read_bytes()


def _spend():
    return Spend(promise=dpcov.Budget(rho="0.1").promise, mechanism="gaussian")


def run_ledger(random, folder):
    """Do with a damaged ledger whatever a command does with a ledger."""
    path, content = folder / "in.sqlite", random.choice(_ledgers())
    if random.random() < 0.9:
        content = mutate_bytes(random, content, _ledgers())
    path.write_bytes(content)
    if random.random() < 0.05:
        Path(f"{path}-journal").write_bytes(mutate_bytes(random, content[:512]))
    book = Ledger(path)
    uses = (
        lambda: list(map(str, book.datasets())),
        lambda: [(e.reserved_at[:19], str(e.spend.promise)) for e in book.entries("patients")],
        lambda: book.remaining("patients"),
        lambda: book.verify(None),
        lambda: book.reserve("patients", _spend(), "replace-one").mark_drawn(),
    )
    random.choice(uses)()
