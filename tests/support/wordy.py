"""Models whose answers depend on the prompt."""

from __future__ import annotations

from collections.abc import Sequence


def agrees_when_told_to_be_brief(messages: Sequence[dict[str, str]], sample: int) -> str:
    """Answer yes if one word is asked for, else no; in some samples the opposite."""
    text = messages[-1]["content"]
    return "Yes" if text.endswith("only.") != ((len(text) + sample) % 9 == 0) else "No"


def steady(messages: Sequence[dict[str, str]], sample: int) -> str:
    """Give the same answer to every sample of a prompt."""
    return "Yes" if len(messages[-1]["content"]) % 2 else "No"


def moody(messages: Sequence[dict[str, str]], sample: int) -> str:
    """Give the opposite answer to every second sample."""
    return "Yes" if sample % 2 else "No"
