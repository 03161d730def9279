"""Forms of English words in slots: pronouns by case, and verbs that agree with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

Pronoun: TypeAlias = Literal["she", "he", "they"]
Case: TypeAlias = Literal[
    "subject", "object", "determiner", "possessive", "reflexive", "is", "has", "will", "would"
]

PRONOUNS: Final[Mapping[Case, Mapping[Pronoun, tuple[str, ...]]]] = {
    "subject": {"she": ("she",), "he": ("he",), "they": ("they",)},
    "object": {"she": ("her",), "he": ("him",), "they": ("them",)},
    "determiner": {"she": ("her",), "he": ("his",), "they": ("their",)},
    "possessive": {"she": ("hers",), "he": ("his",), "they": ("theirs",)},
    "reflexive": {"she": ("herself",), "he": ("himself",), "they": ("themselves", "themself")},
    "is": {"she": ("she's",), "he": ("he's",), "they": ("they're",)},
    "has": {"she": ("she's",), "he": ("he's",), "they": ("they've",)},
    "will": {"she": ("she'll",), "he": ("he'll",), "they": ("they'll",)},
    "would": {"she": ("she'd",), "he": ("he'd",), "they": ("they'd",)},
}
"""The forms of each pronoun by case; the first is used where a slot has none for a pronoun. "is" to "would"
are subjects with a contracted verb."""
SUBJECTS: Final = ("subject", "is", "has", "will", "would")
"""Cases of a subject."""

_PLURALS: Final = {
    "is": "are",
    "has": "have",
    "was": "were",
    "does": "do",
    "goes": "go",
    "isn't": "aren't",
    "hasn't": "haven't",
    "wasn't": "weren't",
    "doesn't": "don't",
    "aches": "ache",
    "biases": "bias",
    "caches": "cache",
    "canvasses": "canvass",
    "focuses": "focus",
    "quizzes": "quiz",
    "waltzes": "waltz",
}
"""Plural forms of contractions and of verbs that do not follow the rule."""
_CLITICS: Final = {("'s", "'re"), ("'s", "'ve")}
_ES: Final = re.compile(r"(?:ss|zz|x|sh|ch|o)es$")
"""Endings with "es" after the plural; "chooses" has only "s" after it."""


def case_of(words: Sequence[str]) -> tuple[Case, dict[Pronoun, int]] | None:
    """Return the case of the pronouns in a slot, and the position of the form of each pronoun.

    None if they are not forms of one case of different pronouns.

    Parameters
    ----------
    words
        Forms in lower case, with straight apostrophes.

    Examples
    --------
    >>> case_of(["her", "him", "them"])
    ('object', {'she': 0, 'he': 1, 'they': 2})
    >>> case_of(["his", "him"]) is None
    True
    """
    for case, forms in PRONOUNS.items():
        positions: dict[Pronoun, int] = {}
        for pronoun, words_of_pronoun in forms.items():
            for position, word in enumerate(words):
                if word in words_of_pronoun:
                    positions[pronoun] = position
        if len(set(positions.values())) == len(words) == len(positions) and len(words) > 1:
            return case, positions
    return None


def is_pronoun(word: str) -> bool:
    """Return whether a word in lower case is a form of she, he or they."""
    return any(word in words for forms in PRONOUNS.values() for words in forms.values())


def plural_verb(verb: str) -> str | None:
    """Return the form of a verb that follows "they", from the form that follows "she"; None if it has none.

    Examples
    --------
    >>> plural_verb("carries"), plural_verb("watches"), plural_verb("has been")
    ('carry', 'watch', 'have been')
    """
    first, blank, complement = verb.partition(" ")
    if first in _PLURALS:
        plural = _PLURALS[first]
    elif not first.endswith("s") or first.endswith("ss") or len(first) < 3:
        return None
    elif first.endswith("ies"):
        plural = f"{first[:-3]}y" if len(first) > 4 else first[:-1]
    elif _ES.search(first):
        plural = first[:-2]
    else:
        plural = first[:-1]
    return f"{plural}{blank}{complement}"


def is_agreement(singular: str, plural: str) -> bool:
    """Return whether two forms are those of one verb after "she" and after "they".

    Examples
    --------
    >>> is_agreement("works", "work"), is_agreement("is", "are"), is_agreement("cat", "dogs")
    (True, True, False)
    """
    if (singular, plural) in _CLITICS:
        return True
    if plural_verb(singular) == plural:
        return True
    first, _, complement = singular.partition(" ")
    plural_first, _, plural_complement = plural.partition(" ")
    if first in _PLURALS or complement != plural_complement or len(plural_first) < 2:
        return False
    return first in (f"{plural_first}s", f"{plural_first}es")
