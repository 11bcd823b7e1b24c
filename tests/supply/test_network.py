"""No command reaches for the network: an audit hook refuses whatever leaves the machine."""

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
COMMANDS = f"""{WATCHED}
import shlex

from typer.testing import CliRunner

from dpcov.cli.main import app

for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(app, shlex.split(line))
    assert done.exit_code == 0, (line, done.output)
assert not tried, tried
"""
PLAN_PAGE = "plan --rows 2000 --features 5 --epsilon 1 --delta 1e-6 --html plan.html"
LINES = """demo
show demo.dpcov
export demo.dpcov -o exported.csv
report demo.dpcov -o demo.html
plan --rows 100 --features 2 --rho 0.5
schema draft rows.csv -o draft.toml
ledger create a.ledger --dataset rows --epsilon 2 --delta 1e-5 --neighbors replace-one
release rows.csv --schema rows.toml --epsilon 1 --delta 1e-6 --ledger a.ledger --dataset rows \
-o rows.dpcov"""
SCHEMA = 'title = "rows"\n' + "".join(
    f'[columns.{name}]\ntype = "numeric"\nlower = 0\nupper = {upper}\n'
    for name, upper in (("age", 100), ("dose", 10))
)


def run(program, folder, lines=""):
    command = [sys.executable, "-c", program]
    subprocess.run(command, input=lines, cwd=folder, text=True, timeout=240, check=True)


@pytest.mark.thorough
def test_commands_run_without_the_network(tmp_path):
    pytest.importorskip("statsmodels", reason="the demo's table comes with statsmodels")
    rows = "\n".join(f"{20 + i % 50},{i % 9}" for i in range(400))
    (tmp_path / "rows.csv").write_text(f"age,dose\n{rows}\n")
    (tmp_path / "rows.toml").write_text(SCHEMA)
    run(COMMANDS, tmp_path, LINES)
    for name in ("demo.dpcov", "demo.html", "exported.csv", "rows.dpcov"):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.slow
def test_the_plan_page_is_made_without_the_network(tmp_path):
    run(COMMANDS, tmp_path, PLAN_PAGE)
    assert (tmp_path / "plan.html").stat().st_size > 0


ATTEMPTS = [
    "import socket; socket.getaddrinfo('example.invalid', 80)",
    "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)",
    "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'1', ('192.0.2.1', 53))",
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_planted_connection_is_refused_and_recorded(tmp_path, attempt):
    run(f"{WATCHED}\ntry:\n    {attempt}\nexcept OSError:\n    pass\nassert tried", tmp_path)
