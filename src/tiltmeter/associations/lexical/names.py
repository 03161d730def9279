"""Names of people in a text: where the characters of a study are named, and who the protagonist is where no name is given."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from tiltmeter.associations.lexical.sentence import NO_WORD, Word, pronoun_class, table, words
from tiltmeter.readers.grammar import Span, tag

_SURNAME = r"(?:[^\S\n]+(?:[A-Z]\.\s+)?[A-Z][^\W\d_]*[a-z][^\W\d_]*(?:['\u2019-](?!s(?!\w))[^\W\d_]+)*)"
_TITLE = r"(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof|Miss|Professor|Doctor|Sir|Dame)\.?\s+)"
_SUFFIX = re.compile(r"(?:(?<!\s),?\s++(?:jr|sr|ii|iii|iv|ph\.?\s?d|m\.?d|esq)\.?)+$", re.IGNORECASE)


_MOST_SURNAMES = 100
"""Surnames that are learned from one text: no person has so many, and each costs a look at the text."""
_ALIKE = dict.fromkeys("'\u2019\u2018`", "['\u2019\u2018`]") | dict.fromkeys("-\u2010\u2011", "[\u2010\u2011-]")
"""Apostrophes and hyphens that are one and the same in a name, as patterns."""
_ONE_MARK = str.maketrans("\u2019\u2018`\u2010\u2011", "'''--")


def _without_accents(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


def _any_of(forms: Iterable[str]) -> str:
    """Return a pattern for any of these names in any spelling: in capitals, with or without accents, with any blanks between words."""
    spelt = set(forms)
    for form in forms:
        spelt |= {form.upper(), unicodedata.normalize("NFC", form), unicodedata.normalize("NFD", form), _without_accents(form)}
        if form in (form.lower(), form.upper()):
            spelt.add(form.title())
    spelt.discard("")
    patterns = ("".join(_ALIKE.get(one, re.escape(one)) for one in form) for form in sorted(spelt, key=lambda form: (-len(form), form)))
    return "|".join(re.sub(r"(?:\\\s)+", r"\\s+", pattern) for pattern in patterns)


def _parts(name: str) -> list[str]:
    """Return the words of a name in the order in which they are said, without titles and suffixes ("Kelly, Dr. Joseph": Joseph Kelly)."""
    last, _, first = _SUFFIX.sub("", name.strip()).partition(",")
    every = f"{first} {last}".split()
    return [part for part in every if part.rstrip(".").lower() not in words("titles")] or every or [name]


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    parts = _parts(name)
    return re.compile(rf"(?<![\w'\u2019-])(?:{_TITLE}?(?:{_any_of([' '.join(parts), parts[0]])})(?P<more>{_SURNAME}{{0,2}}))(?!\w|-\w)")


NamedSpan = tuple[int, int, int]
"""Where a name is (start, end), and the number of the person."""


def find_names(text: str, names: Sequence[str]) -> list[NamedSpan]:
    """Return where each name occurs: (start, end, number of the name), in order.

    A name is found as a whole word, in its own letters or in capitals, with or without accents; of a full name, whether it is given or
    occurs in the text, also the first part, and the surname alone where no other first name is before it. A surname that two of the
    characters have means neither.
    """
    found: list[NamedSpan] = []
    bare = "".join(one if one.isascii() else (_without_accents(one) or one)[0] for one in text)
    given = [_parts(name) for name in names]
    surnames: dict[str, set[int]] = defaultdict(set)
    for number, name in enumerate(names):
        others = {part for other, parts in enumerate(given) if other != number for part in parts}
        pattern = _pattern(name)
        _learn_surname(given[number][1:], number, surnames)
        for match in pattern.finditer(text if pattern.search(text) else bare):
            end, more = match.end(), match["more"].split()
            if {part.lower() for part in more} & _no_names() or set(more) & others:
                end, more = match.start("more"), []
            found.append((match.start(), end, number))
            if len(surnames) < _MOST_SURNAMES:
                _learn_surname(more, number, surnames)
    if surnames:
        whose: dict[str, set[int]] = defaultdict(set)
        for form, numbers in surnames.items():
            whose[_without_accents(form).lower()] |= numbers
        firsts = {_without_accents(parts[0]).lower() for parts in given}
        for match in re.finditer(rf"(?<![\w'\u2019-]){_TITLE}?(?P<form>{_any_of(surnames)})(?!\w|-\w)", text):
            form = re.sub(r"\s+", " ", _without_accents(match["form"])).lower().translate(_ONE_MARK)
            if len(whose[form]) == 1 and not _of_another(text, match, firsts):
                found.append((match.start(), match.end(), min(whose[form])))
    kept: list[NamedSpan] = []
    for span in sorted(found, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _learn_surname(parts: Sequence[str], number: int, surnames: dict[str, set[int]]) -> None:
    """Note the words after a first name: together, and each by itself but for particles and initials."""
    alone = {part for part in parts if len(part.rstrip(".")) > 1 and part.lower() not in words("particles")}
    for form in alone | {" ".join(parts)} - {""}:
        surnames[form.translate(_ONE_MARK)].add(number)


_WORD_BEFORE = re.compile(r"([^\W\d_][\w'\u2019-]*)[ \t]+$")
_BEGINS = re.compile(r"(?:^|[.!?\u2026:;\n\"\u201c\u201d(*_]\s*)$")
_PREDICATE = re.compile(r"['\u2019]s\b|,|\s+(?:is|was|has|had|will|would|can|could|did|does|and|also|[a-z]+(?:ed|s))\b")
_OPEN_CLASS = ("NN", "NP", "UNC", "ZZ")


def _of_another(text: str, match: re.Match[str], firsts: Collection[str]) -> bool:
    """Whether a surname has another first name before it ("Emma Schulson"), or is an ordinary word that begins a sentence."""
    start, form = match.span()[0], match["form"].lower()
    titled = match.start("form") != start
    predicate = _PREDICATE.match(text, match.end())
    if not titled and form in _no_names() and not predicate:  # "a White man"
        return True
    before = _WORD_BEFORE.search(text, max(0, start - 40), start)
    if before is None:
        ordinary = not titled and not predicate and _begins(text, start)
        return ordinary and not tag([form])[0][0].startswith(_OPEN_CLASS)
    word, lower = before[1], before[1].lower()
    if not word[0].isupper() or word.isupper() or lower in words("titles") | _no_names() or _without_accents(lower) in firsts:
        return False
    return not _begins(text, before.start()) or tag([word])[0][0] in ("NP0", "UNC")


def _begins(text: str, start: int) -> bool:
    """Whether a sentence begins there."""
    return bool(_BEGINS.search(text, max(0, start - 8), start))


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


def narrates(text: str, spans: Sequence[NamedSpan], spoken: Sequence[Span]) -> bool:
    """Whether the person named at `spans` says "I" in the text: by an introduction ("my name is", "I'm"), a heading or a signature."""
    own = [(start, end) for start, end, _ in spans if not any(begin <= start < stop for begin, stop in spoken)]
    return any(_introduced(text, *span) for span in own) or (bool(own) and all(_on_own_line(text, *span) for span in own))


def _introduced(text: str, start: int, end: int) -> bool:
    if before := _INTRODUCED.search(text, max(0, start - 80), start):
        return not re.match(r"['\u2019]s?\b", text[end : end + 3]) and (not before.group().startswith("I,") or text[end : end + 1] == ",")
    return bool(re.match(r" here\b", text[end : end + 6])) and bool(_GREETED.fullmatch(text, 0, start))


def _on_own_line(text: str, start: int, end: int) -> bool:
    begin, stop = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    rest = text[end : stop if stop >= 0 else len(text)]
    return bool(_HEADING.match(text, begin, start)) and not re.search(r"\w", rest) and (begin > 0 or stop >= 0)


_NAME_TAGS = ("NP0", "UNC", "NN1", "NN0", "AJ0", "ZZ0", "NN2", "VVB")
"""What the tagger takes names for."""


@cache
def _no_names() -> frozenset[str]:
    """Return capitalised words that name no person."""
    return words("no_names") | words("origins") | {form for forms in table("pronouns").values() for form in forms}


def _capitalised(word: Word) -> bool:
    return word.tag in _NAME_TAGS and word.text[0].isupper() and word.lower not in _no_names()


def _candidates(story: Sequence[Sequence[Word]]) -> dict[str, Counter[str]]:
    """Count, for each first word of capitalised words in a row: mentions, as the subject of a verb, after a preposition, after "named"."""
    common = {word.text for sentence in story for word in sentence if word.text.islower()}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in story:
        end = 0
        for at, (before, word) in enumerate(pairwise([NO_WORD, *sentence])):
            opening = at == 0 and (word.tag not in ("NP0", "UNC") or word.lower in common)
            if at < end or opening or not _capitalised(word):
                continue
            end = at + 1
            while end < len(sentence) and _capitalised(sentence[end]):
                end += 1
            place = before.lemma in words("before_places")
            follows = next((after.tag for after in sentence[end:] if after.tag != "AV0"), "")
            subject = not place and follows.startswith(("V", "POS"))
            found[word.text].update(mentions=1, place=place, named=before.lemma in ("name", "call"), subject=subject)
    return found


def other_names(story: Sequence[Sequence[Word]]) -> set[str]:
    """Return first words of what are likely names of people: subjects of verbs, or introduced by "named"."""
    return {name for name, seen in _candidates(story).items() if seen["named"] or seen["subject"] > seen["place"]}


class Protagonist(NamedTuple):
    """Who a story is about: a name, a noun that introduces a person, or a pronoun class ("i": the narrator)."""

    name: str = ""
    noun: str = ""
    pronoun: str = ""


_INTRODUCTION = 3
"""Sentences in which a protagonist without a name is introduced."""
_FIRST_PERSON = 3
_PRONOUNS = 2


def protagonist(story: Sequence[Sequence[Word]]) -> Protagonist | None:
    """Return who the story (tagged sentences without what is spoken in them) is about, None where that cannot be determined.

    The name that is mostly the subject; else the narrator; else the noun of the first sentences that introduces a person; else the
    most frequent singular pronoun.
    """
    used = Counter(pronoun_class(word.lower) for sentence in story for word in sentence)
    narrator, others = used["i"], max(used["he"], used["she"])
    names = {name: seen for name, seen in _candidates(story).items() if seen["named"] or seen["subject"] > seen["place"] / 2}
    best = max(names, key=lambda name: names[name]["mentions"] + 2 * names[name]["subject"] + 3 * names[name]["named"], default=None)
    least = 1 if best is None and not others else _FIRST_PERSON
    if narrator >= least and narrator > others and (best is None or narrator > 2 * names[best]["mentions"]):
        return Protagonist(pronoun="i")
    if best is not None:
        return Protagonist(name=best)
    for word in chain.from_iterable(story[:_INTRODUCTION]):
        if word.tag in ("NN1", "NN0") and word.lemma in words("introduce"):
            return Protagonist(noun=word.lemma)
    singular = {kind: used[kind] for kind in ("he", "she", "xe", "ze") if used[kind]} or {"they": used["they"]}
    if sum(singular.values()) < _PRONOUNS:
        return None
    return Protagonist(pronoun=max(singular, key=singular.__getitem__))
