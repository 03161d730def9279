"""One stage after the other: what the judge is asked about each story, and what becomes of the lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tiltmeter import measures
from tiltmeter._wording import Wording, fill
from tiltmeter.associations._tables import JUDGEMENTS
from tiltmeter.associations.judging._answer import SCHEMA, Reading, read_answer
from tiltmeter.associations.judging._people import Person, is_named, labels, normal
from tiltmeter.models import Message
from tiltmeter.study import Judge

__all__ = ["NOT_ASKED", "NO_STORY", "Asking", "Story"]

NO_STORY = "no story"
NOT_ASKED = "not asked yet"

_FENCE = 5
_LONGEST_QUOTE = 4000
"""Characters of a useless answer that the judge is shown again."""


@dataclass(slots=True)
class Story:
    """One story on its way through the stages."""

    attempt: str
    text: str | None
    people: list[Person]
    names: list[str] | None = None
    """What the people are called before the judge; None where they cannot be told apart."""
    lists: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By number of the person; who is not in here has no list so far."""
    notes: dict[int, list[str]] = field(default_factory=dict)
    waiting: bool = False
    """The judge has not answered yet: nothing more is asked about this story, and its lists are not final."""

    def __post_init__(self) -> None:
        self.names = labels(self.people)
        if self.text is None or not self.text.strip():
            self.text = None
            self.note(range(len(self.people)), NO_STORY)
        elif self.names is None:
            self.note(range(len(self.people)), "its characters cannot be told apart by name or descriptor")
        else:
            shown = normal(self.text)
            for number, person in enumerate(self.people):
                if person.name and not is_named(person.name, shown):
                    self.note([number], f"the story does not name {person.name}")

    def note(self, who: Sequence[int], problem: str) -> None:
        """Keep what went wrong with these people's lists."""
        for number in who:
            self.notes.setdefault(number, []).append(problem)

    def wanted(self, *, first: bool) -> list[int]:
        """The people a stage asks about: all in the first one, later those whose list holds something."""
        if self.waiting or self.text is None or self.names is None:
            return []
        return list(range(len(self.people))) if first else [number for number in sorted(self.lists) if self.lists[number]]


@dataclass(frozen=True, slots=True)
class _Question:
    story: Story
    wanted: list[int]
    messages: tuple[Message, ...]


class Asking:
    """Asks a judge about stories, stage by stage; keeps every question with its answer.

    Parameters
    ----------
    judge
        Asked once a stage about all stories, and once more about those whose answers could not be used.
    wording
        Templates by stage, and "again".
    """

    def __init__(self, judge: Judge, wording: Wording) -> None:
        self._judge, self._wording = judge, wording
        self._kept: list[pl.DataFrame] = []

    @property
    def judgements(self) -> pl.DataFrame:
        """JUDGEMENTS of all questions so far."""
        return pl.concat([pl.DataFrame(schema=dict(JUDGEMENTS)), *self._kept])

    def stage(self, stage: str, stories: Sequence[Story], *, first: bool) -> bool:
        """Ask one stage about the stories it applies to; False where the run was interrupted, and nothing more is to be asked."""
        asked = [(story, wanted) for story in stories if (wanted := story.wanted(first=first))]
        prompts = _prompts(self._wording[stage], asked)
        questions = [_Question(story, wanted, (Message("user", prompt),)) for (story, wanted), prompt in zip(asked, prompts, strict=True)]
        rows, readings = self._ask(stage, 0, questions)
        second = [(at, reading) for at, reading in enumerate(readings) if reading is not None and reading.again]
        if any(row["status"] == "missing" for row in rows):
            for at, _ in second:
                questions[at].story.waiting = True
            second = []
        repeats = [self._again(questions[at], rows[at]["answer"], reading) for at, reading in second]
        rows_again, repeated = self._ask(stage, 1, repeats)
        better = {at: other for (at, _), other in zip(second, repeated, strict=True) if other is not None}
        for at, question in enumerate(questions):
            if not question.story.waiting:
                _apply(stage, question, readings[at], better.get(at), rows[at]["error"], first=first)
        return all(row["status"] != "missing" for row in (*rows, *rows_again))

    def _ask(self, stage: str, turn: int, questions: Sequence[_Question]) -> tuple[list[dict[str, Any]], list[Reading | None]]:
        """The judge's rows, and how each answer reads (None where there is none)."""
        if not questions:
            return [], []
        rows = self._judge.ask([question.messages for question in questions], schema=SCHEMA).to_dicts()
        readings: list[Reading | None] = []
        for question, row in zip(questions, rows, strict=True):
            story = question.story
            if row["status"] == "missing":
                story.waiting = True
            names = story.names or []
            ok = row["status"] == "ok"
            readings.append(read_answer(row["answer"], story.people, question.wanted, names, story.text or "") if ok else None)
        readings = _declined(rows, readings)
        self._keep(stage, turn, questions, rows, readings)
        return rows, readings

    def _again(self, question: _Question, answer: str | None, reading: Reading) -> _Question:
        said = (answer or "").strip()[:_LONGEST_QUOTE] or "(nothing)"
        told = self._wording["again"].replace("{problem}", reading.problem or "")
        return _Question(question.story, question.wanted, (*question.messages, Message("assistant", said), Message("user", told)))

    def _keep(
        self,
        stage: str,
        turn: int,
        questions: Sequence[_Question],
        rows: Sequence[dict[str, Any]],
        readings: Sequence[Reading | None],
    ) -> None:
        problems = [
            reading.problem if reading else NOT_ASKED if row["status"] == "missing" else row["error"]
            for row, reading in zip(rows, readings, strict=True)
        ]
        made = {
            "attempt": [question.story.attempt for question in questions],
            "stage": [stage] * len(rows),
            "turn": [turn] * len(rows),
            **{name: [row[name] for row in rows] for name in ("key", "status")},
            "prompt": [question.messages[-1].content for question in questions],
            "answer": [row["answer"] for row in rows],
            "problem": problems,
        }
        self._kept.append(pl.DataFrame(made, schema=dict(JUDGEMENTS)))


def _prompts(template: str, asked: Sequence[tuple[Story, list[int]]]) -> list[str]:
    """The template filled for each story: {story} between its fences, {characters} and {lists} as JSON."""
    table = pl.DataFrame(
        {
            "story": [_fenced(story.text or "") for story, _ in asked],
            "characters": [_json([(story.names or [])[number] for number in wanted]) for story, wanted in asked],
            "lists": [
                _json({"characters": [{"name": (story.names or [])[one], "concepts": list(story.lists.get(one, ()))} for one in wanted]})
                for story, wanted in asked
            ],
        },
        schema=dict.fromkeys(("story", "characters", "lists"), pl.String),
    )
    return table.select(prompt=fill(template))["prompt"].to_list()


def _fenced(text: str) -> str:
    """The story between two lines of equal signs, longer than any run of them in it: no story can end its own quotation."""
    longest = max((len(run) for run in re.findall(r"=+", text)), default=0)
    fence = "=" * max(_FENCE, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _declined(rows: Sequence[dict[str, Any]], readings: Sequence[Reading | None]) -> list[Reading | None]:
    """Readings in which an answer without lists that is a refusal is called one."""
    void = [at for at, reading in enumerate(readings) if reading is not None and not reading.lists]
    if not void:
        return list(readings)
    refused = measures.refused(pl.Series([rows[at]["answer"] for at in void], dtype=pl.String))
    found = list(readings)
    for at, declines in zip(void, refused, strict=True):
        reading = found[at]
        if declines and reading is not None:
            fault = "the judge declines to answer"
            found[at] = Reading({}, dict.fromkeys(reading.faults, fault), fault)
    return found


def _apply(stage: str, question: _Question, reading: Reading | None, better: Reading | None, error: str | None, *, first: bool) -> None:
    """Take each person's list from the first answer, or from the second where it is the better one; keep what could not be had."""
    story = question.story
    for number in question.wanted:
        tries = [one for one in (reading, better) if one is not None and number in one.lists]
        whole = [one for one in tries if number not in one.faults]
        if tries:
            chosen = whole[0] if whole else tries[-1]
            story.lists[number] = chosen.lists[number]
            if not whole:
                story.note([number], f"{stage}: {chosen.faults[number]}; they are left out")
            continue
        last = better or reading
        fault = f"no answer ({error})" if last is None else last.faults[number]
        story.note([number], f"{stage}: {fault}" if first else f"{stage}: {fault}; the list of the stage before is kept")
