"""Families of words and phrases: forms of a word, and phrases that are mostly uses of one of their words.

"Olive" and "olive skin" are a family. A family has one concept. Antonyms, negations, and phrases with
different demographic terms or numbers are never in one family.
"""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, col, when

from tiltmeter.associations._concepts import normal_form
from tiltmeter.associations._tables import CONCEPTS
from tiltmeter.associations._terms import Terms, any_of, guard_keys, load_terms
from tiltmeter.readers._content_words import lemmas_of, word_lists
from tiltmeter.schema import beside, conform

MOSTLY: Final = 0.5
"""A phrase belongs to the family of its rarest word if it is at least this share of the uses of the word."""
NEARLY_ALWAYS: Final = 0.8
"""A word belongs to the family of a phrase that is at least this share of its uses."""


def unify_words(phrases: DataFrame, language: str = "en", terms: str | None = None) -> DataFrame:
    """Group phrases into families and return the map from phrase to concept (CONCEPTS).

    Its rows are in the order of `phrases`.

    Parameters
    ----------
    phrases
        `phrase` (unique) and `mentions`.
    language
        The language of the phrases.
    terms
        YAML file of the user in the format of `terms.yaml`.

    Raises
    ------
    InputError
        The file of terms is invalid.
    """
    demographic = load_terms(terms)
    rows = phrases.select("phrase", "mentions", form=normal_form(col.phrase)).with_row_index("row")
    is_negated = rows["form"].str.starts_with("not ")
    rows = rows.with_columns(guard=2 * Series(guard_keys(rows["form"], demographic)) + is_negated)
    words = _words_of(rows, language)
    keys = words.group_by("row").agg(key=col.lemma.str.join(" "))
    rows = beside(rows, keys, "row").with_columns(col.key.fill_null(col.form))
    units = (
        rows.group_by("key", "guard", maintain_order=True)
        .agg(uses=col.mentions.sum(), row=col.row.first())
        .with_row_index("unit")
    )
    family = _families_of(units, words, demographic, language)
    rows = beside(rows, units.select("key", "guard", family=family), "key", "guard")
    weight = col.mentions * length(col.form)
    name = col.phrase.sort_by(weight, "row", descending=[True, False]).first()
    rows = rows.with_columns(concept=name.over("family"))
    return conform(rows.with_columns(similarity=when(col.phrase == col.concept).then(1.0)), CONCEPTS)


def _words_of(rows: DataFrame, language: str) -> DataFrame:
    """Return the words of each phrase: `row`, `word`, `lemma` and `content`, without articles and copulas.

    A copula stays if it is the only word.
    """
    lists = word_lists(language)
    words = rows.select("row", word=col.form.str.split(" ")).explode("word")
    words = words.filter(~col.word.is_in(lists["articles"]))
    is_copula = col.word.is_in(lists["copulas"]) & (pl.len().over("row") > 1)
    words = words.filter(~is_copula)
    is_content = ~col.word.is_in(lists["links"] | {"not"})
    return words.with_columns(lemma=lemmas_of(words["word"], language), content=is_content)


def _families_of(units: DataFrame, words: DataFrame, demographic: Terms, language: str) -> Series:
    """Return the unit that represents the family of each unit.

    Parameters
    ----------
    units
        `unit`, `key`, `guard`, `uses` and the first `row` of phrases with the same words.
    """
    with_words = units.join(words.filter("content"), on="row", maintain_order="left")
    parts = with_words.select("unit", "guard", "uses", part="lemma", compound=False)
    ending = rf"^(.+)-{any_of(word_lists(language)['compounds'])}$"
    first_part = col.key.str.extract(ending)
    compounds = units.select("unit", "guard", "uses", part=first_part, compound=True).drop_nulls("part")
    # The bare name of a group ("black") has no family: it says something else in "black hair".
    is_word = ~col.key.str.contains(" ") & ~col.key.is_in(list(demographic.called))
    return _roots(units.with_columns(is_word=is_word), pl.concat([parts, compounds]))


def length(phrase: Expr) -> Expr:
    """Return the number of words, without articles.

    Uses times length names a family: by a phrase that is at least half of its uses.
    """
    return phrase.str.replace_all(r"\b(?:an?|the) ", "").str.count_matches(" ") + 1


def _roots(units: DataFrame, parts: DataFrame) -> Series:
    """Return the unit that represents the family of each unit.

    A phrase points to its rarest word, and a word that nearly always occurs in one phrase to the rarest word
    of that phrase. So words point to rarer words only, and there are no cycles.
    """
    words = units.filter("is_word").sort("uses", "unit").with_row_index("rank")
    words = words.select("guard", "rank", part="key", word="unit", word_uses="uses")
    words_of_phrases = parts.join(words, on=["part", "guard"]).filter(col.unit != col.word)
    rarest = words_of_phrases.sort("rank").unique("unit", keep="first")
    is_mostly_of_phrase = col.compound | (col.uses >= MOSTLY * col.word_uses)
    parent = rarest.filter(is_mostly_of_phrase).select("unit", parent="word", least="rank")
    is_nearly_always_in_phrase = col.uses >= NEARLY_ALWAYS * col.word_uses
    absorbed = (
        words_of_phrases.join(parent, on="unit")
        .filter(is_nearly_always_in_phrase, col.least < col.rank)
        .sort("uses", "unit", descending=[True, False])
        .unique("word", keep="first")
        .select(unit="word", absorber="parent")
    )
    parents = beside(beside(units, parent, "unit"), absorbed, "unit")
    root = parents.select(pl.coalesce("parent", "absorber", "unit")).to_series().to_numpy()
    while (root[root] != root).any():
        root = root[root]
    return Series(root)
