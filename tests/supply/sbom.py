"""The list of parts (SBOM) as CycloneDX 1.6 JSON, from the lock file and installed metadata.

python -m tests.supply.sbom -o requirements/sbom.cdx.json

Every locked package has version, package URL, license and role: `required` by dpcov, `optional` for
an extra, `excluded` for tests, documentation and benchmarks.  Equal locks and environments give
equal bytes: there is no time stamp, and the serial number is a digest of the rest.
"""

import argparse
import json
import sys
import uuid
from importlib import metadata
from itertools import chain
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.supply.locked import LOCK, closure, pins, project

_DEVELOPMENT_EXTRAS = {"benchmarks", "docs"}


def main() -> int:
    """Write the file, or print it."""
    parser = argparse.ArgumentParser(prog="python -m tests.supply.sbom", description=__doc__)
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
    roles, library = _roles(about), {"type": "library"}
    itself = _component(about["name"], about["version"], about["license"], library)
    parts = [
        _component(*pin, _license(*pin), library | {"scope": roles.get(pin.name, "excluded")})
        for pin in locked
    ]

    def links_to(names: set[str]) -> list[str]:
        return [_url(*pin) for pin in locked if pin.name in names]

    direct = {
        canonicalize_name(text.partition(">=")[0].partition("[")[0])
        for text in about["dependencies"]
    }
    links = [{"ref": itself["bom-ref"], "dependsOn": links_to(direct)}]
    links += [
        {"ref": _url(*pin), "dependsOn": links_to(closure([pin.name]) - {pin.name})}
        for pin in locked
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
    wanted = chain.from_iterable(extras[name] for name in extras.keys() - _DEVELOPMENT_EXTRAS)
    required = dict.fromkeys(closure(about["dependencies"]), "required")
    return dict.fromkeys(closure(wanted), "optional") | required


def _license(name: str, version: str) -> str:
    """State what an installed package of the locked version does; empty where there is none."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if found["Version"] != version:
        return ""
    short = found.get("License-Expression") or found.get("License") or ""
    if short and "\n" not in short and len(short) <= 80:
        return short
    stated = [line for line in found.get_all("Classifier") or [] if line.startswith("License")]
    return ", ".join(line.rpartition(" :: ")[2] for line in stated)


if __name__ == "__main__":
    sys.exit(main())
