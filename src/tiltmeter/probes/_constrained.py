"""Constrained answers (`-P answers=constrained`): the model gives an allowed answer, or refuses.

The refusal has the form of the other answers: "(refuse)" beside "(a)", "refuse" beside "yes". A constraint
compares answers token by token: it removes all tokens that begin no allowed answer, and the rest of their
probability goes to those that are left. Beside "(a)" and "(b)", "decline" took 50 to 80% of the answers of a
small model that hardly refused in free text: it wrote letters without parentheses, and of these the list
allowed only "d". See docs/genderbench.md for the measurement.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.errors import InputError
from tiltmeter.models._base import ALLOWED
from tiltmeter.probes._definitions import definition_of
from tiltmeter.readers.outcomes import READING_RULE, decide_outcome
from tiltmeter.study import Settings

REFUSALS: Final = ("refuse", "decline", "no answer", "none of these")
"""Words by which a model refuses to choose one of the allowed answers; the first that is no allowed answer is
used.

"refuse" does not begin like the letter of an option.
"""
FORMERLY: Final = "decline"
"""The word in lists of earlier versions, whose responses are still read."""
ALLOWED_RULE: Final = "allowed answer"
"""Name of the rule that reads an allowed answer."""
LETTER: Final = "({})"
"""Form of a lettered choice."""
AllowedAnswers: TypeAlias = Sequence[tuple[Expr, Expr]]
"""The allowed answers of a prompt, each with its label, as expressions over the factors; empty if the answer
is free text."""


def answers_are_constrained(settings: Settings) -> bool:
    """Return whether answers are constrained.

    Raise InputError for an unknown value, or under a published definition.
    """
    chosen = settings.params.get("answers", "free")
    definition = definition_of(settings)
    possible = ("free", "constrained") if definition.corrected else ("free",)
    if chosen not in possible:
        raise InputError(
            f"-P answers={chosen}: answers of the definition {definition.name} can only be "
            f"{' or '.join(possible)}"
        )
    return chosen != "free"


def allow(labels: Iterable[str], form: str = "{}") -> AllowedAnswers:
    """Return an allowed answer for each label, written in this form."""
    return tuple((lit(form.format(label)), lit(label)) for label in labels)


def refusal_beside(answers: Sequence[str]) -> str:
    """Return the refusal in the form of these answers.

    It is within the punctuation that all of them begin and end with.

    Raises
    ------
    InputError
        Every word for a refusal is an allowed answer.
    """
    begins = {_before_words(answer) for answer in answers}
    ends = {_after_words(answer) for answer in answers}
    begin, end = "", ""
    if len(begins) == len(ends) == 1:
        (begin,) = begins
        (end,) = ends
    allowed = {answer.casefold() for answer in answers}
    for word in REFUSALS:
        refusal = f"{begin}{word}{end}"
        if refusal not in allowed:
            return refusal
    raise InputError(
        f"the allowed answers {', '.join(map(repr, answers))} leave no word for a refusal: rename one of "
        f"{', '.join(REFUSALS)}"
    )


def _before_words(text: str) -> str:
    """Return the punctuation, signs and blanks before the first word, or the whole text if it has no word."""
    length = next((place for place, character in enumerate(text) if _is_in_word(character)), len(text))
    return text[:length]


def _after_words(text: str) -> str:
    """Return the punctuation, signs and blanks after the last word, or the whole text if it has no word."""
    places = [place for place, character in enumerate(text) if _is_in_word(character)]
    if not places:
        return text
    end = places[-1] + 1
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return text[end:]


def _is_in_word(character: str) -> bool:
    """Return whether this is a letter or a digit.

    Marks (vowel signs, accents) belong to the letter before them.
    """
    return unicodedata.category(character)[0] in "LN"


def with_list(design: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Add the allowed answers of each prompt as a JSON list: in alphabetical order, then the refusal."""
    lists = design.with_columns(listed=pl.concat_list(answer for answer, _ in allowed))["listed"]
    texts = [json.dumps([*sorted(answers), refusal_beside(answers)]) for answers in lists.to_list()]
    return design.with_columns(Series(ALLOWED, texts, String))


def read_allowed(read: DataFrame, answers: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Replace the outcome and label of each answer that is an allowed one.

    It may be alone or the object `{"answer": ...}`; the additional column `constrained` says whether it is
    such an object. An allowed answer of the probe takes precedence over the words of a refusal.
    """
    in_object = col.answer.str.json_path_match("$.answer")
    text = pl.coalesce(in_object, col.answer.str.strip_chars())
    label = pl.coalesce(when(text == answer).then(label) for answer, label in allowed)
    refusal = col(ALLOWED).str.json_decode(pl.List(String)).list.last()
    outcome = decide_outcome(
        lit(None), answered=label.is_not_null(), refused=(text == refusal) | (text == FORMERLY)
    )
    choices = answers.select(outcome=outcome, label=label, in_object=in_object.is_not_null())
    is_choice = choices["outcome"].is_not_null()
    has_label = is_choice & choices["label"].is_not_null()
    if READING_RULE in read.columns:
        rule = when(has_label).then(lit(ALLOWED_RULE)).when(~is_choice).then(READING_RULE)
        read = read.with_columns(rule.alias(READING_RULE))
    return read.with_columns(
        outcome=pl.coalesce(choices["outcome"], "outcome"),
        label=when(is_choice).then(choices["label"]).otherwise("label"),
        constrained=is_choice & choices["in_object"],
    )
