"""Themes: the share of descriptions with a word of a theme, for each group, and the tone of descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, String, col
from pydantic import RootModel

from tiltmeter._files.records import Filled, Line, validated
from tiltmeter._files.yaml import read_yaml
from tiltmeter.associations._definitions import AssociationOptions
from tiltmeter.associations._tables import OWNER
from tiltmeter.features._kinds import themes, vader_analyzer
from tiltmeter.readers._lemmas import roots_of
from tiltmeter.readers._words_in_sentences import word_lists

SMALLEST_VALENCE: Final = 2.0
"""Smallest absolute valence, from -4 to 4, of a word of positive or negative tone in the VADER lexicon."""
_TONES: Final = {"positive tone": 1.0, "negative tone": -1.0}


class _Themes(RootModel[dict[Line, Filled[list[Line]]]]):
    pass


def theme_words(options: AssociationOptions) -> DataFrame:
    """Return the `theme` of each `word`.

    Themes are those of the package or of the user's file and, in English, positive and negative tone.

    Raises
    ------
    InputError
        The user's file is not a mapping from themes to lists of words.
    """
    words_of_theme = dict(themes(options.language))
    if options.themes is not None:
        words_of_theme = validated(read_yaml(Path(options.themes), "themes"), _Themes, options.themes).root
    if options.language == "en":
        words_of_theme = words_of_theme | {name: _toned_words(sign) for name, sign in _TONES.items()}
    rows = [(name, word) for name, words in words_of_theme.items() for word in words]
    return DataFrame(rows, schema={"theme": String, "word": String}, orient="row")


def _toned_words(sign: float) -> list[str]:
    """Return the words of the VADER lexicon of positive (1) or negative (-1) tone."""
    lexicon = vader_analyzer().lexicon
    return [
        word for word, valence in lexicon.items() if valence * sign >= SMALLEST_VALENCE and word.isalpha()
    ]


def find_themes(
    lists: DataFrame, mentions: DataFrame, options: AssociationOptions, level: float
) -> DataFrame:
    """Return ASSOCIATIONS of each theme (`concept`) over all contexts.

    A list has a theme if it contains a word of it.

    Parameters
    ----------
    lists
        LISTS.
    mentions
        MENTIONS.
    """
    from tiltmeter.associations._significance.discovery import find_associations

    phrases = mentions.select(*OWNER, word=col.phrase.str.to_lowercase().str.split(" "))
    negations = list(word_lists(options.language)["negations"])
    words = phrases.filter(~col.word.list.first().is_in(negations)).explode("word").unique()
    themes = theme_words(options)
    forms = pl.concat([words["word"], themes["word"]]).unique()
    lemmas = DataFrame({"word": forms, "lemma": roots_of(forms, options.language)})
    theme_of_lemma = themes.join(lemmas, on="word").select("lemma", concept="theme").unique()
    with_theme = words.join(lemmas.join(theme_of_lemma, on="lemma"), on="word")
    associations = find_associations(
        lists,
        with_theme,
        level=level,
        minimum=options.minimum,
        against=options.against,
        reference=options.reference,
    )
    return associations.filter(col.context.is_null()).sort("low", descending=True)
