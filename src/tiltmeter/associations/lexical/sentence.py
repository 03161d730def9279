"""A sentence as the lexical reader sees it: words, what the lexicon knows of them, and chunks (noun phrases, verb groups and others)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tiltmeter.yaml_files import packaged_yaml

People = frozenset[int]
"""Numbers of people of a story."""
NO_ONE: People = frozenset()


def _lexicon() -> Any:
    return packaged_yaml(Path(__file__).with_name("lexicon.yaml"))


@cache
def words(name: str) -> frozenset[str]:
    """Return the words of one list of lexicon.yaml."""
    return frozenset(_lexicon()[name])


def table(name: str) -> Mapping[str, Any]:
    """Return one table of lexicon.yaml: lists, or words, by word."""
    found: Mapping[str, Any] = _lexicon()[name]
    return found


@cache
def _key_of(name: str) -> Mapping[str, str]:
    return {word: key for key, listed in table(name).items() for word in listed}


def pronoun_class(word: str) -> str | None:
    """Return the class ("he", "she", "they", "i", ...) of a personal, possessive or reflexive pronoun in lower case."""
    return _key_of("pronouns").get(word)


def gender_of_noun(noun: str) -> str | None:
    """Return the pronoun class of a noun for a person: "he", "she" or "either"; None for a noun that means no person."""
    return _key_of("people").get(noun)


_ABSTRACT = re.compile(r"[a-z]{3,}(?:ness|ity|ism|ship|hood)$")


@lru_cache(maxsize=1 << 14)
def is_trait(noun: str) -> bool:
    """Whether a noun is a quality that a person can have."""
    return noun in words("traits") or (bool(_ABSTRACT.match(noun)) and noun not in words("no_traits"))


class Word(NamedTuple):
    """A tagged word; a name of several words is one."""

    text: str
    tag: str
    lemma: str
    start: int = 0
    end: int = 0
    who: int = -1
    """Number of the person whose name it is; -1: no name of a person."""

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def shown(self) -> str:
        """The word as it is written in a phrase: in lower case unless it is a name."""
        return self.text if self.tag == "NP0" and self.lower not in words("origins") else self.lower


NO_WORD = Word("", "", "")


@dataclass(eq=False, slots=True)
class Chunk:
    """A few words of a sentence.

    `kind`: "np", "verb" (finite), "to", "ing", "en", "inf", "adj", "adv", "part", "not", "prep", "conj", "comma", "sub", "that", "who",
    "there", "quote" or "stop"; "" beyond the ends of the sentence.
    """

    kind: str
    words: Sequence[Word]
    head: Word
    """The noun of a noun phrase, the full verb of a verb group, the word itself otherwise."""
    determiners: Sequence[Word] = ()
    modifiers: Sequence[Word] = ()
    """Adjectives before the noun."""
    nouns: Sequence[Word] = ()
    """The noun with the nouns it is compounded of."""
    owner: Chunk | None = None
    """The noun phrase before "'s"."""
    negation: str = ""
    """ "not" or "never"."""
    modal: str = ""
    auxiliary: str = ""
    """Lemma of the last auxiliary: "be" before a participle is a passive or progressive, "have" a perfect."""
    people: People = NO_ONE
    """Whom a noun phrase means, once the sentence has been read."""
    before: Chunk = field(init=False)
    after: Chunk = field(init=False)

    @property
    def preposition(self) -> str:
        """The preposition that the chunk is, "" if it is not one."""
        return self.head.lemma if self.kind == "prep" else ""

    def determined_by(self, *lemmas: str) -> bool:
        """Whether one of these is a determiner of the noun phrase."""
        return any(word.lemma in lemmas for word in self.determiners)


NO_CHUNK = Chunk("", (), NO_WORD)
"""What is before the first chunk and after the last."""
NO_CHUNK.before = NO_CHUNK.after = NO_CHUNK

_DETERMINERS = ("AT0", "DPS", "DT0", "CRD", "ORD")
_ADJECTIVES = ("AJ0", "AJC", "AJS")
_NOUNS = ("NN1", "NN2", "NN0", "NN", "NP0", "UNC", "ZZ0")
_ADVERBS = ("AV0", "XX0")


_TAGS = {
    "verb": "VBD VBZ VBB VHD VHZ VHB VDD VDZ VDB VVD VVZ VVB VM0",
    "ing": "VVG VBG VHG VDG",
    "en": "VVN VBN VHN VDN",
    "inf": "VVI VBI VHI VDI",
    "to": "TO0",
    "adj": "AJ0 AJC AJS",
    "adv": "AV0",
    "part": "AVP",
    "not": "XX0",
    "prep": "PRP PRF",
    "conj": "CJC",
    "sub": "CJS AVQ",
    "that": "CJT",
    "who": "PNQ DTQ",
    "there": "EX0",
    "quote": "PUQ",
}
_KIND_OF = {tag: kind for kind, tags in _TAGS.items() for tag in tags.split()}
_COMMAS = (",", "\u2013", "\u2014", "-", "(", ")")


def chunks(sentence: Sequence[Word]) -> list[Chunk]:
    """Return the sentence in chunks, every word in one."""
    padded = [*sentence, NO_WORD, NO_WORD]
    found: list[Chunk] = []
    at, last = 0, NO_CHUNK
    while at < len(sentence):
        chunk = _noun_phrase(padded, at) or _verb_group(padded, at) or _single(padded, at)
        chunk.before, chunk.after = last, NO_CHUNK
        if found:
            last.after = chunk
        found.append(chunk)
        last = chunk
        at += len(chunk.words)
    return found


def _single(sentence: Sequence[Word], at: int) -> Chunk:
    word = sentence[at]
    kind = "sub" if word.lemma in words("clause_words") else "comma" if word.text in _COMMAS else _KIND_OF.get(word.tag, "stop")
    return Chunk(kind, [word], word)


def _noun_phrase(sentence: Sequence[Word], first: int) -> Chunk | None:
    if (pronoun := sentence[first]).tag in ("PNP", "PNI"):
        return Chunk("np", [pronoun], pronoun, nouns=[pronoun])
    at = _past(_DETERMINERS, sentence, first)
    determiners = sentence[first:at]
    modifiers, after = _modifiers(sentence, at, inside=bool(determiners))
    if nouns := _compound(sentence, after):
        end = after + len(nouns)
        return _owned(sentence, end, Chunk("np", sentence[first:end], nouns[-1], determiners, modifiers, nouns))
    if not determiners:
        return None
    if modifiers and determiners[-1].tag in ("AT0", "DPS"):  # "the rich"
        *others, head = modifiers
        return Chunk("np", sentence[first : sentence.index(head, first) + 1], head, determiners, others, [head])
    if determiners[-1].tag == "AT0":
        return None
    *others, head = determiners
    return Chunk("np", determiners, head, others, nouns=[head])


def _modifiers(sentence: Sequence[Word], at: int, inside: bool) -> tuple[list[Word], int]:
    """Return the adjectives from a word on, and where they end; participles and adverbs only where a noun phrase has begun."""
    found: list[Word] = []
    while True:
        word, after = sentence[at], sentence[at + 1].tag
        begun = inside or found
        if word.tag in _ADJECTIVES or (begun and word.tag in ("VVN", "VVG") and after in (*_NOUNS, *_ADJECTIVES)):
            found.append(word)
        elif not (
            (begun and word.tag == "AV0" and after in (*_ADJECTIVES, "VVN"))
            or (found and word.lemma in (",", "and", "but", "yet") and after in (*_ADJECTIVES, "AV0"))
        ):
            return found, at
        at += 1


def _compound(sentence: Sequence[Word], at: int) -> list[Word]:
    found: list[Word] = []
    for word in sentence[at:]:
        last = found[-1] if found else NO_WORD
        if (
            word.tag not in _NOUNS
            or last.who >= 0
            or last.lemma in words("time_nouns")
            or (word.who >= 0 and last.tag == "NN2")
            or (word.text.endswith("ing") and gender_of_noun(last.lemma))
        ):
            break
        found.append(word)
    return found


def _owned(sentence: Sequence[Word], end: int, phrase: Chunk) -> Chunk:
    """Return the noun phrase that ends at `end` as it goes on after "'s", or itself."""
    if sentence[end].tag != "POS":
        return phrase
    modifiers, after = _modifiers(sentence, end + 1, inside=True)
    if not (nouns := _compound(sentence, after)):
        return Chunk("np", [*phrase.words, sentence[end]], phrase.head, nouns=phrase.nouns, owner=phrase)
    stop = after + len(nouns)
    longer = Chunk("np", [*phrase.words, *sentence[end:stop]], nouns[-1], modifiers=modifiers, nouns=nouns, owner=phrase)
    return _owned(sentence, stop, longer)


def _verb_group(sentence: Sequence[Word], first: int) -> Chunk | None:
    kind = _KIND_OF.get(sentence[first].tag, "")
    if kind not in ("to", "verb", "ing", "en"):
        return None
    at = _past(_ADVERBS, sentence, first + 1) if kind == "to" else first
    if not sentence[at].tag.startswith("V"):
        return Chunk("prep", sentence[first : first + 1], sentence[first])
    negation = _negation(sentence[first:at], ())
    modal = auxiliary = ""
    while sentence[after := _past(_ADVERBS, sentence, at + 1)].tag in table("after_auxiliary").get(sentence[at].tag[:2], ()):
        auxiliary = sentence[at].lemma
        modal = auxiliary if sentence[at].tag == "VM0" else modal
        negation = _negation(sentence[at + 1 : after]) or negation
        at = after
    end = at + 1
    while follows := _negation(sentence[end : end + 1]):
        negation = follows
        end += 1
    negation = _negation(sentence[max(0, first - 2) : first][::-1], ("never", "hardly", "rarely", "seldom")) or negation
    return Chunk(kind, sentence[first:end], sentence[at], negation=negation, modal=modal, auxiliary=auxiliary)


def _past(tags: Sequence[str], sentence: Sequence[Word], at: int) -> int:
    """Return where the words with these tags end that begin at a place."""
    while sentence[at].tag in tags:
        at += 1
    return at


def _negation(among: Iterable[Word], adverbs: Sequence[str] = ("never",)) -> str:
    """Return "never" or "not" as the first negating word says, "" without one."""
    negating = (word.lemma for word in among if word.tag == "XX0" or word.lemma in adverbs)
    return next(("never" if lemma == "never" else "not" for lemma in negating), "")
