"""Pairwise masks that cancel in the sum: who sees all contributions but one learns nothing about the last.

Promise: every pair of sites shares a mask, uniform modulo 2**128 to everybody else, which one adds and the other
subtracts; a mask depends on the pair's secret, the study and the round, so no mask is used twice.

Bonawitz et al. (2017), Practical secure aggregation, section 4, without its recovery from dropouts: when a site fails,
the round is repeated without it under another round number.
"""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpcov.errors import UsageError
from dpcov.federated.residues import Residues

PUBLIC_KEY_BYTES = 32


class KeyPair:
    """A site's secret and the key that it publishes for the study."""

    def __init__(self) -> None:
        self._secret = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """What the other sites need; may be published."""
        return self._secret.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "KeyPair(<secret>)"

    def mask_with(self, other: bytes, context: bytes, count: int) -> Residues:
        """Uniform numbers that only this site and the owner of the public key ``other`` can compute."""
        if len(other) != PUBLIC_KEY_BYTES:
            raise UsageError("A public key has 32 bytes. Exchange the keys of all sites again.")
        shared = self._secret.exchange(X25519PublicKey.from_public_bytes(other))
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"dpcov mask 1\0" + context).derive(shared)
        stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
        return Residues.from_bytes(stream.update(np.zeros(2 * count, np.uint64).tobytes()))


def masked(values: Residues, own: str, keys: KeyPair, roster: dict[str, bytes], context: bytes) -> Residues:
    """Add the mask shared with every later site and subtract those shared with earlier ones."""
    if roster.get(own) != keys.public or len(set(roster.values())) != len(roster):
        raise UsageError("The roster must list every site once, this one with its own public key.")
    for name, public in sorted(roster.items()):
        if name != own:
            mask = keys.mask_with(public, context, len(values))
            values = values + (mask if own < name else -mask)
    return values
