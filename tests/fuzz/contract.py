"""What every case has to obey, whatever is fuzzed.

Either it succeeds, or it raises a DpcovError in a few clean words; it ends within its CPU time,
takes little memory, leaves no file that it does not own, and executes nothing that it was given.
"""

import os
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest import mock

from dpcov.errors import DpcovError
from tests.fuzz.mutate import Detonator

CASE_SECONDS = 10.0  # of the processor; a hundred times what the slowest usual case takes
CASE_BYTES = 384 * 2**20  # that one case may add to the peak of all cases before it
# Sentinels that stand in the rows of every table; no message may hold them.
SIGNS = ("zebra4711", "4711", "31337")
TEXT_SENTINEL, NUMBER_SENTINEL = "zebra4711", "31337.25"


class HungError(BaseException):
    """Raised by the timer inside a case; nothing that catches Exception can hide it."""


@contextmanager
def scratch():
    """A folder in a folder, in memory if possible; TMPDIR and working directory in it."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, ignore_cleanup_errors=True) as root:
        work, temporary = Path(root, "work"), Path(root, "tmp")
        work.mkdir()
        temporary.mkdir()
        tempdir = mock.patch.object(tempfile, "tempdir", str(temporary))
        with tempdir, chdir(work), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield work


def one_case(run, random, folder, writes=False):
    """Run one case and clean up behind it; return its outcome and what it broke."""
    outcome, wrong, peak = "success", [], peak_bytes()
    Detonator.went_off = False
    try:
        with _limited_time():
            run(random, folder)
    except DpcovError as error:
        outcome = type(error).__name__
        wrong += [f"{outcome} is not clean: {reason}" for reason in unclean(error)]
    except HungError:
        wrong.append("took too long")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        wrong.append("".join(traceback.format_exception(error)))
    if peak_bytes() - peak > CASE_BYTES:
        wrong.append(f"took {(peak_bytes() - peak) >> 20} MiB")
    wrong += [f"left {name}" for name in _clean(folder, writes and outcome == "success")]
    return outcome, wrong + ["executed what it read"] * Detonator.went_off


def unclean(error):
    """List what a message to a person must not be."""
    text = "\n".join((str(error), *getattr(error, "__notes__", ())))
    faults = {
        "empty": not text.strip(),
        "more than 25 lines": len(text.splitlines()) > 25,
        "more than 10,000 characters": len(text) > 10_000,
        "a traceback": "Traceback" in text,
        f"exit code {error.exit_code}": not 1 <= error.exit_code <= 8,
        "a chained exception": error.__cause__ is not None,
        **{f"the sentinel {sign}": sign in text for sign in SIGNS},
    }
    return [fault for fault, holds in faults.items() if holds]


@contextmanager
def _limited_time():
    def ring(*_):
        raise HungError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _clean(folder, keeps):
    """Remove everything, and name what should not have been there."""
    root, strange = folder.parent, []
    for place, own in ((root, ("work", "tmp")), (root / "tmp", ()), (folder, ())):
        for path in (path for path in place.iterdir() if path.name not in own):
            if place != folder or not (keeps or path.name.startswith("in")):
                strange.append(str(path.relative_to(root)))
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    return strange
