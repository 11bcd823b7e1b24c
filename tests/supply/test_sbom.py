"""The committed list of parts names what is locked, and marks what a user needs."""

import json

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply.sbom import LOCK, ROOT, bill, closure, pins, project


@pytest.fixture(scope="module")
def committed():
    return json.loads((ROOT / "requirements/sbom.cdx.json").read_text(encoding="utf-8"))


def test_every_locked_package_is_named_with_its_version_and_nothing_else(committed, tmp_path):
    named = [(part["name"], part["version"]) for part in committed["components"]]
    remedy = "Run: python -m tests.supply.sbom > requirements/sbom.cdx.json"
    assert sorted(named) == sorted(pins()), remedy
    assert [(part["name"], part["version"]) for part in bill()["components"]] == named
    # A changed lock is noticed.
    name, version = named[0]
    changed = LOCK.read_text().replace(f"{name}=={version}", f"{name}=={version}.1", 1)
    (tmp_path / "dev.txt").write_text(changed)
    assert set(named) != set(pins(tmp_path / "dev.txt"))


def test_what_a_user_needs_is_marked_required(committed):
    roles = {part["name"]: part["scope"] for part in committed["components"]}
    for text in project()["dependencies"]:
        assert roles[canonicalize_name(Requirement(text).name)] == "required"
    for name in closure(project()["dependencies"]):
        assert roles.get(name, "required") == "required"
    assert roles["pytest"] == roles["mypy"] == "excluded"


def test_every_locked_package_has_a_hash():
    assert len(pins()) > 50
    assert all(pins().values())


def test_the_lowest_versions_are_the_lower_bounds_of_the_project():
    lowest = dict(pins(ROOT / "requirements/lowest.txt").keys())
    for text in project()["dependencies"]:
        needed = Requirement(text)
        (bound,) = needed.specifier
        pinned = lowest[canonicalize_name(needed.name)]
        assert bound.operator == ">=" and needed.specifier.contains(pinned)
        stated, found = ([int(n) for n in each.split(".")] for each in (bound.version, pinned))
        assert found[: len(stated)] == stated
