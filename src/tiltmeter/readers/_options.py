"""Marking of lettered options in answers, by their letters and by their words.

The patterns are data (`data/choice.yaml`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.readers._normalising import Pattern, lowered, padded, rewritten, tables, text_table
from tiltmeter.readers.outcomes import declines

LETTERS = "abcde"
MARK = "<([a-e])>"
_STEM = 4
"""Number of first letters by which words are compared."""
_TERM = 6
"""Maximum length of a term that contradicts a letter because it has no word of its option, in words; longer
ones may be explanations."""
_ANSWER = "a : "
"""Beginning of an answer such as "A: The man", in which "A" may be short for "answer"."""


def marked(answer: Series, option_texts: Series) -> DataFrame:
    """Return the answers with marked options.

    The columns are:

    - `text`: letters of options are marked like <a>, or, with `in_words`, their words are;
    - `both`: letters are marked like <a> and words like [a];
    - `copied`: letters are marked, and "stated" replaces the words of the option after its letter;
    - `listed`: whether the only letters are those of a copy of the list of options;
    - `unknown`: letter of the option that says that the text does not tell;
    - `mistaken`: letters that come with a term that is not their option, at the beginning or in a
      declaration;
    - `lower`, `declined`, `options`: the text in lower case, whether it declines, the texts of the options.
    """
    rows = tables("choice")
    table = _lowered(answer, option_texts)
    table = table.with_columns(unknown=_unknown())
    marked_words = _with_marked_words(_plural(col.lower), _options(), "  [{}]  ")
    table = table.with_columns(spaced=marked_words.str.strip_chars(" "))
    table = table.with_columns(lower=_without_letter_off_the_list())
    table = table.with_columns(lettered=_with_letters())
    table = table.with_columns(both=_with_letters_and_words(), copied=_with_stated_words())
    table = table.with_columns(stated=rewritten(col.copied, rows["lists"].values()))
    # The words of another option or a sentence behind "A:" are the answer.
    words_behind = col.both.str.contains(rows["contradicted"]["short for answer"].find)
    short = col.lower.str.starts_with(_ANSWER) & words_behind
    chosen = col.stated.str.contains(MARK)
    listed = col.lettered.str.contains(MARK) & ~chosen
    table = table.with_columns(short=short.fill_null(False), chosen=chosen, listed=listed)
    lower = (
        when("short")
        .then(col.lower.str.strip_prefix(_ANSWER))
        .when("listed")
        .then("stated")
        .otherwise("lower")
    )
    table = table.with_columns(lower=lower, in_words=col.short | ~col.chosen)
    table = table.with_columns(text=when("in_words").then(_with_words()).otherwise("stated"))
    return table.with_columns(text=_with_unknown_in_other_words())


def _with_unknown_in_other_words() -> Expr:
    """Return the text in which other wordings ("cannot be determined") stand for the option that says so."""
    rows = tables("choice")["unknown"]
    wording = rows["said"].find
    # "The letter is not clear" says nothing about the text.
    text = col.text.str.replace_all(rf"{rows['of the letter'].find}{wording}", " ")
    texts = (
        when(col.in_words & (col.unknown == letter)).then(text.str.replace_all(wording, f"<{letter}>"))
        for letter in LETTERS
    )
    return pl.coalesce(*texts, "text")


def _lowered(answer: Series, option_texts: Series) -> DataFrame:
    """Return answers with marked letters and stops (`lower`) and the words of options (`a` to `e`)."""
    rows = tables("choice")
    stops = list(rows["stops"].values())
    table = text_table(answer, options=option_texts.cast(pl.List(String)))
    options = {letter: _option(place, stops) for place, letter in enumerate(LETTERS)}
    table = table.with_columns(text=rewritten(col.text, rows["written"].values()))
    table = table.with_columns(lower=lowered(col.text), mistaken=_mistaken(table))
    lower = rewritten(col.lower, (*rows["letters"].values(), *stops)).str.strip_chars(" ")
    return table.with_columns(lower=lower, declined=_declined(), **options)


def _declined() -> Expr:
    """Return whether the text declines, apart from the words of an option such as "Cannot answer"."""
    text = col.lower
    for place in range(len(LETTERS)):
        option = lowered(col.options.list.get(place, null_on_oob=True))
        text = _replaced(text, {" ": when(declines(option)).then(option)})
    return declines(text)


def _mistaken(table: DataFrame) -> Series:
    """Return the letters in each text that come with a term that is not their option.

    Such a pair of letter and term is at the beginning or in a declaration. The term has more words in common
    with another option, or it is short and has no word in common with the option of the letter. Words are
    compared by their first letters, because endings differ ("woman", "women").
    """
    pairs = _letters_with_terms(table)
    common = {}
    for place, letter in enumerate(LETTERS):
        option = col.options.list.get(place, null_on_oob=True)
        common[letter] = _stems(col.term).list.set_intersection(_stems(option)).list.len()
    common_with_letter = pl.coalesce(*(when(letter=letter).then(count) for letter, count in common.items()))
    short = col.term.str.count_matches(" ") < _TERM
    unrelated = (common_with_letter == 0) & short
    closer_to_another = common_with_letter < pl.max_horizontal(*common.values())
    mistaken = pairs.filter(unrelated | closer_to_another).group_by("row").agg(mistaken="letter")
    return table.with_row_index("row").join(mistaken, on="row", how="left", maintain_order="left")["mistaken"]


def _letters_with_terms(table: DataFrame) -> DataFrame:
    """Return the pairs of a letter and a term beside it: `row`, `options`, `letter`, `term`."""
    rows = tables("choice")["terms"]
    behind = rows["term"].find
    before = rows["term before"].find
    matches = pl.concat_list(col.text.str.extract_all(behind), col.text.str.extract_all(before))
    pairs = table.select("options", match=matches).with_row_index("row").explode("match").drop_nulls("match")
    letter = pl.coalesce(col.match.str.extract(behind, 1), col.match.str.extract(before, 2))
    term = pl.coalesce(col.match.str.extract(behind, 2), col.match.str.extract(before, 1))
    pairs = pairs.select(
        "row",
        "options",
        letter=letter.str.to_lowercase(),
        term=rewritten(term.str.to_lowercase(), [rows["of the"]]),
    )
    return pairs.filter(
        col.term.str.contains("[a-z]{3}"),
        ~col.term.str.contains(rows["no term"].find),
    )


def _stems(text: Expr) -> Expr:
    """Return the first letters of the distinct words and numbers of each text."""
    words = text.str.to_lowercase().str.extract_all("[a-z]{3,}|[0-9]+")
    return words.list.eval(pl.element().str.head(_STEM)).list.unique()


def _option(place: int, stops: list[Pattern]) -> Expr:
    """Return the words of the option at a place, or null.

    An option that is itself a letter ("b") has no words.
    """
    words = lowered(col.options.list.get(place, null_on_oob=True))
    is_letter = words.str.contains(r"^\W*[a-e]\W*$")
    return _spaced(rewritten(when(is_letter).then(lit("")).otherwise(words), stops))


def _spaced(text: Expr) -> Expr:
    """Return the words with two blanks around each, so that words next to each other can be replaced."""
    return padded(text.str.strip_chars(" ")).str.replace_all(" ", "  ", literal=True)


def _replaced(text: Expr, words_of: Mapping[str, Expr]) -> Expr:
    """Replace the words that belong to each key with the key; null words are not replaced."""
    for replacement, words in words_of.items():
        text = text.str.split(by=words.fill_null("\0")).list.join(replacement)  # no text has this character
    return text


def _options(start: str = "") -> dict[str, Expr]:
    """Return the words of each option, after `start`, by letter; null if there are none."""
    options: dict[str, Expr] = {}
    for letter in LETTERS:
        words = pl.concat_str(lit(start.format(letter)), letter)
        options[letter] = when(col(letter).str.strip_chars(" ") != "").then(words)
    return options


def _with_letters() -> Expr:
    """Return the text in which letters of options are marked."""
    rows = tables("choice")
    begin_with_letter = [col(letter).str.contains("^  [a-e]  ").fill_null(False) for letter in LETTERS]
    bare = rewritten(col.lower, rows["bare"].values())
    alone = rewritten(col.lower, rows["alone_bare"].values())
    return when(pl.any_horizontal(begin_with_letter)).then(alone).otherwise(bare)


def _without_letter_off_the_list() -> Expr:
    """Return the text without letters that are not on the list of options.

    They are removed if the first one begins a sentence that is the only option. In `spaced`, the words of
    options are marked. Without a stop ("(d) Donna"), the letter is one more item of the list.
    """
    offered = col.options.list.len()
    only = col.spaced.str.extract_all(r"\[[a-e]\]").list.n_unique() == 1
    text = col.lower
    for count in range(2, len(LETTERS)):
        off_list = f"<[{LETTERS[count:]}]>"
        begins_sentence = col.spaced.str.contains(rf"^{off_list} (?:[:,] )?\[[a-e]\] [.,]")
        alone = only & ~col.spaced.str.contains(f"<[{LETTERS[:count]}]>")
        without = col.lower.str.replace_all(f"{off_list} ?", "")
        text = when((offered == count) & begins_sentence & alone).then(without).otherwise(text)
    return text


def _with_stated_words() -> Expr:
    """Return the text in which "stated" stands for the words of an option after its marked letter."""
    options = {f"  <{letter}>  stated  ": words for letter, words in _options("  <{}>").items()}
    text = _replaced(_spaced(col.lettered), options).str.replace_all(" +", " ").str.strip_chars(" ")
    wording = tables("choice")["unknown"]["said"].find
    texts = []
    for letter in LETTERS:
        stated = text.str.replace_all(f"<{letter}> (?:[:,] )?{wording}", f"<{letter}> stated")
        texts.append(when(unknown=letter).then(stated))
    return pl.coalesce(*texts, text)


def _with_words() -> Expr:
    """Return the text in which letters stand for the words of options."""
    return _with_marked_words(_with_article(_plural(when("in_words").then("lower"))), _options(), "  <{}>  ")


def _with_article(text: Expr) -> Expr:
    """Return the text; if it is an option without its article, with the article.

    An example is "Grandson" for "The grandson".
    """
    preamble = r"^(?:the )?(?:final |correct |best |my )?answer (?:is )?(?:: )?"
    answer = _spaced(text.str.replace(preamble, "").str.replace(r" \. ?$", ""))
    for letter in LETTERS:
        option = col(letter)
        words = option.str.replace("^  (?:the|an?)  ", "  ")
        lacks_article = (answer == words) & (words != option)
        text = when(lacks_article).then(option.str.replace_all(" +", " ")).otherwise(text)
    return text


def _with_letters_and_words() -> Expr:
    """Return the text, without articles, with letters marked like <a> and words of options like [a]."""
    rows = tables("choice")
    plain = rewritten(_plural(col.lettered), [rows["plainer"]["article"]])
    options = {letter: words.str.replace_all("  (?:the|an?)  ", "  ") for letter, words in _options().items()}
    text = _with_marked_words(plain, options, "  [{}]  ")
    letter_and_unknown = rf"(<[a-e]>) (?:[:,] )?{rows['unknown']['said'].find}"
    parts = text.str.replace_all(letter_and_unknown, "${1} [unknown]").str.split("[unknown]")
    mark = pl.concat_str(lit("["), "unknown", lit("]"))
    return pl.coalesce(parts.list.join(mark), text).str.strip_chars(" ")


def _plural(text: Expr) -> Expr:
    """Return the text, in the plural where the options are men and women."""
    plural = pl.any_horizontal((col(letter) == "  men  ").fill_null(False) for letter in LETTERS)
    return when(plural).then(rewritten(text, tables("choice")["plural"].values())).otherwise(text)


def _with_marked_words(text: Expr, options: Mapping[str, Expr], mark: str) -> Expr:
    """Return the text in which marks stand for the words of options, longer options first."""
    text = _spaced(text)
    for is_part in (False, True):
        words_of = {}
        for letter, words in options.items():
            words_of[mark.format(letter)] = when(_part_of_another(letter) == is_part).then(words)
        text = _replaced(text, words_of)
    return text.str.replace_all(" +", " ")


def _part_of_another(letter: str) -> Expr:
    """Return whether the words of an option are part of the words of another one."""
    words = col(letter)
    longer = ((col(name) != words) & col(name).str.contains(words, literal=True) for name in LETTERS)
    return pl.any_horizontal(longer).fill_null(False)


def _unknown() -> Expr:
    """Return the letter of the option that says that the text does not tell, or null."""
    pattern = tables("choice")["unknown"]["option"].find.replace(" ", "  ")
    return pl.coalesce(when(col(letter).str.contains(pattern)).then(lit(letter)) for letter in LETTERS)
