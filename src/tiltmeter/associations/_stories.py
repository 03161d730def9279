"""Stories of the responses, and the lists and mentions that are made from them."""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter.associations._tables import LISTS, MENTIONS, OWNER, PLACED, STORIES
from tiltmeter.readers.outcomes import free_texts
from tiltmeter.schema import beside, conform

ATTEMPT: Final = pl.concat_str("prompt_id", lit("#"), "repetition")
"""The identifier of a story of one model, such as "gender/17/0/plain#3"."""
_CHARACTERS: Final = (1, 2)
_FACTORS: Final = (
    *(f"{name}_{number}" for number in _CHARACTERS for name in ("identity", "descriptor", "name")),
    "type",
    "context",
    "location",
    "pair",
    "cluster",
)
"""Factors of the design of a grid or of existing texts."""


def stories_of(answers: DataFrame) -> DataFrame:
    """Return STORIES of the responses of one model, in order.

    A refused, failed or blank response has no text.

    Parameters
    ----------
    answers
        The factors of the design (`identity_1`, ..., `identity_2` if there is a second character, `context`,
        `location`, `type`) and the columns of the responses.
    """
    complete = conform(answers, dict.fromkeys(_FACTORS, String), further=True)
    rows = complete.with_columns(
        attempt=ATTEMPT,
        text=free_texts(answers)["text"],
        row=pl.int_range(pl.len()),
        repetition="turn" if "turn" in answers.columns else "repetition",
        stratum=col.type.fill_null("all"),
    )
    by_character = [
        rows.with_columns(
            identity=f"identity_{number}",
            descriptor=f"descriptor_{number}",
            name=f"name_{number}",
            character=lit(number - 1),
        )
        for number in _CHARACTERS
    ]
    characters = pl.concat(by_character).drop_nulls("identity")
    return conform(characters.sort("row", "character"), STORIES)


def with_reasons(lists: DataFrame, answers: DataFrame) -> DataFrame:
    """Return the lists with the reason why a response has no story as their `problem`.

    A response has no story if it was refused, failed or blank.
    """
    outcome = col.outcome_without_text
    by_provider = col.refusal.is_not_null()
    failure = col.error.str.extract("^([^:]*)").fill_null("unknown")
    reason = (
        when(outcome == "failed")
        .then(pl.format("no response came ({})", failure))
        .when((outcome == "refused") & by_provider)
        .then(lit("the provider refused"))
        .when(outcome == "refused")
        .then(lit("the model refused"))
        .when(outcome == "empty")
        .then(lit("there is no text"))
    )
    attempts = answers.select(
        "refusal", "error", free_texts(answers)["outcome_without_text"], attempt=ATTEMPT
    )
    reasons = attempts.select("attempt", reason=reason)
    with_reason = beside(lists, reasons, "attempt").with_columns(problem=pl.coalesce("reason", "problem"))
    return with_reason.drop("reason")


def lists_of_mentions(stories: DataFrame, mentions: DataFrame, lists: DataFrame | None) -> DataFrame:
    """Return LISTS of stories whose mentions the user gave.

    A list without mentions is empty, or missing if there is no text or the user's table says so.

    Parameters
    ----------
    lists
        The user's table of lists, if there is one.
    """
    if lists is None:
        lists = DataFrame(schema=dict(LISTS))
    stated = lists.select(*OWNER, "problem", "status").unique(OWNER, keep="first")
    with_mentions = mentions.select(*OWNER, has_mentions=lit(True)).unique()
    complete = beside(beside(stories, with_mentions, *OWNER), stated, *OWNER)
    return complete.with_columns(status=_status())


def _status() -> Expr:
    is_missing = col.text.is_null() | (col.status == "missing")
    return (
        when("has_mentions").then(lit("listed")).when(is_missing).then(lit("missing")).otherwise(lit("empty"))
    )


def placed(mentions: DataFrame, lists: DataFrame) -> DataFrame:
    """Return PLACED: MENTIONS with the identity, descriptor and location of their list."""
    places = lists.select(*OWNER, *(name for name in PLACED if name not in MENTIONS))
    return beside(mentions, places, *OWNER)


def counted(mentions: DataFrame) -> DataFrame:
    """Return each `phrase` with its number of `mentions`, the most frequent first."""
    counts = mentions["phrase"].value_counts(name="mentions")
    return counts.sort("mentions", "phrase", descending=[True, False])


def comparable(lists: DataFrame) -> bool:
    """Return whether at least two identities have a list."""
    return lists.filter(col.status != "missing")["identity"].n_unique() > 1


def unified(mentions: DataFrame, concepts: DataFrame) -> DataFrame:
    """Add the `concept` to each mention."""
    return beside(mentions, concepts.select("phrase", "concept"), "phrase")
