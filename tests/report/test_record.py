"""Registry entries and checklists say what the release says, and ask for the rest."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import Budget, Numeric, Schema
from dpcov.cli.main import app
from dpcov.errors import UsageError
from dpcov.report.checklist import checklist
from dpcov.report.deployment import Deployment, registry_entry

WHO = Deployment(curator="City Hospital", intended_use="regression", published="2026-01-31")
ROWS = np.random.default_rng(0).uniform(size=(300, 3))
SCHEMA = Schema(columns={f"x{i}": Numeric(lower=0, upper=1) for i in range(3)}, title="wards")
BUDGET = Budget(epsilon=1, delta="1e-6")


def made(budget=BUDGET, **how):
    return dpcov.release(ROWS, schema=SCHEMA, budget=budget, **how)


@pytest.fixture
def ledger(tmp_path):
    book = dpcov.Ledger(tmp_path / "l.sqlite")
    book.create("wards", Budget(epsilon="1.5", delta="1e-6"), "replace-one")
    return book


@pytest.mark.parametrize(
    ("budget", "flavor", "numbers"),
    [
        (BUDGET, "approximate DP", {"epsilon": "1", "delta": "1/1000000"}),
        (Budget(rho="0.5"), "zero-concentrated DP", {"rho": "1/2"}),
        (Budget(epsilon=2), "pure DP", {"epsilon": "2"}),
    ],
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_an_entry_states_the_guarantee_exactly_and_hides_a_private_row_count(
    budget, flavor, numbers, neighbors
):
    release = made(budget, neighbors=neighbors)
    text = registry_entry(release, WHO)
    entry = json.loads(text)
    assert entry["privacy_loss"]["flavor"] == flavor
    stated = entry["privacy_loss"]["parameters"]
    assert {name: stated[name] for name in numbers} == numbers
    # Exact numbers are fractions, which people do not read.
    assert entry["privacy_loss"]["promise"] == str(release.guarantee.promise)
    assert entry["product"]["fingerprint"] == release.fingerprint
    assert entry["deployment"]["curator"] == "City Hospital"
    assert entry["product"]["kind"] == "noisy means and covariance matrix, one file"
    assert entry["privacy_loss"]["unit"] == "one row" and "family" in entry["details"]["noise"]
    assert entry["details"]["composition"].startswith("no ledger was used; the custodian")
    counted = b"number of rows: 300" if neighbors == "replace-one" else b"number of rows: "
    assert (counted in text) == (neighbors == "replace-one")


def test_releases_that_have_no_place_in_a_registry():
    with pytest.raises(UsageError, match="curator"):
        Deployment(curator=" ", intended_use="x")
    for published in ("2026-13-01", "soon", "20260131", "2026-W05-1", "2026-1-31"):
        with pytest.raises(UsageError, match="written as 2026-01-31"):
            Deployment(curator="x", intended_use="x", published=published)
    with pytest.raises(UsageError, match="seeded"):
        registry_entry(made(entropy=dpcov.SeededEntropy(1)), WHO)


def test_the_checklist_ticks_only_what_the_file_knows(ledger):
    with_ledger, without = checklist(made(ledger=ledger, dataset="wards")), checklist(made())
    question = "Is the release charged to an account of all releases?"
    assert f"- [x] **{question}** Entry 1 of dataset wards." in with_ledger
    assert f"- [ ] **{question}** No ledger was charged." in without
    floats = "**Does the proof cover floating-point arithmetic?**"
    assert f"- [ ] {floats}" in checklist(made(Budget(epsilon=1)))
    assert f"- [x] {floats}" in without
    # The noisy number may happen to be the exact one; it must not stand anywhere else.
    private = checklist(made(neighbors="add-remove-one"))
    private = re.sub(r"`[0-9a-f]{64}`|number of rows, [\d,]+, is", "", private)
    assert not re.search(r"(?<![\d.])300(?![\d.])", private)
    seeded = checklist(made(entropy=dpcov.SeededEntropy(1)))
    assert "- [ ] **Is the randomness fit for privacy?**" in seeded


def test_delta_is_not_called_small_for_a_group_whose_table_may_be_large():
    """Its own number of rows stood for that of everybody to whom the promise is made."""
    schema = Schema(columns={**SCHEMA.columns, "ward": dpcov.Categorical(categories=("a", "b"))})
    rows = pd.DataFrame(ROWS, columns=list(SCHEMA.columns)).assign(ward=["a", "b", "b"] * 100)
    whole = dpcov.release(rows, schema=schema, by="ward", budget=BUDGET)
    question = "**Is delta far below one over the number of people?**"
    assert f"- [x] {question}" in checklist(whole)
    assert f"- [ ] {question} delta is 1e-6; this file of a group" in checklist(whole.group("a"))
    entry = json.loads(registry_entry(whole.group("a"), WHO))
    assert "of the whole table is public" in entry["privacy_loss"]["input_metric"]


def test_the_checklist_names_a_proof_that_is_there():
    said = checklist(made(Budget(epsilon=1), mechanism="stratified-nuclear"))
    [proof] = re.findall(r"proof: (\S+\.md)", said)
    found = Path(dpcov.__file__).parents[2].joinpath(proof)
    [beside] = re.findall(r"geometry/\w+\.md", said)
    assert found.is_file() and found.parent.joinpath(beside).is_file()


def test_the_checklist_of_a_combination_names_the_proofs_of_its_releases():
    """It named a mechanism called several, a proof that is in no file, and a custodian's choice."""
    one, other = made(Budget(epsilon=1)), made()
    said = checklist(one.combine(other))
    proofs = re.findall(r"proof: (\S+\.md)", said)
    assert len(proofs) == 2 and "chosen by auto" in said and "`several`" not in said
    for proof in (*proofs, "docs/several.md"):
        assert proof in said and Path(dpcov.__file__).parents[2].joinpath(proof).is_file()
    assert "docs/several.md.\n- [ ] **Does the proof cover" in said


def test_the_entry_of_a_combination_names_the_mechanisms_of_its_releases():
    both = made(mechanism="gaussian").combine(made(mechanism="stratified"))
    found = json.loads(registry_entry(both, WHO))["details"]
    assert found["mechanism"] == "gaussian, stratified"
    named = {each["name"]: each["options"]["bits"] for each in found["mechanism_options"]}
    assert named == {"gaussian": 20, "stratified": 20}


@pytest.mark.parametrize(
    ("delta", "neighbors", "answer"),
    [
        ("1e-6", "replace-one", "[x] **{}** Yes: delta times the number of rows, 300, is 0.0003."),
        ("0.001", "replace-one", "[ ] **{}** No: delta times the number of rows, 300, is 0.3."),
        ("1e-9", "add-remove-one", "[x] **{}** Yes: delta times the number of rows, "),
    ],
)
def test_the_checklist_answers_whether_delta_is_small(delta, neighbors, answer):
    said = checklist(made(Budget(epsilon=1, delta=delta), neighbors=neighbors))
    assert answer.format("Is delta far below one over the number of people?") in said


def test_the_command_writes_both_with_what_is_left_and_refuses_gaps(ledger, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(ledger=ledger, dataset="wards").save("a.dpcov")

    def record(arguments):
        return CliRunner().invoke(app, f"record a.dpcov {arguments}".split()).exit_code

    who = "--curator H --intended-use teaching --ledger l.sqlite"
    assert record(f"-o a.json {who}") == 0
    assert record("-o a.md --kind checklist --ledger l.sqlite") == 0
    entry, balance = json.loads((tmp_path / "a.json").read_text()), ledger.remaining("wards")
    assert entry["deployment"]["curator"] == "H"
    rule = f"entry 1 of dataset wards; composition by the rule '{balance.composition}'. "
    assert entry["details"]["composition"] == f"{rule}{balance.so_far} {balance.in_words}"
    assert (tmp_path / "a.md").read_text().startswith("# Evaluation")
    for name in ("a.json", "a.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert balance.in_words in text
    assert record("-o b.json") == 2
    assert record(f"-o b.json {who} --published 2026-13-01") == 2
    assert record("-o b.json --kind poem") == 2
    assert record(f"-o b.md --kind checklist {who}") == 2
    assert record(f"-o a.json {who}") == 7
