"""A PostgreSQL server for tests: the one that DPCOV_TEST_POSTGRES names, or one for the time being.

Contract: a server started here listens on loopback only, asks for a random password, and is gone
after the tests, with its folder.  Every test gets an empty ``postgres_database`` of its own.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

VARIABLE = "DPCOV_TEST_POSTGRES"
_START_SECONDS = 60
_ROLE = "custodian"


class Server:
    """A server in a folder of its own; ``durable`` ones survive the killing of their processes."""

    def __init__(self, *, durable: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dpcov-postgres-"))
        self._user = "postgres" if os.geteuid() == 0 else None
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.password = secrets.token_urlsafe(12)
        self.url = f"postgresql://{_ROLE}:{self.password}@127.0.0.1:{self.port}/postgres"
        self._initialize()

    def _initialize(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self.password)
        if self._user is not None:
            shutil.chown(self._folder, self._user)
            shutil.chown(secret, self._user)
        arguments = f"--no-sync --auth=scram-sha-256 --encoding=UTF8 --locale=C -U {_ROLE}".split()
        arguments += [f"--pwfile={secret}", "-D", str(self._folder / "data")]
        command = [str(_binaries() / "initdb"), *arguments]
        as_user = {"user": self._user, "cwd": self._folder}
        subprocess.run(command, check=True, capture_output=True, **as_user)
        secret.unlink()

    def start(self) -> None:
        """Start and wait until it answers."""
        durable = "on" if self._durable else "off"
        flags = [
            *("listen_addresses=127.0.0.1", f"port={self.port}", "unix_socket_directories="),
            *("max_connections=80", "shared_buffers=16MB"),
            *(f"fsync={durable}", f"full_page_writes={durable}"),
        ]
        command = [str(_binaries() / "postgres"), "-D", str(self._folder / "data")]
        command += [part for flag in flags for part in ("-c", flag)]
        log = (self._folder / "log").open("ab")
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        self._process = subprocess.Popen(
            command, user=self._user, cwd=self._folder, start_new_session=True, **streams
        )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.05)

    def _answers(self) -> bool:
        ready = [str(_binaries() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def kill(self) -> None:
        """End every process of the server at once, as a failing machine does."""
        assert self._process is not None
        # Its workers notice the death of the postmaster; crash recovery then starts from the log.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "cwd").resolve(strict=True) == self._folder / "data":
                    os.kill(int(entry.name), signal.SIGKILL)
        (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop without waiting for clients, and remove the folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    """A port that nobody takes before the server does: another one in each process."""
    for attempt in range(100):
        port = 10_000 + (101 * os.getpid() + attempt) % 20_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("No port is free on loopback.")


def _binaries() -> Path:
    """Where the server's programs are."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    versions = sorted(found, key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_isready")
    if not versions and on_path is None:
        raise FileNotFoundError
    return versions[-1].parent if versions else Path(on_path or "").resolve().parent


def why_not() -> str | None:
    """Say why no server can be started here; None if one can."""
    if os.name != "posix":
        return "a PostgreSQL server is started on POSIX systems only"
    try:
        _binaries()
    except FileNotFoundError:
        return f"PostgreSQL is not installed, and {VARIABLE} is not set"
    if os.geteuid() == 0:
        import pwd

        if "postgres" not in {entry.pw_name for entry in pwd.getpwall()}:
            return "root cannot run PostgreSQL, and there is no user postgres"
    return None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a server on which databases may be created; password inside."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    if reason := why_not():
        pytest.skip(reason)
    server = Server()
    server.start()
    yield server.url
    server.stop()


@contextlib.contextmanager
def new_database(server: str) -> Iterator[str]:
    """Make an empty database on this server for as long as it is needed."""
    psycopg = pytest.importorskip("psycopg")
    name = f"dpcov_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """URL of a database that is empty and used by nobody else."""
    with new_database(postgres_url) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(postgres_url: str) -> Iterator[str]:
    """URL of a database that the tests of one module share."""
    with new_database(postgres_url) as url:
        yield url


@pytest.fixture
def durable_postgres() -> Iterator[Server]:
    """A server of its own that may be killed and started again."""
    if reason := why_not():
        pytest.skip(reason)
    server = Server(durable=True)
    server.start()
    yield server
    server.stop()


def main() -> None:
    """Start a server that outlives this process, and print its URL and the number to stop it by."""
    server = Server()
    server.start()
    assert server._process is not None
    told = {"": server.url, "_PID": server._process.pid, "_FOLDER": server._folder}
    sys.stdout.writelines(f"{VARIABLE}{ending}={value}\n" for ending, value in told.items())


if __name__ == "__main__":
    main()
