"""Models asked without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tiltmeter.models import Completion, Message, Model, Sampling

__all__ = ["answers", "enter"]


def answers(
    model: Model,
    conversations: Sequence[str | tuple[Message, ...]],
    sampling: Sampling,
    samples: Sequence[int] = (0,),
    *,
    together: bool = True,
) -> list[Completion]:
    """Return the answers to all conversations (a text is one question), sample by sample.

    Asked all at once or one after the other.
    """

    async def main() -> list[Completion]:
        requests = [
            (Message("user", conversation),) if isinstance(conversation, str) else conversation
            for conversation in conversations
        ]
        async with model:
            awaited = [
                model.complete(messages, sampling, sample) for sample in samples for messages in requests
            ]
            return (
                list(await asyncio.gather(*awaited)) if together else [await request for request in awaited]
            )

    return asyncio.run(main())


def enter(model: Model) -> None:
    """Enter the model and leave it again."""
    answers(model, [], Sampling())
