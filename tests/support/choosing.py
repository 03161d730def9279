"""Servers that give an allowed answer to requests in forms that they accept, and else a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from zlib import crc32

from support import misbehaving as mis
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of

FORMS = ("response_format", "structured_outputs", "guided_choice")
FREE = "No, that is not true."


def allowed_in(request: dict[str, Any]) -> list[str]:
    """The allowed answers in a request, in any form."""
    if "response_format" in request:
        wanted = request["response_format"]["json_schema"]
        assert wanted["strict"] is True
        (field,) = wanted["schema"]["properties"].values()
        return list(field["enum"])
    return list(request.get("guided_choice") or request.get("structured_outputs", {}).get("choice") or [])


def choice_of(request: dict[str, Any]) -> str:
    """One of the allowed answers, which depends on the prompt only."""
    allowed = allowed_in(request)
    return allowed[crc32(prompt_of(request).encode()) % len(allowed)]


def choosing(
    *accepted: str,
    free: str = FREE,
    rejects: Callable[[str], Behaviour] = mis.unsupported,
    ignored: tuple[str, ...] = (),
) -> MisbehavingServer:
    """Return a server that accepts these forms, ignores some, and rejects the others by name."""

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        sent = [name for name in FORMS if name in request and name not in ignored]
        for name in sent:
            if name not in accepted:
                return rejects(name)
        if not sent:
            return free
        return json.dumps({"answer": choice_of(request)}) if "response_format" in sent else choice_of(request)

    return MisbehavingServer(script)
