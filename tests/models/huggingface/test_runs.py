"""Models of this process under the engine: journal, resume, too large batches, interruptions, threads."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import lazy_loader
import pytest

from support.answering import answers, enter
from tiltmeter.engine import Journal, Keys, Limits, Request, generate
from tiltmeter.errors import ProviderError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

Make = Callable[..., Path]
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=12, seed=1)
REQUESTS = [
    Request((Message("user", f"Tell me about {'the nurse ' * (number % 7)}{number}"),), number % 3)
    for number in range(40)
]


def fetched(journal: Journal, model: Model, requests: list[Request] = REQUESTS) -> list[str | None]:
    rows = journal.fetch([Keys(model.fingerprint, SAMPLING)(*request) for request in requests])
    return [text for text, status in rows.select("text", "status").iter_rows() if status == "ok"]


def answered_alone(model: Model) -> list[str]:
    """Return the answers without an engine, with NUL replaced as in the journal."""
    sentences = [answers(model, [request.messages], SAMPLING, [request.sample])[0] for request in REQUESTS]
    return [(sentence.text or "").replace("\0", "\ufffd") for sentence in sentences]


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tiltmeter-hf")]


@pytest.mark.verify
def test_a_run_is_kept_and_resumed(chat_model: Make, journal: Journal) -> None:
    model = create_model(f"hf/{chat_model()}")
    first = generate(model, REQUESTS[:25], SAMPLING, journal=journal)
    assert (first.answered, first.held, first.failures) == (25, 0, 0)
    again = generate(model, REQUESTS, SAMPLING, journal=journal)
    assert (again.answered, again.held) == (15, 25)
    texts = fetched(journal, model)
    assert len(texts) == 40
    assert answered_alone(model) == texts
    assert ours() == []


def test_requests_wait_for_their_turn_however_long_it_takes(chat_model: Make, journal: Journal) -> None:
    model = create_model(f"hf/{chat_model()}", options={"batch_size": "2"})
    tally = generate(
        model, REQUESTS, SAMPLING, journal=journal, limits=Limits(timeout=0.05, retries=0, deadline=0.05)
    )
    assert (tally.answered, tally.errors.total()) == (40, 0)


def limited(model: Model, most: int) -> list[int]:
    """Let the model's network run out of memory with more than `most` rows.

    Gives the sizes it was asked with (first steps only).
    """
    sizes: list[int] = []

    def refuse(_net: Any, value: Any, named: dict[str, Any]) -> None:
        rows, width = named["input_ids"].shape
        if width > 1:
            sizes.append(rows)
        if rows > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    enter(model)
    model._generator.model.register_forward_pre_hook(refuse, with_kwargs=True)  # type: ignore[attr-defined]
    return sizes


@pytest.mark.verify
def test_a_batch_that_does_not_fit_is_halved_and_the_size_remembered(
    chat_model: Make, journal: Journal
) -> None:
    model = create_model(f"hf/{chat_model()}", options={"batch_size": "16"})
    sizes = limited(model, 5)
    tally = generate(model, REQUESTS, SAMPLING, journal=journal)
    assert (tally.answered, tally.failures) == (40, 0)
    assert (sizes[:3], max(sizes[3:])) == ([16, 8, 4], 4)
    assert fetched(journal, model) == answered_alone(create_model(f"hf/{chat_model()}"))
    before = len(sizes)
    more = [Request((Message("user", f"Again {number}"),)) for number in range(8)]
    assert generate(model, more, SAMPLING, journal=journal).answered == 8
    assert max(sizes[before:]) == 4, "the next run begins with the size that fitted"


def test_a_single_request_that_does_not_fit_is_given_up(chat_model: Make, journal: Journal) -> None:
    model = create_model(f"hf/{chat_model()}")
    limited(model, 0)
    with pytest.raises(
        ProviderError,
        match="answered none of the first 20 requests, the last with out_of_memory: a prompt of",
    ):
        generate(model, REQUESTS, SAMPLING, journal=journal)
    assert ours() == []


def test_a_failing_network_fails_its_requests_and_nothing_else(chat_model: Make) -> None:
    model = create_model(f"hf/{chat_model()}")
    limited(model, 99)
    network = model._generator.model  # type: ignore[attr-defined]
    broken = network.register_forward_pre_hook(lambda net, inputs: 1 / 0)

    async def main() -> None:
        async with model:
            with pytest.raises(ModelError, match="internal: the model failed with ZeroDivisionError"):
                await model.complete(REQUESTS[0].messages, SAMPLING, 0)
            broken.remove()
            assert (await model.complete(REQUESTS[0].messages, SAMPLING, 0)).output_tokens

    asyncio.run(main())


def slow(model: Model, seconds: float) -> list[float]:
    """Let each step of the model take at least `seconds`; returns a list that grows by one a step."""
    limited(model, 99)
    steps: list[float] = []

    def wait(_net: Any, _inputs: Any) -> None:
        steps.append(seconds)
        time.sleep(seconds)

    model._generator.model.register_forward_pre_hook(wait)  # type: ignore[attr-defined]
    return steps


async def test_cancelled_requests_leave_the_batch(chat_model: Make) -> None:
    model = create_model(f"hf/{chat_model(positions=4096)}")
    steps = await asyncio.to_thread(slow, model, 0.01)
    long = Sampling(temperature=1.0, max_tokens=2000, stop=("never said",))
    async with model:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asyncio.gather(*(model.complete(request.messages, long, 0) for request in REQUESTS[:4]))
        completion = await model.complete(REQUESTS[0].messages, SAMPLING, 0)
        assert isinstance(completion, Completion)
        assert len(steps) < 1000, "the batch ended when no request waited for it any more"


async def test_leaving_the_model_cancels_its_requests(chat_model: Make) -> None:
    model = create_model(f"hf/{chat_model(positions=4096)}")
    steps = await asyncio.to_thread(slow, model, 0.01)
    async with model:
        long = Sampling(temperature=1.0, max_tokens=2000)
        requests = [asyncio.ensure_future(model.complete(request.messages, long, 0)) for request in REQUESTS]
        await asyncio.sleep(0.2)
    assert len(steps) < 1000
    assert all(
        isinstance(outcome, asyncio.CancelledError)
        for outcome in await asyncio.gather(*requests, return_exceptions=True)
    )
    assert ours() == []
    with pytest.raises(RuntimeError, match="must be entered first"):
        await model.complete(REQUESTS[0].messages, SAMPLING, 0)


INTERRUPTED = """
import sys, threading, time
from tiltmeter.engine import Request, generate, open_journal
from tiltmeter.models import Message, Sampling, create_model
model = create_model("hf/" + sys.argv[1], options={"batch_size": "4"})
requests = [Request((Message("user", f"Tell me {n}"),)) for n in range(4000)]
with open_journal(sys.argv[2]) as journal:
    tally = generate(model, requests, Sampling(temperature=1.0, max_tokens=60), journal=journal)
    print(tally.interrupted, tally.answered)
"""


@pytest.mark.verify
def test_ctrl_c_keeps_the_answers(chat_model: Make, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(chat_model()), str(tmp_path / "journal.db")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not _rows(tmp_path / "journal.db"):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    interrupted, answered = output.split()
    assert interrupted == "True"
    assert 0 < int(answered) == _rows(tmp_path / "journal.db") < 4000


def _rows(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(
                connection.execute("SELECT count(*) FROM completions WHERE status = 'ok'").fetchone()[0]
            )
    except sqlite3.OperationalError:  # there is none yet
        return 0


def test_all_allowed_requests_are_handed_over_at_once(chat_model: Make, journal: Journal) -> None:
    model = create_model(f"hf/{chat_model()}", options={"batch_size": "32"})
    sizes = limited(model, 99)
    tally = generate(model, REQUESTS, SAMPLING, journal=journal, limits=Limits(max_connections=40))
    assert (tally.answered, sizes) == (40, [32, 8])
