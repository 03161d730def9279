"""Rows of a benchmark, whatever their prompts were made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK, SENTENCES, Schema
from tiltmeter.benchmarks.files import sample_benchmark
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["DROPPED", "Assembled", "assembled", "checked", "given", "subsample"]

DROPPED: Schema = {**SENTENCES, "reason": pl.String}
"""One row per sentence that gave no prompt, and why."""

_KEY = ("kind", "domain", "concept", "source", "position", "keyword")
_NEEDED = ("domain", "concept", "keyword", "source", "position", "sentence")


class Assembled(NamedTuple):
    """What was made of a table of sentences."""

    benchmark: pl.DataFrame
    """BENCHMARK, in the order of the sentences."""
    dropped: pl.DataFrame
    """DROPPED, in the same order."""

    def counts(self) -> pl.DataFrame:
        """How many sentences were dropped: `concept`, `reason`, `sentences`."""
        return self.dropped.group_by("concept", "reason", maintain_order=True).agg(sentences=pl.len())


def checked(sentences: pl.DataFrame, concepts: Sequence[str] | None) -> pl.DataFrame:
    """The table with the columns SENTENCES and white space made even.

    Raises
    ------
    InputError
        A needed column is not there, a row has no concept or sentence, the table is empty, or a concept has no sentences.
    """
    for name in _NEEDED:
        if name not in sentences.columns:
            raise InputError(f"the table of sentences has no column {name!r}; it needs {', '.join(_NEEDED)}")
    for name in ("concept", "sentence"):
        empty = (sentences[name].cast(pl.String).fill_null("").str.strip_chars() == "").arg_true()
        if len(empty):
            raise InputError(f"the table of sentences, row {empty[0] + 1}: the column {name!r} is empty; fill it in or take the row out")
    present = set(sentences["concept"])
    if lacking := [concept for concept in concepts or () if concept not in present]:
        raise InputError(f"the concept {lacking[0]!r} has no sentences: give it more keywords or sources, or take it out")
    if sentences.is_empty():
        raise InputError("there are no sentences to make prompts of: give more keywords or sources")
    absent = (pl.lit(None, kind).alias(name) for name, kind in SENTENCES.items() if name not in sentences.columns)
    full = sentences.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in SENTENCES.items())
    return full.with_columns(pl.col("sentence").str.replace_all(r"\s+", " ").str.strip_chars())


def assembled(sentences: pl.DataFrame, prompts: pl.Series, reasons: pl.Series, kind: str, *, may_lack: bool = False) -> Assembled:
    """The benchmark of the sentences that have a prompt, the others with the reason why not.

    Parameters
    ----------
    sentences
        SENTENCES.
    prompts, reasons
        Of each sentence its prompt, or null and the reason.
    may_lack
        Whether a concept may be left without a prompt, because not everything was asked yet.

    Raises
    ------
    InputError
        All sentences of a concept were dropped.
    """
    table = sentences.with_columns(prompt=prompts, reason=reasons)
    kept = table.filter(pl.col("prompt").is_not_null())
    dropped = table.filter(pl.col("prompt").is_null()).select(list(DROPPED))
    found = Assembled(_rows(kept.with_columns(kind=pl.lit(kind), baseline="sentence")), dropped)
    if not may_lack and (lost := dropped.filter(~pl.col("concept").is_in(kept["concept"].unique().to_list()))).height:
        concept = lost["concept"][0]
        why = found.counts().filter(concept=concept).sort("sentences", descending=True)
        told = ", ".join(f"{count} {reason}" for reason, count in why.select("reason", "sentences").iter_rows())
        raise InputError(
            f"no prompt could be made of the sentences of {concept!r} ({told}): give it more keywords or sources, or take it out"
        )
    return found


def given(table: pl.DataFrame) -> pl.DataFrame:
    """A user's own prompts as a benchmark.

    Parameters
    ----------
    table
        `concept` and `prompt`, and any other column of BENCHMARK. Where there is no `key`, it is made of concept and prompt, so that it
        does not change when rows are added or moved.

    Raises
    ------
    InputError
        A needed column is missing or empty in some row, a column is unknown, or a key stands twice.
    """
    if unknown := [name for name in table.columns if name not in BENCHMARK]:
        raise InputError(f"the table of prompts has an unknown column {unknown[0]!r}: {did_you_mean(unknown[0], list(BENCHMARK))}")
    for name in ("concept", "prompt"):
        if name not in table.columns:
            raise InputError(f"the table of prompts has no column {name!r}; it needs concept and prompt")
        empty = (table[name].cast(pl.String).fill_null("").str.strip_chars() == "").arg_true()
        if len(empty):
            raise InputError(f"the table of prompts, row {empty[0] + 1}: the column {name!r} is empty; fill it in or take the row out")
    kind = pl.col("kind").fill_null("given") if "kind" in table.columns else pl.lit("given")
    return _rows(table.with_columns(kind=kind), key=("kind", "concept", "prompt"))


def subsample(benchmark: pl.DataFrame, *, size: int, seed: int) -> pl.DataFrame:
    """At most `size` rows, balanced over the concepts and drawn by seeded lots; a smaller sample is a subset of a larger one.

    See `tiltmeter.benchmarks.files.sample_benchmark`: branches stay with their roots.
    """
    return sample_benchmark(benchmark, size, seed=seed)


def _rows(table: pl.DataFrame, key: Sequence[str] = _KEY) -> pl.DataFrame:
    absent = (pl.lit(None, kind).alias(name) for name, kind in BENCHMARK.items() if name not in table.columns)
    full = table.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in BENCHMARK.items())
    full = full.with_columns(key=pl.coalesce("key", _keys(full.select(key))))
    full = full.with_columns(root=pl.coalesce("root", "key"), keyword_in_prompt=pl.coalesce("keyword_in_prompt", _contains(full)))
    if (twice := full["key"].is_duplicated()).any():
        raise InputError(f"the key {full['key'][twice.arg_true()[0]]!r} stands twice; give each prompt a key of its own")
    return full


def _keys(identities: pl.DataFrame) -> pl.Series:
    """16 hexadecimal digits of each row's identity; rows that are alike are numbered, in their order."""
    numbered = identities.with_columns(copy=pl.int_range(pl.len()).over(identities.columns))
    texts = (json.dumps(row, ensure_ascii=False) for row in numbered.iter_rows())
    return pl.Series("key", [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts], dtype=pl.String)


def _contains(table: pl.DataFrame) -> pl.Series:
    """Whether the prompt holds the keyword as a whole word, in any case; null where there is no keyword."""
    keywords = table["keyword"].unique().drop_nulls().to_list()
    patterns = {keyword: rf"(?i)(?:^|[^\w]){pl.escape_regex(keyword.strip())}(?:[^\w]|$)" for keyword in keywords}
    pattern = pl.col("keyword").replace_strict(patterns, default=None, return_dtype=pl.String)
    return table.select(found=pl.col("prompt").str.contains(pattern))["found"]
