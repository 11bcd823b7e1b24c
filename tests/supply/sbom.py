"""The list of parts (SBOM) as CycloneDX 1.6 JSON, from the lock file and the metadata of the installed packages.

python -m tests.supply.sbom -o requirements/sbom.cdx.json

Every locked package is named with version, package URL, license and role: `required` by dpcov, `optional` for
an extra, `excluded` for what only tests, documentation and benchmarks need.  Hashes stay in the lock file, which has
one for every file that may be installed.  Equal locks and equal environments give equal bytes: there is no time
stamp, and the serial number is a digest of the rest.
"""

import argparse
import json
import sys
import uuid
from importlib import metadata
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.supply.locked import LOCK, Pin, closure, pins, project

_DEVELOPMENT_EXTRAS = {"benchmarks", "docs"}


def main() -> int:
    """Write the file, or print it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.supply.sbom", description="List the parts of dpcov."
    )
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    text = json.dumps(bill(), indent=1, ensure_ascii=False) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def bill() -> dict:
    """Collect the bill of materials as CycloneDX states it."""
    locked, about = sorted(pins(LOCK)), project()
    itself = _component(about["name"], about["version"], about["license"], {"type": "library"})
    roles = _roles(about)
    parts = [
        _component(
            name,
            version,
            _license(name, version),
            {"type": "library", "scope": roles.get(name, "excluded")},
        )
        for name, version in locked
    ]
    links = [{"ref": itself["bom-ref"], "dependsOn": _references(locked, _direct(about))}]
    links += [
        {"ref": _url(*pin), "dependsOn": _references(locked, _needs(pin.name))} for pin in locked
    ]
    digest = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([itself, parts, links], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{digest}",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": itself},
        "components": parts,
        "dependencies": links,
    }


def _component(name: str, version: str, license_: str, more: dict) -> dict:
    url = _url(name, version)
    named = {"licenses": [{"license": {"name": license_}}]} if license_ else {}
    return {"bom-ref": url, **more, "name": name, "version": version, "purl": url, **named}


def _url(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def _roles(about: dict) -> dict[str, str]:
    extras = about["optional-dependencies"]
    optional = chain.from_iterable(
        needs for extra, needs in extras.items() if extra not in _DEVELOPMENT_EXTRAS
    )
    return dict.fromkeys(closure(optional), "optional") | dict.fromkeys(
        closure(about["dependencies"]), "required"
    )


def _direct(about: dict) -> set[str]:
    return {
        canonicalize_name(text.partition(">=")[0].partition("[")[0])
        for text in about["dependencies"]
    }


def _needs(name: str) -> set[str]:
    return closure([name]) - {name}


def _references(locked: list[Pin], names: set[str]) -> list[str]:
    return [_url(*pin) for pin in locked if pin.name in names]


def _license(name: str, version: str) -> str:
    """State the license as an installed package of the locked version does; empty where none is installed."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if found["Version"] != version:
        return ""
    short = found.get("License-Expression") or found.get("License") or ""
    if short and "\n" not in short and len(short) <= 80:
        return short
    classes = [
        line.rpartition(" :: ")[2]
        for line in found.get_all("Classifier") or []
        if line.startswith("License")
    ]
    return ", ".join(classes)


if __name__ == "__main__":
    sys.exit(main())
