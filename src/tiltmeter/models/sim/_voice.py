"""An outcome in words: how a task's answer, a refusal or an unreadable answer is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast as typed

from tiltmeter.models.sim._dials import Dials
from tiltmeter.models.sim._draws import Draws
from tiltmeter.models.sim._judge import EXCLUSIVE, LISTS, exclusive_parts, garbled, judged, list_parts
from tiltmeter.models.sim._key import Planted
from tiltmeter.models.sim._snippets import snippets
from tiltmeter.models.sim._stories import cast, concepts_of, default_name, joined, story_parts
from tiltmeter.models.sim._tasks import Task, recognise
from tiltmeter.models.sim._tones import TONES, Tone, tone_texts

__all__ = ["LETTER_WORDS", "STORY_WORDS", "answer", "refuse", "task_of", "unread"]

LETTER_WORDS = 12
"""Words drawn for one letter, with repetition; all of them stand in its text."""
STORY_WORDS = 6
"""Concepts drawn for one character of a story with planted odds; one that is drawn twice is told once."""

_FULL_NAME = re.compile(r"\b(?!(?:Write|Compose|Draft|Prepare|Generate|Create|Dear)\b)[A-Z][\w'’-]+ [A-Z][\w'’-]+")
_QUARTER = LETTER_WORDS // 3


def _form(kind: str, dials: Dials, draws: Draws) -> str:
    return draws.pick(snippets().forms[kind][dials.verbosity])


def _outcome(task: Task, planted: Planted | None, draws: Draws) -> str:
    return planted.draw(draws.unit()) if planted else draws.pick(task.outcomes)


def _choice(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    letter = _outcome(task, planted, draws)
    text = dict(zip(task.outcomes, task.texts, strict=False)).get(letter, "")
    return _form("choice", dials, draws).format(a=letter, A=letter.upper(), text=text).strip()


def _yes_no(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    said = _outcome(task, planted, draws)
    return _form("yes_no", dials, draws).format(yes=said, Yes=said.capitalize())


def _email(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    said = _outcome(task, planted, draws)
    phrases = task.texts or snippets().phrases
    return _form(said, dials, draws).format(phrase=phrases[said != "accept"])


def _ranking(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    first = _outcome(task, planted, draws)
    others = [name for name in dict.fromkeys(planted.outcomes if planted else task.outcomes) if name != first]
    names = [first, *draws.shuffled(others)]
    return _form("ranking", dials, draws).format(
        plain="\n".join(names),
        numbered="\n".join(f"{place}. {name}" for place, name in enumerate(names, 1)),
        bulleted="\n".join(f"- {name}" for name in names),
        bold="\n".join(f"{place}. **{name}**" for place, name in enumerate(names, 1)),
        commas=", ".join(names),
    )


def _emotion(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    said = _outcome(task, planted, draws)
    return _form("emotion", dials, draws).format(emotion=said.lower(), Emotion=said.capitalize())


def _profile(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    pronouns = snippets().pronouns[_outcome(task, planted, draws)]
    return _form("profile", dials, draws).format(name=default_name(draws), **pronouns)


def _letter(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    plain = snippets().letter_words
    words = [planted.draw(draws.unit()) if planted else draws.pick(plain) for _ in range(LETTER_WORDS)]
    name = _FULL_NAME.search(prompt)
    parts = {f"w{i + 1}": joined(words[i * _QUARTER : (i + 1) * _QUARTER]) for i in range(3)}
    return _form("letter", dials, draws).format(name=name.group() if name else "this person", **parts)


def _story(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    told: dict[str, Sequence[str]] = {}
    for character in cast(prompt):
        name = character.name or default_name(draws)
        if planted:
            told[name] = list(dict.fromkeys(planted.draw(draws.unit()) for _ in range(STORY_WORDS)))
        else:
            told[name] = concepts_of(character, dials, draws)
    parts = story_parts(prompt, told, draws, plain=dials.verbosity == 0)
    return _form("story", dials, draws).format(**parts)


def _free(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    if planted:
        return _form("said", dials, draws).format(text=planted.draw(draws.unit()))
    return _form(task.kind, dials, draws)


def _toned(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    tone = typed("Tone", _outcome(task, planted, draws))
    return draws.pick(tone_texts(prompt, tone, verbosity=dials.verbosity))


def _lists(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    return _form("lists", dials, draws).format(**list_parts(task))


def _exclusive(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    return _form("exclusive", dials, draws).format(**exclusive_parts(task))


_VOICES: dict[str, Callable[[str, Task, Planted | None, Dials, Draws], str]] = {
    "choice": _choice,
    "yes_no": _yes_no,
    "email": _email,
    "ranking": _ranking,
    "emotion": _emotion,
    "profile": _profile,
    "letter": _letter,
    "story": _story,
    LISTS: _lists,
    EXCLUSIVE: _exclusive,
    "tone": _toned,
    "continuation": _free,
    "question": _free,
    "unknown": _free,
}

_CLOSED = (
    ("yes_no", frozenset(("yes", "no"))),
    ("profile", frozenset(("female", "male", "nonbinary"))),
    ("choice", frozenset("abcde")),
    ("email", frozenset(("accept", "reject"))),
    ("tone", frozenset(TONES)),
)


def task_of(prompt: str, planted: Planted | None) -> Task:
    """What the prompt asks for. Planted outcomes of a closed vocabulary outrank what the text looks like."""
    if planted is None:
        return judged(prompt) or recognise(prompt)
    outcomes = planted.outcomes
    kind = next((kind for kind, vocabulary in _CLOSED if vocabulary.issuperset(outcomes)), None)
    if kind in ("yes_no", "profile", "tone"):
        return Task(kind)
    task = recognise(prompt)
    if kind:
        return task if task.kind == kind else Task(kind)
    if task.kind in ("ranking", "emotion", "letter", "story"):
        return task
    full_names = len(outcomes) > 1 and all(" " in one and all(word[0].isupper() for word in one.split()) for one in outcomes)
    return Task("ranking" if full_names else "unknown")


def answer(prompt: str, task: Task, planted: Planted | None, dials: Dials, draws: Draws) -> str:
    """The answer to `prompt`: one outcome, planted or else uniform over the task's, in the task's form."""
    return _VOICES[task.kind](prompt, task, planted, dials, draws)


def refuse(draws: Draws) -> str:
    """One of the refusals."""
    return draws.pick(snippets().refusals)


def unread(task: Task, planted: Planted | None, draws: Draws) -> str:
    """An answer nobody can read an outcome from."""
    forms = snippets().unreadable
    if task.kind in (LISTS, EXCLUSIVE):
        return garbled(task, forms["any"], draws)
    outcomes = list(dict.fromkeys(planted.outcomes if planted else task.outcomes))
    if task.kind not in forms or len(outcomes) < 2:
        return draws.pick(forms["any"])
    x, y = draws.shuffled(outcomes)[:2]
    return draws.pick(forms[task.kind]).format(x=x, y=y)
