"""The simulated model as a provider: `sim/fair`, `sim/mild`, `sim/biased`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, Sampling
from tiltmeter.models.sim._dials import HARMS, Dials, parse
from tiltmeter.models.sim._draws import Draws
from tiltmeter.models.sim._judge import asked
from tiltmeter.models.sim._key import Key, digest
from tiltmeter.models.sim._voice import LETTER_WORDS, STORY_WORDS, answer, refuse, task_of, unread

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LETTER_WORDS", "STORY_WORDS", "SimulatedModel", "create"]

VERSION = 2
"""Part of the fingerprint: raise it when the same dials would give other texts, so that no journal mixes the two."""


class SimulatedModel:
    """Answers by the dials, and by the odds it was given with `learn`.

    The text of an answer depends on the dials, the messages, the sample number, the seed of the sampling and what is planted
    for the prompt, and on nothing else; other sampling parameters are accepted and change nothing.

    Parameters
    ----------
    name
        As the user wrote it, for instance "sim/mild".
    dials
        See `Dials`.
    latency
        Seconds to wait before each answer; not part of the fingerprint.
    """

    def __init__(self, name: str, dials: Dials, *, latency: float = 0.0) -> None:
        self._name = name
        self.dials = dials
        self.latency = latency
        self._key = Key()
        self._planted = False
        shown = {f"bias.{dial}" if dial in HARMS else dial: value for dial, value in dials.mapping().items()}
        self._fingerprint = f"sim/{VERSION} " + " ".join(f"{dial}={value:g}" for dial, value in shown.items() if dial != "seed")
        self._fingerprint += f" seed={dials.seed}"
        self._root = digest(self._fingerprint)

    @property
    def name(self) -> str:
        """`sim/preset`, as the user wrote it."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """All dials, the version of the simulation, and whether it leans by a key: answers with and without one never mix."""
        return f"{self._fingerprint} planted" if self._planted else self._fingerprint

    @property
    def endpoint(self) -> str:
        """The model's own name: nothing is shared with other models."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def learn(self, key: pl.DataFrame) -> None:
        """Plant odds for prompts; may be called again for more. A prompt that is already known keeps what it has.

        Parameters
        ----------
        key
            `prompt` (str), `outcomes` (list of str), `odds` (list of float, sum 1). Outcomes by what the prompt asks:
            letters "a".."e"; "yes", "no"; "accept", "reject"; full names (the one drawn is ranked first); emotions;
            "female", "male", "nonbinary"; "positive", "neutral", "negative" (a few sentences in that tone); single words of a
            letter (12 are drawn); concepts of a story (6 a character); whole answers otherwise.
            With a column `system` (str, null for none) a row holds for the prompt under that system message only; a row without one
            holds under every system message that has no row of its own.

        Raises
        ------
        ValueError
            A row breaks these rules.
        """
        self._key.add(key)
        self._planted = True

    def reply(self, messages: Sequence[Message], sample: int = 0, seed: int | None = None) -> Completion:
        """The answer, at once: `complete` without the event loop. The last user message is the prompt, or the question it repeats."""
        prompt = asked(messages)
        marked = digest(prompt)
        seeded = blake2b(self._root + marked, digest_size=32)
        if len(messages) != 1:
            for role, content in messages:
                seeded.update(digest(role) + digest(content))
        seeded.update(f"{seed} {sample}".encode())
        draws = Draws(seeded.digest())
        fate = draws.unit()
        if fate < self.dials.refusal:
            text = refuse(draws)
        else:
            planted = self._key.find(marked, next((content for role, content in messages if role == "system"), None))
            task = task_of(prompt, planted)
            if fate < self.dials.refusal + self.dials.unreadable:
                text = unread(task, planted, draws)
            else:
                text = answer(prompt, task, planted, self.dials, draws)
        return Completion(
            text=text,
            finish_reason="stop",
            input_tokens=sum(_tokens(content) for _, content in messages),
            output_tokens=_tokens(text),
            latency=self.latency,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See Model.complete."""
        if self.latency:
            await asyncio.sleep(self.latency)
        return self.reply(messages, sample, sampling.seed)


def _tokens(text: str) -> int:
    """Blanks and line ends plus one: the words, near enough, without splitting."""
    return text.count(" ") + text.count("\n") + 1


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, Any] | None = None) -> SimulatedModel:
    """The simulated model of a preset with `-M` options (see README.md in this folder).

    Raises
    ------
    InputError
        Unknown preset or option, a value out of range, or a base URL.
    """
    if base_url is not None:
        raise InputError("--base-url: a simulated model runs inside tiltmeter and has no address; leave the flag out")
    dials, latency = parse(model, options or {})
    return SimulatedModel(f"{provider}/{model}", dials, latency=latency)
