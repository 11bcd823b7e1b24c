"""Environments of the peers: one for each, because their pins contradict each other and this
project's.

Contract: an environment is complete or absent.  Where pip cannot make it, its reason is handed on.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

STAMP = "requirements-installed.txt"


@dataclass(frozen=True, kw_only=True)
class Unavailable:
    """Why a peer cannot take part here."""

    reason: str


def prepare(name: str, requirements: Path, directory: Path) -> Path | Unavailable:
    """Return the interpreter of a peer's environment, made now unless it is there with these
    requirements.

    Parameters
    ----------
    name : str
        Name of the environment's folder.
    requirements : Path
        What pip installs.
    directory : Path
        Where environments are kept.
    """
    folder = directory / name
    python, stamp, wanted = (
        folder / "bin" / "python",
        folder / STAMP,
        requirements.read_text(encoding="utf-8"),
    )
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "-r",
            str(requirements),
        ],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return Unavailable(reason=f"not installable: {_reason(ran.stderr or ran.stdout)}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _reason(output: str) -> str:
    """The last complaint of pip, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["no reason given"])[-1]
