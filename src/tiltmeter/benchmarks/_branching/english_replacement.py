"""Replacement of words in English texts, with grammatical agreement.

Whole words are replaced, longest first, in a single pass. The second half of the module has the necessary
rules of English: plurals, possessives, "a" or "an", and capitalisation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import NamedTuple

from polars import Series, String

from tiltmeter.designs.articles import is_acronym, takes_an


class _Form(NamedTuple):
    """One form of an entry of the table."""

    old: str
    new: str
    is_plural: bool
    """Whether it is the plural derived from the entry."""


class _Replacement(NamedTuple):
    """A match in a text, with its replacement and its context."""

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
    in_capitals: bool
    """Whether the entire text is in capitals."""


def replace(texts: Series, table: Mapping[str, str]) -> Series:
    """Replace the words of a table in each text.

    Whole words are replaced; a word ends at a hyphen or at an apostrophe with a clitic ("he'll"). If several
    entries match, the longest is used. All replacements are made at once, so that a table can swap two words.
    The following are kept or adapted:

    - case: entries in lower case also match capitalised words and words in capitals; names also match in
      capitals and in lower case; acronyms ("US") match as written only. An entry with the same case as the
      text takes precedence.
    - number: a singular noun or name also replaces its plural, unless the table has an entry for it.
    - the article directly before the word ("an Argentine": "a Brazilian"); articles are not doubled ("the
      Brazil of today").
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
    distinct = texts.drop_nulls().unique(maintain_order=True)
    new_texts = {text: _replaced(text, pattern, forms) for text in distinct}
    return Series(texts.name, [None if text is None else new_texts[text] for text in texts], dtype=String)


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
    alternatives = [f"(?=(?i:{letter}))(?:{'|'.join(sources)})" for letter, sources in by_letter.items()]
    any_word = "|".join(alternatives)
    part = rf"[\w{combining_marks()}]"
    inside = rf"['’](?!(?i:s|ll|d|re|ve|m)(?!{part})){part}"
    return re.compile(
        rf"(?=(?i:{'|'.join(by_letter)}))(?<!{part})(?<!{part}['’])"
        rf"(?P<word>{any_word})(?!{part})(?!{inside})"
        rf"(?P<owner>['’][sS](?!{part})|(?<=[sS])['’](?!{part}))?"
    )


@cache
def combining_marks() -> str:
    r"""Return all combining marks, which `\w` does not match, as the content of a character class."""
    marks = [code for code in range(0x300, 0x20000) if unicodedata.category(chr(code))[0] == "M"]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def _sources(word: str) -> list[str]:
    """Return regular expressions for a word.

    A name of several words has two, one with its capitals and one without.
    """
    pieces = _PIECE.findall(word)
    is_name_of_several = sum(piece[0].isupper() for piece in word.split()) > 1
    spellings = (True, False) if is_name_of_several else (None,)
    return ["".join(_piece_source(piece, as_written) for piece in pieces) for as_written in spellings]


def _piece_source(piece: str, as_written: bool | None) -> str:
    """Return a regular expression for a piece of a word.

    `as_written` decides if an initial capital must match (None: any case).
    """
    if piece.isspace():
        return r"\s+"
    if piece == "-":
        return "[-\u2010\u2011]"
    first = _escaped(piece[0])
    after_first = _escaped(piece[1:])
    if is_acronym(piece.removesuffix("s")):  # including plurals of acronyms
        return first + after_first
    if as_written is None or not piece[0].isupper():
        first = f"(?i:{first})"
    elif not as_written:
        first = first.lower()
    return f"{first}(?i:{after_first})"


def _escaped(text: str) -> str:
    """Return a regular expression for a text with straight or curly apostrophes."""
    return re.escape(text).replace("'", "['’]")


@lru_cache(maxsize=256)
def _compiled(table: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], dict[str, list[_Form]]]:
    """Compile the pattern for the words of a table; return it with the forms by casefolded word."""
    entries = [_Form(_flat(old), unicodedata.normalize("NFC", new), is_plural=False) for old, new in table]
    words = {entry.old.casefold() for entry in entries}
    plurals = [form for entry in entries if (form := _in_plural(entry)) and form.old.casefold() not in words]
    all_forms = [*entries, *plurals]
    forms: dict[str, list[_Form]] = {}
    for form in all_forms:
        forms.setdefault(form.old.casefold(), []).append(form)
    return whole_words([form.old for form in all_forms]), forms


def _replaced(text: str, pattern: re.Pattern[str], forms: Mapping[str, list[_Form]]) -> str:
    """Return a text with all replacements."""
    in_capitals = text.isupper()
    decomposed = not unicodedata.is_normalized("NFC", text) and unicodedata.is_normalized("NFD", text)
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        start = match.start()
        word = _flat(match["word"])
        entries = forms.get(word.casefold())
        if not entries:
            continue
        # The entry with the same case as the text, or else the first in the table.
        form = next((entry for entry in entries if entry.old == word), entries[0])
        # The previous replacement may be the article ("the" by "a").
        before = (pieces.pop() if pieces else "") + text[end:start]
        replacement = _Replacement(
            form=form,
            new=_without_doubled_article(form, before),
            word=word,
            mark=match["owner"] or "",
            ahead=text[max(0, start - _FAR) : start],
            before=before,
            in_capitals=in_capitals,
        )
        new = _cased(replacement)
        written = unicodedata.normalize("NFD", new) if decomposed else new
        pieces += (_with_article(replacement), written + _possessive(replacement, new))
        end = match.end()
    return "".join((*pieces, text[end:]))


def _without_doubled_article(form: _Form, before: str) -> str:
    """Return the new word, without its article if the text before it ends with a determiner."""
    adds_article = _OWN_ARTICLE.match(form.new) and not _OWN_ARTICLE.match(form.old)
    if adds_article and _DETERMINER.search(before[-_NEAR:]):
        return _OWN_ARTICLE.sub("", form.new, count=1)
    return form.new


def _flat(word: str) -> str:
    """Normalise a word to plain spaces, apostrophes and hyphens, with accents composed."""
    if word.isascii() and word.isprintable() and "  " not in word:
        return word
    return " ".join(unicodedata.normalize("NFC", word).translate(_CURLY).split())


def _in_plural(form: _Form) -> _Form | None:
    """Return the plural of an entry; None if it has none or equals its plural."""
    if not (_is_noun(form.old) and _is_noun(form.new)):
        return None
    old = plural(form.old)
    new = plural(form.new)
    if old is None or new is None or old == form.old:
        return None
    return _Form(old, new, is_plural=True)


def _is_noun(word: str) -> bool:
    """Check whether a word can have a plural.

    These are names and words that the tagger classifies as nouns ("news" is no plural of "new").
    """
    if word.casefold() in FUNCTION_WORDS:
        return False
    if any(letter.isupper() for letter in word):
        return True
    from tiltmeter.readers._grammar import tag

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
    r"\b(?:appendix|annex|block?|category|class|division|exhibit|figure|grade|group|hepatitis|influenza|level"
    r"|liga|line|list|model|option|part|plan|point|pool|row|schedule|section|series?|table|team|tier|type"
    r"|unit|vitamin)\s+A\s+\W*\Z",
    re.IGNORECASE,
)
_NEAR = 24
"""Characters before a word that are searched for an article or the end of a sentence."""
_FAR = 400
"""Characters before a word that are searched for an opening quotation mark."""


def _cased(replacement: _Replacement) -> str:
    """Return the new word with the case of the matched word."""
    word = written_like(replacement.word, replacement.form.old, replacement.new)
    # At the beginning of a sentence, a replacement in lower case is capitalised ("the Netherlands").
    lost_capital = word[:1].islower() and replacement.word[:1].isupper()
    if lost_capital and _SENTENCE.search(replacement.ahead[-_NEAR:]):
        return _capitalised(word)
    return word


def _with_article(replacement: _Replacement) -> str:
    """Return the text before the word, with the article that the new word takes."""
    before = replacement.before
    match = _ARTICLE.search(before[-_NEAR:])
    if match is None:
        return before
    # A capital A may be a letter: "Group A Argentina plays".
    if match[1] == "A" and _LABELLED.search(replacement.ahead[-2 * _NEAR :]):
        return before
    needs_an = takes_an(replacement.new)
    if needs_an is None or needs_an == takes_an(replacement.form.old):
        return before
    article = match[1][0]
    if needs_an:
        only_in_text = is_acronym(replacement.word) and not is_acronym(replacement.form.old)
        in_capitals = replacement.in_capitals or only_in_text
        article += "N" if in_capitals and match[1] == "A" else "n"
    return before.removesuffix(match[0]) + article + match[2]


def _possessive(replacement: _Replacement, new: str) -> str:
    """Return the possessive ending of the new word."""
    mark = replacement.mark
    form = replacement.form
    was_in_s = replacement.word.lower().endswith("s")
    is_in_s = new.lower().endswith("s")
    if not mark or was_in_s == is_in_s:
        return mark
    if is_in_s:
        # "the Netherlands'", but "Paris's": words that look like a singular take 's, except derived plurals.
        return mark if _SINGULAR.search(form.new) and not form.is_plural else mark[0]
    # "the Argentines'": "the Welshmen's", unless the apostrophe is a closing quotation mark.
    if len(mark) > 1 or _is_in_quotation(replacement.ahead, mark):
        return mark
    return mark + ("S" if replacement.word.isupper() else "s")


def _is_in_quotation(ahead: str, mark: str) -> bool:
    """Return whether a quotation that an apostrophe may close is open at the end of a text."""
    opening_mark = "‘" if mark == "’" else mark
    openings = list(re.finditer(rf"(?<!\w){opening_mark}(?=\w|\Z)", ahead))
    if not openings:
        return False
    quoted = ahead[openings[-1].end() :]
    return re.search(rf"(?<=[\w.,!?]){mark}(?!\w)", quoted) is None


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PARTICLES = _set(
    "a an the this that these those who whom whose which what and or but nor so yet if than as of in on "
    "at by to for from with without into over under about after before between against during through is "
    "are was were be been being am has have had do does did will would can could may might must shall "
    "should not no such quite rather one some any all both each every"
)
"""Function words other than pronouns: articles, prepositions, conjunctions, auxiliaries, ..."""
FUNCTION_WORDS = PARTICLES | _set(
    "my your his her hers its our their i me mine myself you yours he him himself she herself it itself we "
    "us ours they them theirs"
)
"""All function words, including pronouns; they have no plural and are not capitalised in titles."""

_IRREGULAR = {
    "child": "children", "person": "people", "foot": "feet", "tooth": "teeth", "goose": "geese",
    "mouse": "mice", "louse": "lice", "ox": "oxen", "wife": "wives", "knife": "knives", "life": "lives",
    "leaf": "leaves", "wolf": "wolves", "thief": "thieves", "half": "halves", "self": "selves",
    "shelf": "shelves", "loaf": "loaves", "calf": "calves", "elf": "elves", "quiz": "quizzes",
    "phenomenon": "phenomena", "criterion": "criteria", "alumnus": "alumni", "tory": "tories",
    "gypsy": "gypsies",
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
    """Return the plural of a singular noun or name.

    Examples are "man": "men", and "member of parliament": "members of parliament". Returns the word itself if
    both forms are the same ("Chinese") or if it looks like a plural already ("Netherlands"), and None if it
    has no plural (numbers, words in other alphabets).
    """
    complement = _HEAD.search(word)
    tail = complement.group() if complement else ""
    head = word.removesuffix(tail)
    last = re.split(r"[\s-]", head)[-1]
    if not last or "LATIN" not in unicodedata.name(last[-1], ""):
        return None
    return head.removesuffix(last) + _plural_of_word(last) + tail


def _plural_of_word(word: str) -> str:
    """Return the plural of a single word."""
    low = word.lower()
    if is_acronym(word):
        return word + "s"
    if low in _SAME or (word[0].isupper() and _INVARIANT_NAME.search(low)):
        return word
    irregular = _IRREGULAR.get(low)
    if irregular is not None:
        return irregular.capitalize() if word[0].isupper() else irregular
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
    hisses = _HISSING.search(low) and not _ARCHS.search(low)
    return word + ("es" if hisses or low in _OES else "s")


_WORD = re.compile(r"[^\W_](?:[^\W_]|(?<=\w)['’](?=\w))*")
_SMALL = FUNCTION_WORDS - {"i"}


def written_like(word: str, old: str, new: str) -> str:
    """Return `new` with the case that `word` has relative to `old`.

    That is unchanged, ALL CAPS, lower case, Capital first or Title Case. Acronyms in `new` are kept. If the
    case follows no pattern, `new` is returned unchanged.
    """
    if word == old:
        return new
    if word == word.upper() and sum(letter.isalpha() for letter in word) > 1:
        return new.upper()
    if word == word.lower():
        return _WORD.sub(lambda match: match[0] if is_acronym(match[0]) else match[0].lower(), new)
    capital = _capitalised(new)
    if word[1:] == old[1:]:  # they differ in the case of the first letter only
        if word[:1].isupper():
            return capital
        begins_with_function_word = new.split()[0].casefold() in FUNCTION_WORDS
        return new[:1].lower() + new[1:] if begins_with_function_word else new
    if all(part[0].isupper() for part in _WORD.findall(word) if part.lower() not in _SMALL):
        title = _WORD.sub(lambda match: match[0] if match[0] in _SMALL else _capitalised(match[0]), capital)
        return capital[:1] + title[1:]
    return new


def _capitalised(text: str) -> str:
    """Return the text with a capital first letter and no other change."""
    return text[:1].upper() + text[1:]
