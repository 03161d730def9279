"""Outcomes of attempts, for all methods, and detection of refusals.

A refusal is an outcome of its own and never becomes a "no" or any other label. The phrases are data
(`data/refusals.yaml`), in four lists:

1. refusals to answer, for all questions; "as an AI, I am not ..." counts only at the beginning;
2. statements that the answer cannot be determined. "I cannot tell" is a refusal of a yes/no question, but an
   answer if "not enough information" is one of the options;
3. refusals to write letters, profiles and e-mails, without mild expressions of regret, which are common in
   such texts;
4. refusals to write free text (stories, continuations, articles). They count only at the very beginning,
   where the assistant speaks of itself and its task; statements of characters or of the narrator are not
   refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col, lit, when

from tiltmeter.readers._normalising import any_in, lowered, plain, tables, text_table, without_thinking

OUTCOMES = ("answered", "refused", "unreadable", "empty", "failed")
"""Possible outcomes of an attempt; each attempt has exactly one."""
READING_RULE = "reading_rule"
"""Column of measures with the name of the reader's rule that gave the label; null without a label."""


def decide_outcome(otherwise: Expr | None = None, /, **conditions: Expr | Series | str) -> Expr:
    """Return the first outcome, in the order of the arguments, whose condition is true.

    If none is true, the outcome is `otherwise` ("unreadable" if None).
    """
    outcomes = [when(condition).then(lit(name)) for name, condition in conditions.items()]
    return pl.coalesce(*outcomes, lit("unreadable") if otherwise is None else otherwise)


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
    labels_of_rules = table.select(**{name: label.cast(String) for name, label in labels.items()})
    first_label = pl.coalesce(*labels)
    first_rule = pl.coalesce(when(col(name).is_not_null()).then(lit(name)) for name in labels)
    decisions = labels_of_rules.select(decision=first_label, rule=first_rule)
    read = verdict(table.with_columns(decisions), when(clear).then("decision"), refused)
    if with_rule:
        return read.with_columns(rule=when(col.label.is_not_null()).then(decisions["rule"]))
    return read


def corrected(read: Callable[..., DataFrame], answer: Series, *factors: Series) -> DataFrame:
    """Read answers; what follows the last correction takes precedence if it has a label.

    An example of a correction is "Wait, actually, ...".

    Parameters
    ----------
    read
        The reader: a function of answers and factors that returns `outcome`, `label` and further columns.
    answer
        Strings, nulls allowed.
    factors
        Further arguments of the reader, each with a value per answer.
    """
    text = text_table(answer)["text"]
    labelled = read(answer, *factors)
    patterns = tables("writing")["corrections"].values()
    parts = pl.concat(
        DataFrame({"part": text.str.extract(pattern.find)}).with_row_index("row") for pattern in patterns
    ).drop_nulls("part")
    if parts.is_empty():
        return labelled
    # An explanation ("I misread the question") may follow the corrected answer, so the first pattern counts
    # that gives a label.
    again = read(parts["part"], *(factor[parts["row"]] for factor in factors)).with_columns(row=parts["row"])
    again = again.filter(col.label.is_not_null()).unique("row", keep="first", maintain_order=True)
    return labelled.with_row_index("row").update(again, on="row").drop("row")


def first_turns(read: Callable[..., DataFrame], answer: Series, *factors: Series) -> DataFrame:
    """Read answers; where there is no label, read the first turn if the model writes the next turns as well.

    Parameters
    ----------
    read
        The reader: a function of answers and factors that returns `outcome`, `label` and further columns.
    answer
        Strings, nulls allowed.
    factors
        Further arguments of the reader, each with a value per answer.
    """
    labelled = read(answer, *factors)
    patterns = [row.find for row in tables("writing")["turns"].values()]
    first_turn = pl.coalesce(col.answer.str.extract(pattern) for pattern in patterns)
    parts = DataFrame({"answer": answer.cast(String)}).select(first_turn)["answer"]
    turns = DataFrame({"part": parts, "outcome": labelled["outcome"]})
    unread = turns.select(when(outcome="unreadable").then("part"))["part"]
    return read_again(read, unread, *factors, first=labelled)


def read_again(read: Callable[..., DataFrame], part: Series, *factors: Series, first: DataFrame) -> DataFrame:
    """Return the results `first` of a reader, replaced by those of parts of the answers.

    A part replaces the answer where it is not null and has a label.
    """
    rows = part.is_not_null().arg_true()
    if not len(rows):
        return first
    again = read(part[rows], *(factor[rows] for factor in factors)).with_columns(row=rows)
    again = again.filter(col.label.is_not_null())
    return first.with_row_index("row").update(again, on="row").drop("row")


def free_texts(answers: DataFrame) -> DataFrame:
    """Return the columns `text` (the story or continuation, or null) and `outcome_without_text`.

    The latter says why the text is null: "failed", "refused" or "empty", the first that applies.
    """
    refused = refused_text(answers["answer"]) | answers["refusal"].is_not_null()
    empty = without_thinking(col.answer.fill_null("")).str.strip_chars() == ""
    outcome = decide_outcome(lit(None), failed=col.status != "ok", refused=refused, empty=empty)
    table = answers.select("answer", outcome_without_text=outcome)
    text = when(col.outcome_without_text.is_null()).then("answer")
    return table.select("outcome_without_text", text=text)


def outcome_counts() -> list[Expr]:
    """Return expressions for `select` or `agg` that count attempts, outcomes and items.

    Items are the resampling units with an answered attempt.
    """
    attempts = pl.len().cast(Int64).alias("attempts")
    outcomes = [(col.outcome == name).sum().cast(Int64).alias(name) for name in OUTCOMES]
    items = col.item.filter(outcome="answered").n_unique().cast(Int64).alias("items")
    return [attempts, *outcomes, items]


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
"""Length of the beginning in which the assistant may decline by speaking of itself, in characters."""
_READ = 2000
"""Length of the beginning of a free text that is searched for a refusal, in characters."""
_GOES_ON = 500
"""Length in bytes above which a text may contain the requested text despite an apology at its beginning."""


def _around(name: str) -> str:
    return tables("refusals")["around"][name].find


def declines(lower: Expr, *, or_cannot_tell: bool = True) -> Expr:
    """Return whether a `lowered` text contains a phrase of refusal.

    With `or_cannot_tell`, phrases such as "I cannot determine" count as well.
    """
    lists = ["declines", "cannot_tell"] if or_cannot_tell else ["declines"]
    without_reports = lower.str.replace_all(_around("told"), " ")
    beginning = without_reports.str.head(_FIRST)
    declines_at_first = beginning.str.contains(any_in("refusals", "declines_first"))
    return declines_at_first | without_reports.str.contains(any_in("refusals", *lists))


def declines_to_write(text: Expr) -> Expr:
    """Return whether the beginning of a text declines to write it and the requested text does not follow."""
    delivered = (text.str.len_bytes() > _GOES_ON) & text.str.contains(_around("delivered"))
    opening = lowered(text.str.head(_OPENING))
    unquoted = opening.str.replace_all(_QUOTED, " ")
    opening = when(unquoted.str.contains("[a-z]")).then(unquoted).otherwise(opening)
    return opening.str.contains(any_in("refusals", "to_write")) & ~delivered


def conceded(text: Expr) -> Expr:
    """Return the part of a refusal after "but" or a similar word, or "" if there is none.

    An example is "As an AI I have no feelings, but ...".
    """
    refusal = any_in("refusals", "declines", "declines_first", "cannot_tell")
    after_turn = rf"(?s){refusal}.*?\b{_around('turn')}(.*)$"
    return lowered(text).str.extract(after_turn, 1).fill_null("")


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
    beginning = without_thinking(col.answer.fill_null("")).str.head(_READ)
    unquoted = beginning.str.replace(_WHOLE_QUOTATION, "${1}")
    table = DataFrame({"answer": answer.cast(String)}).select(
        is_speech=unquoted.str.contains(_SPOKEN), text=lowered(plain(unquoted))
    )
    end_of_politeness = r"(?:[.!?\n,]\s*|\bbut\s+|\bthat\s+|\s)(?:(?:but|however|yet),?\s+)?"
    before = rf"^\W*(?:{_around('politeness')}\b[^.!?\n]*?{end_of_politeness}){{0,2}}?"
    declining = col.text.str.extract(rf"{before}({any_in('refusals', 'free_text')}[^.!?\n]*)", 1)
    disclaiming = col.text.str.extract(rf"(?s){before}{any_in('refusals', 'disclaims')}(.*)$", 1)
    # Only the sentence that declines is searched: the next one may say what the model offers instead.
    sentence = declining.str.extract(r"^([^.!?\n]*)", 1)
    narrated = sentence.str.replace_all(r"\byou(?: have)? asked\b", "").str.contains(_around("narrated"))
    is_short_disclaimer = (disclaiming.str.len_bytes() < _DISCLAIMED).fill_null(False)
    declines_itself = ~narrated.fill_null(True) | is_short_disclaimer
    return table.select(refused=declines_itself & ~col.is_speech)["refused"]


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
    answers_then = conceded(col.text).str.contains(_around("choice"))
    refusal = declines(lowered(col.text)) & ~answers_then
    return text_table(answer).select(refused=refusal)["refused"]
