"""Families of words and phrases: forms of a word, and phrases that are mostly uses of one of their words ("olive", "olive skin").

A family has one concept. Antonyms, negations, and phrases with different demographic terms or numbers are
never in one family.
"""

from __future__ import annotations

import polars as pl
from polars import DataFrame, Expr, Series, col, when

from tiltmeter.associations.concepts import normal_form
from tiltmeter.associations.tables import CONCEPTS
from tiltmeter.associations.terms import any_of, guard_keys, load_terms
from tiltmeter.readers.content_words import lemmas_of, word_lists
from tiltmeter.schema import beside, conform

MOSTLY = 0.5
"""A phrase belongs to the family of its rarest word if it is at least this share of the uses of the word."""
NEARLY_ALWAYS = 0.8
"""A word belongs to the family of a phrase that is at least this share of its uses."""


def unify_words(phrases: DataFrame, language: str = "en", terms: str | None = None) -> DataFrame:
    """Group phrases into families and return the map from phrase to concept (CONCEPTS), in the order of `phrases`.

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
    lists, known = word_lists(language), load_terms(terms)
    rows = phrases.select("phrase", "mentions", form=normal_form(col.phrase)).with_row_index("row")
    rows = rows.with_columns(
        guard=2 * Series(guard_keys(rows["form"], known)) + rows["form"].str.starts_with("not ")
    )
    words = (
        rows.select("row", word=col.form.str.split(" "))
        .explode("word")
        .filter(~col.word.is_in(lists["articles"]))
    )
    words = words.filter(~(col.word.is_in(lists["copulas"]) & (pl.len().over("row") > 1)))
    words = words.with_columns(
        lemma=lemmas_of(words["word"], language), content=~col.word.is_in(lists["links"] | {"not"})
    )
    rows = beside(rows, words.group_by("row").agg(key=col.lemma.str.join(" ")), "row").with_columns(
        col.key.fill_null(col.form)
    )
    units = (
        rows.group_by("key", "guard", maintain_order=True)
        .agg(uses=col.mentions.sum(), row=col.row.first())
        .with_row_index("unit")
    )
    parts = units.join(words.filter("content"), on="row", maintain_order="left").select(
        "unit", "guard", "uses", part="lemma", compound=False
    )
    ending = rf"^(.+)-{any_of(lists['compounds'])}$"
    compounds = units.select(
        "unit", "guard", "uses", part=col.key.str.extract(ending), compound=True
    ).drop_nulls("part")
    # The bare name of a group ("black") has no family: it says something else in "black hair".
    root = _roots(
        units.with_columns(is_word=~col.key.str.contains(" ") & ~col.key.is_in(list(known.called))),
        pl.concat([parts, compounds]),
    )
    rows = beside(rows, units.select("key", "guard", family=root), "key", "guard")
    namesake = col.phrase.sort_by(col.mentions * length(col.form), "row", descending=[True, False]).first()
    rows = rows.with_columns(concept=namesake.over("family"))
    return conform(rows.with_columns(similarity=when(col.phrase == col.concept).then(1.0)), CONCEPTS)


def length(phrase: Expr) -> Expr:
    """Return the number of words, without articles.

    Uses times length names a family: by a phrase that is at least half of its uses.
    """
    return phrase.str.replace_all(r"\b(?:an?|the) ", "").str.count_matches(" ") + 1


def _roots(units: DataFrame, parts: DataFrame) -> Series:
    """Return the unit that stands for the family of each unit.

    A phrase points to its rarest word, and a word that nearly always occurs in one phrase to the rarest word
    of that phrase. So words point to rarer words only, and there are no cycles.
    """
    single = units.filter("is_word").sort("uses", "unit").with_row_index("rank")
    single = single.select("guard", "rank", part="key", word="unit", word_uses="uses")
    known = parts.join(single, on=["part", "guard"]).filter(col.unit != col.word)
    rarest = known.sort("rank").unique("unit", keep="first")
    owner = rarest.filter(col.compound | (col.uses >= MOSTLY * col.word_uses)).select(
        "unit", parent="word", least="rank"
    )
    held = known.join(owner, on="unit").filter(
        col.uses >= NEARLY_ALWAYS * col.word_uses, col.least < col.rank
    )
    absorbed = (
        held.sort("uses", "unit", descending=[True, False])
        .unique("word", keep="first")
        .select(unit="word", absorber="parent")
    )
    parents = beside(beside(units, owner, "unit"), absorbed, "unit")
    root = parents.select(pl.coalesce("parent", "absorber", "unit")).to_series().to_numpy()
    while (root[root] != root).any():
        root = root[root]
    return Series(root)
