"""Arguments of every command, through the command line's own runner, in the same process."""

import functools
import logging
import shlex
import tempfile
from pathlib import Path

from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app
from dpcov.errors import DpcovError
from tests.fuzz import releases
from tests.fuzz.contract import NUMBER_SENTINEL, SIGNS, TEXT_SENTINEL
from tests.fuzz.mutate import TEXTS, mutate_bytes, words
from tests.fuzz.schemas import GOOD

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
    *words("--trace --spectrum --plot --html --what --group --post --format --seed --curator"),
    *words("--kind --link --dataset --composition --receipt --threads --memory-limit --db-env"),
    *words("--key --passphrase-env --rows-per-person --ledger --schema --data --engine -o"),
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
plan --rows 1000 --features 5 --rho 1 --trace 0.5
""".strip().splitlines()
)
# These simulate or draw: a few of their cases go all the way, the others stop at their arguments.
_SLOW = {"plan", "report"}


@functools.cache
def _desk():
    """Return the files that the commands work on."""
    rows = [
        f"{20 + place},{'FM'[place % 2]},{'true' if place % 3 else 'false'}" for place in range(40)
    ]
    table = "\n".join(["age,sex,ill", f"{NUMBER_SENTINEL},{TEXT_SENTINEL},true", *rows])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "in.csv").write_text(table)
        (place / "in.toml").write_text(GOOD[0])
        (place / "in.dpcov").write_bytes(releases.good()[0])
        (place / "in.key").write_text("k" * 64)
        (place / "in.bad").write_bytes(b"\xff\0bad")
        dpcov.Ledger(place / "in.sqlite").create("patients", dpcov.Budget(rho=100), "replace-one")
        held = dpcov.checkpoint(
            place / "in.csv",
            schema=place / "in.toml",
            budget=dpcov.Budget(rho=1),
            mechanism="gaussian",
            name="a",
        )
        held.save(place / "in.moments", dpcov.data.vault.Key.from_file(place / "in.key"))
        return {path.name: path.read_bytes() for path in place.iterdir()}


def arguments(random):
    """Return a good command line with some words replaced, added, left out or swapped."""
    words = list(random.choice(_COMMANDS))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        place = random.randrange(1, len(words) + 1)
        kind = random.random()
        if kind < 0.5:
            words[place : place + 1] = [_word(random)]
        elif kind < 0.75:
            words[place:place] = random.choice(
                ([random.choice(_OPTIONS), _word(random)], [random.choice(_FLAGS)])
            )
        elif kind < 0.9:
            del words[place : place + 1]
        else:
            words[place:place] = [random.choice(_OPTIONS + _FLAGS)]
    if words[0] in _SLOW and random.random() < 0.95:
        words += ["--rho", random.choice(("nan", "-1", "x"))]
    # No process can be given a zero byte, and nobody is to blame who is told to write elsewhere.
    return [word.replace("\0", "") for word in words if "escaped" not in word]


def _word(random):
    return str(random.choice(random.choice((_NUMBERS, _NUMBERS, _FILES, _WORDS, TEXTS, _OPTIONS))))


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
    after = {path.name for path in folder.iterdir()}
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    check_screen(result.output, result.exit_code, words)
    if result.exit_code != 0:
        left = after - before
        assert not left, f"a refused command left {sorted(left)}: {shlex.join(words)}"
        raise _RefusedError(result.exit_code)


class _RefusedError(DpcovError):
    """Counts a refusal under its exit code."""

    def __init__(self, code):
        super().__init__("refused")
        type(self).__name__ = f"exit code {code}"


def check_screen(text, code, words):
    """Check what a person sees."""
    assert code in range(9), f"exit code {code}: {shlex.join(words)}"
    assert "Traceback" not in text and "Internal error" not in text, f"untidy: {shlex.join(words)}"
    told = [sign for sign in SIGNS if sign in text and not any(sign in word for word in words)]
    assert not told, f"a sentinel was told: {shlex.join(words)}"
