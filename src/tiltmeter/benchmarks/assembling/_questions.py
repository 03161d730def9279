"""Questions a model makes of sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tiltmeter._wording import Wording, placeholders, wordings
from tiltmeter.benchmarks.assembling._replies import SCHEMA_CHECK, SCHEMA_QUESTION, Reply, read_check, read_question
from tiltmeter.benchmarks.assembling._rows import Assembled, assembled, checked
from tiltmeter.models import Message
from tiltmeter.study import Judge

__all__ = ["NOT_ASKED", "questions"]

NOT_ASKED = "not asked yet"
_CANNOT = "the model said that no question can be made of it"
_REJECTED = "does not hold for other concepts as well"
_UNREAD = "its check could not be read"

_HOME = Path(__file__).parents[1] / "wordings" / "assembling.yaml"
_RETRIES = 2
_SUBSTITUTES = 3
"""Other concepts a question is tried with."""


@dataclass(slots=True)
class _Case:
    """One sentence on its way to a question."""

    concept: str
    sentence: str
    others: tuple[str, ...]
    question: str | None = None
    answer: str = ""
    reason: str | None = None
    """Why there is no question so far; None where there is one, or nothing was asked."""
    again: bool = True
    conversation: tuple[Message, ...] = field(default=())


def questions(
    sentences: pl.DataFrame,
    judge: Judge,
    *,
    wording: str | None = None,
    check: bool = False,
    concepts: Sequence[str] | None = None,
    tried_with: Sequence[str] = (),
) -> Assembled:
    """Prompts that are questions about the concept which a model makes of each sentence; the sentence is the baseline.

    All sentences are asked about at once, each at most three times: an answer that cannot be used is asked for again, with the reason.
    A question must name its concept. Where the model says that it cannot, or the answer stays unusable, the sentence is dropped.

    Parameters
    ----------
    sentences
        SENTENCES (`source_tag` and `licence` may be absent).
    judge
        The model asked. What its journal holds is not asked again.
    wording
        Name of a wording, or a file with one (subject `questions`); the first one it gives is used.
    check
        Whether the model is then asked if each question still makes sense with other concepts in the place of its own, and a question that
        does not is rejected and made again. With one concept only there is nothing to try.
    concepts
        Concepts that must have questions in the end, and those a question is tried with; None: those of the table.
    tried_with
        Further concepts a question is tried with, which need no sentences of their own.

    Returns
    -------
    The benchmark (kind "question"), and the sentences without a question; those of an interrupted run with the reason NOT_ASKED.

    Raises
    ------
    InputError
        A column is missing, the wording cannot be used, there is nothing to try a question with, or a concept is left without questions.
    """
    table = checked(sentences, concepts)
    templates = next(iter(wordings("questions", wording, _HOME).values()))
    known = list(dict.fromkeys([*(concepts or ()), *tried_with, *table["concept"]]))
    pairs = table.select("concept", "sentence").unique(maintain_order=True)
    cases = [_case(concept, sentence, known, templates) for concept, sentence in pairs.iter_rows()]
    for attempt in range(_RETRIES + 1):
        asked = [case for case in cases if case.question is None and case.again]
        if not asked:
            break
        _ask(judge, asked)
        if check:
            _try(judge, [case for case in asked if case.question is not None and case.others], templates)
        for case in asked:
            if case.question is None and case.again and attempt < _RETRIES:
                more = _filled(templates["again"], {"concept": case.concept, "problem": case.reason or ""})
                case.conversation = (case.conversation[0], Message("assistant", case.answer), Message("user", more))
    by_sentence = {(case.concept, case.sentence): case for case in cases}
    found = [by_sentence[pair] for pair in table.select("concept", "sentence").iter_rows()]
    prompts = pl.Series([case.question for case in found], dtype=pl.String)
    reasons = pl.Series([case.reason for case in found], dtype=pl.String)
    return assembled(table, prompts, reasons, "question", may_lack=any(case.reason == NOT_ASKED for case in found))


def _case(concept: str, sentence: str, known: Sequence[str], templates: Wording) -> _Case:
    first = Message("user", _filled(templates["ask"], {"concept": concept, "sentence": sentence}))
    place = known.index(concept)
    # Those that follow in the list, so that every concept is tried equally often.
    others = tuple(dict.fromkeys([*known[place + 1 :], *known[:place]]))[:_SUBSTITUTES]
    return _Case(concept, sentence, others, conversation=(first,))


def _ask(judge: Judge, cases: Sequence[_Case]) -> None:
    replies = judge.ask([case.conversation for case in cases], schema=SCHEMA_QUESTION)
    for case, (status, answer, error) in zip(cases, replies.select("status", "answer", "error").iter_rows(), strict=True):
        case.answer = answer or ""
        if status != "ok":
            case.reason, case.again = (NOT_ASKED if status == "missing" else f"the model gave no answer: {error}"), False
            continue
        read = read_question(case.answer)
        case.question, case.reason = read.value, read.problem
        if read.cannot:
            case.reason, case.again = _CANNOT, False
        elif case.question is not None and not _concept(case.concept).search(case.question):
            case.question, case.reason = None, "the question does not name the concept"


def _try(judge: Judge, cases: Sequence[_Case], templates: Wording) -> None:
    """Whether each question makes sense for other concepts; those that do not are taken back."""
    if not cases:
        return
    conversations = [(Message("user", _filled(templates["check"], {"questions": _substituted(case)})),) for case in cases]
    replies = judge.ask(conversations, schema=SCHEMA_CHECK, sampling={"temperature": 0.0})
    for case, (status, answer, error) in zip(cases, replies.select("status", "answer", "error").iter_rows(), strict=True):
        verdict: Reply[bool] = read_check(answer or "")
        if status == "ok" and verdict.value:
            continue
        case.question = None
        if status == "ok":
            case.reason = f"the question {_REJECTED if verdict.value is False else _UNREAD}"
        else:
            case.reason, case.again = (NOT_ASKED if status == "missing" else f"the model gave no answer: {error}"), False


def _substituted(case: _Case) -> str:
    pieces = _concept(case.concept).split(case.question or "")
    return "\n".join(f"- {other.join(pieces)}" for other in case.others)


def _concept(concept: str) -> re.Pattern[str]:
    """The concept as a whole word, in any case."""
    return re.compile(rf"(?<!\w){re.escape(concept.strip())}(?!\w)", re.IGNORECASE)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """All placeholders at once, so that braces in a value are left alone."""
    names = "|".join(sorted(placeholders(template) & set(values)))
    return re.sub(rf"\{{({names})\}}", lambda found: values[found.group(1)], template) if names else template
