"""Sentences, words, parts of speech and direct speech of English text.

A thin layer over the Hanover tagger (HanTa) and the English model in its package, with tags in the style of
the British National Corpus ("NN1", "VVD", "AJ0", ...) and lemmas. It processes about 40,000 words per second
on one core. The tagger is loaded on first use.

In addition, contractions are split ("did" + "n't") and known errors are corrected, such as verbs in -s that
are tagged as plural nouns in a series of verbs ("keeps a diary, waters the plants"). Very long words are
ignored, because the run time of the tagger is quadratic in their length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

Span = tuple[int, int]


class Token(NamedTuple):
    """A word or punctuation mark of a text."""

    text: str
    start: int
    """Offset in the text."""
    end: int


_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Sgt|Capt|Lt"
    r"|vs|etc|e\.g|i\.e|a\.m|p\.m|No)|\b[A-Z])\.$"
)
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]+[\"'\u201d\u2019)\]*_]*(?=\s)|\n\s*\n"
    r"|[\u3002\uff01\uff1f]+[\u201d\u2019\u300d]?"
)
_LOWER_NEXT = re.compile(r"[ \t]*[a-z,;]")


def sentences(text: str) -> list[Span]:
    """Return the start and end of each sentence in order, without surrounding white space."""
    spans = []
    start = 0
    for end in _sentence_ends(text):
        if body := text[start:end].strip():
            first = text.index(body, start)
            spans.append((first, first + len(body)))
        start = end
    return spans


def _sentence_ends(text: str) -> Iterator[int]:
    """Yield the offset after each sentence."""
    for match in _END.finditer(text):
        if match.group().isspace():
            yield match.end()
        elif match.group() == "." and _ABBREVIATION.search(text, max(0, match.start() - 6), match.end()):
            continue
        elif not _LOWER_NEXT.match(text, match.end()):
            yield match.end()
    yield len(text)


_QUOTED = re.compile(
    r"\u201c[^\u201c\u201d]*(?:\u201d|\Z)|\"[^\"]*\"|\u00ab[^\u00ab\u00bb]*\u00bb"
    r"|(?<!\w)\u2018(?:[^\u2018\u2019]|(?<=\w)\u2019(?=\w))*\u2019(?!\w)"
    r"|(?<!\w)'(?=\w)(?:[^'\n]|(?<=\w)'(?=\w))*[,.!?]'(?!\w)"
)
_PARAGRAPH = re.compile(r"[^\n]+")
_SPEECH_BEGINS = re.compile(r"[,:;.!?\u2014-]\s*$|^\s*$")


def speech(text: str) -> list[Span]:
    """Return the spans of direct speech, including quotation marks.

    Statements in direct speech are not the author's. A few quoted words within a sentence (so-called
    "experts") are not direct speech. A mark that is never closed is ignored unless it is a curly one.
    """
    spans = []
    for paragraph in _PARAGRAPH.finditer(text):
        for match in _QUOTED.finditer(text, paragraph.start(), paragraph.end()):
            inner = match.group()[1:].rstrip("\"'\u201d\u2019\u00bb")
            before = text[max(paragraph.start(), match.start() - 3) : match.start()]
            words = len(inner.split())
            is_sentence = inner.rstrip()[-1:] in (",", ".", "!", "?", "\u2026") and words > 2
            if is_sentence or _SPEECH_BEGINS.search(before) or words > 4:
                spans.append(match.span())
    return spans


_CLITIC = r"['\u2019](?:s|re|ve|ll|d|m)(?!\w)"
_LETTER = r"[\w\u0300-\u036f]"
_TOKEN = re.compile(
    rf"{_LETTER}+?(?=n['\u2019]t(?!\w))|n['\u2019]t(?!\w)|{_CLITIC}"
    rf"|{_LETTER}+(?:(?:[-\u2010\u2011]|(?!{_CLITIC})['\u2019]){_LETTER}+)*|[^\w\s]",
    re.IGNORECASE,
)


def tokens(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the words and punctuation marks of `text[start:end]`, with offsets from the start of `text`.

    "didn't" is split into "did" and "n't"; pictographs are omitted.
    """
    stop = len(text) if end is None else end
    matches = _TOKEN.finditer(text, start, stop)
    return [Token(match.group(), *match.span()) for match in matches if not _is_picture(match.group())]


def _is_picture(text: str) -> bool:
    return not text.isalnum() and unicodedata.category(text[0]) in _PICTURES


_PICTURES = ("So", "Sk", "Mn", "Me", "Cf", "Co", "Cs", "Cn", "Cc")
LONGEST = 40
"""Maximum length of a word to tag, in letters."""
_AT_ONCE = 1000
"""Maximum number of words tagged together. With tens of thousands, the probabilities underflow and the tagger
fails."""
_PLAIN = {"\u2019s": "'s", "n\u2019t": "not", "n't": "not", "ca": "can", "wo": "will", "sha": "shall"}
_CLITIC_VERBS = {"re": "VBB", "ve": "VHB", "ll": "VM0", "d": "VM0", "m": "VBB"}
_MARKS = ("PUQ", "PUN", "POS")


@cache
def tagger() -> Any:
    """Load the tagger and its model of English."""
    from HanTa import HanoverTagger  # the import takes a third of a second and is not always needed

    tagger = HanoverTagger.HanoverTagger("morphmodel_en.pgz")
    remember = lru_cache(maxsize=1 << 16)
    tagger.analyze_forward = remember(tagger.analyze_forward)  # ten times faster: unknown words recur
    return tagger


def tag(words: Sequence[str]) -> tuple[str, ...]:
    """Return the tag of each word of a sentence.

    The tags are those of the C5 tagset of the BNC as used by the model: NN1, NN2, NP0 (name), AJ0, AV0, VVD,
    VVZ, VVG, VVN, VVI, VBD, ...
    """
    plain = [_PLAIN.get(word, word) if len(word) <= LONGEST else "it" for word in words]
    parts = (plain[start : start + _AT_ONCE] for start in range(0, len(plain), _AT_ONCE))
    return tuple(chain.from_iterable(_tag(tuple(part)) for part in parts))


@lru_cache(maxsize=1 << 14)
def _tag(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tag of each word, after corrections of clitics and of characters that are no words."""
    kinds = tagger().tag_sent(list(words), taglevel=0)
    return tuple(_corrected(word, kind) for word, kind in zip(words, kinds, strict=True))


def _corrected(word: str, kind: str) -> str:
    if word[0] in "'\u2019":
        return _CLITIC_VERBS.get(word[1:], kind)
    if any(map(str.isalnum, word)) or kind in _MARKS:
        return kind
    return "PUN"
