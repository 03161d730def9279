"""Thinking that a model wrote into its answer, kept apart from the answer."""

from __future__ import annotations

import re

from tiltmeter._thinking import CLOSES, OPENS, UNMARKED

__all__ = ["split_thinking"]

_MARK = re.compile(f"({CLOSES})|{OPENS}")
_UNMARKED = [(re.compile(pattern), ends) for pattern, ends in UNMARKED]


def split_thinking(text: str) -> tuple[str, str | None]:
    """The answer alone and the thinking (None when there is none).

    Thinking between marks (`<think>...</think>`, `[THINK]...[/THINK]`, the channels of gpt-oss and those of other families) is taken
    out wherever it occurs. What precedes a closing mark without an opening one is thinking (chat templates often swallow the opening
    one). An opening mark that is never closed begins thinking that was cut off, provided no answer precedes it; otherwise it is part
    of the answer. A text without marks is given back unchanged; one pass, linear in its length.
    """
    for pattern, ends in _UNMARKED:
        if start := pattern.match(text):
            text = f"<think>{start[1]}{'</think>' if ends else ''}{text[start.end() :]}"
    answer: list[str] = []
    thinking: list[str] = []
    position, opened = 0, -1
    found = False
    for mark in _MARK.finditer(text):
        if mark[1] is None:
            if opened < 0:
                answer.append(text[position : mark.start()])
                position, opened = mark.start(), mark.end()
        elif opened >= 0:
            thinking.append(text[opened : mark.start()])
            position, opened, found = mark.end(), -1, True
        else:
            thinking.append("".join(answer) + text[position : mark.start()])
            answer.clear()
            position, found = mark.end(), True
    if opened >= 0 and not "".join(answer).strip():
        thinking.append(text[opened:])
        position, found = len(text), True
    if not found:
        return text, None
    answer.append(text[position:])
    return "".join(answer).strip(), "\n".join(part for piece in thinking if (part := piece.strip())) or None
