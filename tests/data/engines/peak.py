"""How much more memory a piece of work takes than one before it, in a process of its own.

Resident memory is what the system counts (``VmHWM``), pages of mapped files included.
"""

import json
import subprocess
import sys

_PRELUDE = r'''
import ctypes, gc, json, re
from pathlib import Path
import numpy as np, pyarrow as pa
import dpcov
from dpcov.data.exact.moments import MomentsSpec
from tests.data.reading import table_moments

def resident(field):
    return int(re.search(field + r":\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def peak(work):
    """Bytes that `work` takes at its peak beyond what is there before."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    start = resident("VmRSS")
    work()
    return resident("VmHWM") - start

def growth(small, large, enough=0.0):
    """Bytes that `large` takes more than `small`: the least of up to six tries.

    Buffers are filled by chance, so that one try may err upwards; a try that is little is enough.
    """
    small()
    least = float("inf")
    for _ in range(6):
        least = min(least, -peak(small) + peak(large))
        if least < enough:
            break
    return least

measured = {}
'''


def measured(code: str, *arguments: str) -> dict[str, int]:
    """What ``code`` writes into ``measured`` with the help of ``growth(small, large)``."""
    command = [sys.executable, "-c", _PRELUDE + code + "\nprint(json.dumps(measured))", *arguments]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(told.stdout)
