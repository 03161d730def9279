"""Questions to the judge when a benchmark is built, and parsing of its replies.

JSON is found anywhere in a reply; no code is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polars import Series

from tiltmeter._judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, T, ask_questions
from tiltmeter.designs.wordings import Wording, wordings
from tiltmeter.errors import EXIT_INCOMPLETE, TiltmeterError
from tiltmeter.models._json_replies import clean_item, json_values, without_thinking
from tiltmeter.readers import refused
from tiltmeter.study import Judge

NO_ANSWER = "the model gave no answer"


class Unfinished(TiltmeterError):
    """The build was interrupted; running the same command again resumes it. Exit status 3."""

    exit_code = EXIT_INCOMPLETE


def templates(file: str, subject: str) -> Wording:
    """Read the templates of a subject from a file in the folder `wordings`."""
    path = Path(__file__).parent / "wordings" / f"{file}.yaml"
    return next(iter(wordings(subject, None, path).values()))


def ask_all(judge: Judge, prompts: Sequence[str], **options: Any) -> list[ParsedReply[str]]:
    """Ask the judge each prompt once, and return its answers or why there is none, in order.

    See `ask_until_read`.
    """
    fields = [{"prompt": prompt} for prompt in prompts]
    return ask_until_read(judge, "{prompt}", "", fields, ParsedReply, tries=1, **options)


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
    questions = [JudgeQuestion(mapping, read) for mapping in fields]
    ask_questions(judge, first, again, questions, **options)
    if any(question.error == NOT_ASKED for question in questions):
        raise Unfinished(
            f"interrupted while waiting for answers of {judge.name}; run the same command again to continue"
        )
    return [_last_reply(question) for question in questions]


def _last_reply(question: JudgeQuestion[T]) -> ParsedReply[T]:
    if question.error is not None:
        return ParsedReply(None, f"{NO_ANSWER}: {question.error}", final=True)
    return question.replies[-1]


# Keywords

_LONGEST_WORD = 80
_DEEPEST = 6


def read_words(reply: str) -> ParsedReply[tuple[str, ...]]:
    """Return all strings in the first JSON list or object of the reply, at any depth.

    For objects, the values only. Entries that are not strings, or are too long for a keyword, are skipped.
    """
    for value in json_values(reply):
        entries = list(_entries(value))
        are_numbers = all(isinstance(entry, int | float) for entry in entries)
        if entries and are_numbers:
            continue  # [1] is a reference in prose
        texts = [" ".join(entry.split()) for entry in entries if isinstance(entry, str)]
        return ParsedReply(tuple(text for text in texts if _is_keyword(text)))
    return ParsedReply(None, "the reply contains no JSON list")


def _is_keyword(text: str) -> bool:
    return len(text) <= _LONGEST_WORD and any(map(str.isalnum, text))


def _entries(value: object, depth: int = 0) -> Iterator[object]:
    """Yield the entries of a JSON list, or the values of an object, at any depth up to _DEEPEST."""
    if not isinstance(value, list | dict) or depth == _DEEPEST:
        yield value
        return
    for entry in value.values() if isinstance(value, dict) else value:
        yield from _entries(entry, depth + 1)


# Questions

_LONGEST_ANSWER = 100_000
_LONGEST_QUESTION = 400
_NONE = re.compile(
    r"\W*(?:none|null|n/?a|cannot|can't|can\u2019t|i cannot|no question)\b[^?]*$", re.IGNORECASE
)
_LEAD = re.compile(r"^question\s*:", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(?:(yes|true)|no|false)\b\W*$", re.IGNORECASE)
_CLOSING = "\"'\u201d\u2019*_ "
"""Characters that may follow the question mark of a question."""


def read_question(answer: str) -> ParsedReply[str]:
    """Parse a question: the requested JSON, or a single line that ends in a question mark."""
    reply = without_thinking(answer[:_LONGEST_ANSWER])
    questions = [*_values_of("question", reply)] or _single_question(reply)
    value = questions[0] if questions else reply
    text = clean_item(_LEAD.sub("", clean_item(value))) if isinstance(value, str) else ""
    if questions and text.endswith("?"):
        if len(text) > _LONGEST_QUESTION:
            return ParsedReply(None, f"the question is longer than {_LONGEST_QUESTION} characters")
        return ParsedReply(text)
    is_empty = bool(questions) and not value
    if is_empty or (text and _declines(text)):
        return ParsedReply(None, "the model said that no question can be made of it", final=True)
    return ParsedReply(None, 'the answer holds no JSON of the form {"question": "How ... ?"}')


def _single_question(reply: str) -> list[str]:
    """Return the line that ends in a question mark; empty unless there is exactly one."""
    lines = [
        line.strip() for line in reply.splitlines() if line.rstrip(_CLOSING).endswith("?") and "{" not in line
    ]
    return lines if len(lines) == 1 else []


def _declines(text: str) -> bool:
    """Check whether a text says that there is no question, or refuses."""
    return bool(_NONE.match(text) or refused(Series([text]))[0])


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
    is_empty_answer = False
    for value in json_values(answer):
        table = _unwrapped(value)
        pairs = _pairs_in(table)
        if pairs:
            return ParsedReply(pairs)
        is_empty_answer |= not table
    if is_empty_answer:
        return ParsedReply([])
    return ParsedReply(None, "it holds no JSON with old and new words")


def _unwrapped(value: object) -> object:
    """Return what an object with a single list or object contains, as in {"replacements": ...}."""
    while isinstance(value, dict) and len(value) == 1:
        content = next(iter(value.values()))
        if not isinstance(content, list | dict):
            break
        value = content
    return value


def _pairs_in(table: object) -> Pairs:
    """Return the pairs of a list of objects with "old" and "new", or of objects from old to new words."""
    pairs: Pairs = []
    for entry in table if isinstance(table, list) else [table]:
        if not isinstance(entry, dict):
            continue
        if isinstance(table, list) and {"old", "new"} <= set(entry):
            pairs.append((entry["old"], entry["new"]))
        else:
            pairs += entry.items()
    return pairs
