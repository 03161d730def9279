"""Questions to the judge when a benchmark is built, and parsing of its replies as JSON anywhere in the text, without evaluating code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polars import Series

from tiltmeter.designs.wordings import Wording, wordings
from tiltmeter.errors import EXIT_INCOMPLETE, TiltmeterError
from tiltmeter.judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, T, ask_questions
from tiltmeter.models.json_replies import clean_item, json_values, without_thinking
from tiltmeter.readers import refused
from tiltmeter.study import Judge

NO_ANSWER = "the model gave no answer"


class Unfinished(TiltmeterError):
    """The build was interrupted; running the same command again resumes it. Exit status 3."""

    exit_code = EXIT_INCOMPLETE


def templates(file: str, subject: str) -> Wording:
    """Read the templates of a subject from a file in the folder `wordings`."""
    return next(iter(wordings(subject, None, Path(__file__).parent / "wordings" / f"{file}.yaml").values()))


def ask_all(judge: Judge, prompts: Sequence[str], **options: Any) -> list[ParsedReply[str]]:
    """Ask the judge each prompt once, and return its answers or why there is none, in order.

    See `ask_until_read`.
    """
    return ask_until_read(
        judge, "{prompt}", "", [{"prompt": prompt} for prompt in prompts], ParsedReply, tries=1, **options
    )


def ask_until_read(
    judge: Judge,
    first: str,
    again: str,
    fields: Sequence[Mapping[str, str]],
    read: Callable[[str], ParsedReply[T]],
    **options: Any,
) -> list[ParsedReply[T]]:
    """Ask the judge one question for each mapping of `fields`; see `ask_questions`.

    Returns
    -------
    One parsed reply for each question, in order.

    Raises
    ------
    Unfinished
        The judge was interrupted.
    """
    questions = [JudgeQuestion(given, read) for given in fields]
    ask_questions(judge, first, again, questions, **options)
    if any(question.error == NOT_ASKED for question in questions):
        raise Unfinished(
            f"interrupted while waiting for answers of {judge.name}; run the same command again to continue"
        )
    return [
        ParsedReply(None, f"{NO_ANSWER}: {one.error}", final=True)
        if one.error is not None
        else one.replies[-1]
        for one in questions
    ]


# Keywords

_LONGEST_WORD = 80
_DEEPEST = 6


def read_words(reply: str) -> ParsedReply[tuple[str, ...]]:
    """Return all strings in the first JSON list or object of the reply, at any depth.

    For objects, the values only.

    Entries that are not strings, or are too long for a keyword, are skipped.
    """
    for value in json_values(reply):
        entries = list(_entries(value))
        if not entries or not all(
            isinstance(entry, int | float) for entry in entries
        ):  # [1] is a reference in prose
            texts = (" ".join(entry.split()) for entry in entries if isinstance(entry, str))
            return ParsedReply(
                tuple(text for text in texts if len(text) <= _LONGEST_WORD and any(map(str.isalnum, text)))
            )
    return ParsedReply(None, "the reply contains no JSON list")


def _entries(value: object, depth: int = 0) -> Iterator[object]:
    if isinstance(value, list | dict) and depth < _DEEPEST:
        for one in value if isinstance(value, list) else value.values():
            yield from _entries(one, depth + 1)
    else:
        yield value


# Questions

_LONGEST_ANSWER = 100_000
_LONGEST_QUESTION = 400
_NONE = re.compile(
    r"\W*(?:none|null|n/?a|cannot|can't|can\u2019t|i cannot|no question)\b[^?]*$", re.IGNORECASE
)
_LEAD = re.compile(r"^question\s*:", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(?:(yes|true)|no|false)\b\W*$", re.IGNORECASE)


def read_question(answer: str) -> ParsedReply[str]:
    """Parse a question: the requested JSON, or a single line that ends in a question mark."""
    reply = without_thinking(answer[:_LONGEST_ANSWER])
    lines = [
        line.strip()
        for line in reply.splitlines()
        if line.rstrip("\"'\u201d\u2019*_ ").endswith("?") and "{" not in line
    ]
    given = [*_values_of("question", reply)] or (lines if len(lines) == 1 else [])
    value = given[0] if given else reply
    text = clean_item(_LEAD.sub("", clean_item(value))) if isinstance(value, str) else ""
    if given and text.endswith("?"):
        too_long = len(text) > _LONGEST_QUESTION
        return (
            ParsedReply(None, f"the question is longer than {_LONGEST_QUESTION} characters")
            if too_long
            else ParsedReply(text)
        )
    if (given and not value) or (text and (_NONE.match(text) or refused(Series([text]))[0])):
        return ParsedReply(None, "the model said that no question can be made of it", final=True)
    return ParsedReply(None, 'the answer holds no JSON of the form {"question": "How ... ?"}')


def read_check(answer: str) -> ParsedReply[bool]:
    """Parse a verdict: the requested JSON, or a plain yes or no."""
    reply = without_thinking(answer[:_LONGEST_ANSWER])
    for value in [*_values_of("sensible", reply), reply]:
        if isinstance(value, bool):
            return ParsedReply(value)
        if isinstance(value, str) and (word := _YES_OR_NO.match(value)):
            return ParsedReply(bool(word[1]))
    return ParsedReply(None, "the check of the question could not be read")


def _values_of(key: str, text: str) -> Iterator[object]:
    """Yield the values of a key in the JSON objects of a text, in order."""
    return (value[key] for value in json_values(text) if isinstance(value, dict) and key in value)


# Pairs of words

Pairs = list[tuple[object, object]]


def read_pairs(answer: str) -> ParsedReply[Pairs]:
    """Parse pairs of old and new words from the first JSON in the answer that has any.

    An empty list is a valid answer.
    """
    nothing: ParsedReply[Pairs] = ParsedReply(None, "it holds no JSON with old and new words")
    for given in json_values(answer):
        value: object = given
        while (
            isinstance(value, dict)
            and len(value) == 1
            and isinstance(inner := next(iter(value.values())), list | dict)
        ):
            value = inner  # {"replacements": ...}, or a table with root and target
        pairs: Pairs = []
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                pairs += (
                    [(one["old"], one["new"])]
                    if isinstance(value, list) and {"old", "new"} <= set(one)
                    else list(one.items())
                )
        if pairs:
            return ParsedReply(pairs)
        nothing = nothing if value else ParsedReply([])
    return nothing
