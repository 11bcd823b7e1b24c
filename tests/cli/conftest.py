import os
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app
from dpcov.errors import LedgerError

TEXT_SENTINEL, NUMBER_SENTINEL = "zebra4711", "31337.25"

SCHEMA = """
title = "patients"
[columns.age]
type = "numeric"
lower = 0
upper = 120
[columns.sex]
type = "categorical"
categories = ["F", "M"]
[columns.ill]
type = "boolean"
"""


class Desk:
    """A custodian's folder with a table, a schema and a ledger, and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data, self.schema = folder / "patients.csv", folder / "patients.toml"
        self.ledger, self.output = folder / "ledger.sqlite", folder / "patients.dpcov"
        cells = ((20 + n % 70, "FM"[n % 2], str(n % 3 > 0).lower()) for n in range(300))
        rows = [f"{TEXT_SENTINEL},{age},{sex},{ill}" for age, sex, ill in cells]
        first = ["name,age,sex,ill", f"x,{NUMBER_SENTINEL},F,true"]
        self.data.write_text("\n".join([*first, *rows, ""]))
        self.schema.write_text(SCHEMA)
        dpcov.Ledger(self.ledger).create("patients", dpcov.Budget(rho=2), "replace-one")
        self.before = self.names()

    def run(self, command, *arguments, **options):
        """Run a command, whose words are split, with further arguments, which are not."""
        return CliRunner().invoke(app, [*str(command).split(), *map(str, arguments)], **options)

    def done(self, command, *arguments, **options):
        """What a command that succeeds prints."""
        result = self.run(command, *arguments, **options)
        assert result.exit_code == 0, result.output
        return result.output

    @property
    def fixed(self):
        return ("--schema", self.schema, "-o", self.output)

    @property
    def paid(self):
        return ("--ledger", self.ledger, "--dataset", "patients")

    def release(self, *arguments, data=None, rho="0.5", **options):
        budget = ("--rho", rho) if rho is not None else ()
        given = (data or self.data, *self.fixed, *budget, *self.paid, *arguments)
        return self.run("release", *given, **options)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def states(self):
        return [entry.state for entry in dpcov.Ledger(self.ledger).entries("patients")]

    def untouched(self):
        """Nothing was spent and nothing was written."""
        spent = []
        with suppress(LedgerError):
            spent = self.states()
        return spent == [] and self.names() == self.before

    def assert_refused(self, result, exit_code, words=""):
        """One screen that says what to do; nothing spent or written, no value of a row."""
        self.assert_sealed(result)
        assert result.exit_code == exit_code, result.output
        assert words in " ".join(result.output.split())
        assert self.untouched()

    def assert_sealed(self, result):
        text = result.output
        assert len(text.splitlines()) <= 25
        for sealed in ("Traceback", "Internal error", TEXT_SENTINEL, "4711", "31337"):
            assert sealed not in text


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def shared_desk(tmp_path, request):
    """A desk for a user whom file permissions bind, also where tests run as root."""
    if not hasattr(os, "geteuid"):
        pytest.skip("permissions of this system work differently")
    # All is imported now, in success and in refusal: that user may not read where packages are.
    (tmp_path / "first").mkdir()
    first = Desk(tmp_path / "first")
    assert first.release().exit_code == 0
    assert first.release().exit_code != 0
    return Desk(request.getfixturevalue("unprivileged"))
