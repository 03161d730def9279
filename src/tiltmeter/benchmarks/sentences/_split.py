"""Where the sentences of a text begin and end.

The work is done by syntok. Around it: the items of lists and the paragraphs are parted beforehand (syntok knows blank lines only), and
what it parts too often is joined again: at a semicolon, at an abbreviation it does not know, and inside brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tiltmeter.study import NotRun

__all__ = ["split_sentences"]

_BULLET = re.compile(
    r"[ \t]*(?:[\u2022\u25e6\u25aa\u25cf\u2023\u00b7\u2043]|(?P<mark>[-*+\u2013\u2014]|\(?\d{1,2}[.)]|\(?[a-z]\)))[ \t]+(?=\S)"
)
_STUCK = re.compile(r"(?:(?<=[a-z]{2})|(?<=\d{2}))([\"\u201d)]?[.!?][\"\u201d\u2019)\]]*)(?=[A-Z][a-z])")
_MAY_END = re.compile(r"[.:;!?\u2026][\"'\u201d\u2019)\]]*\s*$")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"'\u201c])(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Ste|Jr|Sr|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Col|Sgt|Capt|Cmdr|Lt|Maj|Msgr|Fr"
    r"|vs|v|viz|etc|cf|ca|c|e\.g|i\.e|a\.k\.a|approx|est|No|no|Nos|nos|Vol|vol|pp?|ed|eds|trans|Ch|ch|Fig|fig|lit|[A-Z])\.$"
)
_INITIALS_END = re.compile(r"(?:\b[A-Z]\.){2,}$")
_OPENING, _CLOSING = "([{", ")]}"
_LONGEST_BRACKET = 300
"""Characters: a bracket that is longer than this was most likely never closed, and joins nothing."""
_MANY_BRACKETS, _MOST_BRACKETS = 100, 0.1
"""A paragraph with more opening brackets than that, in number and in share of its characters, is no prose: one sentence."""


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, in order.

    White space within a sentence becomes one blank. A blank line and a list item's bullet or number end a sentence too; the bullet or
    number itself is left out. Two sentences stuck together ("... ended.The next") are parted.

    Raises
    ------
    NotRun
        syntok is not installed.
    """
    try:
        from syntok import segmenter
    except ModuleNotFoundError as error:
        raise NotRun('splitting texts into sentences needs syntok: pip install "tiltmeter[benchmarks]"') from error
    return [sentence for block in _blocks(text) if block for sentence in _sentences(block, segmenter)]


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs and items of lists; lines that were only wrapped stay together."""
    lines: list[str] = []
    item = False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        # A dash or a number may just have come to stand at the beginning of a wrapped line.
        starts = bullet is not None and (bullet["mark"] is None or item or not lines or _MAY_END.search(lines[-1]) is not None)
        if starts or not line.strip():
            yield " ".join(lines)
            lines, item = [], starts
        if line.strip():
            lines.append(line[bullet.end() :] if bullet and starts else line)
    yield " ".join(lines)


def _sentences(block: str, segmenter: Any) -> list[str]:
    plain = _STUCK.sub(r"\1 ", " ".join(block.split()))
    brackets = sum(map(plain.count, segmenter.State.opening_brackets))
    if brackets > max(_MANY_BRACKETS, _MOST_BRACKETS * (len(plain) - plain.count(" "))):
        return [plain]
    starts = [tokens[0].offset for paragraph in segmenter.analyze(plain) for tokens in paragraph]
    found: list[str] = []
    begin = starts[0] if starts else 0
    for end in [*starts[1:], len(plain)]:
        near = plain[max(begin, end - _LONGEST_BRACKET - 1) : end]
        if not _goes_on(near.rstrip(), plain[end : end + 1], near.endswith(" ")):
            found.append(plain[begin:end].strip())
            begin = end
    return [sentence for sentence in found if sentence]


def _goes_on(piece: str, following: str, apart: bool) -> bool:
    """Whether what ends here is no end of a sentence.

    Parameters
    ----------
    piece
        The sentence up to here, or the end of it.
    following
        The next character.
    apart
        Whether white space is between.
    """
    if not following:
        return False
    if piece.endswith((";", ":", ",")) or following in _CLOSING or _ABBREVIATED.search(piece):
        return True
    if _INITIALS_END.search(piece) and not apart:
        return True
    depth = _depth(piece[-_LONGEST_BRACKET:])
    return depth > 0 and (apart or following.isalnum())


def _depth(piece: str) -> int:
    depth = 0
    for character in piece:
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth = max(0, depth - 1)
    return depth
