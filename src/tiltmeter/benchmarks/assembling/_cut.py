"""Where sentences are cut into a prompt and what is left to the model."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tiltmeter.benchmarks.assembling._verb import Words, main_verb
from tiltmeter.benchmarks.sentences import tagged

__all__ = ["LONGEST", "NO_VERB", "TOO_LONG", "cut_after_verb", "cut_as_saged"]

NO_VERB = "no main verb was found"
LONGEST = 5_000
"""Characters of a sentence that is cut; what is longer is a list, a table or no text at all."""
TOO_LONG = f"it is longer than {LONGEST:,} characters"

_SAGED_FIRST = 5
_SAGED_MORE = 3
_MARKS = ("PUN", "PUQ")
_JOINTS = "-/'\u2019\u2010\u2011"


def cut_after_verb(sentences: Sequence[str]) -> pl.Series:
    """Number of characters of each sentence up to the end of its main verb with its auxiliaries; null where none was found.

    Null too where a sentence is longer than LONGEST.

    What stands in brackets is never looked at, what stands in quotation marks or between dashes only where there is no verb outside
    them. Where the dependency root is known (spaCy) and is a verb, it is the main verb.
    """
    tokens = _tagged(sentences)
    last = {place: found for place, found in _read(tokens).items() if found is not None}
    roots = tokens.filter(pl.col("root").fill_null(value=False) & pl.col("tag").str.starts_with("V"), pl.col("depth") == 0)
    last |= dict(roots.select("sentence", "token").iter_rows())
    ends = _ends(tokens, last, len(sentences)).to_list()
    whole = [end if end is None else _whole_word(sentence, end) for sentence, end in zip(sentences, ends, strict=True)]
    return pl.Series("end", whole, dtype=pl.UInt32)


def cut_as_saged(sentences: Sequence[str]) -> pl.Series:
    """The same by the published rule: three words after the first verb (or dependency root), looked for after the fifth word first.

    That word is not capitalised and stands in no brackets. Without spaCy no roots are known; the main verb stands for the root.
    """
    tokens = _tagged(sentences)
    known = tokens["root"].null_count() == 0
    mains = {} if known else {place: found for place, found in _read(tokens).items() if found is not None}
    main = pl.col("sentence").replace_strict(mains, default=None, return_dtype=pl.UInt32) if mains else pl.lit(None, pl.UInt32)
    verb = pl.col("tag").str.starts_with("VV") | pl.col("root").fill_null(value=False) | (pl.col("token") == main).fill_null(value=False)
    fits = tokens.filter(verb & ~pl.col("title") & (pl.col("depth") == 0))
    late = pl.col("token").filter(pl.col("token") >= _SAGED_FIRST).first()
    chosen = fits.group_by("sentence", maintain_order=True).agg(token=pl.coalesce(late, pl.col("token").first()) + _SAGED_MORE)
    length = tokens.group_by("sentence").agg(last=pl.col("token").max())
    chosen = chosen.join(length, on="sentence").select("sentence", pl.min_horizontal("token", "last"))
    return _ends(tokens, dict(chosen.iter_rows()), len(sentences))


def _tagged(sentences: Sequence[str]) -> pl.DataFrame:
    """Without the words of those that are too long."""
    return tagged([sentence if len(sentence) <= LONGEST else "" for sentence in sentences])


def _ends(tokens: pl.DataFrame, last: dict[int, int], count: int) -> pl.Series:
    """Where the chosen token of each sentence ends; null where none is."""
    schema = {"sentence": pl.UInt32, "token": pl.UInt32}
    chosen = pl.DataFrame({"sentence": list(last), "token": list(last.values())}, schema=schema)
    found = chosen.join(tokens.select("sentence", "token", "end"), on=["sentence", "token"])
    every = pl.DataFrame({"sentence": pl.Series(range(count), dtype=pl.UInt32)})
    return every.join(found, on="sentence", how="left", maintain_order="left")["end"]


def _read(tokens: pl.DataFrame) -> dict[int, int | None]:
    """Place of the last word of each sentence's main verb."""
    outside = tokens.filter(pl.col("depth") == 0)
    strictly = _words(_without_inserts(_without_quotes(outside)))
    found: dict[int, int | None] = {place: _last(words) for place, words in strictly.items()}
    lacking = [place for place in tokens["sentence"].unique().to_list() if found.get(place) is None]
    others = outside.filter(pl.col("sentence").is_in(lacking) & (pl.col("tag") != "PUQ") & (pl.col("text") != '"'))
    return found | {place: _last(words) for place, words in _words(others).items()}


def _last(words: Words) -> int | None:
    found = main_verb(words)
    return None if found is None else found[1]


def _words(tokens: pl.DataFrame) -> dict[int, Words]:
    """The words of each sentence, marks before the first one left out."""
    begun = (~pl.col("tag").is_in(_MARKS)).cum_sum().over("sentence") > 0
    grouped = tokens.filter(begun).group_by("sentence", maintain_order=True).agg("text", "tag", "name", "token")
    return {place: Words(*columns) for place, *columns in grouped.iter_rows()}


def _without_quotes(tokens: pl.DataFrame) -> pl.DataFrame:
    """Each quotation becomes one noun, which it most often is in its sentence: 'a chapter on "..." appears'."""
    begins = pl.col("quoted") & ~pl.col("quoted").shift(1, fill_value=False).over("sentence")
    tag = pl.when("quoted").then(pl.lit("NN1")).otherwise("tag")
    kept = tokens.filter(~pl.col("quoted") | begins).with_columns(tag=tag, name=pl.col("name") & ~pl.col("quoted"))
    return kept.filter((pl.col("tag") != "PUQ") & (pl.col("text") != '"') | pl.col("quoted"))


def _without_inserts(tokens: pl.DataFrame) -> pl.DataFrame:
    """Without what stands between two dashes."""
    dash = pl.col("text") == "\u2014"
    count, total = dash.cum_sum().over("sentence"), dash.sum().over("sentence")
    inside = ((count % 2 == 1) & (count < total)) | (dash & (count % 2 == 0))
    return tokens.filter(~inside)


def _whole_word(sentence: str, end: int) -> int:
    """Never inside what stands together without a blank ("criticizes/criticises")."""
    while end < len(sentence) and (sentence[end].isalnum() or (sentence[end] in _JOINTS and sentence[end + 1 : end + 2].isalnum())):
        end += 1
    return end
