"""Tables of keywords: made from lists, joined, and reduced."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import polars as pl

from tiltmeter.benchmarks._tables import KEYWORDS
from tiltmeter.benchmarks.sources import whole_words
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Encoder

__all__ = ["DEFINITIONS", "given_keywords", "join_keywords", "nearest", "non_containing", "rows", "with_similarity"]

DEFINITIONS = ("default", "saged")

_BOTH = ["domain", "concept"]


def given_keywords(keywords: Mapping[str, Sequence[str]], *, domain: str) -> pl.DataFrame:
    """KEYWORDS of a user's own lists, concept -> keywords; a keyword that is given twice (in any case) stands there once.

    Raises
    ------
    InputError
        No concept, a concept without keywords, or a keyword without a letter or digit.
    """
    if not keywords:
        raise InputError("there are no keywords: give at least one concept with its list of keywords")
    for concept, words in keywords.items():
        if not concept.strip():
            raise InputError("a list of keywords has no concept: give it a name")
        if isinstance(words, str):
            raise InputError(f"the keywords of {concept!r} must be a list, not one text: write [{words!r}]")
        if not words:
            raise InputError(f"the concept {concept!r} has an empty list of keywords: give at least one, or leave the concept out")
        for word in words:
            if not any(map(str.isalnum, str(word))):
                raise InputError(f"the keyword {word!r} of {concept!r} can be found in no text: it must hold a letter or digit")
    return rows(domain, {concept: [str(word) for word in words] for concept, words in keywords.items()}, "given")


def rows(domain: str, words: Mapping[str, Sequence[str]], kind: str) -> pl.DataFrame:
    """KEYWORDS of one kind, with single spaces and in composed form, each once."""
    flat = [(domain, concept, _clean(word), kind, None) for concept, some in words.items() for word in some]
    return join_keywords(pl.DataFrame(flat, schema=dict(KEYWORDS), orient="row"))


def _clean(word: str) -> str:
    return " ".join(unicodedata.normalize("NFC", word).split())


def join_keywords(*tables: pl.DataFrame) -> pl.DataFrame:
    """All keywords in order; one that a concept has twice (in any case) stays where it comes first."""
    whole = pl.concat([pl.DataFrame(schema=dict(KEYWORDS)), *(table.select(list(KEYWORDS)) for table in tables)])
    folded = pl.Series("folded", [word.casefold() for word in whole["keyword"]], dtype=pl.String)
    return whole.with_columns(folded).unique([*_BOTH, "folded"], keep="first", maintain_order=True).drop("folded")


def non_containing(keywords: pl.DataFrame, definition: str = "default") -> pl.DataFrame:
    """The keywords of each concept of which none contains another, whatever the case; of two, the shorter one is kept.

    What the longer one would find, the shorter one finds too. Sentences are searched for whole words, so by default a keyword
    contains another one where it holds it as whole words: "Shia Islam" contains "Islam", but "Islamic" does not, and finds other
    sentences. With "saged" it contains it wherever the letters stand, as published.

    Raises
    ------
    InputError
        Unknown definition.
    """
    if definition not in DEFINITIONS:
        raise InputError(f"unknown definition {definition!r}: {did_you_mean(definition, DEFINITIONS)}")
    keep: list[int] = []
    numbered = keywords.with_row_index("place")
    for _, table in numbered.group_by(_BOTH, maintain_order=True):
        places = table.select("place", "keyword").rows()
        kept: list[str] = []
        for place, word in sorted(places, key=lambda one: (len(one[1]), one[0])):
            if not _holds(word, kept, definition):
                kept.append(word)
                keep.append(place)
    return numbered.filter(pl.col("place").is_in(keep)).drop("place")


def _holds(word: str, kept: Sequence[str], definition: str) -> bool:
    if not kept:
        return False
    if definition == "saged":
        return any(one.casefold() in word.casefold() for one in kept)
    return whole_words(kept).search(word) is not None


def with_similarity(keywords: pl.DataFrame, encoder: Encoder) -> pl.DataFrame:
    """`similarity` filled in: cosine between the embeddings of keyword and concept, in -1 to 1."""
    if keywords.is_empty():
        return keywords
    import numpy as np

    texts = pl.concat([keywords["keyword"], keywords["concept"]]).unique(maintain_order=True)
    vectors = np.asarray(encoder.encode(texts.to_list()))
    place = pl.DataFrame({"text": texts}).with_row_index("place")
    both = keywords.select("keyword", "concept")
    at = [both.join(place, left_on=name, right_on="text", how="left", maintain_order="left")["place"].to_numpy() for name in both.columns]
    cosine = np.einsum("ij,ij->i", vectors[at[0]], vectors[at[1]]).astype(np.float64)
    return keywords.with_columns(similarity=pl.Series(cosine))


def nearest(keywords: pl.DataFrame, n: int, encoder: Encoder) -> pl.DataFrame:
    """The n keywords of each concept that are most similar to it, the nearest first; concepts in their order.

    Raises
    ------
    InputError
        n is not positive.
    """
    if n < 1:
        raise InputError(f"the number of keywords to keep must be 1 or more, not {n}")
    ranked = with_similarity(keywords, encoder).with_row_index("place")
    first = pl.col("place").min().over(_BOTH)
    return (
        ranked.sort(first, -pl.col("similarity"), "place").drop("place").group_by(_BOTH, maintain_order=True).head(n).select(list(KEYWORDS))
    )
