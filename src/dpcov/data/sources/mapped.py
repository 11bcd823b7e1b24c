"""Files mapped to memory, whose pages are let go while they are read.

Contract: a file read from start to end never takes more memory than the part at hand.  Knows nothing of
formats.
"""

import mmap
from pathlib import Path


def map_file(path: Path) -> mmap.mmap:
    """Map a whole file for reading."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def let_go(mapping: mmap.mmap | None) -> None:
    """Drop the pages that were read; the system keeps them as long as it likes and reads the others again."""
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
