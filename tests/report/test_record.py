"""Registry entries and checklists say what the release says, and ask for the rest."""

import json

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import Budget, Numeric, Schema
from dpcov.cli.main import app
from dpcov.errors import UsageError
from dpcov.report.checklist import checklist
from dpcov.report.deployment import Deployment, RegistryEntry, registry_entry, registry_schema

WHO = Deployment(
    curator="City Hospital", intended_use="regression by researchers", published="2026-01-31"
)
ROWS = np.random.default_rng(0).uniform(size=(300, 3))
SCHEMA = Schema(columns={f"x{i}": Numeric(lower=0, upper=1) for i in range(3)}, title="wards")


def made(budget=None, **how):
    return dpcov.release(
        ROWS, schema=SCHEMA, budget=budget or Budget(epsilon=1, delta="1e-6"), **how
    )


@pytest.mark.parametrize(
    ("budget", "flavor", "numbers"),
    [
        (Budget(epsilon=1, delta="1e-6"), "approximate DP", {"epsilon": "1", "delta": "1/1000000"}),
        (Budget(rho="0.5"), "zero-concentrated DP", {"rho": "1/2"}),
        (Budget(epsilon=2), "pure DP", {"epsilon": "2"}),
    ],
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_an_entry_states_the_guarantee_exactly_and_hides_the_row_count_where_it_is_private(
    budget, flavor, numbers, neighbors
):
    release = made(budget, neighbors=neighbors)
    text = registry_entry(release, WHO)
    entry = msgspec.json.decode(text, type=RegistryEntry)
    assert entry.privacy_loss.flavor == flavor
    stated = msgspec.to_builtins(entry.privacy_loss.parameters)
    assert {name: stated[name] for name in numbers} == numbers
    assert entry.product.fingerprint == release.fingerprint
    assert (b"number of rows: 300" in text) == (neighbors == "replace-one")


def test_entries_with_missing_or_unknown_fields_are_refused():
    entry = json.loads(registry_entry(made(), WHO))
    for spoil in (
        lambda e: e.pop("privacy_loss"),
        lambda e: e.update(extra=1),
        lambda e: e["model"].pop("actors"),
    ):
        spoiled = json.loads(json.dumps(entry))
        spoil(spoiled)
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(spoiled).encode(), type=RegistryEntry)
    with pytest.raises(UsageError, match="curator"):
        Deployment(curator=" ", intended_use="x")


def test_the_schema_names_every_field_of_an_entry():
    schema = json.loads(registry_schema())
    entry = json.loads(registry_entry(made(), WHO))
    parts = {
        "deployment": "Deployment",
        "product": "Product",
        "privacy_loss": "PrivacyLoss",
        "model": "Model",
    }
    for part, name in (parts | {"details": "Details"}).items():
        assert set(entry[part]) == set(schema["$defs"][name]["properties"])


def test_research_releases_have_no_place_in_a_registry():
    with pytest.raises(UsageError, match="seeded"):
        registry_entry(made(entropy=dpcov.SeededEntropy(1)), WHO)


def test_the_checklist_ticks_only_what_the_file_knows(tmp_path):
    ledger = dpcov.Ledger(tmp_path / "l.sqlite")
    ledger.create("wards", Budget(epsilon=1, delta="1e-6"), "replace-one")
    with_ledger, without = checklist(made(ledger=ledger, dataset="wards")), checklist(made())
    question = "Is the release charged to an account of all releases?"
    assert f"- [x] **{question}** Entry 1 of dataset wards." in with_ledger
    assert f"- [ ] **{question}** No ledger was charged." in without
    assert "- [ ] **Does the proof cover floating-point arithmetic?**" in checklist(
        made(Budget(epsilon=1))
    )
    assert "- [x] **Does the proof cover floating-point arithmetic?**" in without
    assert "300" not in checklist(made(neighbors="add-remove-one"))
    assert "- [ ] **Is the randomness fit for privacy?**" in checklist(
        made(entropy=dpcov.SeededEntropy(1))
    )


@pytest.mark.parametrize(
    ("delta", "neighbors", "answer"),
    [
        (
            "1e-6",
            "replace-one",
            "- [x] **{}** Yes: delta times the number of rows, 300, is 0.0003.",
        ),
        ("0.001", "replace-one", "- [ ] **{}** No: delta times the number of rows, 300, is 0.3."),
        ("1e-9", "add-remove-one", "- [x] **{}** Yes: delta times the number of rows, "),
    ],
)
def test_the_checklist_answers_whether_delta_is_small(delta, neighbors, answer):
    said = checklist(made(Budget(epsilon=1, delta=delta), neighbors=neighbors))
    assert answer.format("Is delta far below one over the number of people?") in said


def test_both_say_what_the_account_has_left(tmp_path):
    ledger = dpcov.Ledger(tmp_path / "l.sqlite")
    ledger.create("wards", Budget(epsilon="1.5", delta="1e-6"), "replace-one")
    made(ledger=ledger, dataset="wards").save(tmp_path / "a.dpcov")
    base = ["record", str(tmp_path / "a.dpcov"), "--curator", "H", "--intended-use", "u", "-o"]
    for kind in ("registry", "checklist"):
        told = CliRunner().invoke(
            app,
            [*base, str(tmp_path / kind), "--kind", kind, "--ledger", str(tmp_path / "l.sqlite")],
        )
        assert told.exit_code == 0
        assert ledger.remaining("wards").in_words in (tmp_path / kind).read_text(encoding="utf-8")


def test_the_command_writes_both_and_refuses_gaps(tmp_path):
    made().save(tmp_path / "a.dpcov")
    run = CliRunner().invoke
    base = ["record", str(tmp_path / "a.dpcov"), "-o"]
    who = ["--curator", "H", "--intended-use", "teaching"]
    assert run(app, [*base, str(tmp_path / "a.json"), *who]).exit_code == 0
    assert run(app, [*base, str(tmp_path / "a.md"), "--kind", "checklist"]).exit_code == 0
    assert json.loads((tmp_path / "a.json").read_text())["deployment"]["curator"] == "H"
    assert (tmp_path / "a.md").read_text().startswith("# Evaluation")
    assert run(app, [*base, str(tmp_path / "b.json")]).exit_code == 2
    assert run(app, [*base, str(tmp_path / "b.json"), "--kind", "poem"]).exit_code == 2
    assert run(app, [*base, str(tmp_path / "a.json"), *who]).exit_code == 7
