"""Words of texts replaced by others, as somebody would write them: whole words, the longest first, all in one pass."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple

import polars as pl

from tiltmeter.benchmarks.branching._words import FUNCTION_WORDS, is_acronym, owner, plural, takes_an, written_like

__all__ = ["replace", "whole_words"]


def replace(texts: pl.Series, table: Mapping[str, str]) -> pl.Series:
    """Each text with the words of the table replaced.

    Whole words only, hyphens and apostrophes with a clitic behind them ("he'll") taken for their ends; where several fit, the longest.
    All replacements are made at once, so that a table may swap two words. Kept or brought into agreement are:

    - case: a word in lower case is also found with a Capital and in CAPITALS, a name in CAPITALS and in lower case too; an acronym
      ("US") only as it is written. An entry in the very case of the text goes before others.
    - number: a singular noun or name also stands for its plural, unless the table has that too.
    - the article directly before ("an Argentine": "a Brazilian"; "the Brazil of today" has one "the" whatever the table says).
    - possessives ("Brazil's": "the Netherlands'").
    - composed or decomposed accents, blanks of any kind, straight or curly apostrophes.

    Parameters
    ----------
    texts
        Strings, nulls allowed.
    table
        `{old: new}`.
    """
    one = _replacer(tuple(table.items()))
    made = {text: one(text) for text in texts.drop_nulls().unique(maintain_order=True)}
    return pl.Series(texts.name, [None if text is None else made[text] for text in texts], dtype=pl.String)


def whole_words(words: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of the words (none of them empty) as a whole word, the longest first; acronyms as they are written, others in any case.

    Groups: `word`, and `owner` where a possessive follows.
    """
    groups: dict[str, list[str]] = {}
    spellings = {spelling for word in words for spelling in (word, unicodedata.normalize("NFD", word))}
    for word in sorted(spellings, key=lambda word: (-len(word), word)):
        # By first letter, so that a place where no word can begin is left after one comparison.
        first = word[0]
        either = sorted({case for case in (first, first.lower(), first.upper()) if len(case) == 1})
        head = re.escape(first) if _exact(_PIECE.findall(word)[0]) else f"[{''.join(map(re.escape, either))}]"
        groups.setdefault(head, []).append(_source(word))
    found = "|".join(f"{head}(?i:{'|'.join(rests)})" for head, rests in groups.items())
    part = rf"[\w{_marks()}]"
    inside = rf"['’](?!(?i:s|ll|d|re|ve|m)(?!{part})){part}"
    return re.compile(
        rf"(?<!{part})(?<!{part}['’])(?P<word>{found})(?!{part})(?!{inside})(?P<owner>['’][sS](?!{part})|(?<=[sS])['’](?!{part}))?"
    )


_PIECE = re.compile(r"[^\s\-]+|\s+|-")
_HYPHENS = "[-\u2010\u2011]"


def _source(word: str) -> str:
    """What matches the word behind its first letter."""
    made = []
    for number, piece in enumerate(_PIECE.findall(word)):
        rest = piece[1:] if number == 0 else piece
        if piece.isspace():
            made.append(r"\s+")
        elif piece == "-":
            made.append(_HYPHENS if rest else "")
        else:
            source = re.escape(rest).replace("'", "['’]")
            made.append(f"(?-i:{source})" if _exact(piece) else source)
    return "".join(made)


def _exact(piece: str) -> bool:
    """Whether it is an acronym or the plural of one."""
    return is_acronym(piece) or (piece.endswith("s") and is_acronym(piece[:-1]))


@cache
def _marks() -> str:
    """Combining characters, which belong to the letter before them, as the inside of a character class."""
    found = [code for code in range(0x300, 0x20000) if unicodedata.category(chr(code))[0] == "M"]
    starts = [code for code, before in zip(found, [-1, *found], strict=False) if code != before + 1]
    ends = [code for code, after in zip(found, [*found[1:], -1], strict=True) if after != code + 1]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


class _Form(NamedTuple):
    """One form of an entry."""

    old: str
    new: str
    many: bool
    """Whether it is the plural that was made of the entry."""


class _Context(NamedTuple):
    """What stands around one word that was found."""

    text: str
    loud: bool
    """Whether all of the text is in capitals."""
    before: str
    """What was made of the text so far, from the word replaced last."""
    start: int
    found: str
    """As it stands there, with plain blanks, apostrophes and hyphens, accents composed."""
    form: _Form


@lru_cache(maxsize=256)
def _replacer(table: tuple[tuple[str, str], ...]) -> _Replacer:
    return _Replacer(dict(table))


class _Replacer:
    """One table, ready to be used on one text after the other."""

    def __init__(self, table: Mapping[str, str]) -> None:
        given = [_Form(_flat(old), unicodedata.normalize("NFC", new), False) for old, new in table.items()]
        known = {form.old.casefold() for form in given}
        derived = [form for one in given if (form := _in_plural(one)) and form.old.casefold() not in known]
        self._forms: dict[str, list[_Form]] = {}
        for form in (*given, *derived):
            self._forms.setdefault(form.old.casefold(), []).append(form)
        self._known: dict[str, tuple[int, str, _Form | None]] = {}
        self._pattern = whole_words(tuple(form.old for form in (*given, *derived))) if given else None

    def __call__(self, text: str) -> str:
        pieces: list[str] = []
        end = place = 0
        loud = decomposed = False
        while self._pattern and (match := self._pattern.search(text, place)):
            spelling = match["word"]
            if (known := self._known.get(spelling)) is None:  # the same few spellings come again and again
                known = self._known[spelling] = self._longest(spelling)
            length, found, form = known
            start, place = match.start(), match.start() + length
            if form is None:
                continue
            mark = match["owner"] or "" if place == match.end("word") else ""
            if not pieces:  # once for a text
                loud, decomposed = text.isupper(), _decomposed(text)
            # The word replaced before it may be the article ("the" by "a").
            before = (pieces.pop() if pieces else "") + text[end:start]
            before, new, behind = _agreeing(_Context(text, loud, before, start, found, form), mark)
            pieces += (before, (unicodedata.normalize("NFD", new) if decomposed else new) + behind)
            end = place = place + len(mark)
        return "".join((*pieces, text[end:])) if pieces else text

    def _longest(self, spelling: str) -> tuple[int, str, _Form | None]:
        """Length, plain spelling and entry of the longest run of words that fits one; without an entry those of the first word."""
        ends = [word.end() for word in _NOT_BLANK.finditer(spelling)]
        for length in reversed(ends):
            flat = _flat(spelling[:length])
            forms = [form for form in self._forms.get(flat.casefold(), ()) if _fits(flat, form.old)]
            if forms:  # the entry in the very case of the text, or else the first in the table
                return length, flat, next((form for form in forms if form.old == flat), forms[0])
        return ends[0], spelling[: ends[0]], None


_NOT_BLANK = re.compile(r"\S+")


def _fits(found: str, old: str) -> bool:
    """A name of several words has all its capitals or none: "European unions" are not the European Union."""
    first = [one[0].isupper() for one, given in zip(found.split(), old.split(), strict=True) if given[0].isupper()]
    return len(first) < 2 or len(set(first)) == 1


def _flat(word: str) -> str:
    """With plain blanks, apostrophes and hyphens, accents composed."""
    if word.isascii() and word.isprintable() and "  " not in word:
        return word
    plain = unicodedata.normalize("NFC", word).replace("’", "'").replace("\u2010", "-").replace("\u2011", "-")
    return " ".join(plain.split())


def _decomposed(text: str) -> bool:
    return not text.isascii() and not unicodedata.is_normalized("NFC", text) and unicodedata.is_normalized("NFD", text)


def _in_plural(form: _Form) -> _Form | None:
    if not (_is_noun(form.old) and _is_noun(form.new)):
        return None
    old, new = plural(form.old), plural(form.new)
    return None if old is None or new is None or old == form.old else _Form(old, new, True)


def _is_noun(word: str) -> bool:
    """Whether it may have a plural: names do, of others the tagger says so ("new" has none, for "news" is another word)."""
    if word.casefold() in FUNCTION_WORDS:
        return False
    if any(letter.isupper() for letter in word):
        return True
    from tiltmeter.measures.grammar import tag

    # The head of "member of parliament" is looked at, as in `plural`.
    head = re.split(r"\s(?:of|in|at|for|from|de)\s", word)[0].split()[-1]
    return tag([head])[0][0] in ("NN1", "NP0")


_ARTICLE = re.compile(r"(?<![\w'’.\-])(an?)(\s+[\"“”‘'«(\[*]*)\Z", re.IGNORECASE)
_DETERMINER = re.compile(r"(?<![\w'’.\-])(?:an?|the|my|your|our|their|its|his|this)\s+[\"“‘'«(\[*]*\Z", re.IGNORECASE)
_OWN_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?:\A|[.!?…][\"”’')\]]*\s+|\n\s*)[\"“‘'«(\[*]*\Z")
_NEAR = 24
"""Characters before a word in which its article is looked for, or the end of the sentence before."""


def _agreeing(here: _Context, mark: str) -> tuple[str, str, str]:
    """What stands before the new word, the new word, and what is left of the possessive behind it."""
    old, new = here.form.old, here.form.new
    near = here.before[-_NEAR:]
    if _DETERMINER.search(near) and not _OWN_ARTICLE.match(old):
        new = _OWN_ARTICLE.sub("", new, count=1)
    before = here.before
    if (found := _ARTICLE.search(near)) and _is_article(found[1], here):
        before = before[: len(before) - len(found[0])] + _article(found[1], new, here) + found[2]
    said = written_like(here.found, old, new)
    # A name that begins a sentence may give way to a word with a small letter ("the Netherlands").
    if said[:1].islower() and here.found[:1].isupper() and _SENTENCE.search(here.text[max(0, here.start - _NEAR) : here.start]):
        said = said[:1].upper() + said[1:]
    return before, said, _possessive(here, said, mark)


_LABELLED = re.compile(
    r"\b(?:appendix|annex|block?|category|class|division|exhibit|figure|grade|group|hepatitis|influenza|level|liga|line|list|model|option|"
    r"part|plan|point|pool|row|schedule|section|series?|table|team|tier|type|unit|vitamin)\s+\Z",
    re.IGNORECASE,
)


def _is_article(word: str, here: _Context) -> bool:
    """A capital A may be a letter: "Group A Argentina plays"."""
    if word != "A":
        return True
    ahead = re.sub(r"A\s+\W*\Z", "", here.text[max(0, here.start - 2 * _NEAR) : here.start])
    return _LABELLED.search(ahead) is None


def _article(found: str, new: str, here: _Context) -> str:
    """The article for the new word, in the case of the one found; as found where both words take the same or nothing is known."""
    wants = takes_an(new)
    if wants is None or wants == takes_an(here.form.old):
        return found
    if not wants:
        return found[0]
    if found == "A":
        loud = here.loud or (is_acronym(here.found) and not is_acronym(here.form.old))
        return "AN" if loud else "An"
    return "an"


def _possessive(here: _Context, said: str, mark: str) -> str:
    in_s = here.found.lower().endswith("s")
    if not mark or in_s == said.lower().endswith("s"):
        return mark
    if in_s:  # "the Argentines'": "the Welshmen's"
        if len(mark) > 1 or _closes_quotation(here, mark):
            return mark
        return mark + ("S" if here.found.isupper() else "s")
    behind = owner(here.form.new, mark[0], many=here.form.many)
    return mark if len(behind) > 1 else behind


def _closes_quotation(here: _Context, mark: str) -> bool:
    """Whether an apostrophe behind -s ends what an earlier single quotation mark opened."""
    ahead = here.text[max(0, here.start - 400) : here.start]
    opened = list(re.finditer(rf"(?<!\w){'‘' if mark == '’' else mark}(?=\w|\Z)", ahead))
    return bool(opened) and not re.search(rf"(?<=[\w.,!?]){mark}(?!\w)", ahead[opened[-1].end() :])
