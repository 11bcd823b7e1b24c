"""Arguments of every command, through the command line's own runner, in the same process."""

import functools
import logging
import shlex
import tempfile
from pathlib import Path

from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app
from dpcov.data.vault import Key
from dpcov.errors import DpcovError
from tests.fuzz import releases
from tests.fuzz.contract import SIGNS
from tests.fuzz.mutate import TEXTS, mutate_bytes, words
from tests.fuzz.schemas import GOOD
from tests.fuzz.tables import csv_lines

_NUMBERS = (
    *words("0 1 -1 0.5 2 1e-6 nan inf 1e999999999 1e-999999999 x 1/3 0x10 1_0 １ -0 1e-30 100000"),
    *("3.5", "64", "2147483648", "9" * 5000, "", " 1", "1" + "0" * 30),
)
_FILES = (
    *words("in.csv in.toml in.dpcov in.sqlite in.moments in.key in.bad absent . / - in.png"),
    *words("in.html in.out.csv in.json in.md in.parquet absent/in.x"),
    *("in\udcff.csv", ""),
)
_WORDS = (
    *words("gaussian stratified auto laplace zero replace-one add-remove-one covariance mean psd"),
    *words("correlation none shrink csv r sex ill F patients zcdp pure local device registry"),
    *("checklist", "bits=18", "bits=[[1]]", "x=" + "[" * 3000, "bits=" + "9" * 5000),
    *("clip={a=1}", "a=nan"),
)
_OPTIONS = (
    *words("--epsilon --delta --rho --rows --features --neighbors --mechanism --option --by"),
    *words("--trace --spectrum --html --what --group --post --format --seed --curator"),
    *words("--kind --link --dataset --composition --receipt --threads --memory-limit --db-env"),
    *words("--key --rows-per-person --ledger --geometry --for-epsilon --schema --data --engine -o"),
)
_FLAGS = (
    *words("--overwrite --quiet --no-ledger --not-private --json --resume --help --version -x"),
)
_COMMANDS = tuple(
    shlex.split(line)
    for line in """
release in.csv --schema in.toml --rho 1 --no-ledger -o in.new.dpcov
release in.csv --schema in.toml --rho 1 --ledger in.sqlite --dataset patients -o in.new.dpcov
release in.csv --schema in.toml --epsilon 1 --mechanism laplace --no-ledger -o in.new.dpcov --quiet
release --sql 'SELECT 31 AS age' --db duckdb:// --schema in.toml --rho 1 --no-ledger -o in.new.dpcov
release in.moments --key in.key --schema in.toml --rho 1 --no-ledger -o in.new.dpcov
survey in.csv --schema in.toml --rho 1 --for-rho 2 --no-ledger -o in.new.toml
schema draft in.csv -o in.new.toml
schema draft in.csv
schema check in.toml --data in.csv
show in.dpcov --json
show in.dpcov
export in.dpcov -o in.new.csv --what correlation --post psd
sample in.dpcov --rows 20 -o in.new.parquet
record in.dpcov --curator me -o in.new.json
record in.dpcov --kind checklist -o in.new.md
report in.dpcov -o in.new.html
mechanisms
mechanisms --json
ledger create in.sqlite --dataset other --rho 1
ledger list in.sqlite
ledger show in.sqlite --dataset patients
ledger verify in.sqlite
moments key in.new.key
moments checkpoint in.csv --schema in.toml --key in.key --rho 1 -o in.new.moments
moments merge in.moments in.moments --key in.key -o in.new.moments
plan --rows 1000 --features 5 --rho 1 --geometry schema --trace 0.5
""".strip().splitlines()
)
# These simulate or draw: a few of their cases go all the way, the others stop at their arguments.
_SLOW = {"plan", "report"}


@functools.cache
def _desk():
    """Return the files that the commands work on."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "in.csv").write_text("\n".join(csv_lines()))
        (place / "in.toml").write_text(GOOD[0])
        (place / "in.dpcov").write_bytes(releases.good()[0])
        (place / "in.key").write_text("k" * 64)
        (place / "in.bad").write_bytes(b"\xff\0bad")
        dpcov.Ledger(place / "in.sqlite").create("patients", dpcov.Budget(rho=100), "replace-one")
        terms = {"schema": place / "in.toml", "budget": dpcov.Budget(rho=1)}
        held = dpcov.checkpoint(place / "in.csv", mechanism="gaussian", **terms)
        held.save(place / "in.moments", Key.from_file(place / "in.key"))
        return {path.name: path.read_bytes() for path in place.iterdir()}


def arguments(random):
    """Return a good command line with some words replaced, added, left out or swapped."""
    line = list(random.choice(_COMMANDS))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        place = random.randrange(1, len(line) + 1)
        word = random.choice(random.choice((_NUMBERS, _NUMBERS, _FILES, _WORDS, TEXTS, _OPTIONS)))
        changes = (
            *((place + 1, [word]), (place, [random.choice(_OPTIONS), word])),
            *((place + 1, []), (place, [random.choice(_OPTIONS + _FLAGS)])),
        )
        ((end, instead),) = random.choices(changes, (5, 2, 1, 2))
        line[place:end] = instead
    if line[0] in _SLOW and random.random() < 0.95:
        line += ["--rho", random.choice(("nan", "-1", "x"))]
    # No process can be given a zero byte, and nobody is to blame who is told to write elsewhere.
    return [word.replace("\0", "") for word in line if "escaped" not in word]


def run(random, folder):
    """Invoke a command; exit codes are documented, and screens tidy."""
    words = arguments(random)
    for name, content in _desk().items():
        path = folder / name
        damaged = name not in ("in.key", "in.sqlite") and random.random() < 0.04
        path.write_bytes(mutate_bytes(random, content) if damaged else content)
    logging.disable(logging.CRITICAL)
    before = {path.name for path in folder.iterdir()}
    result = CliRunner().invoke(app, words, input=_desk()["in.csv"])
    left = {path.name for path in folder.iterdir()} - before
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    text, code, line = result.output, result.exit_code, shlex.join(words)
    assert code in range(9), f"exit code {code}: {line}"
    assert "Traceback" not in text and "Internal error" not in text, f"untidy: {line}"
    told = [sign for sign in SIGNS if sign in text and not any(sign in word for word in words)]
    assert not told, f"a sentinel was told: {line}"
    if code != 0:
        assert not left, f"a refused command left {sorted(left)}: {line}"
        raise type(f"exit code {code}", (DpcovError,), {})("refused")
