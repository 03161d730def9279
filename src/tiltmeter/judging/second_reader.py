"""A judge that reads replies: a second reader for those that rules leave unread, or an annotator of a sample."""

from __future__ import annotations

from collections.abc import Iterator

from polars import DataFrame, Series, String

from tiltmeter.models import Message
from tiltmeter.models.json_replies import object_schema, read_json
from tiltmeter.schema import REFUSED, UNCLEAR
from tiltmeter.study import Judge

ASK = (
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
    found: list[str | None] = [None] * rows.height
    for allowed, mine in rows.with_row_index("row").group_by("allowed", maintain_order=True):
        labels = list(allowed[0] or ())
        words = f"one of {', '.join(map(repr, labels))}" if labels else "a number"
        kind = {"enum": [*labels, REFUSED, UNCLEAR]} if labels else {"type": ["number", "string"]}
        texts = mine.select("prompt", "answer", "question").iter_rows(named=True)
        asked = [(Message("user", ASK.format(**text, allowed=words)),) for text in texts]
        answers = judge.ask(asked, schema=object_schema(label=kind), sampling={"temperature": 0.0})["answer"]
        for row, label in zip(mine["row"], _labels(answers, labels), strict=True):
            found[row] = label
    return Series("label", found, String)


def _labels(answers: Series, allowed: list[str]) -> Iterator[str | None]:
    """Yield the label in each answer, or None if there is no allowed one."""
    for answer in answers:
        try:
            found = read_json(answer or "")
        except ValueError:
            yield None
            continue
        label = found.get("label") if isinstance(found, dict) else None
        known = label in (*allowed, REFUSED, UNCLEAR) or (not allowed and isinstance(label, int | float))
        yield str(label) if known else None
