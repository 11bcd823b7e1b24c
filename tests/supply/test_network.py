"""No command reaches for the network: an audit hook refuses every connection and look-up that leaves the machine."""

import subprocess
import sys

import pytest

WATCHED = """
import sys

tried = []


def refuse(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
    else:
        return
    if host not in ("127.0.0.1", "::1", "localhost", "", None):
        tried.append((event, host))
        raise PermissionError("no network")


sys.addaudithook(refuse)
"""
COMMANDS = (
    WATCHED
    + """
import shlex

from typer.testing import CliRunner

from dpcov.cli.main import app

for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(app, shlex.split(line))
    assert done.exit_code == 0, (line, done.output)
assert not tried, tried
"""
)
LINES = """
demo
show demo.dpcov
export demo.dpcov -o exported.csv
report demo.dpcov -o demo.html
plan --rows 100 --features 2 --rho 0.5
schema draft rows.csv -o draft.toml
ledger create ledger.sqlite --dataset rows --epsilon 2 --delta 1e-5 --neighbors replace-one
release rows.csv --schema rows.toml --epsilon 1 --delta 1e-6 --ledger ledger.sqlite --dataset rows -o rows.dpcov
""".strip()
SCHEMA = """
title = "rows"

[columns.age]
type = "numeric"
lower = 0
upper = 100

[columns.dose]
type = "numeric"
lower = 0
upper = 10
"""


def in_process(program, folder, lines=""):
    return subprocess.run(
        [sys.executable, "-c", program],
        input=lines,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_commands_run_without_the_network(tmp_path):
    pytest.importorskip("sklearn", reason="the demo's table comes with scikit-learn")
    rows = "\n".join(f"{20 + i % 50},{i % 9}" for i in range(400))
    (tmp_path / "rows.csv").write_text(f"age,dose\n{rows}\n")
    (tmp_path / "rows.toml").write_text(SCHEMA)
    done = in_process(COMMANDS, tmp_path, LINES)
    assert done.returncode == 0, done.stderr
    for name in ("demo.dpcov", "demo.html", "exported.csv", "rows.dpcov"):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.slow
def test_the_plan_page_is_made_without_the_network(tmp_path):
    done = in_process(
        COMMANDS,
        tmp_path,
        "plan --rows 2000 --features 5 --epsilon 1 --delta 1e-6 --html plan.html",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.html").stat().st_size > 0


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "import socket; socket.getaddrinfo('example.invalid', 80)",
        "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'1', ('192.0.2.1', 53))",
    ],
)
def test_a_planted_connection_is_refused_and_recorded(tmp_path, attempt):
    program = f"{WATCHED}\ntry:\n    {attempt}\nexcept OSError:\n    pass\nassert tried"
    done = in_process(program, tmp_path)
    assert done.returncode == 0, done.stderr
