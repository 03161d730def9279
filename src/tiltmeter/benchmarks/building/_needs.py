"""What a build may need beside its spec: a judge, an encoder, the network; each asked for only where a stage uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.errors import EXIT_INCOMPLETE, InputError, TiltmeterError
from tiltmeter.models import Message
from tiltmeter.study import Encoder, Judge, NotRun

__all__ = ["Needs", "Unfinished", "asked_all"]


class Unfinished(TiltmeterError):
    """The build was interrupted; started again it goes on where it stopped. Exit status 3."""

    exit_code = EXIT_INCOMPLETE


class _Watched:
    """A judge of whom it is known whether all questions were asked and answered."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.missing = 0
        self.failed = 0

    @property
    def name(self) -> str:
        return self._judge.name

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        given = self._judge.ask(conversations, schema=schema, sampling=sampling)
        self.missing += int((given["status"] == "missing").sum())
        self.failed += int((given["status"] == "failed").sum())
        return given


@dataclass(slots=True)
class Needs:
    """What the user gave."""

    cache: Path
    """Folder of fetched pages."""
    given_judge: Judge | None = None
    open_encoder: Callable[[], Encoder] | None = None
    offline: bool = False

    def judge(self, key: str) -> _Watched:
        """The judge, for what stands under a key of the spec; raises InputError where there is none."""
        if self.given_judge is None:
            raise InputError(f"{key} asks a model: name it with --judge PROVIDER/NAME, or leave {key} out of the spec")
        return _Watched(self.given_judge)

    def encoder(self, key: str) -> Encoder:
        """The sentence encoder, likewise."""
        if self.open_encoder is None:
            raise InputError(f"{key} needs a sentence encoder; give one, or leave {key} out of the spec")
        try:
            return self.open_encoder()
        except NotRun as reason:
            raise InputError(f"{key} needs a sentence encoder: {reason}") from None

    def network(self, key: str) -> None:
        """Raises InputError where pages would have to be fetched and may not be."""
        if self.offline:
            raise InputError(
                f"{key} is fetched from the network, which --offline forbids; build once without it (what is in stages/ is used again), "
                f"or leave {key} out of the spec"
            )


def asked_all(judge: _Watched, stage: str) -> tuple[str, ...]:
    """Sentences about questions that failed; raises Unfinished where some were not asked at all."""
    if judge.missing:
        raise Unfinished(f"interrupted in the stage {stage}; run the same command again to go on")
    if judge.failed:
        return (f"{stage}: {judge.failed:,} questions to {judge.name} failed; run the same command again to ask them once more",)
    return ()
