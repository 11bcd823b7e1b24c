"""Seeds that depend on what is computed and on nothing else: not on order, processes or other
figures."""

import hashlib


def seed_of(seed: int, *parts: object) -> int:
    """A 64-bit seed for a part of the run."""
    text = "\n".join([str(seed), *(str(part) for part in parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
