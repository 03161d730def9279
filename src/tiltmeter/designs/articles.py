"""The English article: "a" or "an"."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache


def is_acronym(word: str) -> bool:
    """Check whether a word has at least two letters, all of them capitals ("EU", "U.S.")."""
    letters = [letter for letter in word if letter.isalpha()]
    return len(letters) > 1 and all(letter.isupper() for letter in letters)


_FIRST = re.compile(r"\d+|[^\W\d_]+(?:\.[^\W\d_](?=\.))*")
_YOU = re.compile(
    r"eu|ew[aeo]|uni(?!n|mp|ma|mm|de|ll|r|ss)|unani|us[aeiu]|ut[aeio]|u[ky]|ur[aiou]|ubi|uga|uigh|ue"
    r"|on(?:e(?:$|ness|sel)|ce$)|ufo"
)
_SILENT = re.compile(r"hour|hono(?:u?r)|honest|heir")
_SPELT_AS_VOWEL = frozenset("AEFHILMNORSX")


@lru_cache(maxsize=4096)
def takes_an(word: str) -> bool | None:
    """Check whether a word takes "an" rather than "a"; None if unknown.

    "hour", "MP" and "8" take "an"; "European", "US" and "NATO" take "a".
    """
    # Accents are ignored: "Éire" is treated like "Eire".
    decomposed = unicodedata.normalize("NFD", word)
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    match = _FIRST.search(plain)
    if match is None:
        return None
    first = match.group()
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
