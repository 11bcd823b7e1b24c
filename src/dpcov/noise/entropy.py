"""Streams of independent uniform 64-bit words, the only source of randomness in the package.

Contract: :class:`SystemEntropy` never hands out a part of a stream twice, be it to another thread,
a forked child or an unpickled copy.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, UsageError
from dpcov.privacy.options import Seed, plain

Words = NDArray[np.uint64]
Draws = NDArray[np.float64]

_CHUNK = bytes(1 << 18)
_BYTES_PER_KEY = 1 << 26
_BLOCK = 1 << 12

# A forked descendant may be given a recycled process id; the count of forks tells it apart.
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

    Every thread has its own key from ``os.urandom``, for 64 MiB; a forked child takes another.
    """

    private = True

    def __init__(self) -> None:
        self._threads = threading.local()

    def words(self, count: int) -> Words:
        """Return ``count`` fresh uniform 64-bit words."""
        view, start = memoryview(bytearray(8 * count)), 0
        while start < len(view):
            stream = self._current_stream()
            stop = min(len(view), start + _BYTES_PER_KEY - stream.used)
            stream.fill(view[start:stop])
            start = stop
        return np.frombuffer(view, dtype=np.uint64)

    def _current_stream(self) -> "_KeyStream":
        stream: _KeyStream | None = getattr(self._threads, "stream", None)
        # A stream that a child inherited would repeat the parent's words.
        if stream is None or stream.used == _BYTES_PER_KEY or stream.process != _process():
            stream = self._threads.stream = _KeyStream(_new_key())
        return stream

    def __reduce__(self) -> tuple[type["SystemEntropy"], tuple[()]]:
        return SystemEntropy, ()


class SeededEntropy:
    """A stream that a seed determines, whatever the sizes of the requests; it protects nobody."""

    private = False

    def __init__(self, seed: int) -> None:
        text = str(plain("seed", seed, Seed))
        self._stream = _KeyStream(hashlib.sha256(text.encode()).digest())
        self._lock = threading.Lock()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        view = memoryview(bytearray(8 * count))
        with self._lock:
            self._stream.fill(view)
        return np.frombuffer(view, dtype=np.uint64)

    def __repr__(self) -> str:
        return "SeededEntropy(...)"

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "A copy of a SeededEntropy would repeat its noise. Make another, with another seed."
        )


class BlockEntropy:
    """Another source, read in blocks, for thousands of small releases; it protects nobody.

    ``size`` words are fetched at a time, and 4096 draws of every law whose sampler asks for it.
    Not for several threads, processes or copies.
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
        """Return the next ``size`` independent draws of a law, of which ``draw`` makes a block."""
        if size >= _BLOCK:
            return draw(size)
        block, used = self._drawn.get(law, (np.empty(0, dtype=np.int8), 0))
        if used + size > len(block):
            block, used = np.concatenate([block[used:], draw(_BLOCK)]), 0
        self._drawn[law] = block, used + size
        return block[used : used + size].copy()


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
        # Imported here, since `import dpcov` must not wait for it.
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        self.process = _process()
        self.used = 0
        self._encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def fill(self, target: memoryview) -> None:
        self.used += len(target)
        zeros = memoryview(_CHUNK)
        for start in range(0, len(target), len(_CHUNK)):
            part = target[start : start + len(_CHUNK)]
            if self._encryptor.update_into(zeros[: len(part)], part) != len(part):
                raise NumericError(
                    "The stream cipher failed; nothing was drawn. Reinstall `cryptography`."
                )


def _new_key() -> bytes:
    return os.urandom(32)


def _process() -> tuple[int, int]:
    return os.getpid(), _forks_survived


def _note_fork() -> None:
    global _forks_survived
    _forks_survived += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
