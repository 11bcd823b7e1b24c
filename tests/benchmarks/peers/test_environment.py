import subprocess

import pytest

from benchmarks.peers import environment
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.environment import Unavailable, prepare


@pytest.fixture
def requirements(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("something==1\n")
    return path


@pytest.fixture
def commands(monkeypatch):
    """Commands that would be run; ``fails`` names the one that does not succeed."""
    ran = []
    outcome = {"fails": "", "stderr": ""}

    def run(command, **options):
        ran.append(" ".join(command))
        failed = bool(outcome["fails"]) and outcome["fails"] in ran[-1]
        if not failed and " -m venv " in ran[-1]:
            from pathlib import Path

            Path(command[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(
            command, int(failed), "", outcome["stderr"] if failed else ""
        )

    monkeypatch.setattr(environment.subprocess, "run", run)
    return ran, outcome


def test_an_environment_is_made_once(requirements, commands, tmp_path):
    ran, _ = commands
    python = prepare("peer", requirements, tmp_path / "venvs")
    assert python == tmp_path / "venvs" / "peer" / "bin" / "python"
    assert len(ran) == 2
    assert prepare("peer", requirements, tmp_path / "venvs") == python
    assert len(ran) == 2


def test_other_requirements_make_it_anew(requirements, commands, tmp_path):
    ran, _ = commands
    stamp = tmp_path / "venvs" / "peer" / environment.STAMP
    prepare("peer", requirements, tmp_path / "venvs")
    stamp.write_text("something==0\n")
    stamp.parent.rename(tmp_path / "venvs" / "cleared")
    prepare("peer", requirements, tmp_path / "venvs")
    assert len(ran) == 4


def test_what_pip_cannot_install_is_skipped_with_its_reason(requirements, commands, tmp_path):
    _, outcome = commands
    outcome |= {
        "fails": "pip install",
        "stderr": "WARNING: x\nERROR: No matching distribution found\nnotice\n",
    }
    found = prepare("peer", requirements, tmp_path / "venvs")
    assert found == Unavailable(reason="not installable: No matching distribution found")
    assert not (tmp_path / "venvs" / "peer" / environment.STAMP).exists()


def test_every_peer_pins_every_requirement():
    for peer in PEERS:
        assert peer.script.is_file()
        if peer.requirements is not None:
            lines = [
                line
                for line in peer.requirements.read_text().splitlines()
                if not line.startswith("#")
            ]
            assert lines
            assert all("==" in line for line in lines)
