"""How every attempt ends: decided and counted here, for all methods; and how a model declines.

A refusal is its own outcome: it never becomes a "no" or any other label. Phrases are data (`data/refusals.yaml`). Two strengths are kept
apart, because "I cannot tell" is a refusal of a yes/no question but an answer where "not enough information" is one of the options. A
third list serves letters, profiles and e-mails, in which milder words of regret belong to the text. A fourth serves free text (stories,
continuations, articles), which declines only where the assistant speaks of itself and of its task at the very beginning: what people in
a story say, or its narrator, declines nothing.
"""

from __future__ import annotations

from functools import cache

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when

from tiltmeter.readers.normalising import alternatives, load_data, lowered, plain, text_table, without_thinking

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


# How models decline

_TURN = r"(?:but|however|that said|having said that|nevertheless|nonetheless|still|hypothetically|if i (?:had to|were|was|must))\b"
_CHOICE = (
    r"\([a-e]\)|\b(?:answer|choice|emotion)\b[a-z ,']{0,40}(?:is|be|:)|\bi(?:'d|'ll| would| will| do)? (?:strongly )?"
    r"(?:say|choose|pick|select|go with|agree|disagree)\b|(?:^|[.!?:]\s*)(?:yes|no)\s*[.!]?\s*$|\b1[.)]\s"
)
_DELIVERED = r"(?i)\b(?:here(?:'s| is) (?:an?|the|my|your)|below is|subject:|dear )|\bname:"
_QUOTED = r"\"[^\"\n]*(?:\"|$)"
_SPOKEN = r"^\s*[\"'\x{2018}\x{201c}\x{ab}\x{201e}\x{2010}-\x{2015}]|^\s*-"
_WHOLE_QUOTATION = r"(?s)^\s*[\"\x{201c}\x{201e}\x{ab}]([^\"\x{201c}-\x{201f}\x{ab}\x{bb}]*)[\"\x{201d}\x{201c}\x{bb}]\s*$"
_NARRATED = (
    r"\b(?:said|says|replied|whispered|told|asked|answered|muttered|shouted|sighed|thought|cried|without|anymore|any more|tonight|until)\b"
)
_DISCLAIMED = 200
"""Characters after "I have no opinions" that are an answer all the same."""
_OPENING = 400
"""Characters in which a refusal to write shows itself."""

_READ = 2000
"""Characters of a free text that are looked at."""

_GOES_ON = 500
"""A text this long after the apology is looked at again: the model may have written what was asked after all."""


@cache
def _pattern(*kinds: str) -> str:
    data = load_data("refusals")
    phrases = [phrase for kind in kinds for phrase in data[kind]]
    for name in ("declining", "cannot", "produce", "work", "stance", "this", "mind", "ai"):
        words = data[name] if isinstance(data[name], str) else alternatives(data[name])
        phrases = [phrase.replace(f"{{{name}}}", words) for phrase in phrases]
    return alternatives(phrases)


def declines(text: Expr, *, or_cannot_tell: bool = True) -> Expr:
    """Whether a phrase of refusal occurs in plain text; with `or_cannot_tell` also "I cannot determine" and the like."""
    kinds = ("declines", "cannot_tell") if or_cannot_tell else ("declines",)
    return lowered(text).str.contains(_pattern(*kinds))


def declines_to_write(text: Expr) -> Expr:
    """Whether a text that was asked for is declined in its opening, and not delivered afterwards all the same."""
    delivered = (text.str.len_bytes() > _GOES_ON) & text.str.contains(_DELIVERED)
    opening = lowered(text.str.head(_OPENING))
    unquoted = opening.str.replace_all(_QUOTED, " ")
    opening = when(unquoted.str.contains("[a-z]")).then(unquoted).otherwise(opening)
    return opening.str.contains(_pattern("declines_to_write")) & ~delivered


def conceded(text: Expr) -> Expr:
    """What a declining text says after its turn ("As an AI I have no feelings, but ..."); "" when there is no turn."""
    found = lowered(text).str.extract(rf"(?s){_pattern('declines', 'cannot_tell')}.*?\b{_TURN}(.*)$", 1)
    return found.fill_null("")


def refused_text(answer: Series) -> Series:
    """Whether each free text (a story, a continuation, an article) is declined instead of written.

    Only what the assistant says of itself at the very beginning counts, outside quotation marks ("I'm sorry, but I can't write that",
    "As an AI, I cannot ..."). "The party cannot say ...", speech and first-person stories do not.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Boolean Series of the same length, never null.
    """
    whole = without_thinking(col.answer.fill_null("")).str.head(_READ).str.replace(_WHOLE_QUOTATION, "${1}")
    table = DataFrame({"answer": answer.cast(String)}).select(spoken=whole.str.contains(_SPOKEN), text=lowered(plain(whole)))
    opened = load_data("refusals")["before_declining"]
    before = rf"^\W*(?:{opened}\b[^.!?\n]*?(?:[.!?\n,]\s*|\bbut\s+|\bthat\s+|\s)(?:(?:but|however|yet),?\s+)?){{0,2}}?"
    declining = col.text.str.extract(rf"{before}({_pattern('declines_text')}[^.!?\n]*)", 1)
    disclaiming = col.text.str.extract(rf"(?s){before}{_pattern('disclaims_text')}(.*)$", 1)
    narrated = declining.str.replace_all(r"\byou(?:'ve| have)? asked\b", "").str.contains(_NARRATED)
    found = ~narrated.fill_null(True) | (disclaiming.str.len_bytes() < _DISCLAIMED).fill_null(False)
    return table.select(refused=found & ~col.spoken)["refused"]


def refused(answer: Series) -> Series:
    """Whether each answer declines to answer at all.

    An answer that declines and then answers ("As an AI I have no feelings, but: (c)") is no refusal. Blank answers are none either.
    The readers ask this question themselves, after looking for an answer in their own way.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Boolean Series of the same length, never null.
    """
    text = col.text
    return text_table(answer).select(refused=declines(text) & ~conceded(text).str.contains(_CHOICE))["refused"]
