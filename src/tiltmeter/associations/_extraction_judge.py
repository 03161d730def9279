"""Extraction of concepts by a judge in up to four stages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Series, String, col, lit

from tiltmeter._judging.questions import NOT_ASKED, JudgeQuestion, ParsedReply, ask_questions
from tiltmeter.associations._definitions import STAGES
from tiltmeter.associations._judge_answers import (
    SCHEMA,
    Person,
    Reading,
    Sentences,
    is_named,
    labels,
    normal,
    read_answer,
)
from tiltmeter.associations._tables import JUDGEMENTS, Phrases, list_tables
from tiltmeter.designs.wordings import Wording, wordings
from tiltmeter.readers import refused
from tiltmeter.schema import conform
from tiltmeter.study import Judge

_WORDINGS: Final = Path(__file__).with_name("wordings.yaml")
_SHORTEST_FENCE: Final = 5
"""Smallest number of equal signs around a story that is quoted."""


def judge_wording(wording: str | None = None, *, about: str = "judge") -> Wording:
    """Return the judge's prompt templates by stage.

    They are those of the first of the chosen wordings (see `wordings`).
    """
    return next(iter(wordings(about, wording, _WORDINGS).values()))


def extract_with_judge(
    stories: DataFrame, judge: Judge, *, stages: Sequence[str] = STAGES, wording: str | None = None
) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Ask a judge for the concepts of each character.

    Each stage asks about all stories at once: *extract* makes the lists, *refine* checks them against the
    story, *decompose* splits items that contain several concepts, and *polish* rewrites them briefly and
    generally; *whole* does all four in one question. If an answer is not completely usable, the question is
    repeated once with the error. A list that still cannot be parsed is missing if the stage is the first; in
    a later stage, the list of the previous stage is kept and its `problem` says so. Empty lists are not
    passed to later stages. A story that does not name a character is still used, and the `problem` of the
    list says so. If the judge has not answered yet (interrupted run), the lists of the story are missing, and
    no questions that depend on them are asked.

    Parameters
    ----------
    stories
        STORIES, with both characters of a story in consecutive rows.
    judge
        Is shown names only if they are known, so that the identity remains hidden. The story is quoted as
        text.
    stages
        "extract" and, in this order, any of "refine", "decompose", "polish"; or "whole" alone.
    wording
        Name of a wording, or a file with wordings, of which the first is used; see `wordings`.

    Returns
    -------
    lists
        LISTS, in the order of `stories`.
    mentions
        MENTIONS, in the order of the lists.
    judgements
        JUDGEMENTS, in the order of the questions.

    Raises
    ------
    InputError
        The wording cannot be used.
    """
    templates = judge_wording(wording)
    by_attempt = stories.group_by("attempt", maintain_order=True).agg(
        col.text.first(), people=pl.struct(Person._fields)
    )
    judged = [
        _JudgedStory(attempt, text or "", [Person(**person) for person in people])
        for attempt, text, people in by_attempt.iter_rows()
    ]
    judgements = []
    for stage in stages:
        answers = _ask_stage(judge, templates, stage, judged, first=stage == stages[0])
        judgements.append(answers)
        if "missing" in answers["status"]:
            if stage != stages[-1]:
                for story in judged:  # later stages would depend on the missing answers
                    story.waiting |= bool(story.numbers_of_stage(first=False))
            break
    results = [result for story in judged for result in story.results()]
    lists, mentions = list_tables(stories, results)
    return lists, mentions, pl.concat(judgements)


@dataclass(slots=True)
class _JudgedStory:
    """State of a story between the stages."""

    attempt: str
    text: str
    people: list[Person]
    names: list[str] = field(default_factory=list)
    """Names of the characters in prompts to the judge; empty if no questions can be asked."""
    lists: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Extracted lists by index of the character."""
    notes: list[list[str]] = field(default_factory=list)
    """Problems with the list of each character."""
    waiting: bool = False
    """Whether the judge has not answered yet. No more questions about the story are asked, and its lists are
    not final."""

    def __post_init__(self) -> None:
        has_text = self.text.strip() != ""
        if has_text:
            self.names = labels(self.people)
        text = normal(self.text)
        for person in self.people:
            notes = []
            if not has_text:
                notes = ["no story"]
            elif not self.names:
                notes = ["its characters cannot be distinguished by name or descriptor"]
            elif person.name and not is_named(person.name, text):
                notes = [f"the story does not name {person.name}"]
            self.notes.append(notes)

    def numbers_of_stage(self, *, first: bool) -> list[int]:
        """Return the indices of the characters that a stage asks about.

        The first stage asks about all of them, later ones about those with a non-empty list.
        """
        if self.waiting or not self.names:
            return []
        return [number for number in range(len(self.people)) if first or self.lists.get(number)]

    def results(self) -> list[tuple[str | None, Phrases]]:
        """Return the problem, and the phrases with their sentences, for each character."""
        if self.waiting:
            return [(NOT_ASKED, None)] * len(self.people)
        sentences = Sentences(self.text, [person.name or "" for person in self.people])
        phrases: dict[int, Phrases] = {
            number: [(item, sentences.showing(item, number)) for item in items]
            for number, items in self.lists.items()
        }
        return [("; ".join(notes) or None, phrases.get(number)) for number, notes in enumerate(self.notes)]


def _ask_stage(
    judge: Judge, templates: Wording, stage: str, stories: Sequence[_JudgedStory], *, first: bool
) -> DataFrame:
    """Ask the questions of a stage, repeat those without a usable answer, and return JUDGEMENTS."""
    stories_asked = []
    questions = []
    for story in stories:
        numbers = story.numbers_of_stage(first=first)
        if numbers:
            stories_asked.append((story, numbers))
            questions.append(JudgeQuestion(_fields(story, numbers), partial(_read, story, numbers)))
    answers = ask_questions(judge, templates[stage], templates["again"], questions, schema=SCHEMA)
    for (story, numbers), question in zip(stories_asked, questions, strict=True):
        story.waiting |= question.error == NOT_ASKED
        if not story.waiting:
            _apply(stage, story, numbers, question, first=first)
    attempts = Series([story.attempt for story, _ in stories_asked], dtype=String)
    judgements = answers.with_columns(stage=lit(stage), attempt=attempts.gather(answers["question"]))
    return conform(judgements, JUDGEMENTS)


def _read(story: _JudgedStory, numbers: Sequence[int], answer: str) -> ParsedReply[Reading]:
    """Parse an answer about the characters with these indices."""
    reading = read_answer(answer, story.people, numbers, story.names, story.text)
    if not reading.lists and refused(Series([answer]))[0]:
        fault = "the judge declines to answer"
        reading = Reading({}, dict.fromkeys(numbers, fault), fault)
    return ParsedReply(reading, reading.problem, final=not reading.faults)


def _fields(story: _JudgedStory, numbers: Sequence[int]) -> dict[str, str]:
    """Return the fields of a template for a story.

    {story} is quoted between fences; {characters} and {lists} are JSON.
    """
    names = [story.names[number] for number in numbers]
    lists = [{"name": story.names[number], "concepts": story.lists.get(number, ())} for number in numbers]
    return {
        "story": _fenced(story.text),
        "characters": json.dumps(names, ensure_ascii=False),
        "lists": json.dumps({"characters": lists}, ensure_ascii=False),
    }


def _fenced(text: str) -> str:
    """Return the story between two lines of equal signs.

    The lines are longer than any run of equal signs in the story, so that it cannot end the quotation.
    """
    longest_run = max(map(len, re.findall(r"=+", text)), default=0)
    fence = "=" * max(_SHORTEST_FENCE, 1 + longest_run)
    return f"{fence}\n{text}\n{fence}"


def _apply(
    stage: str, story: _JudgedStory, numbers: Sequence[int], question: JudgeQuestion[Reading], *, first: bool
) -> None:
    """Update the list of each character.

    It is taken from the first answer without errors for the character, else from the last usable answer, if
    there is one.
    """
    readings = [reply.value for reply in question.replies if reply.value]
    for number in numbers:
        usable = [reading for reading in readings if number in reading.lists]
        if usable:
            without_faults = [reading for reading in usable if number not in reading.faults]
            reading = without_faults[0] if without_faults else usable[-1]
            story.lists[number] = reading.lists[number]
            fault = reading.faults.get(number)
            consequence = "; they are left out"
        else:
            fault = readings[-1].faults.get(number) if readings else f"no answer ({question.error})"
            consequence = "" if first else "; the list of the previous stage is kept"
        if fault:
            story.notes[number].append(f"{stage}: {fault}{consequence}")
