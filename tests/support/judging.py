"""A judge for tests: a model behind the real engine and a real journal, with a count of its questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from support.adder import InProcess
from tiltmeter.engine import Journal, Keys, Request, generate
from tiltmeter.models import Completion, Message, Model, Sampling


class Letters:
    """An encoder of letters: texts with similar spelling are near each other."""

    name = "letters"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array(
            [[text.lower().count(letter) for letter in ascii_lowercase] for text in texts], dtype=np.float32
        )
        return np.asarray(
            counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1), dtype=np.float32
        )


class ScriptedModel(InProcess):
    """A model that answers with a function of the conversation and keeps all conversations."""

    def __init__(
        self, script: Callable[[Sequence[Message]], str | None], name: str = "scripted/judge"
    ) -> None:
        self._script, self.name = script, name
        self.fingerprint = self.endpoint = name
        self.asked: list[tuple[Message, ...]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        self.asked.append(tuple(messages))
        return Completion(text=self._script(messages), finish_reason="stop")


class EngineJudge:
    """A `tiltmeter.study.Judge` over `generate`.

    Parameters
    ----------
    budget
        New questions that are let through; those beyond it stay "missing", as after an interruption.
    """

    def __init__(self, model: Model, journal: Journal, *, budget: int | None = None) -> None:
        self._model = model
        self._journal = journal
        self._budget = budget
        self.calls: list[int] = []
        """Questions in each call."""
        self.schemas: list[Mapping[str, Any] | None] = []

    @property
    def name(self) -> str:
        return self._model.name

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        self.calls.append(len(conversations))
        self.schemas.append(schema)
        with_them = replace(Sampling(temperature=0.7), **dict(sampling or {}))
        keys = [Keys(self._model.fingerprint, with_them)(messages, 0) for messages in conversations]
        requests = [Request(messages, 0) for messages in conversations]
        if self._budget is not None:
            stored = self._journal.held(keys)
            new = [request for request, key in zip(requests, keys, strict=True) if key not in stored][
                : self._budget
            ]
            self._budget -= len(new)
            requests = new
        if requests:
            generate(self._model, requests, with_them, journal=self._journal)
        completions = self._journal.fetch(keys)
        return completions.select("key", "status", answer="text", error="error")
