"""Models that think before they answer, and the limit of tokens that leaves room for both.

A method prescribes a limit for answers. A model that thinks needs more tokens, because its thinking counts as
well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tiltmeter.models._base import Sampling

THINKING_TOKENS: Final = 4_096
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
"""Beginnings of the names of models that think by default, without the names of providers and owners."""
_THINKING = re.compile("|".join(_NAMES))
_NOT_THINKING = re.compile(r"non?-?(?:thinking|reasoning|think)")
_IN_PROCESS = ("sim", "replay", "python")
"""Providers whose models are programs or recorded answers."""
_OPTIONS = ("reasoning_effort", "thinking", "think", "reasoning", "enable_thinking")
"""Vendor extras that turn thinking on or off; the first of them that is set applies."""
_TEMPLATE_OPTIONS = ("enable_thinking", "thinking")
"""Arguments of chat templates that do so, after the vendor extras."""
_SETTINGS = ("type", "effort", "enabled", "budget_tokens")
"""Fields of an option that is an object."""
_OFF = (False, "none", "off", "disabled", 0)
"""Values that turn thinking off."""


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
    >>> thinks("openai/o3-mini"), thinks("ollama/deepseek-r1:7b")
    (True, True)
    >>> thinks("openai/gpt-4o"), thinks("openrouter/x-ai/grok-4-non-reasoning")
    (False, False)
    """
    requested = _requested_thinking(extra or {})
    if requested is not None:
        return requested
    provider, _, model = name.lower().partition("/")
    last = model.rpartition("/")[2]
    if provider in _IN_PROCESS or _NOT_THINKING.search(last):
        return False
    return _THINKING.match(last) is not None


def _requested_thinking(extra: Mapping[str, Any]) -> bool | None:
    """Return whether vendor extras turn thinking on or off; None if they do neither."""
    options = [extra[name] for name in _OPTIONS if name in extra]
    template = extra.get("chat_template_kwargs")
    if isinstance(template, Mapping):
        options += [template[name] for name in _TEMPLATE_OPTIONS if name in template]
    if not options:
        return None
    settings = [options[0]]
    if isinstance(options[0], Mapping):
        settings = [options[0][name] for name in _SETTINGS if name in options[0]] or settings
    return not any(setting in _OFF for setting in settings)


def with_room_to_think(sampling: Sampling) -> Sampling:
    """Return the sampling with a limit of tokens that leaves room for thinking.

    The room is `THINKING_TOKENS`, or the budget in the vendor extras if that is larger. A sampling without
    a limit is unchanged.
    """
    if sampling.max_tokens is None:
        return sampling
    option = sampling.extra.get("thinking")
    budget = option.get("budget_tokens") if isinstance(option, Mapping) else None
    room = max(THINKING_TOKENS, budget) if isinstance(budget, int) else THINKING_TOKENS
    return replace(sampling, max_tokens=sampling.max_tokens + room)
