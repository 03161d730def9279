"""Yes or no (agreement with statements, decisions about people, stress in posts).

The patterns are data (`data/yes_no.yaml`), each with an example. Ticks, boxes, headings and tables are
written out first (`layout.py`). `translations` turn answers in other languages into English. `steps` remove
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
- clause: any clause, or, depending on `about`, a sentence about the decision or the stress ("The loan should be approved");
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

from tiltmeter.readers.layout import written_out
from tiltmeter.readers.normalising import any_in, any_of, lowered, rewritten, tables, text_table
from tiltmeter.readers.outcomes import conceded, corrected, decided, declines, first_turns, read_again

_LONG = 80
"""Length above which a text is long, in words."""
_OPENING, _END = 2, 1
"""Number of clauses at the beginning and at the end of a long text in which a bare word is an answer."""
About = Literal["statement", "decision", "stress"]


def read_yes_no(answer: Series, about: About = "statement", *, with_rule: bool = False) -> DataFrame:
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

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and
        `label` ("yes", "no"; null unless answered).
    """
    answers = written_out(answer)
    read = partial(corrected, partial(_read, about=about))
    found = first_turns(read, answers)
    concessions = tables("yes_no")["concessions"].values()
    without = DataFrame({"answer": answers}).select(answer=rewritten(col.answer, concessions))["answer"]
    conceding = (without != answers) & (found["outcome"] == "unreadable")
    found = read_again(read, without.set(~conceding.fill_null(False), None), first=found)
    return found if with_rule else found.drop("rule")


def _read(answer: Series, about: About) -> DataFrame:
    """Return the columns `outcome`, `label` and `rule`."""
    rows = tables("yes_no")
    table = text_table(answer)
    table = table.with_columns(
        lower=lowered(rewritten(col.text.str.to_lowercase(), rows["translations"].values()))
    )
    table = table.with_columns(declined=col.lower.str.contains(any_in("yes_no", "refusals")))
    table = table.with_columns(refused=declines(lowered(col.text)) | col.declined)
    # In a refusal, agreement counts only after "but" or a similar word.
    declining = when("refused")
    own = declining.then("lower").str.replace_all(r"\bi\b[^.,!?\n;:]*", " ")
    own = pl.concat_str(own, lit("\n"), conceded(declining.then("text")))
    table = table.with_columns(
        clauses=rewritten(when("refused").then(own).otherwise("lower"), rows["steps"].values())
    )
    table = table.with_columns(
        clauses=when(col.lower.str.count_matches(r"\w+") > _LONG)
        .then(_without_mere_words(about))
        .otherwise("clauses")
    )
    undecided = col.lower.str.contains(rows["other"]["no single answer"].find)
    table = table.with_columns(
        clauses=when(undecided).then(_without(rows["other"]["mere word"].find)).otherwise("clauses")
    )
    worded = col.lower.str.contains(rows["other"]["wording"].find)
    table = table.with_columns(
        clauses=when(worded).then(_without(rows["other"]["mere judgement"].find)).otherwise("clauses")
    )
    # The marks of a clause, with "+" instead of the rest if it means yes (or no).
    meaning = {
        side: [row for row in rows[side].values() if row.about in (None, about)] for side in ("yes", "no")
    }
    sides = {
        side: col.clauses.str.replace_all(
            rf"(?m)^((?:final= |answer= |conclusion= )*){any_of(meaning[side])}$", "${1}+"
        )
        for side in ("yes", "no")
    }
    table = table.with_columns(**sides)

    def found(pattern: str, claims: DataFrame | None = None) -> Expr:
        """Return "yes", "no" or "both" if clauses marked as such match the pattern, else null."""
        yes, no = (col(side).str.contains(pattern) for side in ("yes", "no"))
        if claims is not None:
            yes, no = yes | (claims["yes"] & ~claims["no"]), no | claims["no"]
        return when(yes & no).then(lit("both")).when(yes).then(lit("yes")).when(no).then(lit("no"))

    marked = {mark: found(rf"(?m)^[^\n]*{mark}= [^\n+]*\+$") for mark in ("final", "answer", "conclusion")}
    table = table.with_columns(
        **marked,
        lead=found(r"^\W*\+(?:\n|$)"),
        clause=found(r"(?m)^[^\n+]*\+$", _claims(table, about)),
        emphasis=when(col.lower.str.contains(rows["other"]["emphasis"].find)).then(lit("yes")),
    )
    opening = col.lead.is_in(["yes", "no"])
    labels = {rule: col(rule) for rule in (*marked, "clause", "emphasis")} | {
        "answer": when(opening & (col.lead != col.answer)).then(lit("both")).otherwise("answer"),
        "conclusion": when(opening & (col.lead != col.conclusion)).then(lit("both")).otherwise("conclusion"),
        "clause": when(col.clause != "both").then("clause"),
    }
    label = pl.coalesce(*labels.values())
    unclear = (col.declined | (label == "both")).fill_null(False)
    criticised = (col.clauses.str.contains(rows["other"]["criticism"].find) & (label == "yes")).fill_null(
        False
    )
    if about != "statement":
        criticised = lit(False)
    return decided(table, labels, col.refused & ~criticised, clear=~unclear & ~criticised, with_rule=True)


def _without_mere_words(about: About) -> Expr:
    """Return the clauses of a long text without those in its middle that begin with a bare word of yes or no.

    If the question is not about a statement, "this is not the case" in the middle is about something else as
    well.
    """
    rows = tables("yes_no")["other"]
    lines = col.clauses.str.split("\n")
    rest = lines.list.slice(_OPENING)
    middle = rest.list.head(rest.list.len().cast(Int64) - _END)
    mere = any_of([rows["mere word"], *[rows["mere judgement"]] * (about != "statement")])
    kept = middle.list.eval(pl.element().filter(~pl.element().str.contains(mere)))
    return pl.concat_list(lines.list.head(_OPENING), kept, rest.list.tail(_END)).list.join("\n")


def _without(pattern: str) -> Expr:
    """Return the clauses that do not contain the pattern."""
    kept = pl.element().filter(~pl.element().str.contains(pattern))
    return col.clauses.str.split("\n").list.eval(kept).list.join("\n")


def _claims(table: DataFrame, about: About) -> DataFrame:
    """Return whether sentences about the subject of the question mean yes, and whether they mean no."""
    rows = [
        row
        for name in ("uncertain", "claims")
        for row in tables("yes_no")[name].values()
        if row.about == about
    ]
    certain = rewritten(col.clauses, (row for row in rows if row.reads is None))
    claims = {side: [row for row in rows if row.reads == side] for side in ("yes", "no")}
    return table.select(
        certain.str.contains(any_of(found)).alias(side) if found else lit(False).alias(side)
        for side, found in claims.items()
    )
