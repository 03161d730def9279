"""Yes or no (agreement with statements, decisions about people, stress in posts).

The patterns are data (`data/yes_no.yaml`), each with an example. Ticks, boxes, headings and tables are
written out first (`_layout.py`). `translations` turn answers in other languages into English. `steps` remove
text that is not part of the answer: restated alternatives ("yes or no"), quotations, the model's own
questions, conditions ("if it can be explained, then yes"), concessions ("although some would say yes") and
opinions of others; the rest is split into clauses. A clause means yes or no if a pattern of the tables `yes`
or `no` matches all of it: it consists of that word only ("I would say a clear no", "yes, because ..."), or
states agreement ("I disagree", "that is not true"). Words of a preamble ("Given no evidence of ...") and
opening adverbs and pleasantries ("Certainly!") are never an answer, unless there is nothing else.

The first of these rules that finds something decides. If it finds both yes and no, the answer is unreadable.

- final: a final answer ("Final answer: no");
- answer: a declared answer ("The answer is no", "Decision: no"), unless the answer starts with the opposite;
- conclusion: a conclusion ("so no", "on balance, yes"), unless the answer starts with the opposite;
- clause: any clause, or, depending on `about`, a sentence about the decision or the stress ("The loan should
  be approved");
- emphasis: a text of nothing but such words as "Absolutely!".

In a text of more than 80 words, a bare word in the middle ("..., no, ...") is no answer, unless it is the
first sentence of a paragraph. In a text that says that there is no single answer, a bare word is never one. A
word that is followed by the opposite decision ("yes, the office should not grant") or by talk about the reply
("no, you must not answer like this") is no answer either.

What follows a correction ("Wait, actually, yes") is read alone if it is an answer.

Opposite answers under opposite conditions ("approve if she has savings, otherwise deny") are unreadable. If
both yes and no are found, concessions are removed: a "yes" that only grants something ("I disagree. Yes,
there are differences") and a "no" that only limits a yes. If the model goes on with the next question or
speaker, and the whole is not read, the first turn is read alone.

A text that declines is a refusal unless it contains a plain yes or no, or states agreement after "however" or
a similar word ("However, I disagree").
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import polars as pl
from polars import DataFrame, Expr, Int64, Series, col, lit, when

from tiltmeter.readers._languages import ENGLISH, in_english
from tiltmeter.readers._layout import written_out
from tiltmeter.readers._normalising import any_in, any_of, lowered, rewritten, tables, text_table
from tiltmeter.readers.outcomes import conceded, corrected, decided, declines, first_turns, read_again

_LONG = 80
"""Length above which a text is long, in words."""
_OPENING = 2
"""Number of clauses at the beginning of a long text in which a bare word is an answer."""
_END = 1
"""The same at the end of the text."""
_CERTAIN = ["yes", "no"]
"""Meanings of an answer that is not both."""
About = Literal["statement", "decision", "stress"]


def read_yes_no(
    answer: Series, about: About = "statement", *, with_rule: bool = False, language: str = ENGLISH
) -> DataFrame:
    """Read the answer to a yes/no question.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    about
        Subject of the question: agreement with a statement, a decision in favour of a person, or whether the
        author of a text was under stress. Sentences about the subject count as well ("The loan should be
        approved").
    with_rule
        Whether to return the column `rule` as well, the name of the rule that decided (null unless answered).
    language
        Code of the language of the prompts.

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and
        `label` ("yes", "no"; null unless answered).
    """
    answers = written_out(in_english(answer, language))
    read = partial(corrected, partial(_read, about=about))
    labelled = first_turns(read, answers)
    concessions = tables("yes_no")["concessions"].values()
    without = DataFrame({"answer": answers}).select(answer=rewritten(col.answer, concessions))["answer"]
    conceding = (without != answers) & (labelled["outcome"] == "unreadable")
    parts = without.set(~conceding.fill_null(False), None)
    labelled = read_again(read, parts, first=labelled)
    return labelled if with_rule else labelled.drop("rule")


def _read(answer: Series, about: About) -> DataFrame:
    """Return the columns `outcome`, `label` and `rule`."""
    table = _with_clauses(answer, about)
    table = table.with_columns(yes=_judged("yes", about), no=_judged("no", about))
    table = _by_rules(table, about)
    labels = {
        "final": col.final,
        "answer": _unless_opposed(col.answer),
        "conclusion": _unless_opposed(col.conclusion),
        "clause": when(col.clause != "both").then("clause"),
        "emphasis": col.emphasis,
    }
    label = pl.coalesce(*labels.values())
    unclear = (col.declined | (label == "both")).fill_null(False)
    if about == "statement":
        criticism = col.clauses.str.contains(tables("yes_no")["other"]["criticism"].find)
        criticised = (criticism & (label == "yes")).fill_null(False)
    else:
        criticised = lit(False)
    return decided(table, labels, col.refused & ~criticised, clear=~unclear & ~criticised, with_rule=True)


def _with_clauses(answer: Series, about: About) -> DataFrame:
    """Return the answers with the clauses that may mean yes or no, one per line, in `clauses`.

    `lower` is the text in English and lower case, `declined` whether it contains a refusal of a yes/no
    question, `refused` whether it contains any refusal.
    """
    rows = tables("yes_no")
    signals = rows["other"]
    translated = rewritten(col.text.str.to_lowercase(), rows["translations"].values())
    table = text_table(answer).with_columns(lower=lowered(translated))
    table = table.with_columns(declined=col.lower.str.contains(any_in("yes_no", "refusals")))
    table = table.with_columns(refused=declines(lowered(col.text)) | col.declined)
    # In a refusal, agreement counts only after "but" or a similar word.
    of_refusals = when("refused")
    impersonal = of_refusals.then("lower").str.replace_all(r"\bi\b[^.,!?\n;:]*", " ")
    conceding = pl.concat_str(impersonal, lit("\n"), conceded(of_refusals.then("text")))
    text = of_refusals.then(conceding).otherwise("lower")
    table = table.with_columns(clauses=rewritten(text, rows["steps"].values()))
    long = col.lower.str.count_matches(r"\w+") > _LONG
    table = table.with_columns(clauses=when(long).then(_without_mere_words(about)).otherwise("clauses"))
    undecided = col.lower.str.contains(signals["no single answer"].find)
    without_words = _without(signals["mere word"].find)
    table = table.with_columns(clauses=when(undecided).then(without_words).otherwise("clauses"))
    about_wording = col.lower.str.contains(signals["wording"].find)
    without_judgements = _without(signals["mere judgement"].find)
    return table.with_columns(clauses=when(about_wording).then(without_judgements).otherwise("clauses"))


def _judged(side: str, about: About) -> Expr:
    """Return the clauses with "+" in place of those that mean yes (or no); marks before them stay."""
    patterns = [row for row in tables("yes_no")[side].values() if row.about in (None, about)]
    clause = rf"(?m)^((?:final= |answer= |conclusion= )*){any_of(patterns)}$"
    return col.clauses.str.replace_all(clause, "${1}+")


def _by_rules(table: DataFrame, about: About) -> DataFrame:
    """Return the table with the meaning that each rule gives ("yes", "no", "both" or null).

    `lead` is the meaning of the first clause.
    """
    any_clause = r"(?m)^[^\n+]*\+$"
    claims = _claims(table, about)
    yes = col.yes.str.contains(any_clause) | (claims["yes"] & ~claims["no"])
    no = col.no.str.contains(any_clause) | claims["no"]
    emphasised = col.lower.str.contains(tables("yes_no")["other"]["emphasis"].find)
    return table.with_columns(
        final=_marked("final"),
        answer=_marked("answer"),
        conclusion=_marked("conclusion"),
        lead=_judged_where(r"^\W*\+(?:\n|$)"),
        clause=_meaning(yes, no),
        emphasis=when(emphasised).then(lit("yes")),
    )


def _marked(mark: str) -> Expr:
    """Return the meaning of the clauses with a mark ("final", "answer", "conclusion"), or null."""
    return _judged_where(rf"(?m)^[^\n]*{mark}= [^\n+]*\+$")


def _judged_where(pattern: str) -> Expr:
    """Return the meaning of the judged clauses that match a pattern, or null."""
    return _meaning(col.yes.str.contains(pattern), col.no.str.contains(pattern))


def _meaning(yes: Expr, no: Expr) -> Expr:
    return when(yes & no).then(lit("both")).when(yes).then(lit("yes")).when(no).then(lit("no"))


def _unless_opposed(meaning: Expr) -> Expr:
    """Return the meaning, or "both" if the answer starts with the opposite."""
    opposed = col.lead.is_in(_CERTAIN) & (col.lead != meaning)
    return when(opposed).then(lit("both")).otherwise(meaning)


def _without_mere_words(about: About) -> Expr:
    """Return the clauses of a long text without bare words of yes or no in its middle.

    If the question is not about a statement, "this is not the case" in the middle is about something else as
    well.
    """
    rows = tables("yes_no")["other"]
    mere = [rows["mere word"]]
    if about != "statement":
        mere.append(rows["mere judgement"])
    lines = col.clauses.str.split("\n")
    opening = lines.list.head(_OPENING)
    after_opening = lines.list.slice(_OPENING)
    middle = after_opening.list.head(after_opening.list.len().cast(Int64) - _END)
    end = after_opening.list.tail(_END)
    clauses = middle.list.eval(pl.element().filter(~pl.element().str.contains(any_of(mere))))
    return pl.concat_list(opening, clauses, end).list.join("\n")


def _without(pattern: str) -> Expr:
    """Return the clauses that do not contain the pattern."""
    clauses = pl.element().filter(~pl.element().str.contains(pattern))
    return col.clauses.str.split("\n").list.eval(clauses).list.join("\n")


def _claims(table: DataFrame, about: About) -> DataFrame:
    """Return whether sentences about the subject of the question mean yes, and whether they mean no."""
    rows_of = tables("yes_no")
    rows = [row for name in ("uncertain", "claims") for row in rows_of[name].values() if row.about == about]
    certain = rewritten(col.clauses, (row for row in rows if row.reads is None))
    claims = {}
    for side in ("yes", "no"):
        patterns = [row for row in rows if row.reads == side]
        claims[side] = certain.str.contains(any_of(patterns)) if patterns else lit(False)
    return table.select(**claims)
