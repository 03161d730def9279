"""Words that separate phrases: demographic terms, negation cues, opposites and numbers.

They come from the built-in lists or a user's file. A concept and its opposite, and concepts with different
demographic terms or numbers, are never merged. Two guards ensure this:

- The *key* of a phrase consists of its polarity (negated by a word such as "avoids" or "not"), its
  demographic terms and its numbers ("40-year-old", "forties", "third"). Phrases with different keys are not
  compared.
- Negation inside a word ("impatient", "careless") cannot be detected from the word alone ("important" is not
  negated), so it is detected between phrases. Each phrase has signed *roots*. Two phrases with the same root
  of opposite sign are never in one cluster, not even through a third phrase.

The published definitions use fewer guards (`strict` is False): no numbers, and only the short list of
opposites.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from tiltmeter._files.records import Record, read_record
from tiltmeter._files.yaml import packaged_yaml

if TYPE_CHECKING:
    from tiltmeter._arrays import Integers

_PLAIN: Final = (("[’‘`´]", "'"), (r"n't\b", " not"), (r"[-‐‑–—/_\s]+", " "))
"""Patterns and their replacements in plain words."""


def plain_words(text: Expr) -> Expr:
    """Return the words in lower case.

    Hyphens, slashes and underscores separate words, and contracted negations are spelt out.
    """
    text = text.str.normalize("NFKC").str.to_lowercase()
    for pattern, replacement in _PLAIN:
        text = text.str.replace_all(pattern, replacement)
    return text.str.strip_chars()


def plain_words_of(text: str) -> str:
    """Return `plain_words` of a single text."""
    text = unicodedata.normalize("NFKC", text).lower()
    for pattern, replacement in _PLAIN:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def _forms_of(entry: str) -> list[str]:
    """Return the comma-separated forms in plain words."""
    return list(dict.fromkeys(plain_words_of(form) for form in entry.split(",") if form.strip()))


def _opposed(entries: Any) -> Any:
    """Return all pairs of words of different sides.

    "|" separates sides, or commas if each side has one word.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        return entries
    pairs: dict[tuple[str, str], None] = {}
    for entry in entries:
        sides = [_forms_of(side) for side in entry.split("|" if "|" in entry else ",")]
        if len(sides) < 2 or not all(sides):
            raise ValueError(f'{entry!r} does not have two sides; write for example "rich, wealthy | poor"')
        for first, second in combinations(sides, 2):
            pairs |= dict.fromkeys(product(first, second))
    return list(pairs)


# -- the terms -------------------------------------------------------------------------------------

Entry = tuple[str, str]
"""(category, identity). The category is empty for an unknown identity."""
_Entries = Annotated[
    list[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]], Field(default_factory=list)
]
_Words = Annotated[_Entries, AfterValidator(lambda entries: _forms_of(",".join(entries)))]
"""Entries as plain words."""
_Opposites = Annotated[list[tuple[str, str]], BeforeValidator(_opposed), Field(default_factory=list)]


class Term(NamedTuple):
    """A term with its forms in plain words."""

    category: str
    identity: str
    forms: tuple[str, ...]
    exclusive: bool
    """Whether the term belongs to the identity by definition or universal fact; otherwise it only separates
    phrases."""


class IdentityTerms(Record):
    """Names and terms of an identity; see the top of `terms.yaml`."""

    called: _Words
    letters: _Words
    terms: _Entries
    related: _Entries


class Negation(Record):
    """Negating words, prefixes and suffixes."""

    cues: _Words
    ignored: _Words
    prefixes: _Words
    without: _Words


class Terms(Record):
    """The content of `terms.yaml`, or of a user's file in the same format."""

    identities: Annotated[dict[str, dict[str, IdentityTerms]], Field(default_factory=dict)]
    negation: Annotated[Negation, Field(default_factory=Negation)]
    opposites: _Opposites
    further_opposites: _Opposites
    """This and the following fields are used by the default definition only."""
    opposed_prefixes: _Opposites
    numbers: Annotated[dict[str, str], Field(default_factory=dict)]
    """Number words by number: "5U" is a unit, "4T" are tens, other keys are used as they are."""

    def replaced(self, **values: Any) -> Terms:
        """Return a copy with other values of some fields."""
        fields = {name: getattr(self, name) for name in Terms.model_fields}
        return Terms.model_construct(**fields | values)

    @cached_property
    def terms(self) -> list[Term]:
        """All terms."""
        terms = []
        for (category, identity), words in self._members():
            exclusive = [
                Term(category, identity, tuple(_forms_of(text)), exclusive=True) for text in words.terms
            ]
            related = [
                Term(category, identity, tuple(_forms_of(text)), exclusive=False) for text in words.related
            ]
            terms += exclusive + related
        return terms

    @cached_property
    def called(self) -> dict[str, Entry]:
        """Identity by name. A name in several categories belongs to the first."""
        entries: dict[str, Entry] = {}
        for entry, words in reversed(self._members()):
            entries |= dict.fromkeys((*_forms_of(entry[1]), *words.called), entry)
        return entries

    @cached_property
    def letters(self) -> dict[str, Entry]:
        """Identity by letter, for studies that name all identities by letters ("W", "M")."""
        return {letter: entry for entry, words in reversed(self._members()) for letter in words.letters}

    def _members(self) -> list[tuple[Entry, IdentityTerms]]:
        """Return all identities with their names and terms."""
        return [
            ((category, identity), words)
            for category, members in self.identities.items()
            for identity, words in members.items()
        ]

    def names_of(self, entry: Entry) -> list[str]:
        """Return all names of an identity."""
        return [name for name, identity in self.called.items() if identity == entry]

    def forms(self) -> dict[str, int]:
        """Map each form, including plurals in -s, to the index of its term.

        If several terms have a form, it is the first one.
        """
        forms: dict[str, int] = {}
        for number, term in reversed(list(enumerate(self.terms))):
            forms |= dict.fromkeys(term.forms, number)
        plurals = {f"{form}s": number for form, number in forms.items() if f"{form}s" not in forms}
        return forms | plurals

    def owners(self) -> dict[str, Entry]:
        """Return the identity of each form of an exclusive term."""
        return {
            form: (self.terms[number].category, self.terms[number].identity)
            for form, number in self.forms().items()
            if self.terms[number].exclusive
        }


@cache
def _built_in_terms() -> Terms:
    return read_record(Path(__file__).with_name("terms.yaml"), "terms in", Terms)


@cache
def nations() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the names and adjectives of each nation, by the race whose origin it is; "-": none."""
    by_race = packaged_yaml(Path(__file__).with_name("nations.yaml"))
    nations_of_races = {}
    for race, people_by_nation in by_race.items():
        forms_by_nation = {}
        for names, people in people_by_nation.items():
            nation, *_ = names.split(",")
            forms_by_nation[nation] = _forms_of(f"{names},{people}")
        nations_of_races[race] = forms_by_nation
    return nations_of_races


def with_further_terms(terms: Terms) -> Terms:
    """Return the terms with those that the published definitions do not use.

    Nations are identities of their own, and terms of races. Words for women and men in other languages are
    terms of genders.
    """
    further: dict[tuple[str, str], list[str]] = {}
    of_nations = {}
    for race, people_by_nation in nations().items():
        for nation, forms in people_by_nation.items():
            of_nations[nation] = IdentityTerms.model_construct(
                called=forms, letters=[], terms=[",".join(forms)], related=[]
            )
            further.setdefault(("race", race), []).append(",".join(forms))
    for gender, words in packaged_yaml(Path(__file__).with_name("gendered_words.yaml")).items():
        further["gender", gender] = list(words)
    identities = {category: dict(members) for category, members in terms.identities.items()}
    for (category, identity), entries in further.items():
        members = identities.get(category, {})
        if identity in members:
            own = members[identity]
            members[identity] = own.model_copy(update={"terms": [*own.terms, *entries]})
    return terms.replaced(identities={**identities, "nationality": of_nations})


def load_terms(path: str | None = None) -> Terms:
    """Load the terms.

    A user's YAML file replaces built-in values: by category of identities, by key of `negation`, or a whole
    field.

    Raises
    ------
    InputError
        The file cannot be read or does not have the format of `terms.yaml`; the message names the key.
    """
    built_in = _built_in_terms()
    if path is None:
        return built_in
    custom = read_record(Path(path), "terms in", Terms)
    values = _stated_fields(custom)
    values["identities"] = built_in.identities | custom.identities
    values["negation"] = built_in.negation.model_copy(update=_stated_fields(custom.negation))
    return built_in.replaced(**values)


def _stated_fields(record: Record) -> dict[str, Any]:
    """Return the fields of a record that its file states."""
    return {name: getattr(record, name) for name in record.model_fields_set}


# -- the key of a phrase ---------------------------------------------------------------------------


def guard_keys(phrases: Series, terms: Terms, *, strict: bool = True) -> Integers:
    """Return the key of each phrase, shape (phrases,).

    Keys are equal if polarity, demographic terms and (if strict) numbers are equal.
    """
    words = phrases.to_frame("words").select(plain_words(col.words))["words"]
    forms = terms.forms()
    number_of_term = pl.element().replace_strict(forms, return_dtype=Int64)
    terms_of_phrase = found_forms(words, forms).list.eval(number_of_term.unique().sort())
    signature = DataFrame(
        {
            "terms": terms_of_phrase.cast(pl.List(String)).list.join(" "),
            "negated": negated(words, terms),
            "numbers": numbers_in(words, terms) if strict else "",
        }
    )
    return signature.to_struct().rank("dense").cast(Int64).to_numpy()


def found_forms(words: Series, forms: Iterable[str]) -> Series:
    """Return the forms in each text (in plain words), in the order of the text.

    The longest form at a position counts.
    """
    return words.str.extract_all(any_of(forms))


def negated(words: Series, terms: Terms) -> Series:
    """Return whether the number of negation cues in each text (in plain words) is odd."""
    without_ignored = words.str.replace_all(any_of(terms.negation.ignored), "")
    return without_ignored.str.count_matches(any_of(terms.negation.cues)) % 2 == 1


def any_of(forms: Iterable[str]) -> str:
    """Return a pattern that matches any of the forms, or nothing if there are none."""
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    if not longest_first:
        return r"[^\s\S]"
    return rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b"


_ONE_AS_PRONOUN: Final = r"\b(?:no one|one another|one of|one day|one on one|any ?one|every ?one|some ?one)\b"
_NUMBERS: Final = (
    (r"(\d),(\d{3})\b", "${1}${2}"),
    (r"\b(\d)T (\d)U(th)?\b", "${1}${2}${3}"),
    (r"\b(\d)T(th|s)?\b", "${1}0${2}"),
    (r"\b(\d+)U(th)?\b", "${1}${2}"),
    (r"\b(\d+)(?:st|nd|rd)\b", "${1}th"),
)
"""Replacements of number words by digits: "forty five" and "45", "fifth" and "5th", "thirties" and "30s"."""
_NUMBER: Final = r"\b(?:0|[1-9]\d*)(?:\.\d+)?[a-z]*\b"
"""Matches a number with an attached suffix ("30s", "10km"), but not codes ("007", "B12")."""


def numbers_in(words: Series, terms: Terms) -> Series:
    """Return the distinct numbers in each text (in plain words), sorted, as one string."""
    digits = {form: number for number, entry in terms.numbers.items() for form in _forms_of(entry)}
    text = (
        words.str.replace_all(_ONE_AS_PRONOUN, " ")
        .str.split(" ")
        .list.eval(pl.element().replace(digits))
        .list.join(" ")
    )
    for pattern, replacement in _NUMBERS:
        text = text.str.replace_all(pattern, replacement)
    return text.str.extract_all(_NUMBER).list.unique().list.sort().list.join(" ")


# -- signed roots ----------------------------------------------------------------------------------

_FEWEST_LETTERS: Final = 4
"""Minimum number of letters after a prefix, so that "image" is not the negation of "age"."""
_FEWEST_LETTERS_AFTER: Final = {"un": 3}
"""The same for single prefixes."""
_ENDING: Final = r"^(.{3,}?)(?:fully|ful|ness|ingly|edly|ly|ing|ed|es|s)$"
_MOST_ENDINGS: Final = 3
"""Maximum number of endings that are removed from a word."""
_WORD: Final = col.word


def signed_roots(phrases: Series, terms: Terms, *, strict: bool = True) -> dict[int, frozenset[int]]:
    """Return the signed roots of the phrases by row, without rows that have none.

    Only roots that occur with both signs are included, so most phrases have none. Root r is represented by
    2r, its negation by 2r + 1. If `strict`, all opposites and prefixes of the terms are used.
    """
    texts = phrases.to_frame("word").with_row_index("row")
    words = texts.with_columns(plain_words(_WORD).str.extract_all(r"[\p{L}']+"))
    words = words.explode("word").drop_nulls()
    vocabulary = words.select(_WORD.unique(maintain_order=True))
    opposites = list(terms.opposites)
    if strict:
        opposites += terms.further_opposites
    pairs = DataFrame(opposites, schema={"opposite": String, "root": String}, orient="row")
    pairs = pairs.select(_stem(pl.all())).unique()
    affirmed = vocabulary.select("word", root=_stem(_WORD), sign=0)
    if strict:
        affirmed = pl.concat([affirmed, _compared_words(vocabulary, pairs)]).unique()
    opposed = affirmed.join(pairs, on="root").select("word", root="opposite", sign=1)
    tables = [affirmed, opposed, *_negations(vocabulary, terms)]
    if strict:
        tables += _opposed_prefixes(vocabulary, terms)
    has_both_signs = col.sign.n_unique().over("root") == 2
    roots = pl.concat(tables).filter(has_both_signs)
    number = col.root.rank("dense").cast(Int64) - 1
    signed = roots.select("word", signed=2 * number + col.sign)
    of_rows = words.join(signed, on="word").group_by("row").agg(col.signed.unique())
    return {row: frozenset(numbers) for row, numbers in of_rows.iter_rows()}


def conflict(first: Collection[int], second: Collection[int]) -> bool:
    """Return whether one set of roots contains the negation of a root in the other."""
    return any(root ^ 1 in second for root in first)


def _compared_words(vocabulary: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return inflected forms of words that have an opposite, with their root and the sign 0.

    Such forms are "shorter", "darkest" and "oldish".
    """
    without_ending = _WORD.str.replace(r"^(.{3,}?)(?:er|est|ish)$", "${1}")
    inflected = vocabulary.select("word", root=_stem(without_ending), sign=0)
    opposed_roots = pl.concat([pairs["root"], pairs["opposite"]])
    return inflected.filter(col.root.is_in(opposed_roots.implode()))


def _negations(vocabulary: DataFrame, terms: Terms) -> Iterator[DataFrame]:
    """Yield `word`, `root` and the sign 1 of words with a negating prefix or suffix.

    The root need not be a word.
    """
    for prefix in terms.negation.prefixes:
        letters = _FEWEST_LETTERS_AFTER.get(prefix, _FEWEST_LETTERS)
        words = _with_prefix(vocabulary, prefix, letters)
        yield words.select("word", root=_stem(_WORD.str.slice(len(prefix))), sign=1)
    for suffix in terms.negation.without:
        bare = _WORD.str.replace(rf"^(.{{3,}}){re.escape(suffix)}(?:ly|ness)?$", "${1}")
        yield vocabulary.filter(bare != _WORD).select("word", root=_stem(bare), sign=1)


def _opposed_prefixes(vocabulary: DataFrame, terms: Terms) -> Iterator[DataFrame]:
    """Yield words with opposed prefixes ("underpaid", "overpaid").

    The columns are `word`, the shared `root`, and the `sign`.
    """
    for pair in terms.opposed_prefixes:
        for sign, prefix in enumerate(pair):
            root = pl.concat_str(lit("-".join(pair) + "-"), _stem(_WORD.str.slice(len(prefix))))
            words = _with_prefix(vocabulary, prefix, _FEWEST_LETTERS)
            yield words.select("word", root=root, sign=lit(sign))


def _with_prefix(vocabulary: DataFrame, prefix: str, letters: int) -> DataFrame:
    """Return the words with a prefix that is followed by at least so many letters."""
    is_long_enough = _WORD.str.len_chars() >= len(prefix) + letters
    return vocabulary.filter(_WORD.str.starts_with(prefix) & is_long_enough)


def _stem(word: Expr) -> Expr:
    """Return a rough stem, which need not be a word.

    It is equal for "caring", "cares" and "careful", and for "patience" and "patiently".
    """
    word = word.str.replace(r"'s$", "")
    for _ in range(_MOST_ENDINGS):
        word = word.str.replace(_ENDING, "${1}")
    word = (
        word.str.replace(r"([ae])nc[ey]$", "${1}nt")
        .str.replace(r"bility$", "ble")
        .str.replace(r"^(.{2,})[eiy]$", "${1}")
    )
    return undoubled(word)


def undoubled(word: Expr) -> Expr:
    """Remove the second of two equal last letters from words of more than two letters."""
    is_doubled = (word.str.len_chars() > 2) & (word.str.tail(1) == word.str.tail(2).str.head(1))
    return when(is_doubled).then(word.str.head(-1)).otherwise(word)
