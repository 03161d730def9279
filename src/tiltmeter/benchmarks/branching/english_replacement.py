"""Replacement of words in English texts: whole words, longest first, in a single pass, with grammatical agreement.

The second half of the module has the necessary rules of English: plurals, possessives, "a" or "an", and
capitalisation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import NamedTuple

from polars import Series, String


class _Form(NamedTuple):
    """One form of an entry of the table."""

    old: str
    new: str
    many: bool
    """Whether it is the plural derived from the entry."""


class _Found(NamedTuple):
    """A match in a text, with its context."""

    form: _Form
    new: str
    """The replacement, without its own article if there is a determiner before the match."""
    word: str
    """The matched word, with plain spaces, apostrophes and hyphens, accents composed."""
    mark: str
    """The possessive ending after the word: an apostrophe, an apostrophe with s, or nothing."""
    ahead: str
    """The original text before the word."""
    before: str
    """The new text before the word, from the previous replacement on."""
    loud: bool
    """Whether the whole text is in capitals."""


def replace(texts: Series, table: Mapping[str, str]) -> Series:
    """Replace the words of a table in each text.

    Whole words are replaced; a word ends at a hyphen or at an apostrophe with a clitic ("he'll"). If several
    entries match, the longest is used. All replacements are made at once, so that a table can swap two words.
    The following are kept or adapted:

    - case: entries in lower case also match capitalised words and words in capitals; names also match in capitals and in lower case;
      acronyms ("US") match as written only. An entry with the same case as the text takes precedence.
    - number: a singular noun or name also replaces its plural, unless the table has an entry for it.
    - the article directly before the word ("an Argentine": "a Brazilian"); articles are not doubled ("the Brazil of today").
    - possessives ("Brazil's": "the Netherlands'").
    - composed or decomposed accents, spaces of any kind, straight or curly apostrophes.

    Parameters
    ----------
    texts
        Strings, with or without nulls.
    table
        `{old: new}`.

    Returns
    -------
    The new texts, in order.
    """
    pattern, forms = _compiled(tuple(table.items()))
    made = {text: _replaced(text, pattern, forms) for text in texts.drop_nulls().unique(maintain_order=True)}
    return Series(texts.name, [None if text is None else made[text] for text in texts], dtype=String)


_PIECE = re.compile(r"[^\s\-]+|\s+|-")
_CURLY = str.maketrans("’\u2010\u2011", "'--")


def whole_words(words: Sequence[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of the (non-empty) words as a whole word, longest first.

    Acronyms match as written, other words in any case. A name of several words matches with all its capitals
    or with none: "European unions" is not the European Union. Groups: `word`, and `owner` if a possessive
    follows.
    """
    spellings = {spelling for word in words for spelling in (word, unicodedata.normalize("NFD", word))}
    # Grouped by first letter, so that most positions are rejected after few comparisons.
    by_letter: dict[str, list[str]] = {}
    for word in sorted(spellings, key=lambda word: (-len(word), word)):
        by_letter.setdefault(re.escape(word[0].lower()), []).extend(_sources(word))
    found = "|".join(f"(?=(?i:{letter}))(?:{'|'.join(sources)})" for letter, sources in by_letter.items())
    part = rf"[\w{combining_marks()}]"
    inside = rf"['’](?!(?i:s|ll|d|re|ve|m)(?!{part})){part}"
    return re.compile(
        rf"(?=(?i:{'|'.join(by_letter)}))(?<!{part})(?<!{part}['’])(?P<word>{found})(?!{part})(?!{inside})"
        rf"(?P<owner>['’][sS](?!{part})|(?<=[sS])['’](?!{part}))?"
    )


@cache
def combining_marks() -> str:
    r"""Return all combining marks, which `\w` does not match, as the content of a character class."""
    marks = [code for code in range(0x300, 0x20000) if unicodedata.category(chr(code))[0] == "M"]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def _sources(word: str) -> list[str]:
    """Return regular expressions for a word: one, or, for a name of several words, one with its capitals and one without."""
    pieces = _PIECE.findall(word)
    several = sum(piece[0].isupper() for piece in word.split()) > 1
    return [
        "".join(_piece_source(piece, as_written) for piece in pieces)
        for as_written in ((True, False) if several else (None,))
    ]


def _piece_source(piece: str, as_written: bool | None) -> str:
    """Return a regular expression for a piece of a word.

    `as_written` decides if an initial capital must match (None: any case).
    """
    if piece.isspace():
        return r"\s+"
    if piece == "-":
        return "[-\u2010\u2011]"
    first, rest = (re.escape(part).replace("'", "['’]") for part in (piece[0], piece[1:]))
    if is_acronym(piece.removesuffix("s")):  # including plurals of acronyms
        return first + rest
    if as_written is None or not piece[0].isupper():
        first = f"(?i:{first})"
    elif not as_written:
        first = first.lower()
    return f"{first}(?i:{rest})"


@lru_cache(maxsize=256)
def _compiled(table: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], dict[str, list[_Form]]]:
    """Compile the pattern for the words of a table, and return the forms of its entries by casefolded word."""
    given = [_Form(_flat(old), unicodedata.normalize("NFC", new), False) for old, new in table]
    known = {form.old.casefold() for form in given}
    derived = [form for one in given if (form := _in_plural(one)) and form.old.casefold() not in known]
    forms: dict[str, list[_Form]] = {}
    for form in (*given, *derived):
        forms.setdefault(form.old.casefold(), []).append(form)
    return whole_words([form.old for form in (*given, *derived)]), forms


def _replaced(text: str, pattern: re.Pattern[str], forms: Mapping[str, list[_Form]]) -> str:
    loud = text.isupper()
    decomposed = not unicodedata.is_normalized("NFC", text) and unicodedata.is_normalized("NFD", text)
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        word, start = _flat(match["word"]), match.start()
        if not (entries := forms.get(word.casefold())):
            continue
        # The entry with the same case as the text, or else the first in the table.
        form = next((one for one in entries if one.old == word), entries[0])
        # The previous replacement may be the article ("the" by "a").
        before = (pieces.pop() if pieces else "") + text[end:start]
        doubled = (
            _OWN_ARTICLE.match(form.new)
            and _DETERMINER.search(before[-_NEAR:])
            and not _OWN_ARTICLE.match(form.old)
        )
        replacement = _OWN_ARTICLE.sub("", form.new, count=1) if doubled else form.new
        here = _Found(
            form, replacement, word, match["owner"] or "", text[max(0, start - _FAR) : start], before, loud
        )
        new = _cased(here)
        made = unicodedata.normalize("NFD", new) if decomposed else new
        pieces += (_with_article(here), made + _possessive(here, new))
        end = match.end()
    return "".join((*pieces, text[end:]))


def _flat(word: str) -> str:
    """Normalise a word to plain spaces, apostrophes and hyphens, with accents composed."""
    if word.isascii() and word.isprintable() and "  " not in word:
        return word
    return " ".join(unicodedata.normalize("NFC", word).translate(_CURLY).split())


def _in_plural(form: _Form) -> _Form | None:
    if not (_is_noun(form.old) and _is_noun(form.new)):
        return None
    old, new = plural(form.old), plural(form.new)
    return None if old is None or new is None or old == form.old else _Form(old, new, True)


def _is_noun(word: str) -> bool:
    """Check whether a word can have a plural: names, and words that the tagger classifies as nouns ("news" is no plural of "new")."""
    if word.casefold() in FUNCTION_WORDS:
        return False
    if any(letter.isupper() for letter in word):
        return True
    from tiltmeter.readers.grammar import tag

    # For "member of parliament", the head noun is tagged, as in `plural`.
    head = re.split(r"\s(?:of|in|at|for|from|de)\s", word)[0].split()[-1]
    return tag([head])[0] in ("NN1", "NP0")


_OPENING = r"[\"“‘'«(\[*]*"
_ARTICLE = re.compile(r"(?<![\w'’.\-])(an?)(\s+[\"“”‘'«(\[*]*)\Z", re.IGNORECASE)
_DETERMINER = re.compile(
    rf"(?<![\w'’.\-])(?:an?|the|my|your|our|their|its|his|this)\s+{_OPENING}\Z", re.IGNORECASE
)
_OWN_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)", re.IGNORECASE)
_SENTENCE = re.compile(rf"(?:\A|[.!?…][\"”’')\]]*\s+|\n\s*){_OPENING}\Z")
_LABELLED = re.compile(
    r"\b(?:appendix|annex|block?|category|class|division|exhibit|figure|grade|group|hepatitis|influenza|level|liga|line|list|model|option|"
    r"part|plan|point|pool|row|schedule|section|series?|table|team|tier|type|unit|vitamin)\s+A\s+\W*\Z",
    re.IGNORECASE,
)
_NEAR, _FAR = 24, 400
"""Characters before a word that are searched for an article or the end of a sentence, and for an opening
quotation mark."""


def _cased(here: _Found) -> str:
    made = written_like(here.word, here.form.old, here.new)
    # At the beginning of a sentence, a replacement in lower case is capitalised ("the Netherlands").
    begins = made[:1].islower() and here.word[:1].isupper() and _SENTENCE.search(here.ahead[-_NEAR:])
    return _capitalised(made) if begins else made


def _with_article(here: _Found) -> str:
    """Return the text before the word with the article adapted to the new word, if it takes a different one."""
    found = _ARTICLE.search(here.before[-_NEAR:])
    # A capital A may be a letter: "Group A Argentina plays".
    if not found or (found[1] == "A" and _LABELLED.search(here.ahead[-2 * _NEAR :])):
        return here.before
    wants = takes_an(here.new)
    if wants is None or wants == takes_an(here.form.old):
        return here.before
    article = found[1][0]
    if wants:
        loud = here.loud or (is_acronym(here.word) and not is_acronym(here.form.old))
        article += "N" if loud and found[1] == "A" else "n"
    return here.before.removesuffix(found[0]) + article + found[2]


def _possessive(here: _Found, new: str) -> str:
    """Return the possessive ending of the new word."""
    mark, was_in_s, is_in_s = here.mark, here.word.lower().endswith("s"), new.lower().endswith("s")
    if not mark or was_in_s == is_in_s:
        return mark
    if is_in_s:  # "the Netherlands'", but "Paris's": words that look like a singular take 's, unless they are known to be plurals
        return mark if _SINGULAR.search(here.form.new) and not here.form.many else mark[0]
    # "the Argentines'": "the Welshmen's", unless the apostrophe is a closing quotation mark.
    if len(mark) > 1 or _is_in_quotation(here.ahead, mark):
        return mark
    return mark + ("S" if here.word.isupper() else "s")


def _is_in_quotation(ahead: str, mark: str) -> bool:
    opened = list(re.finditer(rf"(?<!\w){'‘' if mark == '’' else mark}(?=\w|\Z)", ahead))
    return bool(opened) and not re.search(rf"(?<=[\w.,!?]){mark}(?!\w)", ahead[opened[-1].end() :])


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PARTICLES = _set(
    "a an the this that these those who whom whose which what and or but nor so yet if than as of in on at by to for from with without "
    "into over under about after before between against during through is are was were be been being am has have had do does did will "
    "would can could may might must shall should not no such quite rather one some any all both each every"
)
"""Function words other than pronouns: articles, prepositions, conjunctions, auxiliaries, ..."""
FUNCTION_WORDS = PARTICLES | _set(
    "my your his her hers its our their i me mine myself you yours he him himself she herself it itself we us ours they them theirs"
)
"""All function words, including pronouns; they have no plural and are not capitalised in titles."""

_IRREGULAR = {
    "child": "children", "person": "people", "foot": "feet", "tooth": "teeth", "goose": "geese", "mouse": "mice", "louse": "lice",
    "ox": "oxen", "wife": "wives", "knife": "knives", "life": "lives", "leaf": "leaves", "wolf": "wolves", "thief": "thieves",
    "half": "halves", "self": "selves", "shelf": "shelves", "loaf": "loaves", "calf": "calves", "elf": "elves", "quiz": "quizzes",
    "phenomenon": "phenomena", "criterion": "criteria", "alumnus": "alumni", "tory": "tories", "gypsy": "gypsies",
}  # fmt: skip
_SAME = _set("sheep deer fish series species aircraft police people cattle bison news sioux maori inuit roma")
_MANS = _set("german roman norman ottoman human shaman talisman caiman brahman turkoman oman")
_OES = _set("hero potato tomato echo veto torpedo embargo mosquito buffalo")
_ENDING_LIKE_IRREGULAR = re.compile(r"(?:child|person|wife)$")
"""Irregular words that are also the last part of compounds: "grandchild", "salesperson", "midwife"."""
_HISSING = re.compile(r"(?:s|x|z|sh|ch)$")
_ARCHS = re.compile(r"(?:(?:mon|patri|matri|olig|hier|tetr)arch|stomach|czech|eunuch|epoch|tech|loch)$")
_HEAD = re.compile(r"(?<=\w)(?:\s+(?:of|in|at|for|from|de)\s|-in-|-of-).*$", re.IGNORECASE)
_INVARIANT_NAME = re.compile(r"(?:ese|ish|dutch|french|welsh|swiss|scots)$")
_SINGULAR_S = re.compile(r"(?:ss|us|is)$")
_SINGULAR = re.compile(r"(?:ss|as|os|us|is)$", re.IGNORECASE)
"""Endings of words in -s that do not look like plurals and therefore take 's in the possessive."""


@lru_cache(maxsize=4096)
def plural(word: str) -> str | None:
    """Return the plural of a singular noun or name ("man": "men", "member of parliament": "members of parliament").

    Returns the word itself if both forms are the same ("Chinese") or if it looks like a plural already
    ("Netherlands"), and None if it has no plural (numbers, words in other alphabets).
    """
    tail = found.group() if (found := _HEAD.search(word)) else ""
    head = word.removesuffix(tail)
    last = re.split(r"[\s-]", head)[-1]
    if not last or "LATIN" not in unicodedata.name(last[-1], ""):
        return None
    return head.removesuffix(last) + _plural_of_one(last) + tail


def _plural_of_one(word: str) -> str:
    low = word.lower()
    if is_acronym(word):
        return word + "s"
    if low in _SAME or (word[0].isupper() and _INVARIANT_NAME.search(low)):
        return word
    if (many := _IRREGULAR.get(low)) is not None:
        return many.capitalize() if word[0].isupper() else many
    if ending := _ENDING_LIKE_IRREGULAR.search(low):
        return word[: ending.start()] + _IRREGULAR[ending[0]]
    if low.endswith("man") and low not in _MANS:
        return word[:-2] + "en"
    if low.endswith("s") and not (word.islower() and _SINGULAR_S.search(low)):
        return word
    if low.endswith("is") and len(low) > 4:
        return word[:-2] + "es"
    if word.islower() and re.search(r"[^aeiou]y$", low):
        return word[:-1] + "ies"
    return word + ("es" if low in _OES or (_HISSING.search(low) and not _ARCHS.search(low)) else "s")


def is_acronym(word: str) -> bool:
    """Check whether a word has at least two letters, all of them capitals ("EU", "U.S.")."""
    letters = [letter for letter in word if letter.isalpha()]
    return len(letters) > 1 and all(letter.isupper() for letter in letters)


_FIRST = re.compile(r"\d+|[^\W\d_]+(?:\.[^\W\d_](?=\.))*")
_YOU = re.compile(
    r"eu|ew[aeo]|uni(?!n|mp|ma|mm|de|ll|r|ss)|unani|us[aeiu]|ut[aeio]|u[ky]|ur[aiou]|ubi|uga|uigh|ue|on(?:e(?:$|ness|sel)|ce$)|ufo"
)
_SILENT = re.compile(r"hour|hono(?:u?r)|honest|heir")
_SPELT_AS_VOWEL = frozenset("AEFHILMNORSX")


@lru_cache(maxsize=4096)
def takes_an(word: str) -> bool | None:
    """Check whether a word takes "an" ("hour", "MP", "8") rather than "a" ("European", "US", "NATO"); None if unknown."""
    # Accents are ignored: "Éire" is treated like "Eire".
    plain = "".join(
        letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter)
    )
    if not (found := _FIRST.search(plain)):
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


_WORD = re.compile(r"[^\W_](?:[^\W_]|(?<=\w)['’](?=\w))*")
_SMALL = FUNCTION_WORDS - {"i"}


def written_like(found: str, old: str, new: str) -> str:
    """Return `new` with the case that `found` has relative to `old`: unchanged, ALL CAPS, lower case, Capital first or Title Case.

    Acronyms in `new` are kept. If the case follows no pattern, `new` is returned unchanged.
    """
    if found == old:
        return new
    if found == found.upper() and sum(letter.isalpha() for letter in found) > 1:
        return new.upper()
    if found == found.lower():
        return _WORD.sub(lambda word: word[0] if is_acronym(word[0]) else word[0].lower(), new)
    capital = _capitalised(new)
    if found[1:] == old[1:]:  # they differ in the case of the first letter only
        if found[:1].isupper():
            return capital
        return new[:1].lower() + new[1:] if new.split()[0].casefold() in FUNCTION_WORDS else new
    if all(word[0].isupper() for word in _WORD.findall(found) if word.lower() not in _SMALL):
        return (
            capital[:1]
            + _WORD.sub(lambda word: word[0] if word[0] in _SMALL else _capitalised(word[0]), capital)[1:]
        )
    return new


def _capitalised(text: str) -> str:
    """Return the text with a capital first letter and no other change."""
    return text[:1].upper() + text[1:]
