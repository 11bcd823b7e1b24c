"""One target in a process of its own, so that a crash of a library ends this process and not the run.

python -m tests.fuzz.worker TARGET SEED START STOP SECONDS REPORT

Appends a line of JSON to the report every few hundred cases and after every finding, and keeps the index of the case at
hand in the first 8 bytes of ``REPORT.at``, where the parent finds it if the process dies.
"""

import json
import mmap
import os
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.catalog import TARGETS
from tests.fuzz.engine import Tally, fuzz

_LINE_CASES = 200
_ADDRESS_SPACE = 24 * 2**30
"""A last resort that keeps the machine alive; a case that takes far less is a finding already."""


def main(name: str, seed: str, start: str, stop: str, seconds: str, report: str) -> None:
    """Run the cases and write the report."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    os.environ["COLUMNS"] = "100"
    until, pending = time.monotonic() + float(seconds), Tally()
    with Path(f"{report}.at").open("r+b") as marks, Path(report).open("a") as lines:
        at = mmap.mmap(marks.fileno(), 8)
        at[:] = int(start).to_bytes(8, "little")

        def flush() -> None:
            nonlocal pending
            findings = [asdict(finding) for finding in pending.findings]
            record = {
                "cases": pending.cases,
                "seconds": pending.seconds,
                "outcomes": dict(pending.outcomes),
            }
            lines.write(json.dumps({**record, "findings": findings}) + "\n")
            lines.flush()
            pending = Tally()

        for index, tally in fuzz(TARGETS[name], int(seed), range(int(start), int(stop)), until):
            at[:] = (index + 1).to_bytes(8, "little")
            pending.add(tally)
            if tally.findings or pending.cases >= _LINE_CASES:
                flush()
        flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
