"""Extraction with a judge: which concepts a story tells of each of its characters, in up to four stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tiltmeter._wording import Wording, wordings
from tiltmeter.associations._options import STAGES
from tiltmeter.associations._tables import LISTS, MENTIONS
from tiltmeter.associations.judging._asking import NOT_ASKED, Asking, Story
from tiltmeter.associations.judging._people import Person
from tiltmeter.associations.judging._sentences import Sentences
from tiltmeter.errors import InputError
from tiltmeter.study import Judge

__all__ = ["extract_with_judge", "judge_wording"]

_HOME = Path(__file__).parent.with_name("wordings.yaml")
_WHOLE = ("whole",)


def judge_wording(wording: str | None = None) -> Wording:
    """The templates a judge is asked with, by stage; see `extract_with_judge`."""
    return next(iter(wordings("judge", wording, _HOME).values()))


def extract_with_judge(
    stories: pl.DataFrame, judge: Judge, *, stages: Sequence[str] = STAGES, wording: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
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
        STORIES.
    judge
        Sees names only where they are known, so that it is not told which identity is looked at; the story is quoted to it as text.
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
        The stages or the wording cannot be used.
    """
    _check(stages)
    templates = judge_wording(wording)
    grouped = stories.select("attempt", "identity", "descriptor", "name", "text").group_by("attempt", maintain_order=True).agg(pl.all())
    told = [
        Story(attempt, texts[0], [Person(*one) for one in zip(identities, descriptors, names, strict=True)])
        for attempt, identities, descriptors, names, texts in grouped.iter_rows()
    ]
    asking = Asking(judge, templates)
    for stage in stages:
        if not asking.stage(stage, told, first=stage == stages[0]):
            _wait(told, last=stage == stages[-1])
            break
    # Rows of one story need not stand together, so lists are put back by the place of their row among those of its story.
    rows = stories.select("attempt", place=pl.int_range(pl.len()).over("attempt"))
    by_attempt = {story.attempt: story for story in told}
    listed = [(by_attempt[attempt], place) for attempt, place in rows.iter_rows()]
    return _lists(stories, listed), _mentions(stories, listed), asking.judgements


def _check(stages: Sequence[str]) -> None:
    if tuple(stages) == _WHOLE:
        return
    if not stages or stages[0] != STAGES[0] or [stage for stage in STAGES if stage in stages] != list(stages):
        raise InputError(f"stages {','.join(stages)!r}: give extract and, in this order, any of {', '.join(STAGES[1:])}; or whole alone")


def _wait(stories: Sequence[Story], *, last: bool) -> None:
    """After an interruption: whoever a later stage would have been asked about waits as well."""
    for story in stories:
        if not last and story.wanted(first=False):
            story.waiting = True


def _lists(stories: pl.DataFrame, listed: Sequence[tuple[Story, int]]) -> pl.DataFrame:
    status, problem = [], []
    for story, place in listed:
        items = None if story.waiting else story.lists.get(place)
        status.append("missing" if items is None else "listed" if items else "empty")
        problem.append(NOT_ASKED if story.waiting else "; ".join(story.notes.get(place, ())) or None)
    made = stories.drop("text").with_columns(status=pl.Series(status, dtype=pl.String), problem=pl.Series(problem, dtype=pl.String))
    return made.select(pl.col(name).cast(kind) for name, kind in LISTS.items())


def _mentions(stories: pl.DataFrame, listed: Sequence[tuple[Story, int]]) -> pl.DataFrame:
    phrases: list[tuple[str, ...]] = []
    shown: list[list[str | None]] = []
    sentences: tuple[str, Sentences] | None = None
    for story, place in listed:
        items = () if story.waiting else story.lists.get(place, ())
        if items and (sentences is None or sentences[0] != story.attempt):
            sentences = story.attempt, Sentences(story.text or "", [person.name or "" for person in story.people])
        phrases.append(items)
        shown.append([sentences[1].showing(item, place) for item in items] if sentences else [])
    made = stories.select("attempt", "character").with_columns(
        phrase=pl.Series(phrases, dtype=pl.List(pl.String)), sentence=pl.Series(shown, dtype=pl.List(pl.String))
    )
    made = made.filter(pl.col("phrase").list.len() > 0).explode("phrase", "sentence")
    return made.select(pl.col(name).cast(kind) for name, kind in MENTIONS.items())
