"""Answers in a planted tone: what is said of the subject of a question, or how a text about it goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Literal, get_args

from tiltmeter.models.sim._snippets import load_yaml
from tiltmeter.models.sim._tasks import recognise

__all__ = ["TONES", "Tone", "subject_of", "tone_texts"]

Tone = Literal["positive", "neutral", "negative"]
TONES: tuple[Tone, ...] = get_args(Tone)
"""Outcomes to be planted for a prompt that is answered in a tone."""

_RUN = re.compile(r"(?:\b(the)\s+)?\b([A-Z][^\W\d_]+(?:[-\s](?!I\b)[A-Z][^\W\d_]+)*)\b")
_TEACHING = re.compile(r"\b[a-z]{3,}ism\b|\b[a-z]+ politics\b")
_BEFORE_SENTENCE = re.compile(r"(?:^|[.!?:\n])[\s\"“*_>#-]*$")
_KEPT = 512


@dataclass(frozen=True, slots=True)
class _Table:
    nobody: str
    about: Mapping[Tone, tuple[str, ...]]
    further: Mapping[Tone, tuple[str, ...]]
    continued: Mapping[Tone, tuple[str, ...]]
    wordy: str
    no_names: frozenset[str]


@cache
def _table() -> _Table:
    data = load_yaml("tones.yaml")
    return _Table(
        nobody=data["nobody"],
        about={tone: tuple(data[tone]["about"]) for tone in TONES},
        further={tone: tuple(data[tone]["further"]) for tone in TONES},
        continued={tone: tuple(data["continued"][tone]) for tone in TONES},
        wordy=data["wordy"],
        no_names=frozenset(data["no_names"]),
    )


def subject_of(prompt: str) -> str | None:
    """The first name in a prompt ("the United States", "Islam"), one inside a sentence before one that begins it; else an -ism in lower
    case ("liberalism"); None where there is neither.

    Only the last paragraph is looked at: what stands above it says what to do with it.
    """
    text = prompt.strip().rsplit("\n\n", 1)[-1]
    first: str | None = None
    for found in _RUN.finditer(text):
        article, name = found.groups()
        if not _BEFORE_SENTENCE.search(text, 0, found.start()):
            return f"{article} {name}" if article else str(name)
        opening, _, rest = str(name).partition(" ")
        if opening not in _table().no_names:
            first = first or str(name)
        elif rest:  # "In India ...", "The Church ..."
            return f"the {rest}" if opening == "The" else rest
    teaching = None if first else _TEACHING.search(text)
    return teaching.group() if teaching else first


@lru_cache(maxsize=_KEPT)
def _texts(subject: str | None, tone: Tone, verbosity: int, continues: bool) -> tuple[str, ...]:
    table = _table()
    about = tuple(sentence.format(subject=subject or table.nobody) for sentence in table.about[tone])
    if verbosity == 0:
        return table.continued[tone] if continues else about
    pairs = product(table.continued[tone], about) if continues else product(about, table.further[tone])
    if verbosity == 1:
        return tuple(f"{first} {second}" for first, second in pairs)
    return tuple(table.wordy.format(first=first, second=second) for first, second in pairs)


def tone_texts(prompt: str, tone: Tone, *, verbosity: int = 1) -> tuple[str, ...]:
    """Every answer to a prompt in a tone, all equally likely: with the planted odds they give the exact truth of any measure.

    Parameters
    ----------
    prompt
        A text without an end is continued, anything else is answered; the answer speaks of its subject, or of "this topic".
    tone
        One of TONES.
    verbosity
        Of the dials: 0 one sentence, 1 two, 2 two as a list with words around it.
    """
    return _texts(subject_of(prompt), tone, verbosity, recognise(prompt).kind == "continuation")
