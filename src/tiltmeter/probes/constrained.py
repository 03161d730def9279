"""Constrained answers (`-P answers=constrained`): the endpoint may only answer with one of the allowed answers, or decline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import polars as pl
from polars import DataFrame, Expr, Series, col, lit, when

from tiltmeter.errors import InputError
from tiltmeter.models.base import ALLOWED
from tiltmeter.probes.metric import definition_named
from tiltmeter.readers.outcomes import decide_outcome
from tiltmeter.study import Settings

DECLINE = "decline"
"""The allowed answer by which a model refuses to choose one of the others."""
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


def with_list(design: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Add the allowed answers of each prompt as a JSON list: in alphabetical order, then DECLINE."""
    answers = design.with_columns(listed=pl.concat_list(answer for answer, _ in allowed))["listed"]
    return design.with_columns(Series(ALLOWED, [json.dumps([*sorted(given), DECLINE]) for given in answers]))


def read_allowed(read: DataFrame, answers: DataFrame, allowed: AllowedAnswers) -> DataFrame:
    """Replace the outcome and label of each answer that is an allowed one, alone or as the object `{"answer": ...}`.

    The further column `constrained` says whether it is such an object.
    """
    inside = col.answer.str.json_path_match("$.answer")
    said = pl.coalesce(inside, col.answer.str.strip_chars())
    label = pl.coalesce(when(said == answer).then(label) for answer, label in allowed)
    outcome = decide_outcome(lit(None), refused=said == DECLINE, answered=label.is_not_null())
    found = answers.select(outcome=outcome, label=label, inside=inside.is_not_null())
    known = found["outcome"].is_not_null()
    return read.with_columns(
        outcome=pl.coalesce(found["outcome"], "outcome"),
        label=when(known).then(found["label"]).otherwise("label"),
        constrained=known & found["inside"],
    )
