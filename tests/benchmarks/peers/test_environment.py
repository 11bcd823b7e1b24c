"""Environments of peers are made once, and what cannot be installed is skipped with a reason."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.peers import environment
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.environment import Unavailable, prepare


@pytest.fixture
def commands(monkeypatch):
    """Commands that would be run; ``fails`` names the one that does not succeed."""
    ran, outcome = [], {"fails": None, "stderr": ""}

    def run(command, **options):
        ran.append(" ".join(command))
        failed = outcome["fails"] is not None and outcome["fails"] in ran[-1]
        if " -m venv " in ran[-1]:
            Path(command[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(command, int(failed), "", outcome["stderr"])

    monkeypatch.setattr(environment.subprocess, "run", run)
    return ran, outcome


@pytest.fixture
def made(tmp_path):
    (tmp_path / "requirements.txt").write_text("something==1\n")
    return lambda: prepare("peer", tmp_path / "requirements.txt", tmp_path / "venvs")


def test_an_environment_is_made_once_for_the_same_requirements(commands, made, tmp_path):
    ran, _ = commands
    peer = tmp_path / "venvs" / "peer"
    assert made() == made() == peer / "bin" / "python"
    assert len(ran) == 2
    (peer / environment.STAMP).write_text("something==0\n")
    peer.rename(tmp_path / "venvs" / "cleared")
    made()
    assert len(ran) == 4


def test_what_pip_cannot_install_is_skipped_with_its_reason(commands, made, tmp_path):
    _, outcome = commands
    outcome |= {"fails": "pip install", "stderr": "WARNING: x\nERROR: No match\nnotice\n"}
    assert made() == Unavailable(reason="not installable: No match")
    assert not (tmp_path / "venvs" / "peer" / environment.STAMP).exists()


def test_every_peer_pins_every_requirement():
    for peer in PEERS:
        assert peer.script.is_file()
        if peer.requirements is not None:
            text = peer.requirements.read_text().splitlines()
            lines = [line for line in text if not line.startswith("#")]
            assert lines and all("==" in line for line in lines)
