"""What is asked, and the key under which its answer is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models import Message, Sampling

__all__ = ["Keys", "Request", "request_key"]

_VERSION = b"tiltmeter completion 1\n"


class Request(NamedTuple):
    """One prompt to be answered once; `sample` numbers independent answers to the same messages, from 0."""

    messages: tuple[Message, ...]
    sample: int = 0


def _canonical(sampling: Sampling) -> str:
    """Sampling parameters as JSON that is equal exactly when the endpoint is sent the same; unset ones leave no trace."""
    values = {
        "temperature": None if sampling.temperature is None else float(sampling.temperature),
        "top_p": None if sampling.top_p is None else float(sampling.top_p),
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "extra": dict(sampling.extra) or None,
    }
    try:
        return json.dumps({name: value for name, value in values.items() if value is not None}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"sampling parameters must be plain JSON values to be sent and kept: {error}") from None


class Keys:
    """Makes the journal keys of one model with one set of sampling parameters.

    What all requests share is hashed once, so that a key costs about two microseconds.

    Raises
    ------
    InputError
        A vendor extra is not a JSON value.
    """

    def __init__(self, fingerprint: str, sampling: Sampling) -> None:
        shared = json.dumps([fingerprint, _canonical(sampling)]).encode("ascii")
        self._shared = hashlib.sha256(_VERSION + b"%d\n" % len(shared) + shared)

    def __call__(self, messages: Sequence[Message], sample: int) -> bytes:
        """The 32-byte key: SHA-256 of an encoding in which every part is preceded by its length, so no two requests collide."""
        digest = self._shared.copy()
        parts = [b"%d" % sample]
        for role, content in messages:
            body = content.encode("utf-8", "surrogatepass")
            parts.append(b"%s %d\n%s" % (role.encode("utf-8", "surrogatepass"), len(body), body))
        digest.update(b"\n".join(parts))
        return digest.digest()


def request_key(fingerprint: str, sampling: Sampling, messages: Sequence[Message], sample: int) -> bytes:
    """The journal key of one request (32 bytes); for many requests of one model build `Keys` once.

    Raises
    ------
    InputError
        A vendor extra is not a JSON value.
    """
    return Keys(fingerprint, sampling)(messages, sample)
