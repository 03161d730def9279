"""Phrases in the sentences of many texts at once.

They are content words, adjective-noun and noun-noun pairs, and verbs with their objects. In other languages
than English, any two adjacent content words are a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.readers._words_in_sentences import next_word, word_before, word_lists

_GAP: Final = 4
"""Maximum distance between a verb and the noun of its object, in words."""
_NEGATED: Final = 7
"""Maximum distance between a negation and the word it negates, in words."""

_SPOT = ["row", "number", "place"]


def phrases_of(words: DataFrame, language: str) -> DataFrame:
    """Return the phrases in sentences.

    They are content words, phrases of two and three of them, and in English verbs with their objects. A
    negated word has its negation before it. Pronouns and possessives are left out of phrases.

    Parameters
    ----------
    words
        From `words_of`, with any additional columns, which are those of the first word of a phrase.

    Returns
    -------
    DataFrame
        The columns of `words`, with `phrase` in lower case, and `proper`: whether it has a name.
    """
    lists = word_lists(language)
    marked = words.with_columns(_negation(lists), _participles_as_adjectives(lists))
    if language == "en":
        marked = marked.with_columns(compound=_is_compound())
        inner = word_before("compound").fill_null(False) & col.form.is_in(lists["compounds"])
        marked = marked.with_columns(inner=inner)
        marked = marked.with_columns(is_pair=_is_pair())
        marked = marked.with_columns(is_triple=_is_triple())
    else:
        marked = marked.with_columns(
            compound=lit(False), inner=lit(False), is_pair=_both_content(), is_triple=lit(False)
        )
    phrases = [_several_words(marked, words.columns, number) for number in (2, 3)]
    if language == "en":
        phrases.append(_predicates(marked.select(*words.columns, "negation"), lists))
        phrases.append(_first_parts(marked, words.columns, lists))
    # "Almond shaped" is said of the almond as well; "tightly coiled" is not of "tightly".
    is_in_compound = col.compound & ~next_word("inner").fill_null(False)
    phrases.append(_single_words(marked.filter(~is_in_compound & ~col.inner), words.columns, lists))
    return pl.concat(phrases, how="diagonal").sort(_SPOT, maintain_order=True)


def _single_words(words: DataFrame, columns: Sequence[str], lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return the content words that say something without other words."""
    # "Does not fit neatly": what is farther from its negation says something in the whole phrase only.
    is_far_negated = col.negation.str.ends_with("… ")
    single = words.filter(col.content & ~col.form.is_in(lists["bare"]) & ~is_far_negated)
    return single.select(*columns, phrase=col.negation + col.form, proper=col.kind.eq("name") | col.personal)


def _first_parts(words: DataFrame, columns: Sequence[str], lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return the first parts of compounds whose second part says little ("olive" of "olive-toned")."""
    compounds = "|".join(sorted(lists["compounds"]))
    part = col.form.str.extract(rf"^(\p{{L}}{{3,}})-(?:{compounds})$")
    parts = words.filter("content").with_columns(part=part).drop_nulls("part")
    parts = parts.filter(~col.part.is_in(lists["bare"] | lists["stop"]))
    return parts.select(*columns, phrase=col.negation + col.part, proper=lit(False))


def _several_words(words: DataFrame, columns: Sequence[str], number: int) -> DataFrame:
    """Return the phrases of two or three words.

    Those with a name are `proper`.
    """
    is_phrase = "is_pair" if number == 2 else "is_triple"
    steps = range(number)
    form = pl.concat_str([next_word("form", step) for step in steps], separator=" ")
    has_name = pl.any_horizontal(next_word("kind", step).eq("name") for step in steps)
    phrases = words.with_columns(phrase=col.negation + form, proper=has_name)
    return phrases.filter(is_phrase).select(*columns, "phrase", "proper")


_NOUNS = ["noun", "name"]


def _both_content() -> Expr:
    """Return whether a word and the next one are content words."""
    return (col.content & next_word("content")).fill_null(False)


def _is_compound() -> Expr:
    """Return whether a word and the next one are an adjective of two words ("tightly coiled")."""
    return _both_content() & col.kind.is_in(["adverb", *_NOUNS]) & next_word("kind").eq("adjective")


def _is_pair() -> Expr:
    """Return whether a phrase of two words begins at each word."""
    qualifies = col.kind.is_in(["adjective", *_NOUNS])
    return col.compound | (_both_content() & qualifies & next_word("kind").is_in(_NOUNS) & ~col.inner)


def _is_triple() -> Expr:
    """Return whether a phrase of three words begins at each word."""
    two_adjectives = _both_content() & col.kind.eq("adjective") & next_word("kind").eq("adjective")
    noun_follows = next_word("content", 2) & next_word("kind", 2).is_in(_NOUNS)
    return (col.is_pair | two_adjectives) & noun_follows


def _participles_as_adjectives(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the kind of each word, with English participles before a noun as adjectives.

    Examples are "tightly coiled hair" and "almond shaped eyes".
    """
    subject = word_before("role", 2)
    has_subject = word_before("kind", 2).is_in(_NOUNS) | subject.is_in(["they", "themself", *lists["i"]])
    after_adverb = word_before("kind").eq("adverb") & word_before("form").str.ends_with("ly")
    in_compound = word_before("kind").is_in(["noun", "adjective"]) & col.form.is_in(lists["compounds"])
    qualified = (after_adverb & ~has_subject.fill_null(False)) | in_compound
    participle = col.kind.eq("verb") & col.form.str.contains("e[dn]$") & qualified
    return when(participle.fill_null(False)).then(lit("adjective")).otherwise("kind").alias("kind")


def _negation(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the column `negation`: the beginning of a negated phrase, and an empty text for other words.

    It is a negation among the last words before a word, with "…" if it does not stand right before it.
    Punctuation, and words that begin a new clause, end its effect.
    """
    far_away = -_NEGATED - 1
    is_negation = col.form.is_in(lists["negations"])
    ends = col.form.is_in(lists["clause_starts"]) | col.form.str.contains(r"^[^\p{L}']")
    place = when(is_negation).then("place").when(ends).then(far_away)
    distance = col.place - place.shift(1).forward_fill().over("number").fill_null(far_away)
    word = when(is_negation).then(col.form.replace("n't", "not"))
    last_word = word.shift(1).forward_fill().over("number")
    return (
        when(distance == 1)
        .then(last_word + " ")
        .when(distance <= _NEGATED)
        .then(last_word + " … ")
        .otherwise(lit(""))
        .alias("negation")
    )


def _predicates(words: DataFrame, lists: Mapping[str, frozenset[str]]) -> DataFrame:
    """Return the verbs with the words up to the noun of their object or prepositional phrase.

    An example is "sings in a choir". Possessives are written "one's", and pronouns "someone", so that they do
    not show the gender of a person. A phrase with the name of a person, or a name as its object, is `proper`.
    """
    verbs = words.filter((col.kind == "verb") & ~col.form.is_in(lists["idle"]))
    verbs = verbs.with_columns(start="place", verb="form", step=pl.int_ranges(1, _GAP + 1)).explode("step")
    verbs = verbs.with_columns(place=col.start + col.step)
    next_words = words.select(
        "number",
        "place",
        next=_without_gender(lists),
        next_form="form",
        next_kind="kind",
        next_content="content",
        next_personal="personal",
    )
    steps = verbs.join(next_words, on=["number", "place"], maintain_order="left")
    is_person = col.next.is_in(list(_WITHOUT_GENDER))
    is_link = col.next_form.is_in(lists["links"])
    is_determiner = col.next_form.is_in(lists["articles"] | lists["possessives"])
    is_connecting = is_link | is_determiner | is_person
    is_object = col.next_content & col.next_kind.is_in(_NOUNS)
    continues = col.next_kind.is_in(["adjective", "adverb"]) | is_connecting
    verb_place = ["number", "start"]
    steps = steps.with_columns(
        is_object=is_object,
        is_adjective=(col.next_kind == "adjective") & col.next_content,
        ends=is_object | ~continues,
    )
    steps = steps.filter(col.ends.cum_sum().over(verb_place) - col.ends == 0)
    of_verb = [name for name in words.columns if name not in (*verb_place, "place", "negation")]
    last_is_name = col.next_kind.last().eq("name")
    last_is_general = col.next_form.last().is_in(lists["bare"])
    predicates = steps.group_by(verb_place, maintain_order=True).agg(
        pl.col(of_verb).first(),
        place=col.start.first(),
        verb=(col.negation + col.verb).first(),
        object=col.next.str.join(" "),
        proper=col.next_personal.last() | last_is_name,
        has_object=col.is_object.last(),
        # A general noun says something with its adjectives only.
        says_something=~last_is_general | col.is_adjective.any(),
    )
    predicates = predicates.filter("has_object", "says_something")
    phrase = pl.concat_str("verb", "object", separator=" ")
    return predicates.select(*of_verb, "number", "place", "proper", phrase=phrase)


_WITHOUT_GENDER: Final = ("one's", "someone", "oneself")
"""What replaces possessives and pronouns."""


def _without_gender(lists: Mapping[str, frozenset[str]]) -> Expr:
    """Return the form of each word, without the gender and number of pronouns and possessives."""
    possessive, pronoun, reflexive = _WITHOUT_GENDER
    is_of_narrator = col.form.is_in(lists["i"])
    is_possessive = col.role.eq("their") | (is_of_narrator & col.form.is_in(lists["possessives"]))
    is_before_noun_phrase = ~next_word("form").is_in(lists["articles"] | lists["links"]).fill_null(False)
    return (
        when(col.role.eq("themself") | col.form.eq("myself"))
        .then(lit(reflexive))
        .when(is_possessive & is_before_noun_phrase)
        .then(lit(possessive))
        .when(is_possessive | is_of_narrator | col.role.eq("they"))
        .then(lit(pronoun))
        .otherwise("form")
    )
