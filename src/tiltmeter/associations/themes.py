"""Themes: the share of descriptions with a word of a theme, for each group, and the tone of descriptions."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from polars import DataFrame, String, col
from pydantic import RootModel

from tiltmeter.associations.definitions import AssociationOptions
from tiltmeter.associations.tables import OWNER
from tiltmeter.features.kinds import themes, vader_analyzer
from tiltmeter.files.records import Filled, Line, validated
from tiltmeter.files.yaml import read_yaml
from tiltmeter.readers.content_words import lemmas_of

TONED = 2.0
"""Smallest absolute valence, from -4 to 4, of a word of positive or negative tone in the VADER lexicon."""
_TONES = {"positive tone": 1.0, "negative tone": -1.0}


class _Themes(RootModel[dict[Line, Filled[list[Line]]]]):
    pass


def theme_words(options: AssociationOptions) -> DataFrame:
    """Return the `theme` of each `word`: those of the package or of the user's file and, in English, positive and negative tone.

    Raises
    ------
    InputError
        The user's file is not a mapping from themes to lists of words.
    """
    known = themes(options.language)
    if options.themes is not None:
        known = validated(read_yaml(Path(options.themes), "themes"), _Themes, options.themes).root
    if options.language == "en":
        lexicon = vader_analyzer().lexicon
        known = known | {
            name: [word for word, valence in lexicon.items() if valence * sign >= TONED and word.isalpha()]
            for name, sign in _TONES.items()
        }
    rows = [(name, word) for name, words in known.items() for word in words]
    return DataFrame(rows, schema={"theme": String, "word": String}, orient="row")


def find_themes(
    lists: DataFrame, mentions: DataFrame, options: AssociationOptions, level: float
) -> DataFrame:
    """Return ASSOCIATIONS of each theme (`concept`) over all contexts: how many lists have a word of it, for each identity.

    Parameters
    ----------
    lists
        LISTS.
    mentions
        MENTIONS.
    """
    from tiltmeter.associations.significance import find_associations

    words = mentions.select(*OWNER, word=col.phrase.str.to_lowercase().str.split(" ")).filter(
        col.word.list.first() != "not"
    )
    words, themes = words.explode("word").unique(), theme_words(options)
    forms = pl.concat([words["word"], themes["word"]]).unique()
    lemmas = DataFrame({"word": forms, "lemma": lemmas_of(forms, options.language)})
    of_lemma = themes.join(lemmas, on="word").select("lemma", concept="theme").unique()
    themed = words.join(lemmas.join(of_lemma, on="lemma"), on="word")
    found = find_associations(
        lists,
        themed,
        level=level,
        minimum=options.minimum,
        against=options.against,
        reference=options.reference,
    )
    return found.filter(col.context.is_null()).sort("low", descending=True)
