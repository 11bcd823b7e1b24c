"""Streams of independent uniform 64-bit words, the only source of randomness in the package.

Contract: :class:`SystemEntropy` never hands out the same part of a stream twice, not to another thread, not
to a forked child and not to an unpickled copy.  Knows nothing of the laws that are drawn from it.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Hashable
from functools import wraps
from operator import index
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, UsageError

Words = NDArray[np.uint64]

_KEY_BYTES = 32
_WORD_BYTES = 8
_CHUNK = bytes(1 << 18)
_BYTES_PER_KEY = 1 << 26
_BLOCK = 1 << 12
_NOTHING = np.empty(0, dtype=np.int8)

_forks_survived = 0


class Entropy(Protocol):
    """Anything that can deliver uniform words."""

    @property
    def private(self) -> bool:
        """Whether noise drawn from this source may protect somebody."""

    def words(self, count: int) -> Words:
        """Return ``count`` independent uniform words that were never returned before."""


class SystemEntropy:
    """The operating system's randomness, stretched by the ChaCha20 stream cipher.

    Every thread owns a cipher whose key comes from ``os.urandom``.  The key is replaced after 64 MiB, and before
    the first word in a forked child.

    Examples
    --------
    >>> SystemEntropy().words(3).shape
    (3,)
    """

    private = True

    def __init__(self) -> None:
        self._threads = threading.local()

    def words(self, count: int) -> Words:
        """Return ``count`` fresh uniform 64-bit words."""
        view = _blank(count)
        start = 0
        while start < len(view):
            stream = self._current_stream()
            stop = min(len(view), start + _BYTES_PER_KEY - stream.used)
            stream.fill(view[start:stop])
            start = stop
        return np.frombuffer(view, dtype=np.uint64)

    def _current_stream(self) -> "_KeyStream":
        """Return this thread's stream, under a new key if it is spent or was inherited through a fork."""
        stream: _KeyStream | None = getattr(self._threads, "stream", None)
        if stream is None or stream.used == _BYTES_PER_KEY or stream.process != _process():
            stream = self._threads.stream = _KeyStream(os.urandom(_KEY_BYTES))
        return stream

    def __reduce__(self) -> tuple[type["SystemEntropy"], tuple[()]]:
        return SystemEntropy, ()

    def __repr__(self) -> str:
        return "SystemEntropy()"


class SeededEntropy:
    """A reproducible stream for research; noise drawn from it protects nobody.

    The same seed gives the same words, whatever the sizes of the requests.

    Examples
    --------
    >>> bool((SeededEntropy(7).words(3) == SeededEntropy(7).words(3)).all())
    True
    """

    private = False

    def __init__(self, seed: int) -> None:
        try:
            text = str(index(seed))
        except TypeError:
            raise UsageError("The seed must be an integer, for example SeededEntropy(7).") from None
        self._stream = _KeyStream(hashlib.sha256(text.encode()).digest())
        self._lock = threading.Lock()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        view = _blank(count)
        with self._lock:
            self._stream.fill(view)
        return np.frombuffer(view, dtype=np.uint64)

    def __repr__(self) -> str:
        return "SeededEntropy(...)"


class BlockEntropy:
    """Another source for thousands of small releases of made-up tables; noise drawn from it protects nobody.

    Words are fetched in blocks, and so are the draws of every law whose sampler asks for it, because a sampler that is
    made for millions of draws takes a tenth of a millisecond for three.  Not for several threads, processes or copies.

    Parameters
    ----------
    source : Entropy
    size : int, default=32768
        Words fetched at a time.
    """

    private = False

    def __init__(self, source: Entropy, size: int = 1 << 15) -> None:
        self._source, self._size = source, size
        self._words, self._used = np.empty(0, dtype=np.uint64), 0
        self._drawn: dict[Hashable, tuple[NDArray[Any], int]] = {}

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the source."""
        missing = self._used + count - len(self._words)
        if missing > 0:
            fresh = self._source.words(max(missing, self._size))
            self._words, self._used = np.concatenate([self._words[self._used :], fresh]), 0
        self._used += count
        return self._words[self._used - count : self._used].copy()

    def from_block(
        self, law: Hashable, size: int, draw: Callable[[int], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return the next ``size`` independent draws of one law, which ``draw`` makes a block of at a time."""
        if size >= _BLOCK:
            return draw(size)
        block, used = self._drawn.get(law, (_NOTHING, 0))
        if used + size > len(block):
            block, used = np.concatenate([block[used:], draw(_BLOCK)]), 0
        self._drawn[law] = block, used + size
        return block[used : used + size].copy()


Draws = NDArray[np.float64]


def in_blocks(draw: Callable[[int, Entropy], Draws]) -> Callable[[int, Entropy], Draws]:
    """Let a sampler of independent numbers draw them in blocks from a :class:`BlockEntropy`."""

    @wraps(draw)
    def drawn(size: int, entropy: Entropy) -> Draws:
        if isinstance(entropy, BlockEntropy):
            return entropy.from_block(draw, size, lambda count: draw(count, entropy))
        return draw(size, entropy)

    return drawn


class _KeyStream:
    """The key stream of one ChaCha20 key."""

    def __init__(self, key: bytes) -> None:
        # Imported here so that `import dpcov` does not wait for it.
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        self.process = _process()
        self.used = 0
        self._encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def fill(self, target: memoryview) -> None:
        """Overwrite ``target`` with the next bytes of the stream."""
        self.used += len(target)
        zeros = memoryview(_CHUNK)
        for start in range(0, len(target), len(_CHUNK)):
            part = target[start : start + len(_CHUNK)]
            if self._encryptor.update_into(zeros[: len(part)], part) != len(part):
                raise NumericError(
                    "The stream cipher failed; nothing was drawn. Reinstall `cryptography`."
                )


def _blank(count: int) -> memoryview:
    """Return space for ``count`` words."""
    if count < 0:
        raise UsageError("The number of random words must not be negative.")
    return memoryview(bytearray(_WORD_BYTES * count))


def _process() -> tuple[int, int]:
    """Identify this process; the fork count tells apart a descendant that was given a recycled id."""
    return os.getpid(), _forks_survived


def _note_fork() -> None:
    global _forks_survived
    _forks_survived += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
