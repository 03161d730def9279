"""A judge asked about words: the question, what came back, and a second try where it could not be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from tiltmeter._wording import Wording, fill, wordings
from tiltmeter.errors import ProviderError
from tiltmeter.models import Message
from tiltmeter.study import Judge, NotRun

__all__ = ["Question", "Reply", "ask", "question", "templates"]

_HOME = Path(__file__).parents[1] / "wordings" / "branching.yaml"
_LONGEST_QUOTE = 4000
"""Characters of a useless answer that the judge is shown again."""

T = TypeVar("T")


class Question(NamedTuple):
    """What is asked, and how it is asked once more; {problem} in it is the reason."""

    prompt: str
    again: str


class Reply(NamedTuple):
    """What the judge said last."""

    key: str | None
    answer: str | None


def templates(wording: str | None) -> Wording:
    """The wording of that name or file; the first one for None. Raises InputError where it cannot be used."""
    return next(iter(wordings("branching", wording, _HOME).values()))


def question(wording: Wording, role: str, fields: Mapping[str, str | Sequence[str]]) -> Question:
    """The question of a role with its fields filled in, lists as JSON."""
    given = {name: value if isinstance(value, str) else json.dumps(list(value), ensure_ascii=False) for name, value in fields.items()}
    values = {name: pl.lit(value) for name, value in given.items()} | {"problem": pl.lit("{problem}")}
    return Question(*(str(pl.select(fill(wording[name], values)).item()) for name in (role, f"{role}_again")))


def ask(
    judge: Judge, questions: Sequence[Question], read: Callable[[str], tuple[T | None, str]], schema: Mapping[str, Any] | None = None
) -> list[tuple[Reply, T | None, str]]:
    """Ask each question, and once more where the answer could not be read.

    Parameters
    ----------
    read
        What an answer says (None where it cannot be read), and what was wrong with it.

    Returns
    -------
    For each question the last reply, what it says (None where both could not be read) and what was wrong.

    Raises
    ------
    NotRun
        The run was interrupted before all were answered.
    ProviderError
        The judge gave no answer.
    """
    asked = [(Message("user", one.prompt),) for one in questions]
    replies = _replies(judge, asked, schema)
    read_first = [read(reply.answer or "") for reply in replies]
    second = [at for at, (value, _) in enumerate(read_first) if value is None]
    found = [(reply, value, problem) for reply, (value, problem) in zip(replies, read_first, strict=True)]
    if second:
        repeats = []
        for at in second:
            said = (replies[at].answer or "").strip()[:_LONGEST_QUOTE] or "(nothing)"
            told = questions[at].again.replace("{problem}", found[at][2])
            repeats.append((*asked[at], Message("assistant", said), Message("user", told)))
        for at, reply in zip(second, _replies(judge, repeats, schema), strict=True):
            value, problem = read(reply.answer or "")
            found[at] = (reply, value, problem)
    return found


def _replies(judge: Judge, conversations: Sequence[tuple[Message, ...]], schema: Mapping[str, Any] | None) -> list[Reply]:
    rows = judge.ask(conversations, schema=schema, sampling={"temperature": 0.0}).to_dicts()
    if any(row["status"] == "missing" for row in rows):
        raise NotRun("the search for the words to replace was interrupted; run it again: what was answered is not asked again")
    if failed := next((row for row in rows if row["status"] != "ok"), None):
        raise ProviderError(f"{judge.name} did not answer a question about the words to replace ({failed['error']}); try again later")
    return [Reply(row["key"], row["answer"]) for row in rows]
