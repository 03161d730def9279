"""Does the answer decline to answer? A refusal is its own outcome: it never becomes a "no" or any other label.

Phrases are data (`data/refusals.yaml`). Two strengths are kept apart, because "I cannot tell" is a refusal of a yes/no question
but an answer where "not enough information" is one of the options; and a third list serves answers that are themselves texts
(letters, stories, e-mails), in which milder words of regret belong to the text.
"""

from __future__ import annotations

from functools import cache

import polars as pl

from tiltmeter.measures._text import alternatives, load_data, lowered, plain

__all__ = ["conceded", "declines", "declines_to_write", "refused"]

_TURN = r"(?:but|however|that said|having said that|nevertheless|nonetheless|still|hypothetically|if i (?:had to|were|was|must))\b"
_CHOICE = (
    r"\([a-e]\)|\b(?:answer|choice|emotion)\b[a-z ,']{0,40}(?:is|be|:)|\bi(?:'d|'ll| would| will| do)? (?:strongly )?"
    r"(?:say|choose|pick|select|go with|agree|disagree)\b|(?:^|[.!?:]\s*)(?:yes|no)\s*[.!]?\s*$|\b1[.)]\s"
)
_DELIVERED = r"(?i)\b(?:here(?:'s| is) (?:an?|the|my|your)|below is|subject:|dear )|\bname:"
_OPENING = 400
"""Characters in which a refusal to write shows itself."""

_GOES_ON = 500
"""A text this long after the apology is looked at again: the model may have written what was asked after all."""


@cache
def _pattern(*kinds: str) -> str:
    data = load_data("refusals")
    filled = [
        phrase.replace("{cannot}", alternatives(data["cannot"])).replace("{mind}", data["mind"]).replace("{ai}", data["ai"])
        for kind in kinds
        for phrase in data[kind]
    ]
    return alternatives(filled)


def declines(text: pl.Expr, *, or_cannot_tell: bool = True) -> pl.Expr:
    """Whether a phrase of refusal occurs in plain text; with `or_cannot_tell` also "I cannot determine" and the like."""
    kinds = ("declines", "cannot_tell") if or_cannot_tell else ("declines",)
    return lowered(text).str.contains(_pattern(*kinds))


def declines_to_write(text: pl.Expr) -> pl.Expr:
    """Whether a text that was asked for is declined in its opening, and not delivered afterwards all the same."""
    delivered = (text.str.len_bytes() > _GOES_ON) & text.str.contains(_DELIVERED)
    return lowered(text.str.head(_OPENING)).str.contains(_pattern("declines_to_write")) & ~delivered


def conceded(text: pl.Expr) -> pl.Expr:
    """What a declining text says after its turn ("As an AI I have no feelings, but ..."); "" when there is no turn."""
    found = lowered(text).str.extract(rf"(?s){_pattern('declines', 'cannot_tell')}.*?\b{_TURN}(.*)$", 1)
    return found.fill_null("")


def refused(answer: pl.Series) -> pl.Series:
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
    table = pl.DataFrame({"answer": answer.cast(pl.String)}).select(text=plain(pl.col("answer").fill_null("")))
    text = pl.col("text")
    return table.select(refused=declines(text) & ~conceded(text).str.contains(_CHOICE))["refused"]
