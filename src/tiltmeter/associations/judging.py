"""Extraction with a judge, in up to four stages: what it is asked about each story, and what becomes of the lists."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, Series, String, col

from tiltmeter.associations.definitions import STAGES
from tiltmeter.associations.judge_answers import SCHEMA, Person, Reading, Sentences, is_named, labels, normal, read_answer
from tiltmeter.associations.stage_tables import JUDGEMENTS, FoundPhrases, list_tables
from tiltmeter.models import Message
from tiltmeter.prompt_templates import Wording, fill_template, wordings
from tiltmeter.readers import refused
from tiltmeter.study import Judge

NOT_ASKED = "not asked yet"
_HOME = Path(__file__).with_name("wordings.yaml")
_FENCE = 5
_LONGEST_QUOTE = 4000
"""Characters of a useless answer that the judge is shown again."""


def judge_wording(wording: str | None = None, *, about: str = "judge") -> Wording:
    """Return the templates a judge is asked with, by stage: the first that a choice of wordings gives; see `wordings`."""
    return next(iter(wordings(about, wording, _HOME).values()))


def extract_with_judge(
    stories: DataFrame, judge: Judge, *, stages: Sequence[str] = STAGES, wording: str | None = None
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Ask a judge for the concepts of each character.

    Each stage asks about all stories at once: *extract* makes the lists, *refine* checks them against the story, *decompose* splits
    items that hold several concepts, *polish* words them briefly and generally; *whole* does all four in one question. An answer
    that cannot be used whole is asked for once more, with the reason. Then, in the first stage a list that still cannot be read is
    missing; in a later one the list of the stage before is kept, and its `problem` says so. Lists that are empty are not asked
    about again. A story that names a character nowhere is asked about all the same, and the list's `problem` says so. Where the
    judge has not answered yet (an interrupted run), the story's lists are missing, and nothing is asked that would depend on them.

    Parameters
    ----------
    stories
        STORIES, both characters of a story one after the other.
    judge
        Sees names only where they are known, so that the identity that is looked at stays hidden; the story is quoted to it as text.
    stages
        "extract" and, in this order, any of "refine", "decompose", "polish"; or "whole" alone.
    wording
        Name of a wording, or a file with one; see `wordings`. The first one it gives is used.

    Returns
    -------
    LISTS in the order of `stories`, MENTIONS in the order of the lists, JUDGEMENTS in the order in which they were asked.

    Raises
    ------
    InputError
        The wording cannot be used.
    """
    templates, judgements = judge_wording(wording), [DataFrame(schema=dict(JUDGEMENTS))]
    grouped = stories.group_by("attempt", maintain_order=True).agg(col.text.first(), people=pl.struct(Person._fields))
    judged = [_JudgedStory(attempt, text or "", [Person(**one) for one in people]) for attempt, text, people in grouped.iter_rows()]
    for stage in stages:
        judgements.append(_ask_stage(judge, templates, stage, judged, first=stage == stages[0]))
        if "missing" in judgements[-1]["status"]:
            for story in judged:  # what a later stage would have been asked about waits as well
                story.waiting |= stage != stages[-1] and bool(story.wanted(first=False))
            break
    lists, mentions = list_tables(stories, [result for story in judged for result in story.results()])
    return lists, mentions, pl.concat(judgements)


@dataclass(slots=True)
class _JudgedStory:
    """One story on its way through the stages."""

    attempt: str
    text: str
    people: list[Person]
    names: list[str] = field(default_factory=list)
    """What the people are called before the judge; empty where nothing can be asked."""
    lists: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By number of the person, as far as there are lists."""
    notes: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By number of the person: what went wrong with the list."""
    waiting: bool = False
    """The judge has not answered yet: nothing more is asked about this story, and its lists are not final."""

    def __post_init__(self) -> None:
        self.names = labels(self.people) if self.text.strip() else []
        shown = normal(self.text)
        for number, person in enumerate(self.people):
            if not self.text.strip():
                self.notes[number].append("no story")
            elif not self.names:
                self.notes[number].append("its characters cannot be distinguished by name or descriptor")
            elif person.name and not is_named(person.name, shown):
                self.notes[number].append(f"the story does not name {person.name}")

    def wanted(self, *, first: bool) -> list[int]:
        """Return the people a stage asks about: all in the first one, later those whose list holds something."""
        if self.waiting or not self.names:
            return []
        return [number for number in range(len(self.people)) if first or self.lists.get(number)]

    def results(self) -> list[tuple[str | None, FoundPhrases]]:
        """Return the problem and the phrases with their sentences for each person."""
        if self.waiting:
            return [(NOT_ASKED, None)] * len(self.people)
        sentences = Sentences(self.text, [person.name or "" for person in self.people])
        found: dict[int, FoundPhrases] = {
            number: [(phrase, sentences.showing(phrase, number)) for phrase in phrases] for number, phrases in self.lists.items()
        }
        return [("; ".join(self.notes[number]) or None, found.get(number)) for number in range(len(self.people))]


@dataclass(slots=True)
class JudgedQuestion:
    """A question to a judge, and how its answers to it and to its repetition read."""

    messages: tuple[Message, ...]
    read: Callable[[str | None], Any]
    attempt: str | None = None
    """The story it is about."""
    readings: list[Any] = field(default_factory=list)
    """Each with its `problem`, in words that the judge can be shown, and whether it is `doubtful`: worth asking again."""
    error: str | None = None
    """Why there is no answer to what was asked last."""


def ask_twice(
    judge: Judge,
    stage: str,
    questions: Sequence[JudgedQuestion],
    again: Callable[..., str],
    **options: Any,
) -> DataFrame:
    """Ask all questions at once, and those whose answers are doubtful once more, with the reason.

    Where the judge was interrupted, nothing is asked again, and what would have been has the error NOT_ASKED.

    Parameters
    ----------
    again
        What the judge is asked about an answer with that `problem`.
    options
        Passed on to the judge.

    Returns
    -------
    JUDGEMENTS.
    """
    judgements: list[tuple[Any, ...]] = []
    interrupted = False
    for turn in (0, 1):
        if interrupted or not questions:
            for question in questions:
                question.error = NOT_ASKED
            break
        answers = judge.ask([question.messages for question in questions], **options).select("key", "status", "answer", "error")
        for question, (key, status, answer, error) in zip(questions, answers.iter_rows(), strict=True):
            prompt = question.messages[-1].content
            problem = question.error = NOT_ASKED if status == "missing" else error
            interrupted |= status == "missing"
            if status == "ok":
                question.readings.append(question.read(answer))
                problem = question.readings[-1].problem
                said = (answer or "").strip()[:_LONGEST_QUOTE] or "(nothing)"
                question.messages += (Message("assistant", said), Message("user", again(problem=problem or "")))
            judgements.append((question.attempt, stage, turn, key, status, prompt, answer, problem))
        questions = [question for question in questions if question.readings and question.readings[-1].doubtful]
    return DataFrame(judgements, dict(JUDGEMENTS), orient="row")


def _ask_stage(judge: Judge, templates: Wording, stage: str, stories: Sequence[_JudgedStory], *, first: bool) -> DataFrame:
    """Ask one stage about the stories it applies to, and once more where an answer could not be used; returns JUDGEMENTS."""
    asked = [(story, wanted) for story in stories if (wanted := story.wanted(first=first))]
    questions = [
        JudgedQuestion((Message("user", _prompt(templates[stage], story, wanted)),), partial(_read, story, wanted), story.attempt)
        for story, wanted in asked
    ]
    judgements = ask_twice(judge, stage, questions, partial(fill_template, templates["again"]), schema=SCHEMA)
    for (story, wanted), question in zip(asked, questions, strict=True):
        story.waiting |= question.error == NOT_ASKED
        if not story.waiting:
            _apply(stage, story, wanted, question, first=first)
    return judgements


def _read(story: _JudgedStory, wanted: Sequence[int], answer: str | None) -> Reading:
    reading = read_answer(answer, story.people, wanted, story.names, story.text)
    if not reading.lists and refused(Series([answer], dtype=String))[0]:
        fault = "the judge declines to answer"
        return Reading({}, dict.fromkeys(wanted, fault), fault)
    return reading


def _prompt(template: str, story: _JudgedStory, wanted: Sequence[int]) -> str:
    """Return the template filled for a story: {story} between its fences, {characters} and {lists} as JSON."""
    names = [story.names[number] for number in wanted]
    lists = {"characters": [{"name": story.names[number], "concepts": story.lists.get(number, ())} for number in wanted]}
    characters, concepts = (json.dumps(value, ensure_ascii=False) for value in (names, lists))
    return fill_template(template, story=_fenced(story.text), characters=characters, lists=concepts)


def _fenced(text: str) -> str:
    """Return the story between two lines of equal signs, longer than any run of them in it: no story can end its own quotation."""
    fence = "=" * max(_FENCE, 1 + max(map(len, re.findall(r"=+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _apply(stage: str, story: _JudgedStory, wanted: Sequence[int], question: JudgedQuestion, *, first: bool) -> None:
    """Take each person's list from the first answer, or from the second where it is the better one; keep what could not be had."""
    for number in wanted:
        fault = question.readings[-1].faults.get(number) if question.readings else f"no answer ({question.error})"
        consequence = "" if first else "; the list of the stage before is kept"
        usable = [one for one in question.readings if number in one.lists]
        if usable:
            chosen = next((one for one in usable if number not in one.faults), usable[-1])
            story.lists[number], fault, consequence = chosen.lists[number], chosen.faults.get(number), "; they are left out"
        if fault:
            story.notes[number].append(f"{stage}: {fault}{consequence}")
