"""Themes: the share of the words of descriptions that are of a theme, and their tone, for each group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from polars import Boolean, DataFrame, Int64, Series, String, col, lit, when
from pydantic import RootModel

from tiltmeter._files.records import Filled, Line, validated
from tiltmeter._files.yaml import read_yaml
from tiltmeter.associations._definitions import AssociationOptions
from tiltmeter.associations._significance.comparisons import EVERYONE, comparisons_of
from tiltmeter.associations._significance.counts import LEVEL
from tiltmeter.associations._significance.incidence import counted_lists
from tiltmeter.associations._tables import ASSOCIATIONS, NET_TONE, OWNER, TONES
from tiltmeter.features._kinds import themes, vader_analyzer
from tiltmeter.readers._lemmas import roots_of
from tiltmeter.readers._words_in_sentences import word_lists
from tiltmeter.schema import beside, conform
from tiltmeter.stats import ItemClusters, benjamini_hochberg, stratified_mean_difference

_WORDS_COUNTED: Final = 2
"""Largest number of words of a phrase whose words are counted."""
SMALLEST_VALENCE: Final = 2.0
"""Smallest absolute valence, from -4 to 4, of a word of positive or negative tone in the VADER lexicon."""


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
        words_of_theme = words_of_theme | {name: _toned_words(sign) for name, sign in TONES.items()}
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
    """Return ASSOCIATIONS of each theme (`concept`) over all contexts, the strongest first.

    `rate` is the mean share of the words of a description that are of the theme, so that longer descriptions
    do not have more of it. In English, the concept NET_TONE is the share of words of positive tone minus that
    of negative tone. Identities are compared within locations and pairs.

    Parameters
    ----------
    lists
        LISTS.
    mentions
        MENTIONS.
    """
    shares = _theme_shares(lists, mentions, options)
    counted = counted_lists(lists).select(*OWNER, "identity", "context", "stratum", "pair", "name", "story")
    comparisons = comparisons_of(counted["identity"].unique().sort(), options.against, options.reference)
    names = counted["identity"].unique().sort().to_list()
    rows = []
    for (theme,), of_theme in shares.group_by("theme", maintain_order=True):
        listed = beside(counted, of_theme, *OWNER).with_columns(col.share.fill_null(0.0))
        if (listed["share"] != 0).sum() < options.minimum:
            continue
        for identity, against in zip(*comparisons, strict=True):
            other = None if against == EVERYONE else names[against]
            compared = _compared(listed, names[identity], other, level)
            if compared is not None:
                rows.append({"concept": theme, **compared})
    if not rows:
        return DataFrame(schema=dict(ASSOCIATIONS))
    table = conform(DataFrame(rows, infer_schema_length=None), ASSOCIATIONS)
    q = Series(benjamini_hochberg(table["p"].to_numpy()))
    is_reported = ((q < LEVEL) & (table["low"] > 0)).fill_null(False)
    themes = table.with_columns(q=q, reported=is_reported)
    return themes.sort("low", "concept", descending=[True, False], nulls_last=True)


def _compared(listed: DataFrame, identity: str, against: str | None, level: float) -> dict[str, Any] | None:
    """Return the comparison of the share of a theme in the descriptions of an identity and of others.

    None if no location or pair has both. There is no interval if there are too few descriptions.
    """
    if against is not None:
        listed = listed.filter(col.identity.is_in([identity, against]))
    is_first = col.identity == identity
    means = listed.group_by(first=is_first).agg(col.share.mean(), lists=pl.len())
    rates = {first: (share, number) for first, share, number in means.iter_rows()}
    strata = listed.select(pl.struct("context", "stratum", "pair").rank("dense")).to_series()
    difference = stratified_mean_difference(
        listed["share"], listed.select(is_first).to_series(), strata, _clusters(listed), level=level
    )
    if math.isnan(difference.estimate):
        return None
    has_interval = math.isfinite(difference.low)
    (rate, number), (others_rate, others) = rates[True], rates[False]
    return {
        "identity": identity,
        "against": against,
        "lists": number,
        "others_lists": others,
        "rate": rate,
        "others_rate": others_rate,
        "effect": difference.estimate,
        "low": difference.low if has_interval else None,
        "high": difference.high if has_interval else None,
        "p": difference.p,
        "level": level,
    }


def _clusters(listed: DataFrame) -> list[ItemClusters]:
    """Return the stories, pairs or authors, and the first names, that several descriptions have in common."""
    clusters = []
    for noun in ("story", "name"):
        number = listed.select(col(noun).rank("dense")).to_series().fill_null(0)
        if 1 < number.n_unique() < listed.height:
            rows = np.arange(listed.height)
            clusters.append(ItemClusters(noun, rows, number.to_numpy().astype(np.int64), 1))
    return clusters


def _theme_shares(lists: DataFrame, mentions: DataFrame, options: AssociationOptions) -> DataFrame:
    """Return the share of the words of each list that are of each theme: OWNER, `theme` and `share`.

    A general noun ("eyes") is no phrase of its own and counts with its adjectives. Names ("Grace", "Joy") are
    of no theme.
    """
    phrases = conform(mentions, {"times": Int64, "proper": Boolean}, further=True)
    phrases = phrases.filter(~col.proper.fill_null(value=False)).select(
        *OWNER, word=col.phrase.str.to_lowercase().str.split(" "), times=col.times.fill_null(1)
    )
    negations = list(word_lists(options.language)["negations"])
    phrases = phrases.filter(~col.word.list.first().is_in(negations), col.word.list.len() <= _WORDS_COUNTED)
    words = phrases.with_columns(single=col.word.list.len() == 1).explode("word")
    alone = col.times.filter("single").sum()
    in_pairs = col.times.filter(~col.single).sum()
    counts = words.group_by(*OWNER, "word", maintain_order=True).agg(
        times=when(col.single.any()).then(alone).otherwise(in_pairs)
    )
    themes = theme_words(options)
    forms = pl.concat([counts["word"], themes["word"]]).unique(maintain_order=True)
    lemmas = DataFrame({"word": forms, "lemma": roots_of(forms, options.language)})
    theme_of_lemma = themes.join(lemmas, on="word").select("lemma", "theme").unique(maintain_order=True)
    theme_of_word = lemmas.join(theme_of_lemma, on="lemma", maintain_order="left").select("word", "theme")
    with_theme = counts.join(theme_of_word, on="word", maintain_order="left")
    of_themes = with_theme.group_by(*OWNER, "theme", maintain_order=True).agg(col.times.sum())
    if options.language == "en":
        of_themes = pl.concat([of_themes, _net_tone(of_themes)])
    sizes = conform(lists, {"words": Int64}, further=True).select(*OWNER, "words")
    sizes = beside(sizes, counts.group_by(OWNER).agg(content=col.times.sum()), *OWNER)
    shares = beside(of_themes, sizes, *OWNER)
    return shares.select(*OWNER, "theme", share=col.times / pl.coalesce("words", "content"))


def _net_tone(of_themes: DataFrame) -> DataFrame:
    """Return the number of words of positive tone minus that of negative tone, as the theme NET_TONE."""
    sign = col.theme.replace_strict(TONES, default=0)
    toned = of_themes.filter(sign != 0).with_columns(times=col.times * sign)
    net = toned.group_by(OWNER, maintain_order=True).agg(col.times.sum())
    return net.select(*OWNER, theme=lit(NET_TONE), times=col.times.cast(of_themes.schema["times"]))
