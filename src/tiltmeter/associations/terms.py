"""Words that keep phrases apart: demographic terms, cues of negation, opposites and numbers; our lists, or a user's.

What may never be one concept is a concept and its opposite, and concepts about different demographic terms or numbers. Two guards see to
it. The *key* of a phrase holds whether it is negated by a word ("avoids", "not"), which demographic terms it holds and which numbers
("40-year-old", "forties", "third"); phrases with different keys are never even compared. Negation inside a word ("impatient",
"careless") cannot be seen from the word alone ("important" negates nothing), so it is looked for between phrases: each has signed *roots*,
and two phrases with the same root of opposite sign are kept out of one cluster, also where a third phrase would bring them together.

The published definitions keep to the guards they were first given here (`strict` false): no numbers, and the short list of opposites.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from tiltmeter.records import Record, read_record

if TYPE_CHECKING:
    from tiltmeter.arrays import Integers

_PLAIN = (("[’‘`´]", "'"), (r"n't\b", " not"), (r"[-‐‑–—/_\s]+", " "))


def plain_words(text: Expr) -> Expr:
    """Lower-case words: hyphens, slashes and underscores separate words, and a contracted negation is spelt out."""
    text = text.str.normalize("NFKC").str.to_lowercase()
    for pattern, instead in _PLAIN:
        text = text.str.replace_all(pattern, instead)
    return text.str.strip_chars()


def plain_words_of(text: str) -> str:
    """`plain_words` of one text."""
    text = unicodedata.normalize("NFKC", text).lower()
    for pattern, instead in _PLAIN:
        text = re.sub(pattern, instead, text)
    return text.strip()


def _forms_of(entry: str) -> list[str]:
    """What commas separate, in plain words."""
    return list(dict.fromkeys(plain_words_of(form) for form in entry.split(",") if form.strip()))


def _opposed(entries: Any) -> Any:
    """Every word of one side with every word of another; "|" separates sides (or commas, where each has one word)."""
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        return entries
    pairs: dict[tuple[str, str], None] = {}
    for entry in entries:
        sides = [_forms_of(side) for side in entry.split("|" if "|" in entry else ",")]
        if len(sides) < 2 or not all(sides):
            raise ValueError(f'{entry!r} has not two sides; write "rich, wealthy | poor"')
        pairs |= dict.fromkeys(pair for one, other in combinations(sides, 2) for pair in product(one, other))
    return list(pairs)


# -- the terms --------------------------------------------------------------------------------------------------------

Entry = tuple[str, str]
"""(category, identity); the category is empty where the terms do not know an identity."""
_Entries = Annotated[list[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]], Field(default_factory=list)]
_Words = Annotated[_Entries, AfterValidator(lambda entries: _forms_of(",".join(entries)))]
"""Entries, read as words in plain words."""
_Opposites = Annotated[list[tuple[str, str]], BeforeValidator(_opposed), Field(default_factory=list)]


class Term(NamedTuple):
    """One term with its forms, in plain words."""

    category: str
    identity: str
    forms: tuple[str, ...]
    exclusive: bool
    """Belongs to the identity by definition or universal fact; otherwise it only keeps phrases apart."""


class IdentityTerms(Record):
    """What is known of one identity; see the head of `terms.yaml`."""

    called: _Words
    letters: _Words
    terms: _Entries
    related: _Entries


class Negation(Record):
    """Words, prefixes and suffixes that negate."""

    cues: _Words
    ignored: _Words
    prefixes: _Words
    without: _Words


class Terms(Record):
    """The content of `terms.yaml`, or of a user's file of its shape."""

    identities: Annotated[dict[str, dict[str, IdentityTerms]], Field(default_factory=dict)]
    negation: Annotated[Negation, Field(default_factory=Negation)]
    opposites: _Opposites
    further_opposites: _Opposites
    """These, and what follows, keep phrases apart by the default definition only."""
    opposed_prefixes: _Opposites
    numbers: Annotated[dict[str, str], Field(default_factory=dict)]
    """The words for each number: "5U" a unit, "4T" tens, anything else as it is."""

    def replaced(self, **given: Any) -> Terms:
        """These terms with other values of some keys."""
        return Terms.model_construct(**{name: getattr(self, name) for name in Terms.model_fields} | given)

    @cached_property
    def terms(self) -> list[Term]:
        """Every term."""
        return [
            Term(*entry, tuple(_forms_of(text)), texts is one.terms)
            for entry, one in self._members()
            for texts in (one.terms, one.related)
            for text in texts
        ]

    @cached_property
    def called(self) -> dict[str, Entry]:
        """The identity by each name it has; the first category that knows a name has it."""
        return {name: entry for entry, one in reversed(self._members()) for name in (*_forms_of(entry[1]), *one.called)}

    @cached_property
    def letters(self) -> dict[str, Entry]:
        """Likewise by each letter that means an identity where a study calls all of them by letters ("W", "M")."""
        return {letter: entry for entry, one in reversed(self._members()) for letter in one.letters}

    def _members(self) -> list[tuple[Entry, IdentityTerms]]:
        """Every identity with what is known of it."""
        return [((category, identity), one) for category, members in self.identities.items() for identity, one in members.items()]

    def names_of(self, entry: Entry) -> list[str]:
        """What an identity may be called."""
        return [name for name, other in self.called.items() if other == entry]

    def forms(self) -> dict[str, int]:
        """The number of its term for each form, plurals in -s included; the first term with a form has it."""
        forms = {form: number for number, term in reversed(list(enumerate(self.terms))) for form in term.forms}
        return forms | {f"{form}s": number for form, number in forms.items() if f"{form}s" not in forms}


@cache
def _built_in_terms() -> Terms:
    return read_record(Path(__file__).with_suffix(".yaml"), "terms in", Terms)


def load_terms(path: str | None = None) -> Terms:
    """Our terms, with what a user's YAML file gives in the place of ours: by category of identities, by key of negation, or as a whole.

    Raises
    ------
    InputError
        The file cannot be read or is not of the shape of `terms.yaml`; the message names the key.
    """
    ours = _built_in_terms()
    if path is None:
        return ours
    own = read_record(Path(path), "terms in", Terms)
    given = {key: getattr(own, key) for key in own.model_fields_set}
    given["identities"] = ours.identities | own.identities
    given["negation"] = ours.negation.model_copy(update={key: getattr(own.negation, key) for key in own.negation.model_fields_set})
    return ours.replaced(**given)


# -- the key of a phrase ----------------------------------------------------------------------------------------------


def guard_keys(phrases: Series, terms: Terms, *, strict: bool = True) -> Integers:
    """A number for each phrase, the same where polarity, demographic terms and (if strict) numbers are the same; shape (phrases,)."""
    words = phrases.to_frame("words").select(plain_words(col.words))["words"]
    forms = terms.forms()
    held = found_forms(words, forms).list.eval(pl.element().replace_strict(forms, return_dtype=Int64).unique().sort())
    held = held.cast(pl.List(String)).list.join(" ")
    signature = DataFrame({"held": held, "negated": negated(words, terms), "numbers": numbers_in(words, terms) if strict else ""})
    return signature.to_struct().rank("dense").cast(Int64).to_numpy()


def found_forms(words: Series, forms: Iterable[str]) -> Series:
    """The forms in each text (in plain words), in the order of the text; the longest at a place counts."""
    return words.str.extract_all(_any_of(forms))


def negated(words: Series, terms: Terms) -> Series:
    """Whether the number of cues of negation in each text (in plain words) is odd."""
    return words.str.replace_all(_any_of(terms.negation.ignored), "").str.count_matches(_any_of(terms.negation.cues)) % 2 == 1


def _any_of(forms: Iterable[str]) -> str:
    """A pattern; without forms it matches nowhere."""
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b" if longest_first else r"[^\s\S]"


_ONE_AS_PRONOUN = r"\b(?:no one|one another|one of|one day|one on one|any ?one|every ?one|some ?one)\b"
_NUMBERS = (
    (r"(\d),(\d{3})\b", "${1}${2}"),
    (r"\b(\d)T (\d)U(th)?\b", "${1}${2}${3}"),
    (r"\b(\d)T(th|s)?\b", "${1}0${2}"),
    (r"\b(\d+)U(th)?\b", "${1}${2}"),
    (r"\b(\d+)(?:st|nd|rd)\b", "${1}th"),
)
"""Brings words for numbers to digits: "forty five" and "45", "fifth" and "5th", "thirties" and "30s"."""
_NUMBER = r"\b(?:0|[1-9]\d*)(?:\.\d+)?[a-z]*\b"
"""With what is written together with it ("30s", "10km"); codes ("007", "B12") are no numbers."""


def numbers_in(words: Series, terms: Terms) -> Series:
    """The numbers in each text (in plain words), each once and in order, in one string."""
    digits = {form: number for number, entry in terms.numbers.items() for form in _forms_of(entry)}
    text = words.str.replace_all(_ONE_AS_PRONOUN, " ").str.split(" ").list.eval(pl.element().replace(digits)).list.join(" ")
    for pattern, instead in _NUMBERS:
        text = text.str.replace_all(pattern, instead)
    return text.str.extract_all(_NUMBER).list.unique().list.sort().list.join(" ")


# -- signed roots -----------------------------------------------------------------------------------------------------

_FEWEST_LETTERS = {"un": 3}
_LETTERS = 4
"""Of what is left without a prefix, lest "image" be the negation of "age"."""
_ENDING = r"^(.{3,}?)(?:fully|ful|ness|ingly|edly|ly|ing|ed|es|s)$"
_ENDINGS_AT_MOST = 3
_WORD = col.word


def signed_roots(phrases: Series, terms: Terms, *, strict: bool = True) -> dict[int, frozenset[int]]:
    """Signed roots of the phrases by row; only of roots that occur with both signs, so most phrases have none.

    A root r is the number 2r, its negation 2r + 1. If strict, with all the opposites and prefixes of the terms.
    """
    words = phrases.to_frame("word").with_row_index("row").with_columns(plain_words(_WORD).str.extract_all(r"[\p{L}']+"))
    words = words.explode("word").drop_nulls()
    vocabulary = words.select(_WORD.unique(maintain_order=True))
    opposites = terms.opposites + (terms.further_opposites if strict else [])
    pairs = DataFrame(opposites, schema={"opposite": String, "root": String}, orient="row").select(_stem(pl.all())).unique()
    affirmed = vocabulary.select("word", root=_stem(_WORD), sign=0)
    if strict:
        affirmed = pl.concat([affirmed, _compared_words(vocabulary, pairs)]).unique()
    opposed = affirmed.join(pairs, on="root").select("word", root="opposite", sign=1)
    prefixed = _opposed_prefixes(vocabulary, terms) if strict else ()
    roots = pl.concat([affirmed, opposed, *_negations(vocabulary, terms), *prefixed])
    both = roots.filter(col.sign.n_unique().over("root") == 2)
    signed = both.select("word", signed=2 * (col.root.rank("dense").cast(Int64) - 1) + col.sign)
    of_rows = words.join(signed, on="word").group_by("row").agg(col.signed.unique())
    return {row: frozenset(found) for row, found in of_rows.iter_rows()}


def conflict(first: Collection[int], second: Collection[int]) -> bool:
    """Whether one holds the negation of a root of the other."""
    return any(root ^ 1 in second for root in first)


def _compared_words(vocabulary: DataFrame, pairs: DataFrame) -> DataFrame:
    """Words that compare or weaken a word that has an opposite ("shorter", "darkest", "oldish"), with its root and the sign 0."""
    bare = vocabulary.select("word", root=_stem(_WORD.str.replace(r"^(.{3,}?)(?:er|est|ish)$", "${1}")), sign=0)
    known = pl.concat([pairs["root"], pairs["opposite"]]).unique()
    return bare.filter((col.root != _stem(_WORD)) & col.root.is_in(known.implode()))


def _negations(vocabulary: DataFrame, terms: Terms) -> Iterator[DataFrame]:
    """What words would negate by prefix or suffix, if that is a word: `word`, `root` and the sign 1."""
    for prefix in terms.negation.prefixes:
        held = _with_prefix(vocabulary, prefix, _FEWEST_LETTERS.get(prefix, _LETTERS))
        yield held.select("word", root=_stem(_WORD.str.slice(len(prefix))), sign=1)
    for suffix in terms.negation.without:
        bare = _WORD.str.replace(rf"^(.{{3,}}){re.escape(suffix)}(?:ly|ness)?$", "${1}")
        yield vocabulary.filter(bare != _WORD).select("word", root=_stem(bare), sign=1)


def _opposed_prefixes(vocabulary: DataFrame, terms: Terms) -> Iterator[DataFrame]:
    """Words with opposed prefixes ("underpaid", "overpaid"): `word`, what they share as `root`, and the sign."""
    for pair in terms.opposed_prefixes:
        for sign, prefix in enumerate(pair):
            root = pl.concat_str(lit("-".join(pair) + "-"), _stem(_WORD.str.slice(len(prefix))))
            yield _with_prefix(vocabulary, prefix, _LETTERS).select("word", root=root, sign=lit(sign))


def _with_prefix(vocabulary: DataFrame, prefix: str, letters: int) -> DataFrame:
    return vocabulary.filter(_WORD.str.starts_with(prefix) & (_WORD.str.len_chars() >= len(prefix) + letters))


def _stem(word: Expr) -> Expr:
    """A rough stem: "caring", "cares" and "careful" have one; "patience" and "patiently" too. It must only never miss, not be a word."""
    word = word.str.replace(r"'s$", "")
    for _ in range(_ENDINGS_AT_MOST):
        word = word.str.replace(_ENDING, "${1}")
    word = word.str.replace(r"([ae])nc[ey]$", "${1}nt").str.replace(r"bility$", "ble").str.replace(r"^(.{2,})[eiy]$", "${1}")
    return undoubled(word)


def undoubled(word: Expr) -> Expr:
    """The word without the second of two equal last letters, if it has more than two."""
    doubled = (word.str.len_chars() > 2) & (word.str.tail(1) == word.str.tail(2).str.head(1))
    return when(doubled).then(word.str.head(-1)).otherwise(word)
