"""Questions to the judge when a benchmark is built, and parsing of its replies as JSON anywhere in the text, without evaluating code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from polars import Series

from tiltmeter.errors import EXIT_INCOMPLETE, TiltmeterError
from tiltmeter.llm_json import json_values, without_thinking
from tiltmeter.models import Message
from tiltmeter.prompt_templates import Wording, fill_template, wordings
from tiltmeter.readers import refused
from tiltmeter.study import Judge

T = TypeVar("T")

NO_ANSWER = "the model gave no answer"
_LONGEST_QUOTE = 4_000
"""Maximum number of characters of an unusable reply that are quoted to the judge."""


class Unfinished(TiltmeterError):
    """The build was interrupted; running the same command again resumes it. Exit status 3."""

    exit_code = EXIT_INCOMPLETE


class JudgeAnswer(NamedTuple):
    """The answer of a judge, or the reason why there is none."""

    text: str
    problem: str | None = None


class ParsedReply(NamedTuple, Generic[T]):
    """The value parsed from a reply, or the problem with it."""

    value: T | None = None
    problem: str | None = None
    """Why there is no value, in words that can be shown to the judge."""
    final: bool = False
    """Whether there should be no retry."""


def templates(file: str, subject: str) -> Wording:
    """Read the templates of a subject from a file in the folder `wordings`."""
    return next(iter(wordings(subject, None, Path(__file__).parent / "wordings" / f"{file}.yaml").values()))


def ask_all(judge: Judge, conversations: Sequence[tuple[Message, ...]], **options: Any) -> list[JudgeAnswer]:
    """Ask the judge and return its answers in the order of the conversations.

    Raises
    ------
    Unfinished
        The judge was interrupted; the answers so far are in its journal.
    """
    replies = judge.ask(conversations, **options).select("status", "answer", "error").rows() if conversations else []
    if any(status == "missing" for status, _, _ in replies):
        raise Unfinished(f"interrupted while waiting for answers of {judge.name}; run the same command again to continue")
    return [JudgeAnswer(answer or "", None if status == "ok" else f"{NO_ANSWER}: {error}") for status, answer, error in replies]


def ask_until_read(
    judge: Judge,
    first: str,
    again: str,
    fields: Sequence[Mapping[str, str]],
    read: Callable[[str], ParsedReply[T]],
    *,
    tries: int,
    check: Callable[[Mapping[int, T]], Mapping[int, ParsedReply[T]]] = lambda _: {},
    **options: Any,
) -> list[ParsedReply[T]]:
    """Ask the judge all prompts at once, and ask again, with the problem, where a reply cannot be used.

    Parameters
    ----------
    judge
        The model asked.
    first, again
        Templates of the prompt and of the retry message, which may contain the `{problem}` of the reply.
    fields
        Values of the template's fields, one mapping for each prompt.
    read
        Function that parses a reply.
    tries
        Maximum number of attempts for each prompt.
    check
        Function that takes the new values by position and returns replacements for some of them.
    **options
        Passed to `judge.ask`.

    Returns
    -------
    One parsed reply for each prompt, in order.
    """
    prompts = [Message("user", fill_template(first, **given)) for given in fields]
    conversations: list[tuple[Message, ...]] = [(prompt,) for prompt in prompts]
    found = dict.fromkeys(range(len(prompts)), ParsedReply[T]())
    for _ in range(tries):
        asked = [place for place, reply in found.items() if reply.value is None and not reply.final]
        answers = dict(zip(asked, ask_all(judge, [conversations[place] for place in asked], **options), strict=True))
        for place, (text, problem) in answers.items():
            found[place] = ParsedReply(None, problem, final=True) if problem else read(text)
        found |= check({place: value for place in asked if (value := found[place].value) is not None})
        for place, (text, _) in answers.items():
            quoted = Message("assistant", text.strip()[:_LONGEST_QUOTE] or "(nothing)")
            problem = found[place].problem or ""
            conversations[place] = (prompts[place], quoted, Message("user", fill_template(again, **fields[place], problem=problem)))
    return list(found.values())


# Keywords

_LONGEST_WORD = 80
_DEEPEST = 6


def read_words(reply: str) -> ParsedReply[tuple[str, ...]]:
    """Return all strings in the first JSON list or object of the reply, at any depth; for objects, the values only.

    Entries that are not strings, or are too long for a keyword, are skipped.
    """
    for value in json_values(reply):
        entries = list(_entries(value))
        if not entries or not all(isinstance(entry, int | float) for entry in entries):  # [1] is a reference in prose
            texts = (" ".join(entry.split()) for entry in entries if isinstance(entry, str))
            return ParsedReply(tuple(text for text in texts if len(text) <= _LONGEST_WORD and any(map(str.isalnum, text))))
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
_NONE = re.compile(r"\W*(?:none|null|n/?a|cannot|can't|can\u2019t|i cannot|no question)\b[^?]*$", re.IGNORECASE)
_LEAD = re.compile(r"^(?:question\s*:|[-*\u2022]|\d{1,2}[.)])\s*", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(?:(yes|true)|no|false)\b\W*$", re.IGNORECASE)


def read_question(answer: str) -> ParsedReply[str]:
    """Parse a question: the requested JSON, or a single line that ends in a question mark."""
    reply = without_thinking(answer[:_LONGEST_ANSWER])
    lines = [line.strip() for line in reply.splitlines() if line.rstrip("\"'\u201d\u2019*_ ").endswith("?") and "{" not in line]
    given = [*_values_of("question", reply)] or (lines if len(lines) == 1 else [])
    value = given[0] if given else reply
    text = _LEAD.sub("", " ".join(value.split()).strip("*_ ")) if isinstance(value, str) else ""
    if len(text) > 1 and text[0] in "\"'\u201c" and text[-1] in "\"'\u201d":
        text = text[1:-1].strip()
    if given and text.endswith("?"):
        too_long = len(text) > _LONGEST_QUESTION
        return ParsedReply(None, f"the question is longer than {_LONGEST_QUESTION} characters") if too_long else ParsedReply(text)
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
    """Parse pairs of old and new words from the first JSON in the answer that has any; an empty list is a valid answer."""
    nothing: ParsedReply[Pairs] = ParsedReply(None, "it holds no JSON with old and new words")
    for given in json_values(answer):
        value: object = given
        while isinstance(value, dict) and len(value) == 1 and isinstance(inner := next(iter(value.values())), list | dict):
            value = inner  # {"replacements": ...}, or a table with root and target
        pairs: Pairs = []
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                pairs += [(one["old"], one["new"])] if isinstance(value, list) and {"old", "new"} <= set(one) else list(one.items())
        if pairs:
            return ParsedReply(pairs)
        nothing = nothing if value else ParsedReply([])
    return nothing
