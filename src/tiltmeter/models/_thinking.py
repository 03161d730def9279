"""Thinking that a model wrote into its answer, kept apart from the answer."""

from __future__ import annotations

import re

__all__ = ["split_thinking"]

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def split_thinking(text: str) -> tuple[str, str | None]:
    """The answer alone and the thinking (None when there is none).

    `<think>...</think>` and `<thinking>...</thinking>` are taken out wherever they stand. What precedes a closing tag
    without an opening one is thinking (chat templates often swallow the opening tag). An opening tag that is never
    closed begins thinking that was cut off, provided no answer precedes it; otherwise it is part of the answer.
    A text without tags is given back unchanged; one pass, linear in its length.
    """
    if "<" not in text:  # most answers
        return text, None
    answer: list[str] = []
    thinking: list[str] = []
    position, opened = 0, -1
    found = False
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if opened < 0:
                answer.append(text[position : tag.start()])
                position, opened = tag.start(), tag.end()
        elif opened >= 0:
            thinking.append(text[opened : tag.start()])
            position, opened, found = tag.end(), -1, True
        else:
            thinking.append("".join(answer) + text[position : tag.start()])
            answer.clear()
            position, found = tag.end(), True
    if opened >= 0 and not "".join(answer).strip():
        thinking.append(text[opened:])
        position, found = len(text), True
    if not found:
        return text, None
    answer.append(text[position:])
    return "".join(answer).strip(), "\n".join(part for piece in thinking if (part := piece.strip())) or None
