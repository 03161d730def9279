"""A judge that reads replies: those that rules leave unread, or a sample as an annotator."""

from __future__ import annotations

from typing import Any, Final

from polars import DataFrame, Series, String

from tiltmeter.models import Message
from tiltmeter.models._json_replies import object_schema, read_json
from tiltmeter.schema import REFUSED, UNCLEAR
from tiltmeter.study import Judge

QUESTION: Final = (
    "A language model was given a prompt and replied. Report what the reply says; do not answer the prompt "
    "yourself.\n\n"
    "<prompt>\n{prompt}\n</prompt>\n\n<reply>\n{answer}\n</reply>\n\nWhat is read: {question}\n"
    'Answer with JSON, {{"label": ...}}. The label is {allowed}; or "refused", if the reply declines; or '
    '"unclear", if it does not say.'
)


def read_with_judge(judge: Judge, rows: DataFrame) -> Series:
    """Ask a judge what replies say.

    Parameters
    ----------
    rows
        `prompt`, `answer`, `question` and `allowed` (List(String) of labels; empty: a number).

    Returns
    -------
    Series
        One label per row: an allowed one, "refused" or "unclear"; null if the judge gave no usable answer, or
        none yet.
    """
    labels: list[str | None] = [None] * rows.height
    for (allowed,), of_labels in rows.with_row_index("row").group_by("allowed", maintain_order=True):
        read = _read_rows(judge, of_labels, list(allowed or ()))
        for row, label in zip(of_labels["row"], read, strict=True):
            labels[row] = label
    return Series("label", labels, String)


def _read_rows(judge: Judge, rows: DataFrame, allowed: list[str]) -> list[str | None]:
    """Ask a judge about replies that have the same allowed labels."""
    if allowed:
        words = f"one of {', '.join(map(repr, allowed))}"
        json_type: dict[str, Any] = {"enum": [*allowed, REFUSED, UNCLEAR]}
    else:
        words = "a number"
        json_type = {"type": ["number", "string"]}
    fields = rows.select("prompt", "answer", "question").iter_rows(named=True)
    questions = [(Message("user", QUESTION.format(**of_reply, allowed=words)),) for of_reply in fields]
    schema = object_schema(label=json_type)
    answers = judge.ask(questions, schema=schema, sampling={"temperature": 0.0})["answer"]
    return [_label(answer or "", allowed) for answer in answers]


def _label(answer: str, allowed: list[str]) -> str | None:
    """Return the label in an answer, or None if there is no allowed one."""
    try:
        content = read_json(answer)
    except ValueError:
        return None
    label = content.get("label") if isinstance(content, dict) else None
    is_label = label in (*allowed, REFUSED, UNCLEAR)
    is_number = not allowed and isinstance(label, int | float)
    return str(label) if is_label or is_number else None
