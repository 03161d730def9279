"""Models whose answers depend on the prompt."""

from __future__ import annotations

from collections.abc import Sequence


def agrees_when_told_to_be_brief(messages: Sequence[dict[str, str]], sample: int) -> str:
    """Yes where one word is asked for, else no; now and then the other way round."""
    text = messages[-1]["content"]
    return "Yes" if text.endswith("only.") != ((len(text) + sample) % 9 == 0) else "No"


def steady(messages: Sequence[dict[str, str]], sample: int) -> str:
    """The same answer to the same question, whatever the sample."""
    return "Yes" if len(messages[-1]["content"]) % 2 else "No"


def moody(messages: Sequence[dict[str, str]], sample: int) -> str:
    """Every second answer to a question is the opposite."""
    return "Yes" if sample % 2 else "No"
