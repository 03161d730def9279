"""Names of people in a text: where the characters of a study are named, and who the protagonist is where nobody said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from tiltmeter.associations.lexical._lexicon import pronouns, words
from tiltmeter.measures.grammar import Token

__all__ = ["Protagonist", "find_names", "other_names", "protagonist"]

Tagged = tuple[Token, str, str]
"""A token, its tag and its lemma."""

_SURNAME = r"(?:\s+(?:[A-Z]\.\s+)?[A-Z][^\W\d_]*[a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*)"
_TITLE = r"(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof)\.?\s+)"


def _plain(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def _spelt(text: str) -> tuple[str, ...]:
    return text.upper(), unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text), _plain(text)


_ALIKE = ("'\u2019\u2018`", "-\u2010\u2011")
"""Apostrophes and hyphens that are one and the same in a name."""


def _pattern(text: str) -> str:
    """The text with any blanks, and any apostrophe or hyphen where it has one."""
    letters = (
        next((f"[{same[::-1]}]" if same[0] == "-" else f"[{same}]" for same in _ALIKE if one in same), re.escape(one)) for one in text
    )
    return re.sub(r"(?:\\\s)+", r"\\s+", "".join(letters))


@lru_cache(maxsize=4096)
def _named(name: str) -> re.Pattern[str]:
    parts = [part for part in name.split() if part.rstrip(".").lower() not in words("titles")] or name.split()
    forms = {" ".join(parts), parts[0]}
    forms |= {form for text in list(forms) for form in _spelt(text)}
    first = "|".join(_pattern(form) for form in sorted(forms, key=lambda form: (-len(form), form)) if form)
    surname = f"|{_TITLE}{_pattern(parts[-1])}" if len(parts) > 1 else ""
    return re.compile(rf"(?<![\w'\u2019-])(?:{_TITLE}?(?:{first})(?P<more>{_SURNAME}{{0,2}}){surname})(?!\w|-\w)")


def find_names(text: str, names: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where each name stands: (start, end, number of the name), in order.

    A name is found as a whole word, in its own letters or in capitals, with or without accents; of a full name also the first part
    and, with a title, the last. A surname that follows in the text belongs to it, and means the same person after a title.
    """
    found: list[tuple[int, int, int]] = []
    surnames: dict[str, int] = {}
    bare = text if text.isascii() else "".join(one if one.isascii() else (_plain(one) or one)[0] for one in text)
    for number, name in enumerate(names):
        others = {part for other in names if other != name for part in other.split()}
        pattern = _named(name)
        for match in pattern.finditer(text if pattern.search(text) else bare):
            end = match.end()
            more = match.group("more") or ""
            if {part.lower() for part in more.split()} & _no_names() or set(more.split()) & others:
                end = match.start("more")
            found.append((match.start(), end, number))
            surnames |= dict.fromkeys(text[match.start() : end].split()[1:], number)
    for surname, number in surnames.items():
        found += [(*match.span(), number) for match in re.finditer(rf"\b{_TITLE}{re.escape(surname)}(?!\w)", text)]
    found.sort()
    return [span for i, span in enumerate(found) if i == 0 or span[0] >= found[i - 1][1]]


_NAME_TAGS = ("NP0", "UNC", "NN1", "NN0", "AJ0", "ZZ0", "NN2", "VVB")
"""What the tagger takes names for."""


@cache
def _no_names() -> frozenset[str]:
    return words("no_names") | words("origins") | pronouns().keys()


class _Candidate(NamedTuple):
    mentions: int
    subject: int
    place: int
    named: int
    first: int

    def weight(self) -> tuple[int, int]:
        """The higher, the likelier the protagonist; the one met first where two weigh the same."""
        return self.mentions + 2 * self.subject + 3 * self.named, -self.first


_PLACES = ("in", "at", "from", "to", "of", "near", "through", "across", "around", "into", "the", "on", "by", "for", "as")


def _capitalised(tagged: Tagged) -> bool:
    token, tag, _ = tagged
    return tag in _NAME_TAGS and token.text[0].isupper() and token.text.lower() not in _no_names()


def _candidates(story: Sequence[Sequence[Tagged]]) -> dict[str, _Candidate]:
    """First words of capitalised runs, with how often each is the subject of a verb, follows a preposition, follows "named"."""
    lower = {token.text for sentence in story for token, _, _ in sentence if token.text.islower()}
    found: dict[str, _Candidate] = {}
    order = 0
    for sentence in story:
        i = 0
        while i < len(sentence):
            order += 1
            token, tag, _ = sentence[i]
            usable = _capitalised(sentence[i]) and (tag in ("NP0", "UNC") or i > 0)
            if not usable or (i == 0 and token.text.lower() in lower):
                i += 1
                continue
            end = i + 1
            while end < len(sentence) and _capitalised(sentence[end]):
                end += 1
            found[token.text] = _counted(found.get(token.text, _Candidate(0, 0, 0, 0, order)), sentence, i, end)
            i = end
    return found


def _counted(so_far: _Candidate, sentence: Sequence[Tagged], start: int, end: int) -> _Candidate:
    before = sentence[start - 1][2] if start else ""
    after = end
    while after < len(sentence) and sentence[after][1] == "AV0":
        after += 1
    follows = sentence[after][1] if after < len(sentence) else ""
    return so_far._replace(
        mentions=so_far.mentions + 1,
        subject=so_far.subject + (before not in _PLACES and (follows == "POS" or follows[:2] in ("VV", "VB", "VH", "VD", "VM"))),
        place=so_far.place + (before in _PLACES),
        named=so_far.named + (before in ("name", "call")),
    )


class Protagonist(NamedTuple):
    """Who a story is about where nobody said: a name, a noun that introduces somebody, "i" for the narrator, or a pronoun class."""

    name: str | None = None
    noun: str | None = None
    pronoun: str | None = None


_INTRODUCTION = 3
"""Sentences in which a protagonist without a name is introduced."""
_FIRST_PERSON = 3
_PRONOUNS = 2


def other_names(story: Sequence[Sequence[Tagged]]) -> set[str]:
    """First words of what are likely names of people: subjects of verbs, or introduced by "named"."""
    return {name for name, seen in _candidates(story).items() if seen.named or seen.subject > seen.place}


def protagonist(story: Sequence[Sequence[Tagged]]) -> Protagonist | None:
    """Who the story (tagged sentences without what is spoken in them) is about, None where that cannot be told.

    The name that is mostly the subject; else the narrator; else the noun of the first sentences that introduces a person; else the
    most frequent singular pronoun.
    """
    used = [pronouns().get(token.text.lower()) for sentence in story for token, _, _ in sentence]
    narrator, others = used.count("i"), max(used.count("he"), used.count("she"))
    names = {name: seen for name, seen in _candidates(story).items() if seen.named or seen.subject > seen.place / 2}
    best = max(names, key=lambda name: names[name].weight(), default=None)
    if narrator >= _FIRST_PERSON and narrator > others and (best is None or narrator > 2 * names[best].mentions):
        return Protagonist(pronoun="i")
    if best is not None:
        return Protagonist(name=best)
    for sentence in story[:_INTRODUCTION]:
        for _, tag, lemma in sentence:
            if tag in ("NN1", "NN0") and lemma in words("introduce"):
                return Protagonist(noun=lemma)
    singular = [kind for kind in used if kind in ("he", "she", "ze", "xe")] or [kind for kind in used if kind == "they"]
    if len(singular) < _PRONOUNS:
        return None
    return Protagonist(pronoun=max(sorted(set(singular)), key=singular.count))
