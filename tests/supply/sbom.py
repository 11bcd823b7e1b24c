"""The list of parts (SBOM) as CycloneDX 1.6 JSON, from the lock file and installed metadata.

python -m tests.supply.sbom > requirements/sbom.cdx.json

Every locked package has version, package URL, license and role: `required` by dpcov, `optional` for
an extra, `excluded` for tests, documentation and benchmarks.  Equal locks and environments give
equal bytes: there is no time stamp, and the serial number is a digest of the rest.
"""

import json
import re
import sys
import tomllib
import uuid
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements/dev.txt"
_PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<rest>.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_DEVELOPMENT_EXTRAS = {"benchmarks", "docs"}


class Pin(NamedTuple):
    """A locked package; some have another version for another Python."""

    name: str
    version: str

    @property
    def url(self):
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(path=LOCK):
    """Hashes of the files that may be installed, by locked package."""
    return {
        Pin(canonicalize_name(pin["name"]), pin["version"]): re.findall(
            r"--hash=sha256:([0-9a-f]{64})", pin["rest"]
        )
        for pin in _PIN.finditer(path.read_text(encoding="utf-8"))
    }


def project():
    """The table ``project`` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(requirements):
    """Normalized names of installed packages that requirements need, directly or not."""
    found, waiting = set(), [Requirement(text) for text in requirements]
    while waiting:
        needed = waiting.pop()
        found.add(name := canonicalize_name(needed.name))
        environments = [{"extra": extra} for extra in needed.extras or ("",)]
        try:
            inside = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            inside = []
        for inner in map(Requirement, inside):
            applies = inner.marker is None or any(map(inner.marker.evaluate, environments))
            if applies and canonicalize_name(inner.name) not in found:
                waiting.append(inner)
    return found


def bill():
    """Collect the bill of materials as CycloneDX states it."""
    locked, about = sorted(pins()), project()
    extras, library = about["optional-dependencies"], {"type": "library"}
    wanted = chain.from_iterable(extras[name] for name in extras.keys() - _DEVELOPMENT_EXTRAS)
    roles = dict.fromkeys(closure(wanted), "optional")
    roles |= dict.fromkeys(closure(about["dependencies"]), "required")
    itself = _component(Pin(about["name"], about["version"]), about["license"], library)
    parts = [
        _component(pin, _license(pin), library | {"scope": roles.get(pin.name, "excluded")})
        for pin in locked
    ]
    direct = {canonicalize_name(Requirement(text).name) for text in about["dependencies"]}
    needs = {pin: closure([pin.name]) - {pin.name} for pin in locked}
    links = [
        {"ref": ref, "dependsOn": [pin.url for pin in locked if pin.name in names]}
        for ref, names in [(itself["bom-ref"], direct), *((pin.url, needs[pin]) for pin in locked)]
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


def _component(pin, license_, more):
    named = {"licenses": [{"license": {"name": license_}}]} if license_ else {}
    return {"bom-ref": pin.url, **more, **pin._asdict(), "purl": pin.url, **named}


def _license(pin):
    """State what an installed package of the locked version does; empty where there is none."""
    try:
        found = metadata.metadata(pin.name)
    except metadata.PackageNotFoundError:
        return ""
    if found["Version"] != pin.version:
        return ""
    short = found.get("License-Expression") or found.get("License") or ""
    if short and "\n" not in short and len(short) <= 80:
        return short
    stated = [line for line in found.get_all("Classifier") or [] if line.startswith("License")]
    return ", ".join(line.rpartition(" :: ")[2] for line in stated)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n")
