"""Chance from a hash: a few draws per answer, without the cost of building a generator for each.

The same bytes give the same draws on every machine and Python version, which `random` does not promise for `shuffle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

__all__ = ["Draws"]

T = TypeVar("T")

_WORDS = 16  # 32-bit words in one block of 64 bytes


class Draws:
    """A stream of draws that depends on `key` alone: block i of the stream is the hash of the key and i.

    Parameters
    ----------
    key
        Bytes of any length, for instance the hash of a prompt.
    """

    __slots__ = ("_block", "_key", "_left", "_pool")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._block = 0
        self._left = 0
        self._pool = 0

    def _word(self) -> int:
        if not self._left:
            self._pool = int.from_bytes(blake2b(self._key + self._block.to_bytes(4, "little")).digest(), "little")
            self._block += 1
            self._left = _WORDS
        word = self._pool & 0xFFFFFFFF
        self._pool >>= 32
        self._left -= 1
        return word

    def unit(self) -> float:
        """A number in [0, 1), in steps of 2**-32."""
        return self._word() * 2.0**-32

    def below(self, n: int) -> int:
        """A whole number in 0 .. n - 1; the multiply-and-shift bias is below n / 2**32."""
        return (self._word() * n) >> 32

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, each with the same chance."""
        return choices[(self._word() * len(choices)) >> 32]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order (Fisher-Yates)."""
        mixed = list(items)
        for i in range(len(mixed) - 1, 0, -1):
            j = self.below(i + 1)
            mixed[i], mixed[j] = mixed[j], mixed[i]
        return mixed
