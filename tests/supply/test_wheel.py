"""The same source gives the same wheel, byte by byte, and it holds the package alone."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.supply.sbom import ROOT, project

pytest.importorskip("hatchling", reason="the build backend is not installed")


def build(copy, environment):
    """Build the wheel of a copy of the source."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(copy / "dist")]
    subprocess.run(command, cwd=copy, env={**os.environ, **environment}, check=True)
    (wheel,) = (copy / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Two builds under other folder names, file times, permissions and hash seeds."""
    found = []
    for variant in (0, 1):
        copy = tmp_path_factory.mktemp("copy" * (variant + 1))
        for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
            shutil.copyfile(ROOT / name, copy / name)
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", copy / "src", ignore=left_out)
        for path in copy.rglob("*"):
            os.utime(path, (10**9 + 10**6 * variant,) * 2)
            if path.is_file():
                path.chmod(0o600 if variant else 0o644)
        found.append(
            build(copy, {"PYTHONHASHSEED": str(variant), "SOURCE_DATE_EPOCH": "1700000000"})
        )
    return found


def test_two_builds_have_equal_bytes(wheels):
    first, second = (path.read_bytes() for path in wheels)
    sys.stdout.write(f"{wheels[0].name} sha256:{hashlib.sha256(first).hexdigest()}\n")
    assert first == second


def test_another_time_of_build_would_be_noticed(wheels):
    again = build(wheels[0].parents[1], {"SOURCE_DATE_EPOCH": "1600000000"})
    assert again.read_bytes() != wheels[1].read_bytes()


def test_the_wheel_holds_the_package_and_its_metadata_alone(wheels):
    packed = set(zipfile.ZipFile(wheels[1]).namelist())
    information = f"dpcov-{project()['version']}.dist-info/"
    assert all(name.startswith(("dpcov/", information)) for name in packed)
    found = (ROOT / "src").rglob("*")
    sources = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= packed
