"""Build the wheel from a clean copy of the source; equal sources give equal bytes.

python -m tests.supply.wheel [-o FOLDER]

Builds twice, under other folder names, file times, permissions and hash seeds, prints the SHA-256
and exits with 1 if the files differ.  Needs the build backend (hatchling); reads no network.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.supply.locked import ROOT

_FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


def main() -> int:
    """Build twice, compare, keep the file if asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.supply.wheel", description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, second = build(Path(folder), 0), build(Path(folder), 1)
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)]
        if given.output:
            given.output.mkdir(parents=True, exist_ok=True)
            shutil.copy(first, given.output)
        equal = digests[0] == digests[1]
        sys.stdout.write(
            f"{first.name} sha256:{digests[0]}\n" if equal else f"The files differ: {digests}\n"
        )
    return int(not equal)


def build(folder: Path, variant: int) -> Path:
    """Copy the source and build a wheel of it; variants differ in what must not matter."""
    copy = folder / ("copy" * (variant + 1))
    copy.mkdir()
    for name in _FILES:
        shutil.copyfile(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for path in copy.rglob("*"):
        os.utime(path, (10**9 + 10**6 * variant,) * 2)
        if path.is_file():
            path.chmod(0o600 if variant else 0o644)
    return run_build(copy, {"PYTHONHASHSEED": str(variant), "SOURCE_DATE_EPOCH": "1700000000"})


def run_build(copy: Path, environment: dict[str, str]) -> Path:
    """Build a copy's wheel with the backend of this environment."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(copy / "dist")]
    subprocess.run(
        command, cwd=copy, env={**os.environ, **environment}, check=True, capture_output=True
    )
    (wheel,) = (copy / "dist").glob("*.whl")
    return wheel


if __name__ == "__main__":
    sys.exit(main())
