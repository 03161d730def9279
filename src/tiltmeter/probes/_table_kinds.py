"""The outcome that a text of `--outcome` means, and the one that a table of prompts asks for itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Series, col

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.probes._answer_readers import LETTERS
from tiltmeter.probes._table_of_prompts import EXPECTED, TableOfPrompts
from tiltmeter.probes._table_outcomes import (
    Acceptance,
    Choice,
    ExpectedAnswers,
    Judged,
    TableOutcome,
    YesOrNo,
)
from tiltmeter.probes._table_texts import Length, Number, Refusal, Similarity, TextFeature

KINDS: Final = (
    "expected",
    "yes-no",
    "choice:",
    "accept",
    "number",
    "refusal",
    "length",
    "similarity",
    "judge:",
)
"""Outcomes besides features and functions."""
SPECIAL: Final = "[]{}|:;"
"""Characters that a label must not contain, because they have a meaning in sentences and parameters."""
_YES_OR_NO: Final = r"(?i)\byes\b[^\n]{0,30}\bno\b|\bno\b[^\n]{0,30}\byes\b"
_LETTERED: Final = r"(?m)(?:^|\s|\()([A-Ea-e])[).:]\s"


def outcomes_of(table: TableOfPrompts, written: Sequence[str], label: str | None) -> list[TableOutcome]:
    """Return the outcomes of a table of prompts; the first is compared in the key metric.

    Parameters
    ----------
    table
        The table.
    written
        The outcomes as the user wrote them; none: that of the column `expected`, or what the prompts ask for.
    label
        The name of the first outcome, or None.

    Raises
    ------
    InputError
        An outcome is unknown or cannot be used with this table, or the label contains a special character.
    """
    if label is not None and set(label) & set(SPECIAL):
        raise InputError(f"--label {label!r}: write it without {' '.join(SPECIAL)}")
    if not written:
        return [_usual_outcome(table, label)]
    outcomes = [
        _outcome_named(text, table, label if place == 0 else None) for place, text in enumerate(written)
    ]
    metrics = [outcome.quantities[0].metric for outcome in outcomes]
    repeated = [text for text, metric in zip(written, metrics, strict=True) if metrics.count(metric) > 1]
    if repeated:
        raise InputError(
            f"--outcome {repeated[0]} and --outcome {repeated[1]} have the same name in the findings; "
            "leave one of them out"
        )
    return [outcomes[0], *(outcome for outcome in outcomes[1:] if not isinstance(outcome, Refusal))]


def _usual_outcome(table: TableOfPrompts, label: str | None) -> TableOutcome:
    """Return the outcome of a table for which none is named."""
    if table.has_expected:
        return ExpectedAnswers(table.rows[EXPECTED], label)
    prompts = table.rows["prompt"]
    if prompts.str.contains(_YES_OR_NO).all():
        return YesOrNo(label)
    letters = _letters_offered(prompts)
    if letters:
        return Choice(letters, label)
    print(
        f"note: {table.source}: the prompts ask neither for yes or no nor for a lettered option, so the "
        "length "
        "of the responses and refusals are compared; --outcome names another outcome, such as accept or "
        "number",
        file=sys.stderr,
    )
    return Length(label)


def _letters_offered(prompts: Series) -> list[str]:
    """Return the letters of the options if every prompt lists the same number of lettered options."""
    letter = pl.element().str.extract(r"([A-Ea-e])[).:]").str.to_lowercase()
    letters = DataFrame({"prompt": prompts}).select(
        letters=col.prompt.str.extract_all(_LETTERED).list.eval(letter).list.unique().list.sort()
    )["letters"]
    first: list[str] = letters[0].to_list()
    is_beginning = "".join(first).lower() == LETTERS[: len(first)]
    if len(first) < 2 or not is_beginning or letters.n_unique() > 1:
        return []
    return [letter.upper() for letter in first]


def _outcome_named(written: str, table: TableOfPrompts, label: str | None) -> TableOutcome:
    """Return the outcome that the user named."""
    kind, _, detail = written.partition(":")
    detail = detail.strip()
    match kind.strip():
        case "expected":
            if not table.has_expected:
                raise InputError(
                    f"--outcome expected: {table.source} has no column 'expected'; add it, or name it with "
                    "--expected"
                )
            return ExpectedAnswers(table.rows[EXPECTED], label)
        case "yes-no" | "yes_no":
            return YesOrNo(label)
        case "choice":
            return Choice([option.strip() for option in detail.split("|")], label)
        case "accept":
            return Acceptance(label)
        case "number":
            return Number(detail or None, label)
        case "refusal":
            return Refusal(label)
        case "length":
            return Length(label)
        case "similarity":
            return Similarity(table.rows["item"] if table.has_items else None, label)
        case "judge":
            return Judged(detail, label)
        case _:
            return _feature_outcome(written, label)


def _feature_outcome(written: str, label: str | None) -> TableOutcome:
    """Return the outcome of a feature or a function; raise InputError if there is none of this name."""
    from tiltmeter.features import FEATURES, OUTSIDE_FEATURES

    columns = [column.name for feature in FEATURES.values() for column in feature.columns]
    names = {*FEATURES, *columns, *OUTSIDE_FEATURES.names()}
    if written.partition("=")[0] not in names and ":" not in written:
        hint = did_you_mean(written, [*KINDS, *sorted(names)])
        raise InputError(
            f"--outcome {written}: unknown outcome: {hint}; features have names of tiltmeter list features, "
            "functions MODULE:FUNCTION or FILE.py:FUNCTION"
        )
    return TextFeature(written, label)
