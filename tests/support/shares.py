"""Shares of the tests, so that a check that has little time runs a part of the long ones."""

from __future__ import annotations

import argparse
import re
import zlib
from typing import NamedTuple


class Share(NamedTuple):
    """The tests of one of several shares of about equal size."""

    number: int
    """1 to `shares`."""
    shares: int

    @classmethod
    def read(cls, text: str) -> Share:
        """Read a share such as "1/3".

        Raises
        ------
        argparse.ArgumentTypeError
            The text is no such share.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise argparse.ArgumentTypeError(f"{text!r} is not a share: give for example 1/3")
        return cls(int(match[1]), int(match[2]))

    def contains(self, test: str) -> bool:
        """Return whether the test with this name is in the share.

        Only its name decides, so that each test is in one share on every machine.
        """
        return zlib.crc32(test.encode()) % self.shares + 1 == self.number
