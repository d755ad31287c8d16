"""Keyed cryptographic streams: the source of all random draws and all noise of a run.

A stream is addressed by (purpose, branch, step, lane) under one secret key, so what step t draws is
the same whether t was reached by running or by resuming (theory.md 6).

Derivation. The 32-byte key is never used as a cipher key itself. For each (purpose, branch, step)
an AES-256 key is derived with keyed BLAKE2b (a pseudo-random function; personalization ``reldp
stream 1``) from ``branch (8 bytes) || step (8 bytes) || purpose (UTF-8)``; the two numbers have
fixed width and come first, so different addresses give different inputs. The stream is the AES-CTR
keystream under that derived key, the 16-byte initial counter being ``lane (8 bytes) || 0 (8
bytes)``. Two purposes, branches or steps never share a cipher key, and two lanes of one address
meet only after 2^64 blocks (2^68 bytes).

Guarantees: with a secret uniform key, all streams together are indistinguishable from independent
uniform bits (AES-256 and BLAKE2b as pseudo-random functions; the keystream's lack of repeated
blocks is worth at most q^2 / 2^129 for q blocks of a stream, 2^-83 for four million Gaussian
draws). ``integers`` has no modulo bias.

Public: ``Streams``, ``Stream``, ``new_key``, ``KEY_BYTES``. The key is a secret: whoever holds
it can subtract the noise. No ``repr`` or error message shows it.

>>> streams = Streams(bytes(32))  # a run takes its key from new_key()
>>> streams.stream("doctest", branch=0, step=7).integers(10, 5).tolist()
[8, 7, 4, 9, 9]
>>> streams.stream("doctest", branch=0, step=8).integers(10, 5).tolist()
[9, 5, 3, 7, 3]
"""

import hashlib
import os
from typing import SupportsIndex

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from reldp._validate import as_integer, check_integer, shown
from reldp.errors import InputError, RunError

__all__ = ["KEY_BYTES", "Stream", "Streams", "new_key"]

KEY_BYTES = 32
_PERSON = b"reldp stream 1"
_BOUND = b"reldp bound 1"
# Encrypting zeros gives the keystream; larger draws reuse these zeros block by block.
_ZEROS = bytes(1 << 20)
_TWO_64 = 1 << 64


def new_key() -> bytes:
    """Return a fresh secret key from the operating system."""
    return os.urandom(KEY_BYTES)


def _index(name: str, value: SupportsIndex, limit: int) -> int:
    """Return the value as an int in [0, limit); booleans and fractions are refused."""
    if type(value) is int and 0 <= value < limit:  # nearly always, and many times in every step
        return value
    rule = f"an integer from 0 to 2^{limit.bit_length() - 1} - 1"
    return check_integer(name, as_integer(value), high=limit - 1, rule=rule, error=InputError)


class Streams:
    """All streams under one secret key.

    Args:
        key: 32 secret bytes, from ``new_key()`` or the run's private key file.
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, (bytes, bytearray)) or len(key) != KEY_BYTES:
            got = f"{len(key)} bytes" if isinstance(key, (bytes, bytearray)) else type(key).__name__
            raise InputError(
                f"`key` must be {KEY_BYTES} bytes, got {got}. Make one with new_key()."
            )
        self._key = bytes(key)
        self._claimed: set[tuple[int, int]] = set()

    def __repr__(self) -> str:
        return "Streams(key=<secret>)"

    def key_for_processes(self) -> bytes:
        """Return the secret key, for the other processes of the same run and for nobody else."""
        return self._key

    @property
    def num_claimed(self) -> int:
        """Number of steps that have been claimed, over all branches."""
        return len(self._claimed)

    def claim(self, branch: SupportsIndex, step: SupportsIndex) -> None:
        """Record that the draws and the noise of a step are used, which may happen once.

        A run that resumes makes new streams, and its ledger decides which steps it may execute again.

        Raises:
            RunError: They have been used. The same noise on two sums would reveal their difference.
        """
        address = _index("branch", branch, _TWO_64), _index("step", step, _TWO_64)
        if address in self._claimed:
            raise RunError(
                f"A step must run once, got step {address[1]} of branch {address[0]} again. It would "
                "release more about the same batch than epsilon covers. Run the next step."
            )
        self._claimed.add(address)

    def bound_to(self, content: bytes | memoryview) -> "Streams":
        """Streams of their own for a content: no other content shares a bit with them.

        Args:
            content: Anything in contiguous bytes; it may be sensitive.
        """
        digest = hashlib.sha256(content).digest()
        return Streams(
            hashlib.blake2b(digest, digest_size=KEY_BYTES, key=self._key, person=_BOUND).digest()
        )

    def stream(
        self, purpose: str, branch: SupportsIndex, step: SupportsIndex, lane: SupportsIndex = 0
    ) -> "Stream":
        """Return the stream at one address, from its beginning.

        Args:
            purpose: What the bits are for, e.g. ``"sampling/positives"``. Purposes never share
                bits.
            branch: Number of the run's branch; resuming without bitwise repeatability opens a new one.
            step: Number of the training step.
            lane: Independent part of the same address, for work split into blocks.
        """
        if not isinstance(purpose, str) or not purpose:
            raise InputError(f"`purpose` must be a non-empty string, got {shown(purpose)}.")
        address = _index("branch", branch, _TWO_64).to_bytes(8, "big")
        address += _index("step", step, _TWO_64).to_bytes(8, "big")
        address += purpose.encode()
        cipher_key = hashlib.blake2b(
            address, digest_size=32, key=self._key, person=_PERSON
        ).digest()
        counter = _index("lane", lane, _TWO_64).to_bytes(8, "big") + bytes(8)
        return Stream(cipher_key, counter)


class Stream:
    """Uniform bits from one address, in order. Made by ``Streams.stream``."""

    __slots__ = ("_encryptor",)

    def __init__(self, cipher_key: bytes, counter: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(cipher_key), modes.CTR(counter)).encryptor()

    def bytes(self, n: SupportsIndex) -> bytes:
        """Return the next ``n`` bytes."""
        return self._keystream(_index("n", n, 1 << 48)).tobytes()

    def uint64(self, n: SupportsIndex) -> NDArray[np.uint64]:
        """Return the next ``n`` words of 64 uniform bits; shape (n,)."""
        words = self._keystream(8 * _index("n", n, 1 << 45)).view("<u8")
        return words.astype(np.uint64, copy=False)

    def uniform(self, n: SupportsIndex) -> NDArray[np.float64]:
        """Return ``n`` uniform multiples of 2^-53 in [0, 1); shape (n,)."""
        return (self.uint64(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: SupportsIndex, n: SupportsIndex) -> NDArray[np.int64]:
        """Return ``n`` independent integers, exactly uniform on 0 .. high-1; shape (n,).

        Words at or above the largest multiple of ``high`` are rejected, so no residue is
        favored.
        """
        bound = check_integer("high", as_integer(high), low=1, high=1 << 63, error=InputError)
        words = self.uint64(n)
        last = np.uint64(_TWO_64 - 1 - _TWO_64 % bound)  # the largest word that is accepted
        while (rejected := words > last).any():
            words[rejected] = self.uint64(int(rejected.sum()))
        return (words % np.uint64(bound)).astype(np.int64)

    def _keystream(self, size: int) -> NDArray[np.uint8]:
        """Return the next ``size`` bytes as a fresh array; shape (size,)."""
        out = np.empty(size, np.uint8)
        for start in range(0, size, len(_ZEROS)):
            block = out[start : start + len(_ZEROS)]
            self._encryptor.update_into(memoryview(_ZEROS)[: block.size], block.data)
        return out
