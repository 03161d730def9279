"""Pieces of a tagged sentence: noun phrases, verb groups, and the words between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiltmeter.associations.lexical._lexicon import gender_of_noun
from tiltmeter.associations.lexical._lexicon import words as listed

__all__ = ["Chunk", "Word", "chunks", "lowered"]


class Word(NamedTuple):
    """A tagged word; a name of several words is one."""

    text: str
    tag: str
    lemma: str
    start: int
    end: int
    who: int = -1
    """Number of the person the name belongs to; -1: no name of a person."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Words `start` to `end` of a sentence.

    `kind`: "np", "verb" (finite), "to", "ing", "en", "inf", "adj", "adv", "part", "not", "prep", "conj", "comma", "sub", "that", "who",
    "there", "quote" or "stop".
    """

    kind: str
    start: int
    end: int
    head: int
    """The noun of a noun phrase, the full verb of a verb group, the word itself otherwise."""
    determiners: tuple[int, ...] = ()
    modifiers: tuple[int, ...] = ()
    """Adjectives before the noun."""
    nouns: tuple[int, ...] = ()
    """The noun with the nouns it is compounded of."""
    owner: Chunk | None = None
    """The noun phrase before "'s"."""
    negation: str | None = None
    """ "not" or "never"."""
    modal: str | None = None
    auxiliary: str | None = None
    """Lemma of the last auxiliary: "be" before a participle is a passive or progressive, "have" a perfect."""


_DETERMINERS = ("AT0", "DPS", "DT0", "CRD", "ORD")
_ADJECTIVES = ("AJ0", "AJC", "AJS")
_NOUNS = ("NN1", "NN2", "NN0", "NN", "NP0", "UNC", "ZZ0")
_FINITE = ("VBD", "VBZ", "VBB", "VHD", "VHZ", "VHB", "VDD", "VDZ", "VDB", "VVD", "VVZ", "VVB", "VM0")
_NEXT_OF = {
    "VM0": ("VVI", "VVB", "VBI", "VHI", "VDI", "VBB", "VHB", "VDB"),
    "VD": ("VVI", "VVB", "VHI", "VDI"),
    "VH": ("VVN", "VVD", "VBN", "VHN", "VDN"),
    "VB": ("VVN", "VVD", "VVG", "VBN", "VBG", "VHG", "VDG", "VHN", "VDN"),
}
"""What may follow an auxiliary within a verb group, by its tag."""
_SIMPLE = {
    "AV0": "adv",
    "AVP": "part",
    "XX0": "not",
    "PRP": "prep",
    "PRF": "prep",
    "CJC": "conj",
    "CJS": "sub",
    "AVQ": "sub",
    "CJT": "that",
    "PNQ": "who",
    "DTQ": "who",
    "EX0": "there",
    "PUQ": "quote",
    "VVI": "inf",
    "VBI": "inf",
    "VHI": "inf",
    "VDI": "inf",
}
_COMMAS = (",", "\u2013", "\u2014", "-", "(", ")")
_CLAUSE_WORDS = ("if", "because", "although", "though", "while", "when", "unless", "whether", "since", "once", "whenever", "where")


def chunks(words: Sequence[Word]) -> list[Chunk]:
    """The sentence in pieces, every word in one."""
    found = []
    i = 0
    while i < len(words):
        piece = _noun_phrase(words, i) or _verb_group(words, i) or _adjective(words, i) or _simple(words, i)
        found.append(piece)
        i = piece.end
    return found


def _simple(words: Sequence[Word], i: int) -> Chunk:
    word = words[i]
    kind = "comma" if word.text in _COMMAS else _SIMPLE.get(word.tag, "stop")
    if word.lemma in _CLAUSE_WORDS:
        kind = "sub"
    return Chunk(kind, i, i + 1, i)


def _adjective(words: Sequence[Word], i: int) -> Chunk | None:
    return Chunk("adj", i, i + 1, i) if words[i].tag in _ADJECTIVES else None


def _tag(words: Sequence[Word], i: int) -> str:
    return words[i].tag if i < len(words) else ""


def _modifiers(words: Sequence[Word], i: int, inside: bool) -> tuple[list[int], int]:
    """Adjectives from word i on, and where they end; participles and adverbs only where a noun phrase has begun."""
    found: list[int] = []
    while i < len(words):
        tag = words[i].tag
        after = _tag(words, i + 1)
        joins = words[i].text == "," or words[i].lemma in ("and", "but", "yet")
        if tag in _ADJECTIVES or (tag in ("VVN", "VVG") and (inside or found) and after in (*_NOUNS, *_ADJECTIVES)):
            found.append(i)
        elif not (
            (tag == "AV0" and (inside or found) and after in (*_ADJECTIVES, "VVN")) or (joins and found and after in (*_ADJECTIVES, "AV0"))
        ):
            break
        i += 1
    return found, i


def _noun_phrase(words: Sequence[Word], i: int) -> Chunk | None:
    if words[i].tag in ("PNP", "PNI"):
        return Chunk("np", i, i + 1, i, nouns=(i,))
    first = i
    while i < len(words) and words[i].tag in _DETERMINERS:
        i += 1
    determiners = tuple(range(first, i))
    modifiers, after = _modifiers(words, i, inside=bool(determiners))
    nouns = _compound(words, after)
    if nouns:
        phrase = Chunk("np", first, nouns[-1] + 1, nouns[-1], determiners, tuple(modifiers), nouns)
        return _owned(words, phrase)
    if not determiners:
        return None
    last = words[determiners[-1]]
    if modifiers and last.tag in ("AT0", "DPS"):
        return Chunk("np", first, modifiers[-1] + 1, modifiers[-1], determiners, tuple(modifiers[:-1]), (modifiers[-1],))
    return None if last.tag == "AT0" else Chunk("np", first, i, i - 1, determiners[:-1], (), (i - 1,))


def _compound(words: Sequence[Word], i: int) -> tuple[int, ...]:
    found: list[int] = []
    while i < len(words) and words[i].tag in _NOUNS:
        if found and (words[found[-1]].who >= 0 or words[found[-1]].lemma in listed("time_nouns")):
            break
        if found and words[i].who >= 0 and words[found[-1]].tag == "NN2":
            break
        if found and words[i].text.endswith("ing") and gender_of_noun(words[found[-1]].lemma):
            break
        found.append(i)
        i += 1
    return tuple(found)


def _owned(words: Sequence[Word], phrase: Chunk) -> Chunk:
    """The noun phrase as it goes on after "'s", or itself."""
    if _tag(words, phrase.end) != "POS":
        return phrase
    modifiers, after = _modifiers(words, phrase.end + 1, inside=True)
    nouns = _compound(words, after)
    if not nouns:
        return Chunk("np", phrase.start, phrase.end + 1, phrase.head, owner=phrase, nouns=phrase.nouns)
    return _owned(words, Chunk("np", phrase.start, nouns[-1] + 1, nouns[-1], (), tuple(modifiers), nouns, owner=phrase))


def _verb_group(words: Sequence[Word], i: int) -> Chunk | None:
    first, kind = i, ""
    tag = words[i].tag
    if tag == "TO0":
        kind = "to"
        i += 1
        while _tag(words, i) in ("AV0", "XX0"):
            i += 1
        if not _tag(words, i).startswith("V"):
            return Chunk("prep", first, first + 1, first)
    elif tag in _FINITE:
        kind = "verb"
    elif tag in ("VVG", "VBG", "VHG", "VDG"):
        kind = "ing"
    elif tag in ("VVN", "VBN", "VHN", "VDN"):
        kind = "en"
    else:
        return None
    return _extended(words, first, i, kind)


def _extended(words: Sequence[Word], first: int, i: int, kind: str) -> Chunk:
    negation = "not" if any(words[k].tag == "XX0" for k in range(first, i)) else None
    modal = auxiliary = None
    while True:
        tag = words[i].tag
        after = i + 1
        while _tag(words, after) in ("AV0", "XX0"):
            after += 1
        follows = _NEXT_OF.get(tag) or _NEXT_OF.get(tag[:2], ())
        if _tag(words, after) not in follows:
            break
        if tag == "VM0":
            modal = words[i].lemma
        auxiliary = words[i].lemma
        negation = _negation(words, i + 1, after) or negation
        i = after
    end = i + 1
    while _tag(words, end) == "XX0" or (end < len(words) and words[end].lemma == "never"):
        negation = _negation(words, end, end + 1)
        end += 1
    for word in words[max(0, first - 2) : first]:
        if word.tag == "XX0" or word.lemma in ("never", "hardly", "rarely", "seldom"):
            negation = "never" if word.lemma == "never" else "not"
    return Chunk(kind, first, end, i, negation=negation, modal=modal, auxiliary=auxiliary)


def _negation(words: Sequence[Word], start: int, end: int) -> str | None:
    for word in words[start:end]:
        if word.tag == "XX0" or word.lemma == "never":
            return "never" if word.lemma == "never" else "not"
    return None


def lowered(word: Word) -> str:
    """The word as it stands in a phrase: in lower case unless it is a name."""
    return word.text if word.tag == "NP0" and word.text.lower() not in listed("origins") else word.text.lower()
