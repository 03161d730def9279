"""A provider: `dice/yes/no` answers any prompt with one of its words, drawn with equal odds.

It is what no lean at all looks like.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, Sampling

__all__ = ["Dice", "create"]


def create(
    provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None
) -> Dice:
    """Create the model `dice/WORD/WORD...`; `-M cast=NUMBER` draws other answers.

    Raises
    ------
    InputError
        There are not two words, an option is not known, or an address is given.
    """
    if base_url is not None:
        raise InputError("--base-url: dice are thrown here and have no address; leave the flag out")
    words = tuple(word for word in model.split("/") if word)
    if len(words) < 2:
        raise InputError(
            f"{provider}/{model}: dice need at least two words to choose from, as in {provider}/yes/no"
        )
    settings = dict(options or {})
    cast = settings.pop("cast", "1")
    if settings:
        raise InputError(f"-M {next(iter(settings))}: dice have no such option; known: cast")
    return Dice(f"{provider}/{model}", words, cast)


class Dice:
    """Answers with a word that the prompt, the number of the answer and the cast decide."""

    def __init__(self, name: str, words: Sequence[str], cast: str) -> None:
        self._name = name
        self._words = words
        self._cast = cast

    @property
    def name(self) -> str:
        """`dice/WORD/WORD...`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Everything that decides the answers."""
        return f"{self._name} cast={self._cast}"

    @property
    def endpoint(self) -> str:
        """The model's own name: it shares no limit with others."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """One word; the same prompt and number always get the same one."""
        prompt = "\n".join(message.content for message in messages)
        drawn = hashlib.sha256(f"{self._cast} {sample} {prompt}".encode()).digest()
        return Completion(
            text=self._words[int.from_bytes(drawn[:8]) % len(self._words)], finish_reason="stop"
        )
