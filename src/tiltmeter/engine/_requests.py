"""Requests for answers, and the keys under which the journal stores them.

Nothing here needs a journal, so that a study can be declared and planned without a database.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models import Message, Sampling
from tiltmeter.models._base import request_parameters

_KEY_VERSION: Final = b"tiltmeter completion 1\n"


class Request(NamedTuple):
    """One request for one answer; `sample` numbers independent answers to the same messages, from 0."""

    messages: tuple[Message, ...]
    sample: int = 0


class Keys:
    """Computes the journal keys for one model and one set of sampling parameters.

    The part that all requests share is hashed once, so that a key takes about two microseconds.

    Raises
    ------
    InputError
        A vendor extra is not a JSON value.
    """

    def __init__(self, fingerprint: str, sampling: Sampling) -> None:
        shared = json.dumps([fingerprint, _canonical_sampling(sampling)]).encode("ascii")
        self._shared = hashlib.sha256(_KEY_VERSION + b"%d\n" % len(shared) + shared)

    def __call__(self, messages: Sequence[Message], sample: int) -> bytes:
        """Return the 32-byte key of a request.

        It is the SHA-256 of an encoding in which every part is preceded by its length, so that no two
        requests have the same encoding.
        """
        digest = self._shared.copy()
        parts = [b"%d" % sample]
        for role, content in messages:
            speaker = role.encode("utf-8", "surrogatepass")
            body = content.encode("utf-8", "surrogatepass")
            parts.append(b"%s %d\n%s" % (speaker, len(body), body))
        digest.update(b"\n".join(parts))
        return digest.digest()


def _canonical_sampling(sampling: Sampling) -> str:
    """Return the sampling parameters as JSON, equal if and only if the same parameters are sent.

    Unset ones are omitted.
    """
    values = request_parameters(sampling, 0)
    values |= {name: float(values[name]) for name in ("temperature", "top_p") if name in values}
    if sampling.extra:
        values["extra"] = dict(sampling.extra)
    try:
        return json.dumps(values, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"sampling parameters must be plain JSON values: {error}") from None
