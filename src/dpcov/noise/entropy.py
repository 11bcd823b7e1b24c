"""Streams of independent uniform 64-bit words, the only source of randomness in the package.

Contract: :class:`SystemEntropy` never hands out the same part of a stream twice, not to another thread, not
to a forked child and not to an unpickled copy.  Knows nothing of the laws that are drawn from it.
"""

import hashlib
import os
import threading
from operator import index
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, UsageError

Words = NDArray[np.uint64]

_KEY_BYTES = 32
_WORD_BYTES = 8
_CHUNK = bytes(1 << 18)
_BYTES_PER_KEY = 1 << 26

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
                raise NumericError("The stream cipher failed; nothing was drawn. Reinstall `cryptography`.")


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
