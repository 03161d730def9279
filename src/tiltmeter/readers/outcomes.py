"""Outcomes of attempts, for all methods, and detection of refusals.

A refusal is an outcome of its own and never becomes a "no" or any other label. The phrases are data
(`data/refusals.yaml`), in four lists:

1. refusals to answer, for all questions; "as an AI, I am not ..." counts only at the beginning;
2. statements that the answer cannot be determined. "I cannot tell" is a refusal of a yes/no question, but an answer if "not enough
   information" is one of the options;
3. refusals to write letters, profiles and e-mails, without mild expressions of regret, which are common in such texts;
4. refusals to write free text (stories, continuations, articles). They count only at the very beginning, where the assistant speaks of
   itself and its task; statements of characters or of the narrator are not refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when

from tiltmeter.readers.normalising import any_in, lowered, plain, tables, text_table, without_thinking

OUTCOMES = ("answered", "refused", "unreadable", "empty", "failed")
"""Possible outcomes of an attempt; each attempt has exactly one."""
READING_RULE = "reading_rule"
"""Column of measures with the name of the reader's rule that gave the label; null without a label."""


def decide_outcome(otherwise: Expr | None = None, /, **conditions: Expr | Series | str) -> Expr:
    """Return the first outcome, in the given order, whose condition is true, or else `otherwise` ("unreadable" if None)."""
    held = (when(holds).then(lit(name)) for name, holds in conditions.items())
    return pl.coalesce(*held, lit("unreadable") if otherwise is None else otherwise)


def verdict(table: DataFrame, label: Expr, refused: Expr) -> DataFrame:
    """Return the columns `outcome` and `label` of a reader's results.

    A label takes precedence over a refusal ("As an AI I have no opinion, but yes").
    """
    read = table.select(label=when(~col.blank).then(label).cast(String), refused=refused, blank="blank")
    return read.select(
        outcome=decide_outcome(empty="blank", answered=col.label.is_not_null(), refused="refused"),
        label="label",
    )


def decided(
    table: DataFrame,
    labels: Mapping[str, Expr],
    refused: Expr,
    *,
    clear: Expr | bool = True,
    with_rule: bool = False,
) -> DataFrame:
    """Return the columns `outcome` and `label` of a reader's results, and `rule` if asked for.

    Parameters
    ----------
    labels
        The label that each rule gives, or null, by the name of the rule. The first rule that gives one
        decides.
    refused
        Whether the answer declines.
    clear
        Whether the answer is clear enough for any label. By default it is.
    """
    given = table.select(**{name: label.cast(String) for name, label in labels.items()})
    label = pl.coalesce(*labels)
    rule = pl.coalesce(when(col(name).is_not_null()).then(lit(name)) for name in labels)
    found = table.with_columns(given.select(found=label, rule=rule))
    read = verdict(found, when(clear).then("found"), refused)
    return read.with_columns(rule=when(col.label.is_not_null()).then(found["rule"])) if with_rule else read


def corrected(read: Callable[..., DataFrame], answer: Series, *factors: Series) -> DataFrame:
    """Return what a reader finds, or what it finds behind the last correction of an answer ("Wait, actually, ...") if that is a label.

    Parameters
    ----------
    read
        The reader: a function of answers and factors that returns `outcome`, `label` and further columns.
    answer
        Strings, nulls allowed.
    factors
        Further arguments of the reader, each with a value per answer.
    """
    text, found = text_table(answer)["text"], read(answer, *factors)
    patterns = tables("writing")["corrections"].values()
    parts = pl.concat(
        DataFrame({"part": text.str.extract(pattern.find)}).with_row_index("row") for pattern in patterns
    ).drop_nulls("part")
    if parts.is_empty():
        return found
    # An explanation ("I misread the question") may follow the corrected answer, so the first pattern counts
    # that gives a label.
    again = read(parts["part"], *(factor[parts["row"]] for factor in factors)).with_columns(row=parts["row"])
    again = again.filter(col.label.is_not_null()).unique("row", keep="first", maintain_order=True)
    return found.with_row_index("row").update(again, on="row").drop("row")


def first_turns(read: Callable[..., DataFrame], answer: Series, *factors: Series) -> DataFrame:
    """Return what a reader finds, or, where that is no label, what it finds in the first turn if the model writes the next ones as well.

    Parameters
    ----------
    read
        The reader: a function of answers and factors that returns `outcome`, `label` and further columns.
    answer
        Strings, nulls allowed.
    factors
        Further arguments of the reader, each with a value per answer.
    """
    found = read(answer, *factors)
    patterns = [row.find for row in tables("writing")["turns"].values()]
    first_turn = pl.coalesce(col.answer.str.extract(pattern) for pattern in patterns)
    parts = DataFrame({"answer": answer.cast(String)}).select(first_turn)["answer"]
    unread = DataFrame({"part": parts, "outcome": found["outcome"]}).select(
        when(outcome="unreadable").then("part")
    )["part"]
    return read_again(read, unread, *factors, first=found)


def read_again(read: Callable[..., DataFrame], part: Series, *factors: Series, first: DataFrame) -> DataFrame:
    """Return the results of a reader, replaced by those for parts of the answers where the part is not null and has a label."""
    rows = part.is_not_null().arg_true()
    if not len(rows):
        return first
    again = read(part[rows], *(factor[rows] for factor in factors)).with_columns(row=rows)
    again = again.filter(col.label.is_not_null())
    return first.with_row_index("row").update(again, on="row").drop("row")


def free_texts(answers: DataFrame) -> DataFrame:
    """Return the columns `text` (the story or continuation, or null) and `without` (why it is null: "failed", "refused" or "empty")."""
    refused = refused_text(answers["answer"]) | answers["refusal"].is_not_null()
    empty = col.answer.fill_null("").str.strip_chars() == ""
    without = decide_outcome(lit(None), failed=col.status != "ok", refused=refused, empty=empty)
    return answers.select("answer", without=without).select(
        "without", text=when(col.without.is_null()).then("answer")
    )


def outcome_counts() -> list[Expr]:
    """Return expressions for `select` or `agg` that count attempts, outcomes, and items with an answered attempt (resampling units)."""
    ended = ((col.outcome == name).sum().cast(Int64).alias(name) for name in OUTCOMES)
    return [
        pl.len().cast(Int64).alias("attempts"),
        *ended,
        col.item.filter(outcome="answered").n_unique().cast(Int64).alias("items"),
    ]


# Detection of refusals

_QUOTED = r"\"[^\"\n]*(?:\"|$)"
_SPOKEN = r"^\s*[\"'\x{2018}\x{201c}\x{ab}\x{201e}\x{2010}-\x{2015}]|^\s*-"
_WHOLE_QUOTATION = (
    r"(?s)^\s*[\"\x{201c}\x{201e}\x{ab}]([^\"\x{201c}-\x{201f}\x{ab}\x{bb}]*)[\"\x{201d}\x{201c}\x{bb}]\s*$"
)
_DISCLAIMED = 200
"""Minimum length of a text after "I have no opinions" that counts as an answer, in characters."""
_OPENING = 400
"""Length of the beginning of a text that is searched for a refusal to write, in characters."""
_FIRST = 600
"""Length of the beginning of an answer in which the assistant may decline by speaking of itself, in
characters."""
_READ = 2000
"""Length of the beginning of a free text that is searched for a refusal, in characters."""
_GOES_ON = 500
"""Length in bytes above which a text may contain the requested text despite an apology at its beginning."""


def _around(name: str) -> str:
    return tables("refusals")["around"][name].find


def declines(lower: Expr, *, or_cannot_tell: bool = True) -> Expr:
    """Return whether a `lowered` text contains a phrase of refusal or, with `or_cannot_tell`, one such as "I cannot determine"."""
    own = lower.str.replace_all(_around("told"), " ")
    first = own.str.head(_FIRST).str.contains(any_in("refusals", "declines_first"))
    return first | own.str.contains(any_in("refusals", "declines", *["cannot_tell"] * or_cannot_tell))


def declines_to_write(text: Expr) -> Expr:
    """Return whether the beginning of a text declines to write it and the requested text does not follow."""
    delivered = (text.str.len_bytes() > _GOES_ON) & text.str.contains(_around("delivered"))
    opening = lowered(text.str.head(_OPENING))
    unquoted = opening.str.replace_all(_QUOTED, " ")
    opening = when(unquoted.str.contains("[a-z]")).then(unquoted).otherwise(opening)
    return opening.str.contains(any_in("refusals", "to_write")) & ~delivered


def conceded(text: Expr) -> Expr:
    """Return the part of a refusal after "but" or a similar word ("As an AI I have no feelings, but ..."), or "" if there is none."""
    return (
        lowered(text)
        .str.extract(
            rf"(?s){any_in('refusals', 'declines', 'declines_first', 'cannot_tell')}.*?\b{_around('turn')}(.*)$",
            1,
        )
        .fill_null("")
    )


def refused_text(answer: Series) -> Series:
    """Return whether the model declines to write each free text (a story, a continuation, an article).

    Only statements of the assistant about itself at the very beginning and outside quotation marks count
    ("I'm sorry, but I can't write that", "As an AI, I cannot ..."). "The party cannot say ...", direct speech
    and first-person stories do not.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Series
        Booleans, one per answer, never null.
    """
    whole = without_thinking(col.answer.fill_null("")).str.head(_READ).str.replace(_WHOLE_QUOTATION, "${1}")
    table = DataFrame({"answer": answer.cast(String)}).select(
        spoken=whole.str.contains(_SPOKEN), text=lowered(plain(whole))
    )
    before = rf"^\W*(?:{_around('politeness')}\b[^.!?\n]*?(?:[.!?\n,]\s*|\bbut\s+|\bthat\s+|\s)(?:(?:but|however|yet),?\s+)?){{0,2}}?"
    declining = col.text.str.extract(rf"{before}({any_in('refusals', 'free_text')}[^.!?\n]*)", 1)
    disclaiming = col.text.str.extract(rf"(?s){before}{any_in('refusals', 'disclaims')}(.*)$", 1)
    narrated = declining.str.replace_all(r"\byou(?: have)? asked\b", "").str.contains(_around("narrated"))
    found = ~narrated.fill_null(True) | (disclaiming.str.len_bytes() < _DISCLAIMED).fill_null(False)
    return table.select(refused=found & ~col.spoken)["refused"]


def refused(answer: Series) -> Series:
    """Return whether each answer is a refusal.

    An answer that declines and then answers ("As an AI I have no feelings, but: (c)") is not a refusal, nor
    is a blank answer. The readers detect refusals themselves, after searching for an answer.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Series
        Booleans, one per answer, never null.
    """
    text = col.text
    return text_table(answer).select(
        refused=declines(lowered(text)) & ~conceded(text).str.contains(_around("choice"))
    )["refused"]
