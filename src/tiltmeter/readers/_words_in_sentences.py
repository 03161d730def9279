"""Words of sentences and their parts of speech, for many texts at once.

English is tagged by word form with the Hanover tagger (see `grammar`), and the neighbours decide between a
noun and a verb. Pronouns of different genders are read alike, and names are recognised before the tagger is
asked, so that neither the gender nor the name of a person changes how the other words are read. In other
languages words have no parts of speech. Stop words and pronouns are data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, Series, String, UInt32, col, lit, when

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.errors import check_known
from tiltmeter.readers._grammar import LONGEST, sentences, speech
from tiltmeter.readers._word_forms import word_forms

PRONOUNS = ("he", "she", "they", "i")
"""Classes of pronouns that refer to people."""


@cache
def word_lists(language: str) -> Mapping[str, frozenset[str]]:
    """Return the lists of words of a language: pronouns, stop words and others, see `content_words.yaml`.

    Raises
    ------
    InputError
        There are no lists for the language.
    """
    every = packaged_yaml(Path(__file__).with_name("content_words.yaml"))
    check_known(language, every, f"texts in {language!r} cannot be read without a judge")
    return {name: frozenset(text.split()) for name, text in every[language].items()}


# -- words ---------------------------------------------------------------------------------------------

_MOSTLY = 0.5
"""If a larger share of a text is direct speech, it is read as if it were not quoted."""
_QUOTATION_MARK = re.compile("[\"'\u2018\u201c\u00ab]")
_LINE = re.compile(r"[^\s](?:.*[^\s])?")
_WORD = r"n't\b|'(?:s|re|ve|ll|d|m)\b|[\p{L}\p{M}\p{N}]+(?:[-'][\p{L}\p{M}\p{N}]+)*|[^\s\p{L}\p{M}\p{N}'\-]"


_ELISION = r"(?i)\b([cdjlmnst]|jusqu|lorsqu|puisqu|quoiqu|qu)'"
"""A French word without its last vowel ("l'école")."""


def sentences_of(texts: Series) -> DataFrame:
    """Return one row per sentence.

    The columns are `number`, `row` (of the text), `sentence`, and `silent`, the sentence without direct
    speech.
    """
    rows = [(row, *sentence) for row, text in enumerate(texts) for sentence in _sentences(text)]
    schema = {"row": UInt32, "sentence": String, "silent": String}
    return DataFrame(rows, schema=schema, orient="row").with_row_index("number")


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield each sentence, and the same without direct speech."""
    spoken = speech(text) if _QUOTATION_MARK.search(text) else []
    silent = text
    if sum(end - start for start, end in spoken) <= _MOSTLY * len(text):
        for start, end in spoken:
            silent = f'{silent[:start]}"{" " * (end - start - 1)}{silent[end:]}'
    for start, end in sentences(text):
        for line in _LINE.finditer(text, start, end):
            yield line.group(), silent[slice(*line.span())]


def words_of(rows: DataFrame, language: str, names: Collection[str] = ()) -> DataFrame:
    """Split sentences into words.

    Parameters
    ----------
    rows
        From `sentences_of`.
    language
        "en", "de", ...
    names
        Parts of names of people, in lower case, which are names at the beginning of a sentence as well.

    Returns
    -------
    DataFrame
        One row per word or punctuation mark: `row` (of the text), `number` (of the sentence), `place` in the
        sentence, `word` as written, `form` in lower case, `kind` ("noun", "adjective", "verb", "adverb",
        "name" or "other"; "word": a content word of any kind), `role` (the form, with one form for the
        pronouns and possessives of all genders, and for all names), `content` (whether it is a word with
        content of its own), and `personal` (whether it is part of the name of a person).
    """
    lists = word_lists(language)
    plain = col.silent.str.replace_all("[\u2019\u2018\u0060\u00b4]", "'")
    split = plain.str.replace_all("[\u2010\u2011]", "-")
    if language == "en":
        split = split.str.replace_all(r"(?i)n't\b", " n't")
    if language == "fr":
        split = split.str.replace_all(_ELISION, "$1 ")
    split = split.str.replace_all(r"'(s|re|ve|ll|d|m)\b", " '$1")
    words = rows.select("row", "number", word=split.str.extract_all(_WORD)).explode("word").drop_nulls()
    words = words.with_columns(
        place=pl.int_range(pl.len()).over("number"),
        form=col.word.str.to_lowercase(),
    )
    words = words.with_columns(role=_role(lists))
    forms = _form_table(words["form"].unique(maintain_order=True), language)
    words = words.join(forms, on="form", how="left", maintain_order="left")
    words = _with_names(words, frozenset(names) | frequent_names(), lists)
    words = words.with_columns(role=when("is_name").then(lit("")).otherwise("role"))
    if language == "en":
        words = words.with_columns(_name_or_tags()).with_columns(kind=_kind_in_place())
    else:
        kind = when("is_name").then(lit("name")).when("is_word").then(lit("word")).otherwise(lit("other"))
        words = words.with_columns(kind=kind)
    of_follows = (next_word("form") == "of").fill_null(False)
    is_quantity = col.form.is_in(lists["quantities"]) & of_follows
    is_particle = (col.kind == "adverb") & ~col.form.str.ends_with("ly")
    is_stop_word = col.form.is_in(lists["stop"]) & ~col.is_name
    has_content = (col.kind != "other") & ~is_stop_word & (col.form.str.len_chars() > 1)
    content = has_content & ~is_particle & ~is_quantity
    return words.select("row", "number", "place", "word", "form", "kind", "role", "personal", content=content)


def _role(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the form of each word, with the same form for the pronouns of all genders.

    "Her" may be the counterpart of "him" and of "his", so these are one role.
    """
    is_reflexive = col.form.str.contains(r"sel(?:f|ves)$")
    is_subject = col.form.is_in(lists["subjects"])
    is_of_person = col.form.is_in(lists["he"] | lists["she"] | lists["they"])
    role = when(is_reflexive).then(lit("themself")).when(is_subject).then(lit("they")).otherwise(lit("their"))
    return when(is_of_person).then(role).otherwise("form")


def next_word(column: str, step: int = 1) -> Expr:
    """Return the value of a column for the word so many steps after each word of the sentence.

    The words of a sentence are in consecutive rows, which is faster to use than windows.
    """
    is_same_sentence = col.number.shift(-step) == col.number
    return when(is_same_sentence).then(col(column).shift(-step))


def word_before(column: str, step: int = 1) -> Expr:
    """Return the value of a column for the word so many steps before each word of the sentence."""
    return next_word(column, -step)


# -- names ---------------------------------------------------------------------------------------------

_BEFORE_SENTENCES = frozenset('"\u201c\u201d\u00ab\u00bb:;*#|\u2022\u2013\u2014\u2026\u00bf\u00a1')
"""Marks after which a capital letter may begin a sentence or a heading."""


@cache
def frequent_names() -> frozenset[str]:
    """Return frequent first names of any gender, in lower case."""
    by_gender = packaged_yaml(Path(__file__).with_name("data") / "first_names.yaml")["words"]
    return frozenset(name.lower() for names in by_gender.values() for name in names)


def _with_names(words: DataFrame, people: Collection[str], lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Add `is_name` and `personal`: whether a word is a name, and the name of a person.

    A word is a name if it begins with a capital letter within a sentence. At the beginning of a sentence, it
    is one if it is the name of a person, a word that the tagger does not know, or a name within another
    sentence of the text.
    """
    is_letters = col.form.str.contains(r"^\p{L}.*\p{L}")
    # Abbreviations such as "CEO" are no names.
    is_capital = col.word.str.contains(r"^\p{Lu}.*\p{Ll}") & is_letters
    # Without a word in lower case, capital letters say nothing ("LOVES CHESS").
    has_lower_case = col.word.str.contains(r"^\p{Ll}").any().over("number")
    is_first = (
        col.place == col.place.filter(col.form.str.contains(r"^\p{L}")).min().over("number")
    ).fill_null(True)
    begins = is_first | word_before("form").is_in(_BEFORE_SENTENCES).fill_null(False)
    is_function_word = col.form.is_in((lists["stop"] - lists["names"]) | word_lists("en")["beside_names"])
    is_candidate = is_capital & has_lower_case & ~is_function_word
    if lists["capital_nouns"]:
        is_within = lit(False)
    else:
        is_within = is_candidate & ~begins
    is_person = is_candidate & col.form.is_in(people)
    words = words.with_columns(is_candidate=is_candidate, is_within=is_within, is_person=is_person)
    is_name_elsewhere = is_candidate & col.is_within.any().over("row", "form")
    is_name = col.is_within | col.is_person | is_name_elsewhere
    if "is_unknown" in words.columns:
        is_ambiguous = col.form.is_in(lists["names"])
        is_name |= is_candidate & (col.is_unknown | is_ambiguous)
    words = words.with_columns(is_name=is_name)
    is_particle = col.form.is_in(word_lists("en")["beside_names"])
    is_between_names = word_before("is_name") & (next_word("is_name") | next_word("is_name", 2))
    for _ in range(2):  # "de la Cruz"
        words = words.with_columns(is_name=col.is_name | (is_particle & is_between_names.fill_null(False)))
    beside_person = word_before("is_person") | next_word("is_person")
    personal = col.is_person | (col.is_name & beside_person.fill_null(False))
    return words.with_columns(personal=personal)


def _name_or_tags() -> list[Expr]:
    """Return the columns of possible kinds of English words, in which names can only be names."""
    return [
        when("is_name").then(lit("name")).otherwise("best").alias("best"),
        (col.can_noun | col.is_name).alias("can_noun"),
        (col.can_adjective & ~col.is_name).alias("can_adjective"),
        (col.can_verb & ~col.is_name).alias("can_verb"),
    ]


def _form_table(forms: Series, language: str) -> DataFrame:
    """Return for each word form whether it is a word, in English instead its kinds (FORMS)."""
    if language == "en":
        return word_forms(forms)
    is_word = forms.str.contains(r"^\p{L}") & (forms.str.len_chars() <= LONGEST)
    return DataFrame({"form": forms, "is_word": is_word})


_DEMONSTRATIVES = frozenset(("this", "these", "those", "that"))
_BEFORE_ADJECTIVES = frozenset(("is", "are", "was", "were", "'s", "and", ",", "very", "so"))
"""Words before a form that is an adjective rather than a noun."""


def _kind_in_place() -> Expr:
    """Return the kind of each word from its form and its neighbours in the sentence."""
    lists = word_lists("en")
    before = word_before("role")
    after = next_word("role")
    determiners = lists["articles"] | lists["possessives"]
    is_stop_word_after = after.is_in(lists["stop"]) & ~next_word("is_name")
    noun_after = next_word("can_noun").fill_null(False) & ~is_stop_word_after.fill_null(False)
    determiner_after = after.is_in(determiners)
    determined = before.is_in(determiners | lists["links"] | _DEMONSTRATIVES)
    before_verb = before.is_in(lists["before_verbs"])
    subject_before = before_verb | (word_before("best") == "name") | before.is_in([",", ";"])
    has_object = col.can_verb & (noun_after | determiner_after)
    has_object = has_object & (subject_before | col.place.eq(0) | ~col.can_noun)
    is_stop_word = col.form.is_in(lists["stop"])
    unlisted = determiner_after & ~col.can_adjective & ~is_stop_word & col.place.gt(0)
    verb_in_s = (has_object | unlisted) & col.form.str.ends_with("s") & ~determined
    verb = verb_in_s | (col.can_verb & ~determined & ((col.best == "verb") | before_verb))
    noun = col.can_noun & (col.best.is_in(["noun", "verb"]) | (determined & ~noun_after))
    rather_noun = col.best.eq("noun") & ~noun_after & ~before.is_in(_BEFORE_ADJECTIVES)
    adjective = col.can_adjective & ~rather_noun
    is_pronoun = col.role.is_in(lists["possessives"] | frozenset().union(*(lists[name] for name in PRONOUNS)))
    return (
        when("is_name")
        .then(lit("name"))
        .when(is_pronoun)
        .then(lit("other"))
        .when(verb)
        .then(lit("verb"))
        .when(adjective & noun_after)
        .then(lit("adjective"))
        .when(noun)
        .then(lit("noun"))
        .when(adjective)
        .then(lit("adjective"))
        .when("can_verb")
        .then(lit("verb"))
        .otherwise("best")
    )
