"""How every attempt ends: decided here and counted here, for all methods.

What a refusal looks like in words is in `tiltmeter.readers.refusal`.
"""

from __future__ import annotations

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when

from tiltmeter.readers.refusal import refused_text

OUTCOMES = ("answered", "refused", "unreadable", "empty", "failed")
"""How every attempt ends, exactly one of these."""


def decide_outcome(otherwise: Expr | None = None, /, **conditions: Expr | Series | str) -> Expr:
    """The first outcome, in the order given, whose condition holds; where none does, "unreadable" unless said otherwise."""
    held = (when(holds).then(lit(name)) for name, holds in conditions.items())
    return pl.coalesce(*held, lit("unreadable") if otherwise is None else otherwise)


def verdict(table: DataFrame, label: Expr, refused: Expr) -> DataFrame:
    """Columns `outcome` and `label` from what a reader found; a label wins over a refusal ("As an AI I have no opinion, but yes")."""
    read = table.select(label=when(~col.blank).then(label).cast(String), refused=refused, blank="blank")
    return read.select(outcome=decide_outcome(empty="blank", answered=col.label.is_not_null(), refused="refused"), label="label")


def free_texts(answers: DataFrame) -> DataFrame:
    """Columns `text` (a story, a continuation), null where there is none, and `without`, the outcome then: failed, refused or empty."""
    refused = refused_text(answers["answer"]) | answers["refusal"].is_not_null()
    empty = col.answer.fill_null("").str.strip_chars() == ""
    without = decide_outcome(lit(None), failed=col.status != "ok", refused=refused, empty=empty)
    return answers.select("answer", without=without).select("without", text=when(col.without.is_null()).then("answer"))


def outcome_counts() -> list[Expr]:
    """For `select` or `agg`: `attempts`, how many ended in each outcome, and `items`, the resampling units with a readable answer."""
    ended = ((col.outcome == name).sum().cast(Int64).alias(name) for name in OUTCOMES)
    return [pl.len().cast(Int64).alias("attempts"), *ended, col.item.filter(outcome="answered").n_unique().cast(Int64).alias("items")]
