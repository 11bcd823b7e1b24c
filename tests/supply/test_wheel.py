"""The same source gives the same wheel, byte by byte, and it holds the package alone."""

import zipfile

import pytest

from tests.supply.locked import ROOT, project
from tests.supply.wheel import build, run_build

pytest.importorskip("hatchling", reason="the build backend is not installed")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("builds")
    return [build(folder, variant) for variant in (0, 1)]


def test_two_builds_have_equal_bytes(wheels):
    first, second = (path.read_bytes() for path in wheels)
    assert first == second


def test_another_time_of_build_would_be_noticed(wheels):
    copy = wheels[0].parents[1]
    again = run_build(copy, {"SOURCE_DATE_EPOCH": "1600000000"})
    assert again.read_bytes() != wheels[1].read_bytes()


def test_the_wheel_holds_the_package_and_its_metadata_alone(wheels):
    packed = set(zipfile.ZipFile(wheels[1]).namelist())
    information = f"dpcov-{project()['version']}.dist-info/"
    assert all(name.startswith(("dpcov/", information)) for name in packed)
    found = (ROOT / "src").rglob("*")
    sources = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= packed
