"""Choice among lettered options (BBQ, GEST, DiversityMedQA, relationship conflicts).

The patterns are data (`data/choice.yaml`), each with an example. The letters of options are marked (<a>); the model's own questions,
concessions ("although (b) ..."), options that are only acknowledged ("(a) has a point", "and so is (b)"), ruled out ("not (b)") or joined
to another one ("(a) or (b)") and a copy of the option list are removed. The first of these rules that gives a result decides:

- final: a declared final choice ("Final answer: (c)", "so the answer is b", a boxed letter); the last one counts;
- first: the letter at the beginning of the answer, unless another one is declared by the model as its own later ("My answer is (c)");
- declared: a declared choice elsewhere ("I would choose (b)", "(b) is correct", "hence (b)"); the last one counts;
- only: the only option that is named.

If the answer names no letter, the words of options are marked instead and the same rules are applied ("first in words" and so on); the
answer then starts with an option only if a stop follows. An option that says that the text does not tell also matches other wordings
("cannot be determined"), and is chosen if all the others are only discussed.

A bare "a" is read as a letter only if it cannot be the article.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, Int32, Series, String, col, lit, when

from tiltmeter.readers.normalising import any_in, lowered, only_one, padded, rewritten, tables, text_table
from tiltmeter.readers.outcomes import decided, declines

_LETTERS = "abcde"
_MARK = "<([a-e])>"
_PLACE = {letter: place for place, letter in enumerate(_LETTERS)}


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
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and `label`
        ("a" to "e"; null unless answered).
    """
    table = marked(answer, option_texts)
    table = table.with_columns(text=rewritten(col.text, (*tables("choice")["steps"].values(), (" +", " "))).str.strip_chars(" "))
    table = _by_rules(table.with_columns(named=col.text.str.extract_all(_MARK)))
    labels = {rule: col(rule) for rule in ("final", "first", "declared", "only")}
    offered = col.found.replace_strict(_PLACE, default=None, return_dtype=Int32) < col.options.list.len()
    read = decided(table, labels, col.declined, clear=offered, with_rule=with_rule)
    return read.with_columns(rule=when(table["in_words"]).then(col.rule + " in words").otherwise("rule")) if with_rule else read


def marked(answer: Series, option_texts: Series) -> DataFrame:
    """Return the column `text`, in which options are marked: by their letters, or else by their words (`in_words`)."""
    rows = tables("choice")
    stops = rows["stops"].values()
    table = text_table(answer, options=option_texts.cast(pl.List(String)))
    options = {c: _spaced(rewritten(lowered(col.options.list.get(i, null_on_oob=True)), stops)) for i, c in enumerate(_LETTERS)}
    table = table.with_columns(lower=lowered(col.text))
    lower = rewritten(col.lower, (*rows["letters"].values(), *stops)).str.strip_chars(" ")
    table = table.with_columns(lower=lower, declined=declines(col.lower), **options).with_columns(text=_with_letters())
    table = table.with_columns(in_words=~col.text.str.contains(_MARK))
    table = table.with_columns(text=when("in_words").then(_with_words()).otherwise("text"), unknown=_unknown())
    stated = (
        when(col.in_words & (col.unknown == c)).then(col.text.str.replace_all(rows["unknown"]["said"].find, f"<{c}>")) for c in _LETTERS
    )
    return table.with_columns(text=pl.coalesce(*stated, "text"))


def _spaced(text: Expr) -> Expr:
    """Return the words with two blanks around each, so that words next to each other can be replaced."""
    return padded(text.str.strip_chars(" ")).str.replace_all(" ", "  ", literal=True)


def _replaced(text: Expr, wanted: Mapping[str, Expr]) -> Expr:
    """Replace each wording that is not null with its key."""
    for replacement, words in wanted.items():
        text = text.str.split(by=words.fill_null("\0")).list.join(replacement)  # no text has this character
    return text


def _options(start: str = "") -> dict[str, Expr]:
    """Return the words of each option, after `start`, by letter; null if there are none."""
    return {c: when(col(c).str.strip_chars(" ") != "").then(pl.concat_str(lit(start.format(c)), c)) for c in _LETTERS}


def _with_letters() -> Expr:
    """Return the text in which letters of options are marked, and "stated" stands for the words of the option after its letter."""
    letter_like = pl.any_horizontal(col(c).str.contains("^  [a-e]  ").fill_null(False) for c in _LETTERS)
    text = _spaced(when(letter_like).then("lower").otherwise(rewritten(col.lower, tables("choice")["bare"].values())))
    text = _replaced(text, {f"  <{c}>  stated  ": words for c, words in _options("  <{}>").items()})
    return text.str.replace_all(" +", " ")


def _with_words() -> Expr:
    """Return the text in which letters stand for the words of options, longer options first."""
    plural = pl.any_horizontal((col(c) == "  men  ").fill_null(False) for c in _LETTERS)
    text = _spaced(when(plural).then(rewritten(col.lower, tables("choice")["plural"].values())).otherwise("lower"))
    part_of_another = {
        c: pl.any_horizontal((col(d) != col(c)) & col(d).str.contains(col(c), literal=True) for d in _LETTERS).fill_null(False)
        for c in _LETTERS
    }
    for is_part in (False, True):
        text = _replaced(text, {f"  <{c}>  ": when(part_of_another[c] == is_part).then(words) for c, words in _options().items()})
    return text.str.replace_all(" +", " ")


def _unknown() -> Expr:
    """Return the letter of the option that says that the text does not tell, or null."""
    pattern = tables("choice")["unknown"]["option"].find.replace(" ", "  ")
    return pl.coalesce(when(col(c).str.contains(pattern)).then(lit(c)) for c in _LETTERS)


def _by_rules(table: DataFrame) -> DataFrame:
    """Return the table with the letter that each rule gives."""

    def last(*names: str) -> Expr:
        return col.text.str.extract_all(any_in("choice", *names)).list.last().str.extract(_MARK)

    beginning = any_in("choice", "first")
    stands_out = col.text.str.contains(r"(?:^|[.?:,] (?:but )?)<")
    # "I cannot tell" is no refusal if it is an option.
    declined = pl.coalesce(declines(when(col.in_words & col.unknown.is_not_null()).then("lower"), or_cannot_tell=False), "declined")
    table = table.with_columns(
        final=last("final"),
        first=col.text.str.extract(when("in_words").then(lit(f"({beginning})(?: [.,:]|$)")).otherwise(lit(f"({beginning})"))).str.extract(
            _MARK
        ),
        mine=last("mine"),
        declared=last("mine", "declared"),
        only=only_one("named").str.slice(1, 1),
        open=when("in_words").then(~declined).otherwise(stands_out | ~col.declined),
    )
    offered = col.options.list.len()
    all_named = (col.named.list.n_unique() == offered) & (offered > 2)
    return table.with_columns(
        first=when((col.first == col.mine).fill_null(True)).then("first"),
        declared=when(col.open | ~col.in_words).then("declared"),
        only=when("open").then(pl.coalesce("only", when(all_named & col.in_words).then("unknown"))),
    )
