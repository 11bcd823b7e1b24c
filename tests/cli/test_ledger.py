"""``dpcov ledger``, and what a release does with an account."""

import json
import re
import sqlite3

import pytest

import dpcov
from dpcov.errors import LedgerError
from tests.privacy.ledger.test_faults import SPEND

GAUSSIAN = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def account(desk):
    """A second account with a budget of its own."""

    def create(*terms):
        desk.done("ledger create", desk.ledger, "--dataset", "g", *terms)

    return create


def test_a_whole_ledger_gives_a_receipt_that_later_ones_keep(desk):
    first = desk.done("ledger verify", desk.ledger)
    receipt = first.split()[-1]
    assert "The ledger is whole: 1 event, 0 releases." in first
    assert desk.release().exit_code == 0
    second = desk.done("ledger verify", desk.ledger, "--receipt", receipt)
    assert "4 events, 1 release." in second
    assert second.split()[-1] != receipt


def test_a_second_account_is_told_of_the_first(desk):
    told = desk.done("ledger create", desk.ledger, "--dataset", "g", *GAUSSIAN)
    assert "Other accounts of this ledger: patients. Releases about the same people" in told


def test_a_release_that_was_interrupted_is_listed_and_said_to_count(desk):
    assert desk.release().exit_code == 0
    assert "not committed" not in desk.done("ledger show", desk.ledger, "--dataset", "patients")
    dpcov.Ledger(desk.ledger).reserve("patients", SPEND, "replace-one")
    told = desk.done("ledger show", desk.ledger, "--dataset", "patients")
    assert "  reserved " in told and "It counts: noise may exist." in told
    line = r"   1  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d  committed  stratified  \(0\.5\)-zCDP  (.+)"
    first, second = told.splitlines()[:2]
    # Which file it is; what was not written has none.
    assert dpcov.load(desk.output).fingerprint.startswith(re.fullmatch(line, first)[1])
    assert second.endswith("-zCDP")


def test_programs_are_told_the_same_of_an_account(desk):
    assert desk.release().exit_code == 0
    dpcov.Ledger(desk.ledger).reserve("patients", SPEND, "replace-one")
    told = json.loads(desk.done("ledger show --json", desk.ledger))
    first, second = told["releases"]
    assert first["fingerprint"] == dpcov.load(desk.output).fingerprint
    assert (first["state"], first["promise"]) == ("committed", "(0.5)-zCDP")
    assert (second["state"], second["fingerprint"]) == ("reserved", None)
    (amount,) = told["amounts"]
    assert amount["unit"] == "rho" and amount["spent"] == 0.5 + float(SPEND.promise.rho)
    assert amount["total"] == amount["spent"] + amount["left"]
    shown = desk.done("ledger show", desk.ledger)
    assert shown.endswith(f"{told['so_far']}\n{told['left']}\n")


def test_the_only_account_is_shown_unasked(desk, account):
    asked = desk.done("ledger show", desk.ledger, "--dataset", "patients")
    assert desk.done("ledger show", desk.ledger) == asked
    account(*GAUSSIAN)
    refused = desk.run("ledger show", desk.ledger)
    assert refused.exit_code == 2 and "Its accounts: g, patients" in refused.output


def test_tampering_is_told_with_what_can_be_trusted_and_what_to_do(desk):
    for _ in range(2):
        assert desk.release("--overwrite").exit_code == 0
    with sqlite3.connect(desk.ledger) as connection:
        connection.execute("UPDATE entry SET promise_rho = '1/1000' WHERE id = 2")
    connection.close()
    result = desk.run("ledger verify", desk.ledger)
    assert result.exit_code == 6
    told = " ".join(result.output.split())
    assert "Found: entry 2 was changed: promise_rho differ from the trail." in told
    trusted = "Trustworthy are events 1 to 7 and 1 release (1). Spend nothing; restore a backup"
    assert trusted in told


def test_a_read_only_ledger_can_be_read_and_not_spent_from(shared_desk):
    shared_desk.ledger.chmod(0o444)
    book = dpcov.Ledger(shared_desk.ledger)
    assert book.remaining("patients").spent == {"rho": 0}
    assert book.verify().problems == ()
    with pytest.raises(LedgerError, match="writable"):
        book.reserve("patients", SPEND, "replace-one")
    assert book.entries("patients") == ()


def test_an_account_of_another_unit_refuses_the_release_unread(desk, account):
    account(*GAUSSIAN, "--rows-per-person", "3")
    refused = desk.release("--dataset", "g", data=desk.folder / "nowhere.csv")
    assert refused.exit_code == 6
    assert "with 3 rows per person. A release with 1 row per person cannot" in refused.output


def test_large_deltas_are_refused_unless_a_flag_insists_and_large_epsilons_warn(desk, account):
    account("--epsilon", "9", "--delta", "0.1")
    large = ("--dataset", "g", "--epsilon", "5", "--delta", "0.01")
    refused = desk.release(*large, rho=None)
    assert (refused.exit_code, desk.states()) == (5, [])
    assert "--accept-large-delta" in refused.output
    made = desk.release(*large, "--accept-large-delta", rho=None)
    assert made.exit_code == 0, made.output
    assert "Warning: epsilon = 5 is large. Somebody who knows" in made.stderr
    assert "PrivacyWarning" not in made.output
