"""The committed list of parts names what is locked, version by version, and what a user needs is marked so."""

import json

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply.locked import LOCK, LOWEST, ROOT, closure, pins, project
from tests.supply.sbom import bill

COMMITTED = ROOT / "requirements/sbom.cdx.json"


@pytest.fixture(scope="module")
def committed():
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


def named(document):
    return {(part["name"], part["version"]) for part in document["components"]}


def test_every_locked_package_is_named_with_its_version_and_nothing_else(committed):
    assert named(committed) == set(pins()), (
        "Run: python -m tests.supply.sbom -o requirements/sbom.cdx.json"
    )
    assert len(committed["components"]) == len(pins())


def test_a_changed_lock_is_noticed(committed, tmp_path):
    other = tmp_path / "dev.txt"
    name, version = next(iter(pins()))
    other.write_text(LOCK.read_text().replace(f"{name}=={version}", f"{name}=={version}.1", 1))
    assert named(committed) != set(pins(other))


def test_what_a_user_needs_is_marked_required(committed):
    roles = {part["name"]: part["scope"] for part in committed["components"]}
    for text in project()["dependencies"]:
        assert roles[canonicalize_name(Requirement(text).name)] == "required"
    for name in closure(project()["dependencies"]):
        assert roles.get(name, "required") == "required"
    assert roles["pytest"] == roles["mypy"] == "excluded"


def test_the_document_has_what_its_format_demands(committed):
    assert (committed["bomFormat"], committed["specVersion"]) == ("CycloneDX", "1.6")
    known = {part["bom-ref"] for part in committed["components"]} | {
        committed["metadata"]["component"]["bom-ref"]
    }
    assert len(known) == len(committed["components"]) + 1
    for link in committed["dependencies"]:
        assert {link["ref"], *link["dependsOn"]} <= known
    for part in committed["components"]:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
    assert committed["metadata"]["component"]["version"] == project()["version"]


def test_the_list_is_made_the_same_twice():
    assert json.dumps(bill()) == json.dumps(bill())


def test_every_locked_package_has_a_hash():
    assert len(pins()) > 50
    assert [pin for pin, found in pins().items() if not found] == []


def test_the_lowest_versions_are_the_lower_bounds_of_the_project():
    lowest = dict(pins(LOWEST).keys())
    for text in project()["dependencies"]:
        needed = Requirement(text)
        (bound,) = needed.specifier
        assert bound.operator == ">="
        assert needed.specifier.contains(lowest[canonicalize_name(needed.name)])
        assert (
            tuple(map(int, bound.version.split(".")))
            == tuple(map(int, lowest[canonicalize_name(needed.name)].split(".")))[
                : len(bound.version.split("."))
            ]
        )
