"""A run that is cancelled always ends, whatever it is doing at that moment."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.adder import Adder, add, run_of, sums
from tiltmeter.engine import Journal, Limits, open_journal
from tiltmeter.models import Completion

CANCELLATIONS = 480
SIDE_BY_SIDE = 4
REQUESTS = 200
STEPS = 6
"""Of the event loop between an answer and the cancellation: 480 runs are one for each number of answers from
1 to 80 and of steps.

Requests are claimed a few at a time: after 80 answers, several claims have been made, and further requests
wait for theirs.
"""
ENDS_WITHIN = 120.0
"""Seconds; a cancelled run ends in milliseconds, on a machine that has nothing else to do."""


@pytest.fixture
def load() -> Iterator[None]:
    """Two processes that use a core each."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for process in burning:
        process.kill()
        process.wait()


async def is_ended_by_cancelling(journal: Journal, number: int) -> bool:
    """Start a run, cancel it, and return whether it ended.

    `number` chooses the number of answers before, and the step of the event loop.
    """
    loop = asyncio.get_running_loop()
    answers, steps = 1 + number // STEPS, number % STEPS

    def cancel_in(steps: int) -> None:
        if steps:
            loop.call_soon(cancel_in, steps - 1)
        else:
            run.cancel()

    def answer(prompt: str, nth: int) -> Completion:
        nonlocal answers
        answers -= 1
        if answers == 0:
            cancel_in(steps)
        return add(prompt)

    requests = sums(REQUESTS, start=number * REQUESTS)
    run = asyncio.create_task(run_of(Adder(answer), requests, journal, Limits(max_connections=4)).go())
    await asyncio.wait([run], timeout=ENDS_WITHIN)
    return run.cancelled()


@pytest.mark.verify
async def test_cancellations_at_all_moments_under_load(tmp_path: Path, load: None) -> None:
    with open_journal(tmp_path / "journal.db") as journal:
        for first in range(0, CANCELLATIONS, SIDE_BY_SIDE):
            ended = await asyncio.gather(
                *(is_ended_by_cancelling(journal, first + nth) for nth in range(SIDE_BY_SIDE))
            )
            assert all(ended), f"a run after {first} cancellations never ended"
        assert journal.counts()["ok"] > CANCELLATIONS  # they were at work when they were cancelled


async def test_a_model_that_drops_a_cancellation_does_not_keep_the_run(journal: Journal) -> None:
    class Stubborn(Adder):
        async def complete(self, *arguments: object) -> Completion:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                return add("1+1")
            raise AssertionError

    run = asyncio.create_task(run_of(Stubborn(), sums(500), journal).go())
    await asyncio.sleep(0.3)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, ENDS_WITHIN)
