"""Questions to a judge: all are asked at once and, where an answer cannot be used, again with the problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

import polars as pl
from polars import DataFrame, String

from tiltmeter.designs.wordings import fill_template
from tiltmeter.models import Message
from tiltmeter.schema import Schema
from tiltmeter.study import Judge

T = TypeVar("T")

NOT_ASKED: Final = "not asked yet"
_LONGEST_QUOTE: Final = 4_000
"""Maximum number of characters of an unusable answer that are repeated to the judge."""

ASKED: Final[Schema] = {
    "question": pl.Int64,  # index of the question
    "turn": pl.Int8,  # 0, or 1, 2, ... for a question repeated with the problem
    "key": String,  # of the answer in the journal
    "status": String,  # "ok", "failed" or "missing" (not asked yet)
    "prompt": String,
    "answer": String,
    "problem": String,  # error of the request or in the answer; null if the answer could be parsed completely
}
"""Columns of all requests, in their order."""


class ParsedReply(NamedTuple, Generic[T]):
    """The value parsed from an answer, or the problem with it."""

    value: T | None = None
    problem: str | None = None
    """What is wrong with the answer, in words that can be shown to the judge."""
    final: bool = False
    """Whether the question is not repeated in spite of the problem."""


@dataclass(slots=True)
class JudgeQuestion(Generic[T]):
    """A question with its parsed answers."""

    fields: Mapping[str, str]
    """Values of the fields of the templates."""
    read: Callable[[str], ParsedReply[T]]
    """Function that parses an answer."""
    replies: list[ParsedReply[T]] = field(default_factory=list)
    """The parsed answers to the question and to its repetitions."""
    error: str | None = None
    """Error of the last request, or NOT_ASKED; None if it was answered."""


def ask_questions(
    judge: Judge,
    first: str,
    again: str,
    questions: Sequence[JudgeQuestion[T]],
    *,
    tries: int = 2,
    check: Callable[[Mapping[int, T]], Mapping[int, ParsedReply[T]]] = lambda _: {},
    **options: Any,
) -> DataFrame:
    """Ask all questions at once and, where an answer cannot be used, again with the problem.

    Add the answers to the questions.

    If the judge was interrupted, no question is repeated. Those that it did not get, and those that would
    have been repeated, have the error NOT_ASKED.

    Parameters
    ----------
    first, again
        Templates of the question and of its repetition, which may contain the {problem}.
    tries
        Maximum number of times that a question is asked.
    check
        Function that takes the new values by question and returns replacements for some of the replies.
    options
        Passed to `judge.ask`.

    Returns
    -------
    DataFrame
        ASKED.
    """
    prompts = [Message("user", fill_template(first, **question.fields)) for question in questions]
    conversations: dict[int, tuple[Message, ...]] = {
        number: (prompt,) for number, prompt in enumerate(prompts)
    }
    requests: list[tuple[Any, ...]] = []
    interrupted = False
    for turn in range(tries):
        if interrupted or not conversations:
            for number in conversations:
                questions[number].error = NOT_ASKED
            break
        answers = judge.ask(list(conversations.values()), **options)
        rows = answers.select("key", "status", "answer", "error").rows()
        answered: dict[int, str] = {}
        for (number, messages), (key, status, answer, error) in zip(conversations.items(), rows, strict=True):
            question = questions[number]
            problem = question.error = NOT_ASKED if status == "missing" else error
            interrupted |= status == "missing"
            if status == "ok":
                reply = question.read(answer or "")
                question.replies.append(reply)
                problem = reply.problem
                answered[number] = answer or ""
            requests.append((number, turn, key, status, messages[-1].content, answer, problem))
        if not interrupted:
            values = _values(questions, answered)
            for number, replacement in check(values).items():
                questions[number].replies[-1] = replacement
        conversations = {}
        for number, answer in answered.items():
            question = questions[number]
            _, problem, final = question.replies[-1]
            if problem is not None and not final:
                quote = answer.strip()[:_LONGEST_QUOTE] or "(nothing)"
                repeated = Message("user", fill_template(again, **question.fields, problem=problem))
                conversations[number] = (prompts[number], Message("assistant", quote), repeated)
    return DataFrame(requests, dict(ASKED), orient="row")


def _values(questions: Sequence[JudgeQuestion[T]], numbers: Iterable[int]) -> dict[int, T]:
    """Return the values of the last replies to the questions with these numbers, where there are any."""
    values = {}
    for number in numbers:
        value = questions[number].replies[-1].value
        if value is not None:
            values[number] = value
    return values
