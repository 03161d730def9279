"""Choice among lettered options (BBQ, GEST, DiversityMedQA, relationship conflicts).

The patterns are data (`data/choice.yaml`), each with an example. Ticks, headings and tables are written out
first (`layout.py`), and answers in some other languages are translated ("Antwort: B"). A reply that only
gives shares ("A: 10%, B: 70%, C: 20%") chooses none. The letters of options are marked (<a>); the model's own
questions, concessions ("although (b) ..."), what others would choose ("some would say (b)"), options that are
only acknowledged ("(a) has a point", "and so is (b)"), ruled out ("not (b)") or joined to another one ("(a)
or (b)") and a copy of the option list are removed. The first of these rules that gives a result decides:

- final: a declared final choice ("Final answer: (c)", "so the answer is b", a boxed letter); the last one counts;
- first: the letter at the beginning of the answer, unless another one is declared by the model as its own later ("My answer is (c)");
- declared: a declared choice elsewhere ("I would choose (b)", "(b) is correct", "hence (b)"); the last one counts;
- only: the only option that is named, in a short text, within the first words, or alone in a sentence. In a longer text an option that is
  merely named is not chosen, nor are its words where another option is named together with it ("Anna and Mark
  are married").

If the answer names no letter, the words of options are marked instead and the same rules are applied ("first
in words" and so on); the answer then starts with an option only if a stop follows. An option that says that
the text does not tell also matches other wordings ("cannot be determined"), and is chosen if all the others
are only discussed.

A letter that is contradicted is no choice: by the words of another option behind it ("(b) Anna" where (b) is
Mark), at the beginning of the answer or in a declaration ("The answer is Mark", "The person who was late is
Mark"), by a term behind it that is not its option ("(b) Catherine"), or by another letter that is declared
("(c) ... The answer is (a)"); but a later declaration in which letter and words agree replaces a letter with
the words of another option. What follows a correction ("Wait, actually, (b)") is read alone if it names an
option.

Two options of which each has its condition ("(a) if he called, otherwise (b)"), that are both possible or
both right, or that are declared together ("Answer: B, C") are no choice, unless one of them is final or the
model's own.

A bare "a" is read as a letter only if it cannot be the article. "A:" before the words of another option,
another letter or a sentence means "Answer:". If the model goes on with the next question or speaker, and the
whole is not read, the first turn is read alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
from polars import DataFrame, Expr, Int32, Series, col, lit, when

from tiltmeter.readers.layout import written_out
from tiltmeter.readers.normalising import any_in, only_one, rewritten, tables
from tiltmeter.readers.options import LETTERS, MARK, marked
from tiltmeter.readers.outcomes import corrected, decided, declines, first_turns

_SHORT, _SHORT_UNKNOWN = 30, 80
"""Maximum length of a text in which the only option that is named is chosen, in words; the second one if it
says that nothing tells."""
_ITEMS = 3
"""Number of lines that consist of an option from which a text without letters contains a list."""
_UNDECIDED = ("undecided between", "both possible", "both right", "each described", "shares")
"""Signals that the choice is left open."""
_PLACE = {letter: place for place, letter in enumerate(LETTERS)}


def read_choice(answer: Series, option_texts: Series, *, with_rule: bool = False) -> DataFrame:
    """Read the letter of the option chosen in each answer.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    option_texts
        For each answer, the list of 2 to 5 option texts as shown; the first one is (a).
    with_rule
        Whether to return the column `rule` as well, the name of the rule that decided (null unless answered).

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and
        `label` ("a" to "e"; null unless answered).
    """
    read = first_turns(partial(corrected, _read), written_out(answer), option_texts)
    return read if with_rule else read.drop("rule")


def _read(answer: Series, option_texts: Series) -> DataFrame:
    """Return the columns `outcome`, `label` and `rule`."""
    table = _by_rules(_reduced(marked(answer, option_texts)))
    labels = {rule: col(rule) for rule in ("final", "first", "declared", "only")}
    place = col.decision.replace_strict(_PLACE, default=None, return_dtype=Int32)
    clear = (place < col.options.list.len()) & ~_contradicted()
    read = decided(table, labels, col.declined, clear=clear, with_rule=True)
    return read.with_columns(rule=when(table["in_words"]).then(col.rule + " in words").otherwise("rule"))


def _reduced(table: DataFrame) -> DataFrame:
    """Return the table without what is not chosen in `text`; `named` lists the letters that are left.

    `pair` says whether two options are declared together, each under a condition, or left open,
    `ends_together` whether the last declaration has two. `listed` is also true for items of a numbered list.
    """
    rows = tables("choice")
    items = col.text.str.count_matches(rows["contradicted"]["numbered lines"].find)
    signals = rows["contradicted"]
    together = col.text.str.contains(signals["together"].find) | col.both.str.contains(
        signals["together in other words"].find
    )
    discussed = col.text.str.contains(signals["restated"].find) | (col.in_words & together)
    ends = col.text.str.contains(signals["declared together"].find)
    disowned = col.text.str.extract_all(signals["disowned"].find).list.last().str.extract(MARK)
    table = table.with_columns(
        both=rewritten(col.both, [rows["plainer"]["numeral"], rows["plainer"]["joined"]]),
        pair=_left_open(),
        ends_together=ends,
        disowned=disowned,
        listed=col.listed | (col.in_words & (items > 1)),
        discussed=discussed,
    )
    described = {
        name: rewritten(col.text, rows[name].values()) for name in ("described", "described_letters")
    }
    table = table.with_columns(
        text=when("in_words").then(described["described"]).otherwise(described["described_letters"])
    )
    item = rows["listed"]["item"].find
    # The stop after an item is the one before the next item.
    apart = col.text.str.replace_all(" . ", " . . ", literal=True)
    several = (apart.str.count_matches(item) >= _ITEMS) & ~col.text.str.contains(f"^ ?{MARK}")
    table = table.with_columns(
        text=when(col.in_words & several).then(apart.str.replace_all(item, "${1} ")).otherwise("text")
    )
    steps: list[Any] = [*rows["steps"].values(), (" +", " ")]
    table = table.with_columns(text=rewritten(col.text, steps).str.strip_chars(" "))
    return table.with_columns(named=col.text.str.extract_all(MARK))


def _left_open() -> Expr:
    """Return whether two options are declared together, each of them under a condition, or left open."""
    signals = tables("choice")["contradicted"]
    declared = rewritten(col.text, [signals["left open"]])
    together = [declared.str.contains(signals[name].find) for name in ("several declared", "list declared")]
    undecided = [col.text.str.contains(signals[name].find) for name in _UNDECIDED]
    conditional = col.text.str.contains(signals["either way"].find) & ~col.text.str.contains(
        signals["stated first"].find
    )
    alternative = ~col.in_words & col.text.str.contains(signals["if another is wrong"].find)
    return pl.any_horizontal(*together, *undecided, conditional, alternative)


def _contradicted() -> Expr:
    """Return whether another signal contradicts the letter in the column `decision`."""
    rows = tables("choice")["contradicted"]
    lead, *later = (col.both.str.extract(rows[name].find) for name in ("lead", "last", "words declared"))
    agreed = (col.decision == col.agreed).fill_null(False)
    different = pl.any_horizontal((word != col.decision).fill_null(False) for word in later) | (
        (lead != col.decision).fill_null(False) & ~agreed
    )
    behind = pl.any_horizontal((col.decision == letter) & _other_words_behind(letter) for letter in LETTERS)
    several = (col.pair & col.final.is_null() & col.mine.is_null()) | col.several | col.ends_together
    wrong = (
        different
        | behind
        | _another_described()
        | _another_right()
        | col.mistaken.list.contains(col.decision).fill_null(False)
    )
    disowned = (col.decision == col.disowned).fill_null(False) & (col.decision != col.unknown).fill_null(True)
    return ((~col.in_words & wrong) | several | disowned).fill_null(False)


def _another_right() -> Expr:
    """Return whether another option is called the right answer."""
    rows = tables("choice")
    right = rewritten(col.both, rows["denied"].values()).str.extract_all(
        rows["contradicted"]["called right"].find
    )
    other = right.list.eval(pl.element().str.extract(r"\[([a-e])\]")).list.set_difference(
        pl.concat_list("decision")
    )
    return (other.list.len() > 0).fill_null(False)


def _another_described() -> Expr:
    """Return whether another of several options is said to be what was asked for, and the words of the letter do not occur."""
    rows = tables("choice")
    affirmed = rewritten(col.both, rows["denied"].values())
    texts = {"person": col.both, "so described": affirmed, "condition": affirmed}
    named = [text.str.extract(rows["contradicted_alone"][name].find) for name, text in texts.items()]
    other = pl.any_horizontal((name != col.decision).fill_null(False) for name in named)
    own = pl.any_horizontal(
        (col.decision == letter) & col.both.str.contains(f"[{letter}]", literal=True) for letter in LETTERS
    )
    return other & ~own.fill_null(False) & (col.options.list.len() > 2)


def _agreed() -> Expr:
    """Return the letter that is declared last, if it is the only one declared together with its own words ("The answer is (e) CCR5")."""
    answer = tables("choice")["declared"]["answer"].find
    pairs = col.both.str.extract_all(rf"{answer} (?:[:,] )?\[[a-e]\]")
    letter = pl.element().str.extract(MARK)
    own = (
        pairs.list.eval(when(letter == pl.element().str.extract(r"\[([a-e])\]$")).then(letter))
        .list.drop_nulls()
        .list.unique()
    )
    return when((own.list.len() == 1) & (own.list.first() == col.answers.list.last())).then(own.list.first())


def _other_words_behind(letter: str) -> Expr:
    """Return whether words of another option are next to a letter, and its own are not in the same sentence."""
    other = f"\\[[^{letter}]\\]"
    behind = rf"<{letter}>(?: (?:[:,] )?{other}| \. {other}(?: \.|$))"
    before = rf"(?:^|[.:?] |\b(?:is|be|was) ){other} <{letter}>"
    agreeing = rf"<{letter}>[^.<]*\[{letter}\]"
    at = col.both.str.contains(f"{behind}|{before}") & ~col.both.str.contains(agreeing)
    return at.fill_null(False)


def _last(*names: str) -> Expr:
    """Return the letter in the last match of these tables of patterns."""
    matches = col.text.str.extract_all(any_in("choice", *names))
    return matches.list.last().str.extract(MARK)


def _first() -> Expr:
    """Return the letter at the beginning; if options are marked by their words, a stop must follow."""
    beginning = any_in("choice", "first")
    pattern = when("in_words").then(lit(f"({beginning})(?: [.,]|(?: :)?$)")).otherwise(lit(f"({beginning})"))
    return col.text.str.extract(pattern).str.extract(MARK)


def _by_rules(table: DataFrame) -> DataFrame:
    """Return the table with the letter that each rule gives, and whether `several` letters are declared."""
    stands_out = col.text.str.contains(r"(?:^|[.?:,] (?:but )?)<")
    # "I cannot tell" is no refusal if it is an option, nor is any other that names only this option.
    with_unknown = when(col.in_words & col.unknown.is_not_null()).then("lower")
    declined = pl.coalesce(declines(with_unknown, or_cannot_tell=False), "declined")
    answers = col.text.str.extract_all(tables("choice")["declared"]["answer"].find)
    table = table.with_columns(final=_last("final"), first=_first())
    table = table.with_columns(answers=answers.list.eval(pl.element().str.extract(MARK)))
    table = table.with_columns(agreed=_agreed())
    table = table.with_columns(
        final=pl.coalesce("final", "agreed"), mine=_last("mine"), declared=_last("mine", "declared")
    )
    table = table.with_columns(
        only=only_one("named").str.slice(1, 1),
        open=when("in_words").then(~declined).otherwise(stands_out | ~col.declined),
    )
    offered = col.options.list.len()
    table = table.with_columns(all_named=(col.named.list.n_unique() == offered) & (offered > 2))
    table = table.with_columns(several=_several(), first=_first_alone())
    unknown = when(col.all_named & col.in_words).then("unknown")
    table = table.with_columns(only=pl.coalesce("only", unknown))
    return table.with_columns(
        declared=when(col.open | ~col.in_words).then("declared"),
        only=when((col.open | (col.only == col.unknown)) & ~col.listed & _stands_out()).then("only"),
    )


def _stands_out() -> Expr:
    """Return whether the only option that is named is more than a mention."""
    length = col.lower.str.count_matches("[a-z0-9]+")
    tells_nothing = ((col.only == col.unknown) & (length <= _SHORT_UNKNOWN)).fill_null(False)
    alone = col.text.str.contains(any_in("choice", "alone"))
    return tells_nothing | (((length <= _SHORT) | alone) & ~col.discussed)


def _several() -> Expr:
    """Return whether different letters are declared, or one that is not the first, and none of them is final."""
    declared = pl.concat_list("answers", "first").list.drop_nulls()
    return (declared.list.n_unique() > 1) & col.mine.is_null() & col.final.is_null()


def _first_alone() -> Expr:
    """Return the letter at the beginning unless several are listed there or another one is declared."""
    in_order = col.all_named & col.text.str.contains(r"^<a>[^<>]* \. <b>[^<>]* \. <c>")
    ascending = (col.named.list.n_unique() > 1) & (col.named == col.named.list.sort())
    in_order = in_order | (ascending & col.text.str.contains(any_in("choice", "in_order")))
    together = col.text.str.contains(any_in("choice", "together"))
    agreed = (col.first == col.mine).fill_null(True)
    return when(agreed & ~(col.listed | in_order | together)).then("first")
