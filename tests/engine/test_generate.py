"""What `generate` promises, against models that live in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from support.adder import Adder, add, run_of, sums
from tiltmeter.engine import Journal, Keys, Limits, Prices, Request, Snapshot, generate
from tiltmeter.engine.generation import Generation
from tiltmeter.errors import ProviderError
from tiltmeter.models import Completion, Message, ModelError, Sampling

GREEDY = Sampling(temperature=0.0)


def keys_of(model: Adder, requests: list[Request]) -> list[bytes]:
    return [Keys(model.fingerprint, GREEDY)(*request) for request in requests]


def test_every_request_is_answered_and_kept(either_journal: Journal) -> None:
    model, requests = Adder(), sums(2500)
    tally = generate(model, iter(requests), GREEDY, journal=either_journal)
    assert (tally.total, tally.answered, tally.held, tally.failures) == (2500, 2500, 0, 0)
    assert tally.complete
    table = either_journal.fetch(keys_of(model, requests))
    assert table["text"].to_list() == [str(number + 1) for number in range(2500)]
    assert set(table["status"]) == {"ok"}
    assert tally.output_tokens == table["output_tokens"].sum()


def test_a_second_run_asks_nothing(either_journal: Journal) -> None:
    generate(Adder(), sums(300), GREEDY, journal=either_journal)
    again = Adder()
    tally = generate(again, sums(400), GREEDY, journal=either_journal)
    assert (tally.held, tally.answered, tally.total) == (300, 100, 400)
    assert again.asked.total() == 100


def test_the_same_request_twice_is_asked_once(journal: Journal) -> None:
    model = Adder(delay=0.001)
    tally = generate(model, sums(50) * 40, GREEDY, journal=journal)
    assert set(model.asked.values()) == {1}
    assert (tally.answered, tally.held + tally.repeated, tally.done) == (50, 1950, tally.total)


def test_samples_and_sampling_are_separate_answers(journal: Journal) -> None:
    model = Adder()
    requests = [Request((Message("user", "1+1"),), sample) for sample in range(5)]
    generate(model, requests, GREEDY, journal=journal)
    generate(model, requests[:1], Sampling(temperature=1.0), journal=journal)
    assert model.asked["1+1"] == 6


def test_nothing_to_ask(journal: Journal) -> None:
    assert generate(Adder(), [], GREEDY, journal=journal).complete


@pytest.mark.parametrize("kind", ["server", "timeout", "connection", "overloaded", "rate_limit"])
def test_what_passes_is_asked_again(journal: Journal, kind: str) -> None:
    model = Adder(lambda prompt, nth: ModelError(kind, "not now", retry_after=0.01) if prompt == "3+1" and nth < 3 else add(prompt))
    tally = generate(model, sums(30), GREEDY, journal=journal)
    assert (tally.answered, tally.errors) == (30, {kind: 2})
    assert model.asked["3+1"] == 3
    assert journal.fetch(keys_of(model, sums(30)))["text"][3] == "4"


@pytest.mark.parametrize("kind", ["bad_request", "context_length"])
def test_what_cannot_be_answered_is_a_row_and_is_not_asked_again(journal: Journal, kind: str) -> None:
    model = Adder(lambda prompt, nth: ModelError(kind, "never", scope="permanent", status=400) if prompt == "3+1" else add(prompt))
    tally = generate(model, sums(30), GREEDY, journal=journal)
    assert (tally.answered, tally.failed, model.asked["3+1"]) == (29, {kind: 1}, 1)
    assert not tally.complete
    row = journal.fetch(keys_of(model, sums(30))).row(3, named=True)
    assert (row["status"], row["text"], row["error"]) == ("failed", None, f"{kind}: never")
    assert generate(Adder(), sums(30), GREEDY, journal=journal).answered == 1


def test_retries_end(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("server", "broken", retry_after=0.0) if prompt == "3+1" else add(prompt))
    tally = generate(model, sums(10), GREEDY, journal=journal, limits=Limits(retries=1))
    assert (tally.failed, model.asked["3+1"]) == ({"server": 1}, 2)


def test_a_rate_limit_is_waited_out_however_often_it_comes_until_the_deadline(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("rate_limit", "slow", retry_after=0.02, status=429) if nth < 9 else add(prompt))
    assert generate(model, sums(1), GREEDY, journal=journal, limits=Limits(retries=1)).answered == 1
    never = Adder(lambda prompt, nth: ModelError("rate_limit", "slow", retry_after=0.3, status=429))
    tally = generate(never, sums(1, 5), GREEDY, journal=journal, limits=Limits(deadline=1.0))
    assert tally.failed == {"rate_limit": 1}


def test_an_attempt_has_a_time_limit(journal: Journal) -> None:
    tally = generate(Adder(delay=5.0), sums(1), GREEDY, journal=journal, limits=Limits(timeout=0.05, retries=0))
    assert tally.failed == {"timeout": 1}


def test_a_providers_slip_is_a_failed_row_without_its_words(journal: Journal) -> None:
    def slip(prompt: str, nth: int) -> Completion:
        if prompt == "3+1":
            raise KeyError("secret-key")
        return add(prompt)

    model = Adder(slip)
    tally = generate(model, sums(30), GREEDY, journal=journal)
    assert tally.failed == {"internal": 1}
    error = journal.fetch(keys_of(model, sums(30)))["error"][3]
    assert "KeyError" in error
    assert "secret" not in error


def test_a_wrong_key_stops_everything_with_its_sentence(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("auth", "the key is wrong", scope="fatal", status=401), delay=0.01)
    with pytest.raises(ProviderError, match=r"^the key is wrong$"):
        generate(model, sums(100_000), GREEDY, journal=journal)
    assert model.asked.total() <= 64
    assert journal.counts()["ok"] == 0


def test_a_key_that_is_revoked_ends_the_run_and_keeps_the_answers(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: add(prompt) if int(prompt[:-2]) < 200 else ModelError("auth", "revoked", scope="fatal", status=401))
    tally = generate(model, sums(10_000), GREEDY, journal=journal)
    assert tally.answered == 200
    assert tally.stopped is not None
    assert "revoked" in tally.stopped
    assert model.asked.total() < 400
    assert journal.counts()["ok"] == 200


def test_one_refused_key_among_answers_does_not_end_the_run(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("auth", "glitch", scope="fatal") if prompt == "50+1" else add(prompt))
    tally = generate(model, sums(100), GREEDY, journal=journal)
    assert (tally.answered, tally.stopped) == (99, None)


def test_no_server_is_one_sentence_before_all_is_tried(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.engine.rate_limit.NO_SERVER_AFTER", 0.3)
    model = Adder(lambda prompt, nth: ModelError("connection", "refused"), endpoint="http://localhost:9")
    with pytest.raises(ProviderError, match="no server answers at http://localhost:9"):
        generate(model, sums(1000), GREEDY, journal=journal)
    assert len(model.asked) < 1000


def test_nothing_but_bad_requests_stops_early(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("bad_request", "no such parameter", scope="permanent", status=400))
    with pytest.raises(ProviderError, match=r"answered none of the first 20 requests.*no such parameter"):
        generate(model, sums(10_000), GREEDY, journal=journal)
    assert model.asked.total() < 200


def test_many_prompts_that_are_too_long_do_not_stop_the_others(journal: Journal) -> None:
    too_long = ModelError("context_length", "too long", scope="permanent", status=400)
    model = Adder(lambda prompt, nth: too_long if int(prompt[:-2]) < 500 else add(prompt))
    tally = generate(model, sums(600), GREEDY, journal=journal)
    assert (tally.answered, tally.failed) == (100, {"context_length": 500})


def test_a_wait_longer_than_the_deadline_ends_the_run(journal: Journal) -> None:
    model = Adder(lambda prompt, nth: ModelError("rate_limit", "quota", retry_after=40000, status=429))
    with pytest.raises(ProviderError, match="asks to wait 40000 s"):
        generate(model, sums(100), GREEDY, journal=journal)


def test_concurrency_grows_to_the_limit_and_not_beyond(journal: Journal) -> None:
    model = Adder(delay=0.005)
    generate(model, sums(1500), GREEDY, journal=journal, limits=Limits(max_connections=100))
    assert model.most == 100


def test_an_overloaded_endpoint_is_asked_less(journal: Journal) -> None:
    def crowded(prompt: str, nth: int) -> Completion | ModelError:
        return ModelError("rate_limit", "slow down", retry_after=0.05, status=429) if model.now >= 16 else add(prompt)

    model = Adder(crowded, delay=0.005)
    tally = generate(model, sums(1500), GREEDY, journal=journal, limits=Limits(max_connections=256))
    assert tally.answered == 1500
    assert tally.errors["rate_limit"] < 300
    assert model.most < 64


def test_requests_per_minute(journal: Journal) -> None:
    begun = time.monotonic()
    generate(Adder(), sums(31), GREEDY, journal=journal, limits=Limits(requests_per_minute=3000))
    assert time.monotonic() - begun >= 0.6


def test_tokens_per_minute(journal: Journal) -> None:
    def long(prompt: str, nth: int) -> Completion:
        return Completion("x", "stop", input_tokens=100, output_tokens=100)

    begun = time.monotonic()
    limits = Limits(tokens_per_minute=200 * 60 * 40, max_connections=4)
    generate(Adder(long), sums(41), Sampling(max_tokens=100), journal=journal, limits=limits)
    assert time.monotonic() - begun > 0.5


@contextmanager
def handled(number: signal.Signals, handler: Any) -> Iterator[Any]:
    """Whatever the tests themselves were started with (nohup ignores hangups)."""
    before = signal.signal(number, handler)
    try:
        yield handler
    finally:
        signal.signal(number, before)


def signalling(number: signal.Signals, *, at: int) -> Callable[[str, int], Completion]:
    """A script that sends this process a signal with the answer of this number."""
    answers = count(1)

    def answer(prompt: str, nth: int) -> Completion:
        if next(answers) == at:
            os.kill(os.getpid(), number)
        return add(prompt)

    return answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_drains_and_commits(journal: Journal, number: signal.Signals) -> None:
    model = Adder(signalling(number, at=20), delay=0.05)
    with handled(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL) as before:
        tally = generate(model, sums(1000), GREEDY, journal=journal, limits=Limits(max_connections=8))
        assert signal.getsignal(number) is before
    assert tally.interrupted
    assert 20 <= tally.answered < 100
    assert model.asked.total() == tally.answered == journal.counts()["ok"]


def test_a_hangup_that_is_ignored_as_under_nohup_ends_nothing(journal: Journal) -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        model = Adder(signalling(signal.SIGHUP, at=1), delay=0.05)
        tally = generate(model, sums(30), GREEDY, journal=journal, limits=Limits(max_connections=8))
    assert (tally.interrupted, tally.answered) == (False, 30)


def test_a_second_signal_does_not_wait(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Generation.stop, "__kwdefaults__", {**(Generation.stop.__kwdefaults__ or {}), "grace": 3600.0}
    )  # waiting would be a hang

    class Interrupted(Adder):
        async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
            if not self.asked:
                for after in (0.0, 0.3):
                    asyncio.get_running_loop().call_later(after, os.kill, os.getpid(), signal.SIGINT)
            return await super().complete(messages, sampling, sample)

    assert generate(Interrupted(delay=3600.0), sums(10), GREEDY, journal=journal).interrupted


async def test_inside_a_running_loop_it_uses_a_thread(journal: Journal) -> None:
    assert generate(Adder(), sums(100), GREEDY, journal=journal).answered == 100


async def test_two_models_at_one_endpoint_share_its_limit(journal: Journal) -> None:
    one, two = Adder(delay=0.002), Adder(delay=0.002)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, one.now + two.now)
            await asyncio.sleep(0.0005)

    watching = asyncio.create_task(watch())
    limits = Limits(max_connections=10)
    halves = (run_of(model, sums(200, 200 * n), journal, limits).go() for n, model in enumerate((one, two)))
    tallies = await asyncio.gather(*halves)
    watching.cancel()
    assert [tally.answered for tally in tallies] == [200, 200]
    assert most == 10


async def test_two_runs_at_once_ask_each_request_once(either_journal: Journal) -> None:
    one, two = Adder(delay=0.002), Adder(delay=0.002)
    first, second = await asyncio.gather(*(run_of(model, sums(600), either_journal).go() for model in (one, two)))
    assert first.total == second.total == 600
    assert first.answered + second.answered == 600
    assert first.held + second.held == 600
    assert set((one.asked + two.asked).values()) == {1}


async def test_cancelling_keeps_what_was_answered(either_journal: Journal) -> None:
    model = Adder(delay=0.02)
    task = asyncio.create_task(run_of(model, sums(10_000), either_journal).go())
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert either_journal.counts()["ok"] > 0
    assert generate(Adder(), sums(100), GREEDY, journal=either_journal).complete


def test_an_error_in_the_iterable_is_raised_and_the_answers_are_kept(journal: Journal) -> None:
    def broken() -> Iterator[Request]:
        yield from sums(1000)
        time.sleep(0.1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        generate(Adder(), broken(), GREEDY, journal=journal)
    assert journal.counts()["ok"] > 0


def test_the_iterable_is_read_lazily(journal: Journal) -> None:
    model, ahead = Adder(), 0

    def watched() -> Iterator[Request]:
        nonlocal ahead
        for number, request in enumerate(sums(6000)):
            ahead = max(ahead, number - model.asked.total())
            yield request

    generate(model, watched(), GREEDY, journal=journal)
    assert ahead < 3000


def test_progress_is_shown_and_the_money_counted(journal: Journal, tmp_path: object) -> None:
    seen: list[tuple[int, int, int]] = []

    from tiltmeter.engine import Display

    class Watcher(Display):
        def update(self, snapshot: Snapshot) -> None:
            seen.append((snapshot.tally.done, snapshot.in_flight, snapshot.width))

    tally = generate(Adder(delay=0.05), sums(100), GREEDY, journal=journal, progress=Watcher(), limits=Limits(max_connections=8))
    assert len(seen) >= 3
    assert seen[-1][0] == 100
    assert max(in_flight for _, in_flight, _ in seen) == 8
    assert tally.cost == 0.0
    unknown = Adder()
    unknown.name = "nobody/knows"
    assert generate(unknown, sums(1, 500), GREEDY, journal=journal, prices=Prices.load()).cost is None


def test_odd_characters_are_kept_or_replaced(journal: Journal) -> None:
    answers = {"1+1": "caf\u00e9 \U0001f600", "2+1": "half \ud83d a pair", "3+1": "nul\0nul"}
    model = Adder(lambda prompt, nth: Completion(answers[prompt]))
    requests = [Request((Message("user", prompt),)) for prompt in answers]
    generate(model, requests, GREEDY, journal=journal)
    assert journal.fetch(keys_of(model, requests))["text"].to_list() == ["café 😀", "half \ufffd a pair", "nul\ufffdnul"]
