"""Constrained answers (`-P answers=constrained`): the model may only answer with one of the allowed answers, or refuse.

The refusal has the form of the other answers: "(refuse)" beside "(a)", "refuse" beside "yes". A constraint compares answers token by token:
it removes all tokens that begin no allowed answer, and the rest of their probability goes to those that are left. Beside "(a)" and "(b)",
"decline" took 50 to 80% of the answers of a small model that hardly refused in free text: it wrote letters without parentheses, and of
these the list allowed only "d". See docs/genderbench.md for the measurement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.errors import InputError
from tiltmeter.models.base import ALLOWED
from tiltmeter.probes.metric import definition_named
from tiltmeter.readers.outcomes import decide_outcome
from tiltmeter.study import Settings

REFUSE = "refuse"
"""The word by which a model refuses to choose one of the allowed answers; it does not begin like the letter of an option."""
FORMERLY = "decline"
"""The word in lists of earlier versions, whose responses are still read."""
LETTER = "({})"
"""Form of a lettered choice."""
AllowedAnswers = Sequence[tuple[Expr, Expr]]
"""The allowed answers of a prompt, each with its label, as expressions over the factors; empty if the answer is free text."""


def answers_are_constrained(settings: Settings) -> bool:
    """Return whether answers are constrained; raise InputError for an unknown value, or under a published definition."""
    chosen = settings.params.get("answers", "free")
    possible = ("free", "constrained") if definition_named(settings.definition).corrected else ("free",)
    if chosen not in possible:
        raise InputError(f"-P answers={chosen}: answers of the definition {settings.definition} can only be {' or '.join(possible)}")
    return chosen != "free"


def allow(labels: Iterable[str], form: str = "{}") -> AllowedAnswers:
    """Return an allowed answer for each label, written in this form."""
    return tuple((lit(form.format(label)), lit(label)) for label in labels)


def refusal_beside(answers: Sequence[str]) -> str:
    """Return the refusal in the form of these answers: within the punctuation that all of them begin and end with."""
    begins = {re.match(r"\W*", answer)[0] for answer in answers}  # type: ignore[index]  # it matches every text
    ends = {re.search(r"\W*$", answer)[0] for answer in answers}  # type: ignore[index]
    if len(begins) == len(ends) == 1:
        return f"{begins.pop()}{REFUSE}{ends.pop()}"
    return REFUSE


def with_list(design: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Add the allowed answers of each prompt as a JSON list: in alphabetical order, then the refusal."""
    answers = design.with_columns(listed=pl.concat_list(answer for answer, _ in allowed))["listed"].to_list()
    lists = [json.dumps([*sorted(given), refusal_beside(given)]) for given in answers]
    return design.with_columns(Series(ALLOWED, lists, String))


def read_allowed(read: DataFrame, answers: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Replace the outcome and label of each answer that is an allowed one, alone or as the object `{"answer": ...}`.

    The further column `constrained` says whether it is such an object.
    """
    inside = col.answer.str.json_path_match("$.answer")
    said = pl.coalesce(inside, col.answer.str.strip_chars())
    label = pl.coalesce(when(said == answer).then(label) for answer, label in allowed)
    refusal = col(ALLOWED).str.json_decode(pl.List(String)).list.last()
    outcome = decide_outcome(lit(None), refused=(said == refusal) | (said == FORMERLY), answered=label.is_not_null())
    found = answers.select(outcome=outcome, label=label, inside=inside.is_not_null())
    known = found["outcome"].is_not_null()
    return read.with_columns(
        outcome=pl.coalesce(found["outcome"], "outcome"),
        label=when(known).then(found["label"]).otherwise("label"),
        constrained=known & found["inside"],
    )
