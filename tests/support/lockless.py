"""Run a command as on a file system without locks: the kernel answers every request with ENOLCK.

    python lockless.py COMMAND...

A filter of system calls (seccomp) that the process sets for itself and its children; Linux on x86-64 only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from typing import Final

_SET_NO_NEW_PRIVILEGES: Final = 38
_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_NUMBER, _SECOND_ARGUMENT = 0, 24
"""Offsets of the call's number and of the lower half of its second argument."""
_FCNTL, _FLOCK = 72, 73
_SET_LOCKS: Final = (6, 7, 37, 38)  # F_SETLK, F_SETLKW and those of open file descriptions
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


class _Step(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("then", ctypes.c_ubyte),
        ("otherwise", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.POINTER(_Step)))


def works_here() -> bool:
    """Whether this system has such filters."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _without_locks() -> None:
    refuse = _ERROR | errno.ENOLCK
    last = len(_SET_LOCKS)
    steps = [
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 1, _FLOCK),
        (_RETURN, 0, 0, refuse),
        (_EQUAL, 0, last + 2, _FCNTL),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        *(
            (_EQUAL, last - 1 - turn, 1 if turn == last - 1 else 0, command)
            for turn, command in enumerate(_SET_LOCKS)
        ),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = _Program(len(steps), (_Step * len(steps))(*(_Step(*step) for step in steps)))
    system = ctypes.CDLL(None, use_errno=True)
    for call in (
        (_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if system.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "the filter was refused")


if __name__ == "__main__":
    _without_locks()
    os.execvp(sys.argv[1], sys.argv[1:])
