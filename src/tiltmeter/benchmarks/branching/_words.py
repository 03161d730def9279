"""Small rules of English: plurals, possessives, "a" or "an", and writing a word as another one is written."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["FUNCTION_WORDS", "PARTICLES", "is_acronym", "owner", "plural", "takes_an", "written_like"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PARTICLES = _set(
    "a an the this that these those who whom whose which what and or but nor so yet if than as of in on at by to for from with without "
    "into over under about after before between against during through is are was were be been being am has have had do does did will "
    "would can could may might must shall should not no such quite rather one some any all both each every"
)
"""Words of closed classes that belong to nobody: articles, prepositions, conjunctions, auxiliaries, ..."""
FUNCTION_WORDS = PARTICLES | _set(
    "my your his her hers its our their i me mine myself you yours he him himself she herself it itself we us ours they them theirs"
)
"""The same with the pronouns; none of them has a plural, and in a title they stay small."""

_IRREGULAR = {
    "child": "children", "person": "people", "foot": "feet", "tooth": "teeth", "goose": "geese", "mouse": "mice", "louse": "lice",
    "ox": "oxen", "wife": "wives", "knife": "knives", "life": "lives", "leaf": "leaves", "wolf": "wolves", "thief": "thieves",
    "half": "halves", "self": "selves", "shelf": "shelves", "loaf": "loaves", "calf": "calves", "elf": "elves", "quiz": "quizzes",
    "phenomenon": "phenomena", "criterion": "criteria", "alumnus": "alumni", "tory": "tories", "gypsy": "gypsies",
}  # fmt: skip
_IN_COMPOUNDS = ("child", "person", "wife")
"""Irregular words that others end in: "grandchild", "salesperson", "midwife"."""
_SAME = _set("sheep deer fish series species aircraft police people cattle bison news sioux maori inuit roma")
_MANS = _set("german roman norman ottoman human shaman talisman caiman brahman turkoman oman")
_ARCHS = re.compile(r"(?:(?:mon|patri|matri|olig|hier|tetr)arch|stomach|czech|eunuch|epoch|tech|loch)$")
_OES = _set("hero potato tomato echo veto torpedo embargo mosquito buffalo")
_HEAD = re.compile(r"(?<=\w)(?:\s+(?:of|in|at|for|from|de)\s|-in-|-of-).*$", re.IGNORECASE)
_INVARIANT_NAME = re.compile(r"(?:ese|ish|dutch|french|welsh|swiss|scots)$")
_SINGULAR_S = re.compile(r"(?:ss|us|is)$")


@lru_cache(maxsize=4096)
def plural(word: str) -> str | None:
    """The plural of a singular noun or name ("man": "men", "member of parliament": "members of parliament").

    The word itself where both are the same ("Chinese"), or where it looks like a plural already ("Netherlands"); None where it has
    none (words of closed classes, numbers, words of other alphabets).
    """
    tail = found.group() if (found := _HEAD.search(word)) else ""
    head = word[: len(word) - len(tail)]
    last = re.split(r"[\s-]", head)[-1]
    if not last or "LATIN" not in unicodedata.name(last[-1], "") or word.casefold() in FUNCTION_WORDS:
        return None
    return head[: len(head) - len(last)] + _plural(last) + tail


def _plural(word: str) -> str:
    low = word.lower()
    if is_acronym(word):
        return word + "s"
    if low in _SAME or (word[0].isupper() and _INVARIANT_NAME.search(low)):
        return word
    if (many := _IRREGULAR.get(low)) is not None:
        return many.capitalize() if word[0].isupper() else many
    for ending in _IN_COMPOUNDS:
        if low.endswith(ending):
            return word[: -len(ending)] + _IRREGULAR[ending]
    if low.endswith("man") and low not in _MANS:
        return word[:-2] + "en"
    if low.endswith("s") and not (word.islower() and _SINGULAR_S.search(low)):
        return word
    if low.endswith("is") and len(low) > 4:
        return word[:-2] + "es"
    if re.search(r"(?:s|x|z|sh|ch)$", low) and not _ARCHS.search(low):
        return word + "es"
    if word.islower() and re.search(r"[^aeiou]y$", low):
        return word[:-1] + "ies"
    return word + ("es" if low in _OES else "s")


def is_acronym(word: str) -> bool:
    """Two letters or more, capitals throughout ("EU", "U.S.")."""
    letters = [letter for letter in word if letter.isalpha()]
    return len(letters) > 1 and all(letter.isupper() for letter in letters)


_SINGULAR = re.compile(r"(?:ss|as|os|us|is)$", re.IGNORECASE)


def owner(word: str, mark: str, *, many: bool) -> str:
    """What stands behind an owner: "'s", or the mark alone after a plural in -s ("the Netherlands'", "Brazilians'").

    Parameters
    ----------
    mark
        The apostrophe of the text.
    many
        Whether the word is known to be a plural; others in -s look like one unless they end in -as, -os, -us, -is or -ss.
    """
    alone = word.lower().endswith("s") and (many or not _SINGULAR.search(word))
    return mark if alone else f"{mark}s"


_FIRST = re.compile(r"\d+|[^\W\d_]+(?:\.[^\W\d_](?=\.))*")
_YOU = re.compile(
    r"eu|ew[aeo]|uni(?!n|mp|ma|mm|de|ll|r|ss)|unani|us[aeiu]|ut[aeio]|u[ky]|ur[aiou]|ubi|uga|uigh|ue|on(?:e(?:$|ness|sel)|ce$)|ufo"
)
_SILENT = re.compile(r"hour|hono(?:u?r)|honest|heir")
_SPELT_AS_VOWEL = frozenset("AEFHILMNORSX")


@lru_cache(maxsize=4096)
def takes_an(word: str) -> bool | None:
    """Whether the article before it is "an" ("hour", "MP", "8") rather than "a" ("European", "US", "NATO"); None where nothing is known."""
    if not (found := _FIRST.search(_plain(word))):
        return None
    first = found.group()
    if first[0].isdigit():
        return first[0] == "8" or first in ("11", "18")
    if not first.isascii():
        return None
    letters = first.replace(".", "")
    low = letters.lower()
    if letters.isupper() and len(letters) > 1:
        if "." in first or len(letters) <= 3 or not set(low) & set("aeiouy"):
            return letters[0] in _SPELT_AS_VOWEL
        if letters[0] == "U":
            return False
    elif len(letters) == 1:
        return letters.upper() in _SPELT_AS_VOWEL
    if _YOU.match(low):
        return False
    return bool(_SILENT.match(low)) or low[0] in "aeiou" or (low[0] == "y" and low[1] not in "aeiou")


def _plain(word: str) -> str:
    """Without accents: "Éire" sounds like "Eire"."""
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))


_WORD = re.compile(r"[^\W_](?:[^\W_]|(?<=\w)['’](?=\w))*")
_SMALL = FUNCTION_WORDS - {"i"}


def written_like(found: str, old: str, new: str) -> str:
    """`new` with the case that `found` has of `old`: as it is, ALL CAPS, lower, Capital first or Title Case.

    A word of `new` that is an acronym stays one. Where the case follows no pattern, `new` stays as it is.
    """
    if found == old:
        return new
    letters = [letter for letter in found if letter.isalpha()]
    if len(letters) > 1 and found == found.upper():
        return new.upper()
    if found == found.lower():
        return _WORD.sub(lambda word: word[0] if is_acronym(word[0]) else word[0].lower(), new)
    if found[1:] == old[1:]:  # they differ in the first letter alone, which is a capital in one of them
        if found[:1].isupper():
            return _capital(new)
        return new[:1].lower() + new[1:] if new.split()[0].casefold() in FUNCTION_WORDS else new
    words = [word for word in _WORD.findall(found) if word.lower() not in _SMALL]
    if all(word[0].isupper() for word in words):
        first = _capital(new)
        return first[:1] + _WORD.sub(lambda word: word[0] if word[0] in _SMALL else _capital(word[0]), first)[1:]
    return new


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
