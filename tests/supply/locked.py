"""The locked requirements, and which of them a user of the package needs."""

import re
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements/dev.txt"
LOWEST = ROOT / "requirements/lowest.txt"
_PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<rest>.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(NamedTuple):
    """A locked package; some have another version for another Python."""

    name: str
    version: str


def pins(path: Path = LOCK) -> dict[Pin, list[str]]:
    """Hashes of the files that may be installed, by locked package."""
    found = _PIN.finditer(path.read_text(encoding="utf-8"))
    return {
        Pin(canonicalize_name(pin["name"]), pin["version"]): _HASH.findall(pin["rest"])
        for pin in found
    }


def project() -> dict:
    """The table ``project`` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def closure(requirements: Iterable[str]) -> set[str]:
    """Normalized names of installed packages that requirements need, directly or not."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        needed = waiting.pop()
        found.add(name := canonicalize_name(needed.name))
        environments = [{"extra": extra} for extra in needed.extras or ("",)]
        for inner in _requires(name):
            applies = inner.marker is None or any(map(inner.marker.evaluate, environments))
            if applies and canonicalize_name(inner.name) not in found:
                waiting.append(inner)
    return found


def _requires(name: str) -> list[Requirement]:
    try:
        return [Requirement(text) for text in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        return []
