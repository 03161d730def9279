"""From answers to stories: one row per story and character, and how each attempt ended."""

from __future__ import annotations

import polars as pl

from tiltmeter.associations._tables import STORIES

__all__ = ["attempt_id", "stories_of"]

CHARACTERS = (1, 2)
_OF_CHARACTER = ("identity", "descriptor", "name")
_SHARED = ("context", "location")


def attempt_id() -> pl.Expr:
    """Names one story of one model: "gender/17/0/plain#3"."""
    return pl.concat_str("prompt_id", pl.lit("#"), "repetition").alias("attempt")


def stories_of(answers: pl.DataFrame, refused: pl.Series) -> pl.DataFrame:
    """STORIES of the answers of one model, in their order; a refused, failed or blank answer has no text.

    Parameters
    ----------
    answers
        The design's factors (`identity_1`, ..., `identity_2` where there is a second character, `context`, `location`, `type`) and
        the responses' columns.
    refused
        Whether each answer declines.
    """
    text = pl.when((pl.col("status") == "ok") & (pl.col("answer").str.strip_chars() != "") & ~refused).then(pl.col("answer"))
    rows = answers.with_columns(attempt_id(), text=text, row=pl.int_range(pl.len()))
    repetition = "turn" if "turn" in rows.columns else "repetition"
    characters = []
    for number in CHARACTERS:
        if f"identity_{number}" not in rows.columns:
            continue
        own = {name: _column(rows, f"{name}_{number}") for name in _OF_CHARACTER}
        shared = {name: _column(rows, name) for name in _SHARED}
        one = rows.select(
            "row",
            "attempt",
            "text",
            repetition=repetition,
            stratum=_column(rows, "type").fill_null("all"),
            character=pl.lit(number - 1),
            **own,
            **shared,
        )
        characters.append(one.filter(pl.col("identity").is_not_null()))
    return (
        pl.concat(characters)
        .sort("row", "character", maintain_order=True)
        .select(pl.col(name).cast(kind) for name, kind in STORIES.items())
    )


def _column(rows: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String) if name in rows.columns else pl.lit(None, pl.String)
