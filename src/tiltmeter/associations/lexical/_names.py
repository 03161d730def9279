"""Names of people in a text: where the characters of a study are named, and who the protagonist is where nobody said."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from tiltmeter.associations.lexical._lexicon import pronouns, words
from tiltmeter.measures.grammar import Token
from tiltmeter.measures.grammar import tag as tags_of

__all__ = ["Protagonist", "find_names", "narrates", "other_names", "protagonist"]

Tagged = tuple[Token, str, str]
"""A token, its tag and its lemma."""

_SURNAME = r"(?:[^\S\n]+(?:[A-Z]\.\s+)?[A-Z][^\W\d_]*[a-z][^\W\d_]*(?:['\u2019-](?!s(?!\w))[^\W\d_]+)*)"
_TITLE = r"(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof|Miss|Professor|Doctor|Sir|Dame)\.?\s+)"
_SUFFIX = re.compile(r"(?:,?\s+(?:jr|sr|ii|iii|iv|ph\.?\s?d|m\.?d|esq)\.?)+$", re.IGNORECASE)


def _plain(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def _spelt(text: str) -> tuple[str, ...]:
    one_case = (text.title(),) if text in (text.lower(), text.upper()) else ()
    return text.upper(), unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text), _plain(text), *one_case


def _parts(name: str) -> list[str]:
    """The words of a name in the order in which they are said, without titles and suffixes ("Kelly, Dr. Joseph" is Joseph Kelly)."""
    last, _, first = _SUFFIX.sub("", name.strip()).partition(",")
    every = f"{first} {last}".split()
    return [part for part in every if part.rstrip(".").lower() not in words("titles")] or every


_MOST_SURNAMES = 100
"""Surnames that are learned from one text; nobody has so many, and each costs a look at the text."""
_ALIKE = ("'\u2019\u2018`", "-\u2010\u2011")
"""Apostrophes and hyphens that are one and the same in a name."""


def _pattern(text: str) -> str:
    """The text with any blanks, and any apostrophe or hyphen where it has one."""
    letters = (
        next((f"[{same[::-1]}]" if same[0] == "-" else f"[{same}]" for same in _ALIKE if one in same), re.escape(one)) for one in text
    )
    return re.sub(r"(?:\\\s)+", r"\\s+", "".join(letters))


def _any_of(forms: Iterable[str]) -> str:
    spelt = {one for form in forms for one in (form, *_spelt(form))}
    return "|".join(_pattern(form) for form in sorted(spelt, key=lambda form: (-len(form), form)) if form)


@lru_cache(maxsize=4096)
def _named(name: str) -> re.Pattern[str]:
    parts = _parts(name)
    return re.compile(rf"(?<![\w'\u2019-])(?:{_TITLE}?(?:{_any_of((' '.join(parts), parts[0]))})(?P<more>{_SURNAME}{{0,2}}))(?!\w|-\w)")


def find_names(text: str, names: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where each name stands: (start, end, number of the name), in order.

    A name is found as a whole word, in its own letters or in capitals, with or without accents; of a full name, whether it is given or
    stands in the text, also the first part, and the surname alone where no other first name stands before it. A surname that two of the
    characters have means neither.
    """
    found: list[tuple[int, int, int]] = []
    bare = text if text.isascii() else "".join(one if one.isascii() else (_plain(one) or one)[0] for one in text)
    given = [set(_parts(name)) for name in names]
    surnames: dict[str, set[int]] = defaultdict(set)
    for number, name in enumerate(names):
        others = set().union(*given[:number], *given[number + 1 :])
        pattern = _named(name)
        _learn_surname(_parts(name)[1:], number, surnames)
        for match in pattern.finditer(text if pattern.search(text) else bare):
            end = match.end()
            more = (match.group("more") or "").split()
            if {part.lower() for part in more} & _no_names() or set(more) & others:
                end, more = match.start("more"), []
            found.append((match.start(), end, number))
            if len(surnames) < _MOST_SURNAMES:
                _learn_surname(more, number, surnames)
    whose: dict[str, set[int]] = defaultdict(set)
    for form, numbers in surnames.items():
        whose[_plain(form).lower()] |= numbers
    firsts = {_plain(parts).lower() for name in names for parts in _parts(name)[:1]}
    if surnames:
        for match in re.finditer(rf"(?<![\w'\u2019-]){_TITLE}?(?P<form>{_any_of(surnames)})(?!\w|-\w)", text):
            numbers = whose[re.sub(r"\s+", " ", _plain(match["form"])).lower().translate(_ONE_MARK)]
            if len(numbers) == 1 and not _of_another(text, match, firsts):
                found.append((match.start(), match.end(), next(iter(numbers))))
    found.sort(key=lambda span: (span[0], -span[1]))
    kept: list[tuple[int, int, int]] = []
    for span in found:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


_ONE_MARK = str.maketrans(dict.fromkeys(_ALIKE[0], "'") | dict.fromkeys(_ALIKE[1], "-"))


def _learn_surname(parts: Sequence[str], number: int, surnames: dict[str, set[int]]) -> None:
    """The words after a first name: together, and each by itself but for particles and initials."""
    alone = [part for part in parts if len(part.rstrip(".")) > 1 and part.lower() not in words("particles")] or parts
    for form in ({" ".join(parts)} if parts else set()) | set(alone):
        surnames[form.translate(_ONE_MARK)].add(number)


_WORD_BEFORE = re.compile(r"([^\W\d_][\w'\u2019-]*)[ \t]+$")
_BEGINS = re.compile(r"(?:^|[.!?\u2026:;\n\"\u201c\u201d(*_]\s*)$")
_PREDICATE = re.compile(r"['\u2019]s\b|,|\s+(?:is|was|has|had|will|would|can|could|did|does|and|also|[a-z]+(?:ed|s))\b")
_OPEN_CLASS = ("NN", "NP", "UNC", "ZZ")


def _of_another(text: str, match: re.Match[str], firsts: Collection[str]) -> bool:
    """Whether a surname is said of somebody with another first name ("Emma Schulson"), or is an ordinary word that begins a sentence."""
    start, titled = match.start(), match.start("form") != match.start()
    if not titled and match["form"].lower() in _no_names() and not _PREDICATE.match(text, match.end()):  # "a White man"
        return True
    before = _WORD_BEFORE.search(text, max(0, start - 40), start)
    if before is None:
        if titled or not _BEGINS.search(text, max(0, start - 8), start) or _PREDICATE.match(text, match.end()):
            return False
        return not tags_of([match["form"].lower()])[0][0].startswith(_OPEN_CLASS)
    word = before[1]
    if (
        not word[0].isupper()
        or word.lower() in words("titles")
        or word.lower() in _no_names()
        or _plain(word).lower() in firsts
        or word.isupper()
    ):
        return False
    begins = _BEGINS.search(text, max(0, before.start() - 8), before.start())
    return not begins or tags_of([word])[0][0] in ("NP0", "UNC")


_INTRODUCED = re.compile(
    r"(?:\b(?:my (?:\w+ )?|the )name(?:['\u2019]s|,? (?:is|was))(?: \w+,)?|\bI(?:['\u2019]m| am| was)(?: (?:called|named|known as|born))?"
    r"|\bI(?:['\u2019]m| am) an? (?:[\w'\u2019-]+,? ){1,8}(?:named|called)|\bI,|\bI go by|\bI answer to"
    r"|\b(?:call|calls|called|named|christened|know|knows) me(?: as)?|\bknown to (?:\w+ ){1,4}as)"
    r"(?: (?-i:[A-Z][a-z]+)\.?)?\s*[\"\u201c\u2018'*_]*$",
    re.IGNORECASE,
)
_GREETED = re.compile(r"\W*(?:(?:hi|hello|hey)\b\W*)?$", re.IGNORECASE)
_HEADING = re.compile(
    r"[\W_]*(?:(?:full |first )?name\s*:|by|biography of|bio of|bio|about|profile of|profile|meet)?[\W_]*$", re.IGNORECASE
)


def narrates(text: str, spans: Sequence[tuple[int, int, int]], spoken: Sequence[tuple[int, int]]) -> bool:
    """Whether whoever is named at `spans` says "I" in the text: by an introduction ("my name is", "I'm"), a heading or a signature."""
    own = [(start, end) for start, end, _ in spans if not any(begin <= start < stop for begin, stop in spoken)]
    introduced = (_introduced(text, start, end) for start, end in own)
    return any(introduced) or (bool(own) and all(_apart(text, start, end) for start, end in own))


def _introduced(text: str, start: int, end: int) -> bool:
    before = _INTRODUCED.search(text, max(0, start - 80), start)
    if before is not None:
        return not re.match(r"['\u2019]s?\b", text[end : end + 3]) and (not before.group().startswith("I,") or text[end : end + 1] == ",")
    return bool(re.match(r" here\b", text[end : end + 6])) and bool(_GREETED.fullmatch(text, 0, start))


def _apart(text: str, start: int, end: int) -> bool:
    """Whether a name stands on a line by itself."""
    begin, stop = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    rest = text[end : stop if stop >= 0 else len(text)]
    return bool(_HEADING.match(text, begin, start)) and not re.search(r"\w", rest) and (begin > 0 or stop >= 0)


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
    alone = best is None and not others
    if narrator >= (1 if alone else _FIRST_PERSON) and narrator > others and (best is None or narrator > 2 * names[best].mentions):
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
