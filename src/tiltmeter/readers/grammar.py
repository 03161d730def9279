"""Sentences, words, parts of speech and direct speech of English text.

A thin layer over the Hanover tagger (HanTa) and the English model in its package, with tags in the style of the British National
Corpus ("NN1", "VVD", "AJ0", ...) and lemmas. It processes about 40,000 words per second on one core. The tagger is loaded on first use.

In addition, contractions are split ("did" + "n't") and known errors are corrected, such as verbs in -s that are tagged as plural nouns in a
series of verbs ("keeps a diary, waters the plants"). Very long words are ignored, because the run time of the tagger is quadratic in
their length.
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


_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Sgt|Capt|Lt|vs|etc|e\.g|i\.e|a\.m|p\.m|No)|\b[A-Z])\.$")
_END = re.compile(r"(?<![.!?\u2026])[.!?\u2026]+[\"'\u201d\u2019)\]*_]*(?=\s)|\n\s*\n|[\u3002\uff01\uff1f]+[\u201d\u2019\u300d]?")
_LOWER_NEXT = re.compile(r"[ \t]*[a-z,;]")


def sentences(text: str) -> list[Span]:
    """Return the start and end of each sentence in order, without surrounding white space."""
    found, start = [], 0
    for end in _sentence_ends(text):
        if body := text[start:end].strip():
            first = text.index(body, start)
            found.append((first, first + len(body)))
        start = end
    return found


def _sentence_ends(text: str) -> Iterator[int]:
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
_SAID = re.compile(r"[,:;.!?\u2014-]\s*$|^\s*$")


def speech(text: str) -> list[Span]:
    """Return the spans of direct speech, including quotation marks. Statements in it are not the author's.

    A few quoted words within a sentence (so-called "experts") are not direct speech. A mark that is never closed is ignored unless it is
    a curly one.
    """
    found = []
    for paragraph in _PARAGRAPH.finditer(text):
        for match in _QUOTED.finditer(text, paragraph.start(), paragraph.end()):
            inner = match.group()[1:].rstrip("\"'\u201d\u2019\u00bb")
            before = text[max(paragraph.start(), match.start() - 3) : match.start()]
            spoken = inner.rstrip()[-1:] in (",", ".", "!", "?", "\u2026") and len(inner.split()) > 2
            if spoken or _SAID.search(before) or len(inner.split()) > 4:
                found.append(match.span())
    return found


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
    found = (Token(match.group(), *match.span()) for match in _TOKEN.finditer(text, start, stop))
    return [token for token in found if token.text.isalnum() or unicodedata.category(token.text[0]) not in _PICTURES]


_PICTURES = ("So", "Sk", "Mn", "Me", "Cf", "Co", "Cs", "Cn", "Cc")
_LONGEST = 40
"""Maximum length of a word to tag, in letters."""
_AT_ONCE = 1000
"""Maximum number of words tagged together. With tens of thousands, the probabilities underflow and the tagger fails."""
_PLAIN = {"\u2019s": "'s", "n\u2019t": "not", "n't": "not", "ca": "can", "wo": "will", "sha": "shall"}
_CLITIC_VERBS = {"re": ("VBB", "be"), "ve": ("VHB", "have"), "ll": ("VM0", "will"), "d": ("VM0", "would"), "m": ("VBB", "be")}


@cache
def tagger() -> Any:
    """Load the tagger and its model of English."""
    from HanTa import HanoverTagger  # the import takes a third of a second and is not always needed

    tagger = HanoverTagger.HanoverTagger("morphmodel_en.pgz")
    tagger.analyze_forward = lru_cache(maxsize=1 << 16)(tagger.analyze_forward)  # ten times faster, because unknown words recur
    return tagger


_NO_WORD_END = re.compile(r"[bcdfgkptz]l$")
"""Endings that no base form of a verb has: the lemma of "peddled" is "peddle"."""


@lru_cache(maxsize=1 << 16)
def _lemma(word: str, kind: str) -> str:
    lemma: str = tagger().analyze(word, pos=kind)[0]
    return f"{lemma.lower()}e" if kind[0] == "V" and _NO_WORD_END.search(lemma) else lemma.lower()


def tag(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the tag and the lower-case lemma of each word of a sentence.

    The tags are those of the C5 tagset of the BNC as used by the model: NN1, NN2, NP0 (name), AJ0, AV0, VVD, VVZ, VVG, VVN, VVI, VBD, ...
    """
    plain = [_PLAIN.get(word, word) if len(word) <= _LONGEST else "it" for word in words]
    return tuple(chain.from_iterable(_tag(tuple(plain[start : start + _AT_ONCE])) for start in range(0, len(plain), _AT_ONCE)))


@lru_cache(maxsize=1 << 14)
def _tag(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    kinds = tagger().tag_sent(list(words), taglevel=0)
    clitics = {i: _CLITIC_VERBS[word[1:]] for i, word in enumerate(words) if word[0] in "'\u2019" and word[1:] in _CLITIC_VERBS}
    for i, (kind, _) in clitics.items():
        kinds[i] = kind
    kinds = _corrected(words, kinds)
    lemmas = {i: "have" if kinds[i] == "VHD" else lemma for i, (_, lemma) in clitics.items()}
    return tuple((kind, lemmas.get(i) or _lemma(word, kind)) for i, (word, kind) in enumerate(zip(words, kinds, strict=True)))


_EITHER = re.compile(r"(?:kind|patient|calm|content|brave|warm|humble|gentle|quiet|loving|caring|giving|understanding|outgoing|native)$")
"""Adjectives that are often tagged as nouns or verbs."""
_TO_WORK = re.compile(r"(?:rides?|rode|drives?|drove|walk(?:s|ed)?|go|goes|went|cycle[sd]?|commute[sd]?)$", re.IGNORECASE)
_OBJECT = ("AT0", "DPS", "DT0", "CRD", "NN1", "NN2", "NN0", "AJ0", "NP0", "PNP", "AV0", "AVP")


def _corrected(words: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the tags with known errors corrected."""
    words, kinds = (*words, "", ""), [*given, "", ""]
    row = False  # whether a verb in -s has begun a series of verbs
    for i in range(len(given)):
        before = i - 1
        while kinds[before] in ("AV0", "XX0"):
            before -= 1
        kinds[i] = _better(words, kinds, i, before) or _verb_in_row(words, kinds, i, before, row)
        row = kinds[i] == "VVZ" or (row and kinds[i] not in ("VVD", "VBD", "VHD", "VM0") and words[i] not in (".", ";", ":"))
    return kinds[:-2]


def _verb_in_row(words: Sequence[str], kinds: Sequence[str], i: int, before: int, row: bool) -> str:
    """Return the tag of a verb for a word tagged as a plural noun after a name or pronoun, or in a series of verbs, before an object."""
    previous, word = kinds[before], words[i]
    after_subject = previous == "NP0" or (previous == "PNP" and words[before].lower() in ("he", "she"))
    in_row = row and (previous == "CJC" or words[before] == ",")
    verb = kinds[i] == "NN2" and word.islower() and word.endswith("s") and kinds[i + 1] in _OBJECT and (after_subject or in_row)
    return "VVZ" if verb else kinds[i]


def _better(words: Sequence[str], kinds: Sequence[str], i: int, before: int) -> str | None:
    """Return the corrected tag of word i, or None. `before` is the last word before it that is not an adverb or "not"."""
    word, last, after = words[i].lower(), words[i - 1].lower(), words[i + 1].lower()
    kind, previous, follows = kinds[i], kinds[before], kinds[i + 1]
    if not any(map(str.isalnum, word)):
        return kind if kind in ("PUQ", "PUN", "POS") else "PUN"
    if (word, after) == ("no", "longer"):
        return "XX0"
    if (last, word) == ("no", "longer"):
        return "AV0"
    if (word, kind) == ("few", "AV0"):
        return "DT0"
    if _EITHER.match(word) and kind[:2] != "AJ":
        return "AJ0" if _describes(word, last, previous, kinds[before - 1], follows) else None
    if (word, kind) == ("'d", "VM0") and not {"VVN", "VBN", "VHN"}.isdisjoint(kinds[i + 1 : i + 3]):
        return "VHD"
    if kind == "AJ0" and word.endswith(("ed", "en")):  # "had misplaced the ticket", ", repaired clocks.", "Mary carved the wood"
        if previous.startswith("VH"):
            return "VVN" if follows in ("AT0", "DPS", "DT0", "NP0", "PNP") else None
        past = (last == "," and kinds[i + 1 : i + 3] == ["NN2", "PUN"]) or (
            follows in ("AT0", "DPS", "PNP") and previous in ("NP0", "PUN", "CJC")
        )
        return "VVD" if past else None
    if (previous, kind) == ("VM0", "NN1"):
        return "VVI"
    if (word, kind, after) == ("to", "TO0", "work") and any(map(_TO_WORK.match, words[max(0, i - 4) : i])):
        return "PRP"
    return "NN1" if (word, kind, previous) == ("work", "VVI", "PRP") else None


def _describes(word: str, last: str, previous: str, earlier: str, follows: str) -> bool:
    """Return whether a word of `_EITHER` is used as an adjective: "was patient", "a kind man", ", patient and ...", "calm and kind."."""
    if follows == "PRF":
        return False
    if previous == "AT0":
        return follows in ("CJC", "AJ0") or (follows == "NN1" and word != "content")
    joined = earlier == "AJ0" and previous == "CJC" and follows in ("PUN", "")
    return joined or previous.startswith("VB") or (last == "," and follows == "CJC")


_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|[^aeiou]o)$")
_IRREGULAR = {"be": "is", "have": "has", "do": "does", "go": "goes"}


def third_person(verb: str) -> str:
    """Return the third person singular present of the base form of a verb: "carry" gives "carries"."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if _SIBILANT.search(verb):
        return verb + "es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"
