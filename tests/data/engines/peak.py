"""How much more memory a piece of work takes than one before it, in a process of its own.

Resident memory is what the system counts (``VmHWM``), pages of mapped files included.
"""

import json
import subprocess
import sys

_PRELUDE = """
import ctypes, gc, json, re
from pathlib import Path
import numpy as np, pyarrow as pa
import dpcov
from dpcov.data.moments import MomentsSpec
from dpcov.gathering import table_moments

def resident(field):
    return int(re.search(field + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def growth(before, work):
    '''Bytes that `work` takes at its peak, beyond what is there after `before` has been run.'''
    before()
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    start = resident("VmRSS")
    work()
    return resident("VmHWM") - start

measured = {}
"""


def measured(code: str, *arguments: str) -> dict[str, int]:
    """What ``code`` writes into ``measured`` with the help of ``growth(before, work)``."""
    command = [sys.executable, "-c", _PRELUDE + code + "\nprint(json.dumps(measured))", *arguments]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(told.stdout)
