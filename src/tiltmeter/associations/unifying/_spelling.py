"""Which spellings of a phrase are one string, and which strings have the same words."""

from __future__ import annotations

import re

import polars as pl

__all__ = ["folded", "normal_form"]

_OUTER = " .,;:!?…\"'“”*_-–—()[]"
_ARTICLES = ("a", "an", "the")
_BE = frozenset(("is", "are", "was", "were", "being", "be"))
_HAVE = dict.fromkeys(("has", "had", "having"), "have")


def normal_form(phrase: pl.Expr) -> pl.Expr:
    """The phrase without case, repeated blanks and outer punctuation (as it is where nothing would be left)."""
    form = (
        phrase.str.normalize("NFKC").str.replace_all("[’‘`´]", "'").str.replace_all(r"\s+", " ").str.strip_chars(_OUTER).str.to_lowercase()
    )
    return pl.when(form == "").then(phrase).otherwise(form)


def folded(phrases: pl.Series) -> pl.Series:
    """Equal where phrases differ by articles, a leading "is", "has" for "have", an -s, or an -ing form that has an object."""
    words = pl.DataFrame({"word": phrases}).select(normal_form(pl.col("word")).str.split(" ")).with_row_index("row").explode("word")
    words = words.filter(~pl.col("word").is_in(_ARTICLES) & (pl.col("word") != "").fill_null(False))
    first = pl.int_range(pl.len()).over("row") == 0
    words = words.filter(~(first & pl.col("word").is_in(_BE) & (pl.len().over("row") > 1)))
    verb = (pl.int_range(pl.len()).over("row") == 0) & (pl.len().over("row") > 1)
    vocabulary = words["word"].unique(maintain_order=True).to_list()
    plain = {word: _stem(word) for word in vocabulary}
    acting = {word: _stem(_without_ing(_HAVE.get(word, word))) for word in vocabulary}
    word = pl.col("word")
    stems = (
        pl.when(verb)
        .then(word.replace_strict(acting, return_dtype=pl.String))
        .otherwise(word.replace_strict(plain, return_dtype=pl.String))
    )
    lines = words.with_columns(stems).group_by("row").agg(pl.col("word").str.join(" "))
    rows = pl.DataFrame({"row": range(len(phrases)), "phrase": phrases}, schema_overrides={"row": words.schema["row"]})
    return rows.join(lines, on="row", how="left", maintain_order="left").select(pl.coalesce("word", "phrase")).to_series()


def _without_ing(word: str) -> str:
    return word[:-3] if len(word) >= 6 and word.endswith("ing") and re.search("[aeiouy]", word[:-3]) else word


def _stem(word: str) -> str:
    """Without -s and what its spelling changes: "carries" is "carry", "makes" and "mak(ing)" are one."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and re.search(r"(?:ss|sh|ch|x|z|o)es$", word):
        word = word[:-2]
    elif len(word) > 3 and re.search(r"[^sui]s$", word):
        word = word[:-1]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return re.sub(r"([^\W\daeiou])\1$", r"\1", word)
