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

A letter that is contradicted is no choice: by the words of another option behind it ("(b) Anna" where (b) is Mark), at the beginning of the
answer or in a declaration ("The answer is Mark"), or by another letter that is declared ("(c) ... The answer is (a)"). What follows a
correction ("Wait, actually, (b)") is read alone if it names an option.

A bare "a" is read as a letter only if it cannot be the article. "A:" before the words of another option means "Answer:".
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, Int32, Series, String, col, lit, when

from tiltmeter.readers.normalising import any_in, lowered, only_one, padded, rewritten, tables, text_table
from tiltmeter.readers.outcomes import corrected, decided, declines

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
    read = corrected(_read, answer, option_texts)
    return read if with_rule else read.drop("rule")


def _read(answer: Series, option_texts: Series) -> DataFrame:
    """Return the columns `outcome`, `label` and `rule`."""
    rows = tables("choice")
    table = marked(answer, option_texts)
    steps = (*rows["steps"].values(), (" +", " "))
    table = table.with_columns(
        both=rewritten(col.both, [rows["plainer"]["joined"]]),
        several=col.text.str.contains(rows["contradicted"]["several declared"].find),
        listed=col.listed | (col.in_words & (col.text.str.count_matches(rows["contradicted"]["numbered lines"].find) > 1)),
        text=rewritten(col.text, steps).str.strip_chars(" "),
    )
    table = _by_rules(table.with_columns(named=col.text.str.extract_all(_MARK)))
    labels = {rule: col(rule) for rule in ("final", "first", "declared", "only")}
    offered = col.found.replace_strict(_PLACE, default=None, return_dtype=Int32) < col.options.list.len()
    read = decided(table, labels, col.declined, clear=offered & ~_contradicted(), with_rule=True)
    return read.with_columns(rule=when(table["in_words"]).then(col.rule + " in words").otherwise("rule"))


def marked(answer: Series, option_texts: Series) -> DataFrame:
    """Return the column `text`, in which options are marked: by their letters, or else by their words (`in_words`).

    In the column `both`, letters are marked like <a> and the words of options like [a].
    """
    rows = tables("choice")
    stops = rows["stops"].values()
    table = text_table(answer, options=option_texts.cast(pl.List(String)))
    options = {c: _spaced(rewritten(lowered(col.options.list.get(i, null_on_oob=True)), stops)) for i, c in enumerate(_LETTERS)}
    table = table.with_columns(lower=lowered(rewritten(col.text, rows["signs"].values())))
    lower = rewritten(col.lower, (*rows["letters"].values(), *stops)).str.strip_chars(" ")
    table = table.with_columns(lower=lower, declined=declines(col.lower), **options)
    table = table.with_columns(lettered=_with_letters(), unknown=_unknown())
    table = table.with_columns(both=_with_letters_and_words())
    answered = col.lower.str.starts_with("a : ") & col.both.str.contains(r"^<a> : \[[b-e]\](?: [.,:]|$)")
    table = table.with_columns(stated=_with_stated_words())
    lettered, chosen = col.lettered.str.contains(_MARK), col.stated.str.contains(_MARK)
    table = table.with_columns(
        listed=lettered & ~chosen,
        lower=when(answered).then(col.lower.str.strip_prefix("a : ")).when(lettered & ~chosen).then("stated").otherwise("lower"),
        in_words=answered | ~chosen,
    )
    table = table.with_columns(text=when("in_words").then(_with_words()).otherwise("stated"))
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
    """Return the text in which letters of options are marked."""
    letter_like = pl.any_horizontal(col(c).str.contains("^  [a-e]  ").fill_null(False) for c in _LETTERS)
    return when(letter_like).then("lower").otherwise(rewritten(col.lower, tables("choice")["bare"].values()))


def _with_stated_words() -> Expr:
    """Return the text with marked letters in which "stated" stands for the words of the option after its letter, without lists of them."""
    rows = tables("choice")
    text = _replaced(_spaced(col.lettered), {f"  <{c}>  stated  ": words for c, words in _options("  <{}>").items()})
    text = text.str.replace_all(" +", " ").str.strip_chars(" ")
    said = rows["unknown"]["said"].find
    unknown = (when(col.unknown == c).then(text.str.replace_all(f"<{c}> (?:[:,] )?{said}", f"<{c}> stated")) for c in _LETTERS)
    return rewritten(pl.coalesce(*unknown, text), rows["lists"].values())


def _with_words() -> Expr:
    """Return the text in which letters stand for the words of options."""
    return _with_words_marked(_plural("lower"), _options(), "  <{}>  ")


def _with_letters_and_words() -> Expr:
    """Return the text in which letters of options are marked like <a>, and words of options like [a], without articles."""
    rows = tables("choice")
    options = {c: words.str.replace_all("  (?:the|an?)  ", "  ") for c, words in _options().items()}
    text = _with_words_marked(rewritten(_plural("lettered"), [rows["plainer"]["article"]]), options, "  [{}]  ")
    unknown = text.str.replace_all(rf"(<[a-e]>) (?:[:,] )?{rows['unknown']['said'].find}", "${1} [unknown]")
    named = unknown.str.split("[unknown]").list.join(pl.concat_str(lit("["), "unknown", lit("]")))
    return pl.coalesce(named, text).str.strip_chars(" ")


def _plural(column: str) -> Expr:
    """Return the text of a column, in the plural where the options are men and women."""
    plural = pl.any_horizontal((col(c) == "  men  ").fill_null(False) for c in _LETTERS)
    return when(plural).then(rewritten(col(column), tables("choice")["plural"].values())).otherwise(column)


def _with_words_marked(text: Expr, options: Mapping[str, Expr], mark: str) -> Expr:
    """Return the text in which marks stand for the words of options, longer options first."""
    text = _spaced(text)
    part_of_another = {
        c: pl.any_horizontal((col(d) != col(c)) & col(d).str.contains(col(c), literal=True) for d in _LETTERS).fill_null(False)
        for c in _LETTERS
    }
    for is_part in (False, True):
        text = _replaced(text, {mark.format(c): when(part_of_another[c] == is_part).then(words) for c, words in options.items()})
    return text.str.replace_all(" +", " ")


def _unknown() -> Expr:
    """Return the letter of the option that says that the text does not tell, or null."""
    pattern = tables("choice")["unknown"]["option"].find.replace(" ", "  ")
    return pl.coalesce(when(col(c).str.contains(pattern)).then(lit(c)) for c in _LETTERS)


def _contradicted() -> Expr:
    """Return whether another signal contradicts the letter in the column `found`."""
    rows = tables("choice")["contradicted"]
    words = [col.both.str.extract(rows[name].find) for name in ("lead", "last", "words declared")]
    return pl.any_horizontal(
        when("in_words").then(False).otherwise(pl.any_horizontal((word != col.found).fill_null(False) for word in words)),
        *((col.found == c) & ~col.in_words & _other_words_behind(c) for c in _LETTERS),
        col.several & col.final.is_null() & col.mine.is_null(),
    ).fill_null(False)


def _other_words_behind(letter: str) -> Expr:
    """Return whether the words of another option stand behind a letter, and its own do not stand in the same sentence."""
    other = f"\\[[^{letter}]\\]"
    behind = col.both.str.contains(rf"<{letter}>(?: (?:[:,] )?{other}| \. {other}(?: \.|$))|(?:^|[.:?] |\b(?:is|be|was) ){other} <{letter}>")
    return behind & ~col.both.str.contains(rf"<{letter}>[^.<]*\[{letter}\]")


def _by_rules(table: DataFrame) -> DataFrame:
    """Return the table with the letter that each rule gives."""

    def last(*names: str) -> Expr:
        return col.text.str.extract_all(any_in("choice", *names)).list.last().str.extract(_MARK)

    beginning = any_in("choice", "first")
    stands_out = col.text.str.contains(r"(?:^|[.?:,] (?:but )?)<")
    # "I cannot tell" is no refusal if it is an option.
    declined = pl.coalesce(declines(when(col.in_words & col.unknown.is_not_null()).then("lower"), or_cannot_tell=False), "declined")
    answers = col.text.str.extract_all(tables("choice")["declared"]["answer"].find).list.eval(pl.element().str.extract(_MARK))
    table = table.with_columns(
        final=last("final"),
        first=col.text.str.extract(when("in_words").then(lit(f"({beginning})(?: [.,:]|$)")).otherwise(lit(f"({beginning})"))).str.extract(
            _MARK
        ),
        mine=last("mine"),
        declared=last("mine", "declared"),
        answers=answers.list.unique(),
        only=only_one("named").str.slice(1, 1),
        open=when("in_words").then(~declined).otherwise(stands_out | ~col.declined),
    )
    offered = col.options.list.len()
    all_named = (col.named.list.n_unique() == offered) & (offered > 2)
    several = when(col.mine.is_null() & (pl.concat_list("answers", "first").list.drop_nulls().list.n_unique() > 1)).then(True)
    in_order = all_named & col.text.str.contains(r"^<a>[^<>]* \. <b>[^<>]* \. <c>")
    together = col.text.str.contains(any_in("choice", "together"))
    return table.with_columns(
        several=several.fill_null(False) | col.several,
        first=when((col.first == col.mine).fill_null(True) & ~(col.listed | in_order | together)).then("first"),
        declared=when(col.open | ~col.in_words).then("declared"),
        only=when(col.open & ~col.listed).then(pl.coalesce("only", when(all_named & col.in_words).then("unknown"))),
    )
