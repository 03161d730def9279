"""Models that think before they answer, and the limit of tokens that leaves room for both.

A method prescribes a limit for answers. A model that thinks needs more tokens, because its thinking counts as
well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tiltmeter.models.base import Sampling

THINKING_TOKENS = 4_096
"""Tokens for the thinking of one response. Together with an answer they fit into a context of 8,192 tokens,
which small servers have."""
_NAMES = (
    r"o[134](?:$|[-:.@])",
    r"gpt-5(?!.*chat)",
    r"gpt-oss",
    r"deepseek-(?:r1|reasoner)",
    r"qwq",
    r"qwen-?3(?!.*(?:instruct|coder|embed|rerank))",
    r"gemini-(?:2\.5(?!.*lite)|[3-9])",
    r"magistral",
    r"grok-(?:3-mini|4)",
    r"minimax-m[12]",
    r"glm-(?:4\.[5-9]|z1)",
    r"seed-oss",
    r"exaone-deep",
    r"(?:marco|skywork)-o1",
    r"openthinker",
    r".*\b(?:thinking|reasoning|reasoner)\b",
    r".*-r1(?:$|[-:.@])",
)
"""Beginnings of the names of models that think unless they are told not to, without the names of providers
and owners."""
_THINKING = re.compile("|".join(_NAMES))
_NOT_THINKING = re.compile(r"non?-?(?:thinking|reasoning|think)")
_IN_PROCESS = ("sim", "replay", "python")
"""Providers whose models are programs or recorded answers."""
_OFF = (False, "none", "off", "disabled", 0)
"""Values of options that turn thinking off."""


def thinks(name: str, extra: Mapping[str, Any] | None = None) -> bool:
    """Return whether a model is known to think before it answers.

    Parameters
    ----------
    name
        `provider/model`.
    extra
        Vendor extras, which can turn thinking on or off.

    Examples
    --------
    >>> [thinks(name) for name in ("openai/o3-mini", "ollama/deepseek-r1:7b", "openai/gpt-4o", "openrouter/x-ai/grok-4-non-reasoning")]
    [True, True, False, False]
    """
    asked = _asked_to_think(extra or {})
    if asked is not None:
        return asked
    provider, _, model = name.lower().partition("/")
    last = model.rpartition("/")[2]
    return (
        provider not in _IN_PROCESS and not _NOT_THINKING.search(last) and _THINKING.match(last) is not None
    )


def _asked_to_think(extra: Mapping[str, Any]) -> bool | None:
    """Return whether vendor extras turn thinking on or off; None if they do neither."""
    given = [
        extra[name]
        for name in ("reasoning_effort", "thinking", "think", "reasoning", "enable_thinking")
        if name in extra
    ]
    template = extra.get("chat_template_kwargs")
    if isinstance(template, Mapping):
        given += [template[name] for name in ("enable_thinking", "thinking") if name in template]
    for value in given:
        inner = (
            [value[key] for key in ("type", "effort", "enabled", "budget_tokens") if key in value]
            if isinstance(value, Mapping)
            else []
        )
        return not any(one in _OFF for one in inner or [value])
    return None


def with_room_to_think(sampling: Sampling) -> Sampling:
    """Return the sampling with a limit that leaves room for thinking, or for the budget that its extras give.

    Unlimited stays so.
    """
    if sampling.max_tokens is None:
        return sampling
    asked = sampling.extra.get("thinking")
    budget = asked.get("budget_tokens") if isinstance(asked, Mapping) else None
    room = max(THINKING_TOKENS, budget) if isinstance(budget, int) else THINKING_TOKENS
    return replace(sampling, max_tokens=sampling.max_tokens + room)
