"""A desk that listens on a free port of this machine, and people who ask it."""

import http.client
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.csv
import pytest

from dpcov import Ledger
from tests.docs.test_blocks import patients

TOKEN, TICKET = "a-token-that-the-test-knows", "a-ticket-that-the-test-knows"
NAMES = ("age", "dose", "pressure", "recovery", "smoker", "ward")
TYPED = {
    **{f"{place}.type": "numeric" for place in range(4)},
    **{f"{place}.lower": "0" for place in range(4)},
    **{f"{place}.upper": "300" for place in range(4)},
    "4.type": "boolean",
    "5.type": "categorical",
    "5.categories": "north\nsouth",
}
WHO = {"neighbors": "replace-one", "rows_per_person": "1", "rows": "", "title": "", "by": ""}
ACCOUNT = {"ledger": "ledger.sqlite", "dataset": "people"}
OPENED = ACCOUNT | {"total_epsilon": "4", "total_delta": "1e-5"}


@dataclass
class Running:
    """Where a desk listens."""

    folder: Path
    port: int
    app: object = None
    base: str = f"/{TOKEN}"

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def address(self):
        return f"http://{self.host}{self.base}/"

    def ask(self, path="/", method="GET", body=None, base=None, **headers):
        """Status, headers and text of an answer; headers are spelled with underscores."""
        sent = {"Host": self.host} | {key.replace("_", "-"): text for key, text in headers.items()}
        if method == "POST":
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, (self.base if base is None else base) + path, skip_host=True)
        data = urlencode(body or {}).encode()
        for key, text in (sent | {"Content-Length": str(len(data))}).items():
            connection.putheader(key, text)
        connection.endheaders(data)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def post(self, path, **body):
        """As a browser posts a form of the desk's own page."""
        body = {name: text.replace("\n", "\r\n") for name, text in body.items()}
        return self.ask(
            path, "POST", body, Origin=f"http://{self.host}", Sec_Fetch_Site="same-origin"
        )


@contextmanager
def running_in(folder):
    """A desk that listens as long as somebody asks it."""
    serve = pytest.importorskip("dpcov.desk.serve")
    app = serve.Desk(folder, TOKEN)
    listening = serve.listen(0)
    port = listening.getsockname()[1]
    server = serve.server_of(app, port, TICKET)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Running(folder, port, app)
    server.should_exit = True
    # It stops by itself, a fifth of a second later: nobody waits for that.


@pytest.fixture
def desk(tmp_path):
    """A desk in a folder with one table."""
    pyarrow.csv.write_csv(patients(2000, 0), tmp_path / "patients.csv")
    with running_in(tmp_path) as running:
        yield running


def opened(desk, data="patients.csv", **more):
    """Where the work on a file is."""
    status, headers, text = desk.post("/open", data=data, **more)
    assert status == 303, text
    return headers["location"].removesuffix("/columns").removeprefix(desk.base)


def version_of(desk, path):
    text = desk.ask(path)[2]
    return text.split('name="version" value="')[1].split('"')[0]


def send(desk, work, step, page=None, **fields):
    fields["version"] = version_of(desk, f"{work}/{page or step}")
    return desk.post(f"{work}/{step}", **fields)


def until_done(desk, work):
    end = time.monotonic() + 120
    while '"running":true' in desk.ask(f"{work}/news")[2]:
        assert time.monotonic() < end
        time.sleep(0.05)


def ledger_of(desk):
    """The ledger that the account of `ready` is in."""
    return Ledger(str(desk.folder / ACCOUNT["ledger"]))


def slow_release(*arguments, progress, **terms):
    """In place of a release that somebody stops."""
    for _ in range(2000):
        progress(10)
        time.sleep(0.01)
    raise AssertionError("it was not stopped")


def released(desk, work):
    """The page at the end of a release, or of one that was refused."""
    assert send(desk, work, "begin", "release")[0] == 303
    until_done(desk, work)
    return desk.ask(f"{work}/release")[2]


@pytest.fixture
def ready(desk):
    """A table for which everything is decided."""
    work = opened(desk)
    assert send(desk, work, "columns", **TYPED)[0] == 303
    assert send(desk, work, "people", **WHO | {"title": "patients"})[0] == 303
    assert send(desk, work, "budget", chosen="1", delta="1e-6")[0] == 303
    assert send(desk, work, "account", **OPENED)[0] == 303
    return work
