"""Separation of a model's thinking from its answer.

The regular expressions work in both Python and Polars.
"""

from __future__ import annotations

import re

_LEFT, _RIGHT = "\u25c1\u25b7"
_TAG = (
    r"(?i:think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|analysis|scratchpad|(?:inner|internal)_(?:monologue|thoughts?)"
    r"|chain_of_thought|cot|antthinking|(?:seed:|longcat_)think)"
)
OPENS = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>\s*(?:analysis|commentary)[^<>\n]{0,80}<\|message\|>|<\|?channel\|?>\s*thought\b"
    rf"|[<{_LEFT}]\|?{_TAG}\|?[>{_RIGHT}]|<\|(?i:(?:begin_of_|start_)think(?:ing)?|begin_of_thought|inner_prefix)\|>"
    r"|<unused94>(?:thought\b)?|\[THINK\])"
)
"""Opening marks of thinking: tags, the channels of gpt-oss, and the special tokens of other model families.
"""
CLOSES = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>\s*final[^<>\n]{0,80}<\|message\|>|<channel\|>"
    rf"|[<{_LEFT}]\|?/{_TAG}\|?[>{_RIGHT}]|<\|(?i:end_of_think(?:ing)?|end_thinking|end_of_thought|inner_suffix)\|>"
    r"|<unused95>|\[/THINK\])"
)
"""Closing marks of thinking."""
UNMARKED = (
    (r"(?s)\A\s*analysis([A-Z\"'(*].*?)assistant\s?final", True),
    (r"\A\s*analysis([A-Z\"'(*])", False),
    (r"(?is)\A\s*here(?:'s| is) my thought process:(.*?)here(?:'s| is) my (?:final )?response:", True),
    (r"(?i)\A\s*here(?:'s| is) my thought process:()", False),
)
"""Patterns of thinking without marks (channels with stripped tokens; the sentences of Granite), and whether
the thinking ends in them.

The only group of each pattern is the text of the thinking.
"""
SPECIAL = r"<\|[A-Za-z_]{1,30}\|>|</?s>|<(?:start|end)_of_turn>"
"""Special tokens that may surround an answer."""


def split_thinking(text: str) -> tuple[str, str | None]:
    """Split a text into the answer and the model's thinking (None if it contains no thinking).

    Thinking between marks (`<think>...</think>`, `[THINK]...[/THINK]`, the channels of gpt-oss and of other
    families) is removed wherever it occurs. Text before a closing mark without an opening mark is thinking,
    because chat templates often omit the opening mark. An unclosed opening mark begins truncated thinking if
    no answer precedes it; otherwise it is part of the answer. A text without marks is returned unchanged. The
    running time is linear in the length of the text.
    """
    for pattern, ends in _UNMARKED_THINKING:
        if start := pattern.match(text):
            text = f"<think>{start[1]}{'</think>' if ends else ''}{text[start.end() :]}"
    if not any(sign in text for sign in _SIGNS):
        return text, None  # 30 times faster than searching for every mark
    answer = ""
    thinking: list[str] = []
    position, opened = 0, -1
    for mark in _THINKING_MARK.finditer(text):
        closes = mark[1] is not None
        if closes:
            thinking.append(
                text[opened : mark.start()] if opened >= 0 else answer + text[position : mark.start()]
            )
            answer = answer if opened >= 0 else ""
            position, opened = mark.end(), -1
        elif opened < 0:
            answer += text[position : mark.start()]
            position, opened = mark.start(), mark.end()
    if opened >= 0 and not answer.strip():
        thinking.append(text[opened:])
        position = len(text)
    if not thinking:
        return text, None
    return (answer + text[position:]).strip(), "\n".join(
        part for piece in thinking if (part := piece.strip())
    ) or None


_THINKING_MARK = re.compile(f"({CLOSES})|{OPENS}")
_SIGNS = f"<[{_LEFT}"
"""Characters with which marks begin."""
_UNMARKED_THINKING = [(re.compile(pattern), ends) for pattern, ends in UNMARKED]
