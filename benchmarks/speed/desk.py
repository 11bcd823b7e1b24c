"""Peak memory of ``dpcov desk`` on the whole way from a CSV file to the report, for growing files.

python -m benchmarks.speed.desk [--sizes 0.4 4] [--folder DIR]

Sizes are in gigabytes. The desk is a process of its own, and every step is asked for over HTTP as a
browser does it, the check of the rows included. Memory is what the system counts (``VmHWM``) for
that process and those that it starts. Needs as much room on the disk as the largest file.
"""

import csv
import http.client
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks.options import asked

COLUMNS, BLOCK_ROWS = 12, 50_000
BOUNDS = (-10, 10)


def write_table(path: Path, size: float) -> int:
    """Write a CSV file of about this many gigabytes; returns the number of rows."""
    numbers = np.random.default_rng(0).normal(size=(BLOCK_ROWS, COLUMNS))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(numbers.tolist())
    block = text.getvalue().encode()
    blocks = max(1, round(size * 1e9 / len(block)))
    with path.open("wb") as file:
        file.write((",".join(f"c{place}" for place in range(COLUMNS)) + "\n").encode())
        for _ in range(blocks):
            file.write(block)
    return blocks * BLOCK_ROWS


class Desk:
    """Asks a desk as its own pages do."""

    def __init__(self, process: int, address: str) -> None:
        self._process, self._address = process, urlsplit(address)
        self._peaks = dict[int, int]()

    def ask(self, path: str, form: dict[str, str] | None = None) -> tuple[str, str]:
        """Where it leads to, and the text of the page."""
        connection = http.client.HTTPConnection(self._address.netloc, timeout=120)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers |= {"Origin": f"http://{self._address.netloc}", "Sec-Fetch-Site": "same-origin"}
        method = "GET" if form is None else "POST"
        connection.request(method, self._address.path + path, urlencode(form or {}), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status not in (200, 303):
            raise SystemExit(f"{path}: {answer.status} {text}")
        place = answer.getheader("location") or ""
        return place.removeprefix(self._address.path), text

    def send(self, work: str, deed: str, page: str, **form: str) -> None:
        """Post a form of a page, and wait for what it began."""
        text = self.ask(f"{work}/{page}")[1]
        version = re.search(r'name="version" value="(\d+)"', text)
        assert version is not None
        self.ask(f"{work}/{deed}", form | {"version": version[1]})
        while json.loads(self.ask(f"{work}/news")[1])["running"]:
            self.look()
            time.sleep(0.05)

    def look(self) -> None:
        """Note the peak of the desk and of what it started."""
        waiting = [self._process]
        while waiting:
            process = waiting.pop()
            folder = Path(f"/proc/{process}")
            try:
                status = (folder / "status").read_text()
                for each in folder.glob("task/*/children"):
                    waiting += map(int, each.read_text().split())
            except OSError:
                continue
            if found := re.search(r"VmHWM:\s+(\d+)", status):
                self._peaks[process] = int(found[1])

    @property
    def peak(self) -> float:
        """Megabytes."""
        self.look()
        return sum(self._peaks.values()) / 1000


@contextmanager
def desk(folder: Path, before: str = "") -> Iterator[Desk]:
    """A desk that is open in a folder; ``before`` is code that its process runs first."""
    code = f"{before}\nimport sys\nfrom dpcov.cli.main import run\nsys.exit(run())"
    command = [sys.executable, "-c", code, "desk", str(folder), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://\S+/", process.stdout.readline())
        assert address is not None
        yield Desk(process.pid, address[0])
    finally:
        process.terminate()
        process.communicate()


def whole_way(asked: Desk, name: str, rows: int) -> None:
    """From the choice of a file to the report."""
    place, _ = asked.ask("open", {"data": name})
    work = place.removesuffix("/columns")
    typed = {f"{place}.type": "numeric" for place in range(COLUMNS)}
    for what, bound in zip(("lower", "upper"), BOUNDS, strict=True):
        typed |= {f"{place}.{what}": str(bound) for place in range(COLUMNS)}
    asked.send(work, "columns", "columns", **typed)
    asked.send(work, "check", "columns")
    people = {"neighbors": "replace-one", "rows_per_person": "1"}
    asked.send(work, "people", "people", **people)
    asked.send(work, "rehearse", "budget", expected_rows=str(rows), chosen="1", delta="1e-12")
    asked.send(work, "budget", "budget", chosen="1", delta="1e-12")
    account = {"ledger": "ledger.sqlite", "dataset": name, "total_epsilon": "4"}
    asked.send(work, "account", "account", total_delta="1e-11", **account)
    asked.send(work, "begin", "release")
    text = asked.ask(f"{work}/release")[1]
    if 'id="headline"' not in text:
        raise SystemExit(f"Nothing was released: {text}")


def peak_of(folder: Path, size: float, before: str = "") -> tuple[float, int]:
    """Peak in megabytes for a file of so many gigabytes, and its rows."""
    path = folder / f"table{size * 1000:.0f}.csv"
    rows = write_table(path, size)
    try:
        with desk(folder, before) as asked:
            whole_way(asked, path.name, rows)
            return asked.peak, rows
    finally:
        path.unlink()


def main() -> None:
    """Print the table."""
    given = asked(__doc__, sizes=[0.04, 0.4, 2, 4], folder=Path)
    print("| CSV file | rows | peak memory of the desk |\n| --- | --- | --- |")
    for size in given.sizes:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            peak, rows = peak_of(Path(folder), size)
        print(f"| {size:g} GB | {rows:,} | {peak:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
