"""The promises of `generate`, with models of this process."""

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
from tiltmeter.engine import Display, Journal, Keys, Limits, Prices, Request, Snapshot, Tally, generate
from tiltmeter.engine._generation import Generation
from tiltmeter.errors import ProviderError
from tiltmeter.models import Completion, Message, ModelError, Sampling

GREEDY = Sampling(temperature=0.0)


def fetch(journal: Journal, model: Adder, requests: list[Request]) -> Any:
    return journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in requests])


def failing(
    error: BaseException, when: Callable[[str, int], bool] = lambda prompt, nth: prompt == "3+1", **more: Any
) -> Adder:
    """Return a model that adds, and fails with `error` where `when` says so."""

    def answer(prompt: str, nth: int) -> Completion:
        if when(prompt, nth):
            raise error
        return add(prompt)

    return Adder(answer, **more)


def ask(model: Adder, requests: int, journal: Journal, **limits: Any) -> Tally:
    return generate(model, sums(requests), GREEDY, journal=journal, limits=Limits(**limits))


def test_every_request_is_answered_and_kept(either_journal: Journal) -> None:
    model, requests = Adder(), sums(2500)
    tally = generate(model, iter(requests), GREEDY, journal=either_journal)
    assert (tally.total, tally.answered, tally.held, tally.failures, tally.complete) == (
        2500,
        2500,
        0,
        0,
        True,
    )
    table = fetch(either_journal, model, requests)
    assert table["text"].to_list() == [str(number + 1) for number in range(2500)]
    assert set(table["status"]) == {"ok"}
    assert tally.output_tokens == table["output_tokens"].sum()


def test_a_second_run_asks_nothing(either_journal: Journal) -> None:
    ask(Adder(), 300, either_journal)
    again = Adder()
    tally = ask(again, 400, either_journal)
    assert (tally.held, tally.answered, tally.total, again.asked.total()) == (300, 100, 400, 100)
    assert ask(again, 0, either_journal).complete  # nothing to ask


def test_the_same_request_twice_is_asked_once(journal: Journal) -> None:
    model = Adder(delay=0.001)
    tally = generate(model, sums(50) * 40, GREEDY, journal=journal)
    assert (tally.answered, tally.held + tally.repeated, tally.done) == (50, 1950, tally.total)
    assert set(model.asked.values()) == {1}


def test_samples_and_sampling_are_separate_answers(journal: Journal) -> None:
    model = Adder()
    requests = [Request((Message("user", "1+1"),), sample) for sample in range(5)]
    generate(model, requests, GREEDY, journal=journal)
    generate(model, requests[:1], Sampling(temperature=1.0), journal=journal)
    assert model.asked["1+1"] == 6


@pytest.mark.parametrize("kind", ["server", "timeout", "connection", "overloaded", "rate_limit"])
def test_transient_failures_are_asked_again(journal: Journal, kind: str) -> None:
    model = failing(
        ModelError(kind, "not now", retry_after=0.01), lambda prompt, nth: prompt == "3+1" and nth < 3
    )
    tally = ask(model, 30, journal)
    assert (tally.answered, tally.errors, model.asked["3+1"]) == (30, {kind: 2}, 3)
    assert fetch(journal, model, sums(30))["text"][3] == "4"


@pytest.mark.parametrize("kind", ["bad_request", "context_length"])
def test_permanent_failures_are_rows_and_are_not_asked_again(journal: Journal, kind: str) -> None:
    model = failing(ModelError(kind, "never", scope="permanent", status=400))
    tally = ask(model, 30, journal)
    assert (tally.answered, tally.failed, model.asked["3+1"], tally.complete) == (29, {kind: 1}, 1, False)
    row = fetch(journal, model, sums(30)).row(3, named=True)
    assert (row["status"], row["text"], row["error"]) == ("failed", None, f"{kind}: never")
    assert ask(Adder(), 30, journal).answered == 1


def test_a_request_fails_after_its_retries(journal: Journal) -> None:
    model = failing(ModelError("server", "broken", retry_after=0.0))
    assert (ask(model, 10, journal, retries=1).failed, model.asked["3+1"]) == ({"server": 1}, 2)


def test_a_rate_limit_is_waited_out_however_often_it_comes_until_the_deadline(journal: Journal) -> None:
    model = failing(
        ModelError("rate_limit", "slow", retry_after=0.02, status=429), lambda prompt, nth: nth < 9
    )
    assert ask(model, 1, journal, retries=1).answered == 1
    never = failing(
        ModelError("rate_limit", "slow", retry_after=0.3, status=429), lambda prompt, nth: prompt != "0+1"
    )
    assert ask(never, 2, journal, deadline=1.0).failed == {"rate_limit": 1}


def test_an_attempt_has_a_time_limit(journal: Journal) -> None:
    assert ask(Adder(delay=5.0), 1, journal, timeout=0.05, retries=0).failed == {"timeout": 1}


def test_an_error_in_a_provider_is_a_failed_row_without_its_text(journal: Journal) -> None:
    model = failing(KeyError("secret-key"))
    assert ask(model, 30, journal).failed == {"internal": 1}
    error = fetch(journal, model, sums(30))["error"][3]
    assert "KeyError" in error
    assert "secret" not in error


@pytest.mark.parametrize(
    ("error", "count", "message", "fewer_than"),
    [
        (
            ModelError("auth", "the key is wrong", scope="fatal", status=401),
            100_000,
            "^the key is wrong$",
            65,
        ),
        (ModelError("connection", "refused"), 1000, "no server answers at http://localhost:9", 1000),
        (
            ModelError("bad_request", "no", scope="permanent", status=400),
            10_000,
            "answered none of the first 20 requests.*no",
            200,
        ),
        (ModelError("rate_limit", "quota", retry_after=40000, status=429), 100, "asks to wait 40000 s", 101),
    ],
    ids=["a wrong key", "no server", "nothing but bad requests", "a wait longer than the deadline"],
)
def test_a_failure_of_every_request_is_one_sentence_before_all_are_tried(
    journal: Journal,
    error: ModelError,
    count: int,
    message: str,
    fewer_than: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tiltmeter.engine._rate_limit.NO_SERVER_AFTER", 0.3)
    model = failing(error, lambda prompt, nth: True, delay=0.01, endpoint="http://localhost:9")
    with pytest.raises(ProviderError, match=message):
        ask(model, count, journal)
    assert model.asked.total() < fewer_than
    assert journal.counts()["ok"] == 0


def test_a_key_that_is_revoked_ends_the_run_and_keeps_the_answers(journal: Journal) -> None:
    model = failing(
        ModelError("auth", "revoked", scope="fatal", status=401), lambda prompt, nth: int(prompt[:-2]) >= 200
    )
    tally = ask(model, 10_000, journal)
    assert tally.answered == journal.counts()["ok"] == 200
    assert "revoked" in str(tally.stopped)
    assert model.asked.total() < 400


def test_one_refused_key_among_answers_does_not_end_the_run(journal: Journal) -> None:
    model = failing(ModelError("auth", "glitch", scope="fatal"), lambda prompt, nth: prompt == "50+1")
    tally = ask(model, 100, journal)
    assert (tally.answered, tally.stopped) == (99, None)


def test_many_prompts_that_are_too_long_do_not_stop_the_others(journal: Journal) -> None:
    too_long = ModelError("context_length", "too long", scope="permanent", status=400)
    tally = ask(failing(too_long, lambda prompt, nth: int(prompt[:-2]) < 500), 600, journal)
    assert (tally.answered, tally.failed) == (100, {"context_length": 500})


def test_concurrency_grows_to_the_limit_and_not_beyond(journal: Journal) -> None:
    model = Adder(delay=0.005)
    ask(model, 1500, journal, max_connections=100)
    assert model.most == 100


def test_an_overloaded_endpoint_is_asked_less(journal: Journal) -> None:
    def crowded(prompt: str, nth: int) -> Completion | ModelError:
        return (
            ModelError("rate_limit", "slow down", retry_after=0.05, status=429)
            if model.now >= 16
            else add(prompt)
        )

    model = Adder(crowded, delay=0.005)
    tally = ask(model, 1500, journal, max_connections=256)
    assert tally.answered == 1500
    assert tally.errors["rate_limit"] < 300
    assert model.most < 64


def test_requests_and_tokens_per_minute_are_limited(journal: Journal) -> None:
    begun = time.monotonic()
    ask(Adder(), 31, journal, requests_per_minute=3000)
    assert time.monotonic() - begun >= 0.6
    long, limits = (
        Completion("x", "stop", input_tokens=100, output_tokens=100),
        Limits(tokens_per_minute=200 * 60 * 40, max_connections=4),
    )
    begun = time.monotonic()
    generate(
        Adder(lambda prompt, nth: long), sums(41), Sampling(max_tokens=100), journal=journal, limits=limits
    )
    assert time.monotonic() - begun > 0.5


@contextmanager
def handled(number: signal.Signals, handler: Any) -> Iterator[Any]:
    """Handle a signal in this way for the time of a block, however the tests were started."""
    before = signal.signal(number, handler)
    try:
        yield handler
    finally:
        signal.signal(number, before)


def signalling(number: signal.Signals, *, at: int) -> Adder:
    """A model that sends this process a signal with the answer of this number."""
    answers = count(1)

    def answer(prompt: str, nth: int) -> Completion:
        if next(answers) == at:
            os.kill(os.getpid(), number)
        return add(prompt)

    return Adder(answer, delay=0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_drains_and_commits(journal: Journal, number: signal.Signals) -> None:
    model = signalling(number, at=20)
    with handled(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL) as before:
        tally = ask(model, 1000, journal, max_connections=8)
        assert signal.getsignal(number) is before
    assert tally.interrupted
    assert 20 <= tally.answered < 100
    assert model.asked.total() == tally.answered == journal.counts()["ok"]


def test_a_hangup_that_is_ignored_as_under_nohup_ends_nothing(journal: Journal) -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        tally = ask(signalling(signal.SIGHUP, at=1), 30, journal, max_connections=8)
    assert (tally.interrupted, tally.answered) == (False, 30)


def test_a_second_signal_ends_the_run_at_once(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    # Waiting would be a hang.
    monkeypatch.setattr(
        Generation.stop, "__kwdefaults__", {**(Generation.stop.__kwdefaults__ or {}), "grace": 3600.0}
    )

    class Interrupted(Adder):
        async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
            if not self.asked:
                for after in (0.0, 0.3):
                    asyncio.get_running_loop().call_later(after, os.kill, os.getpid(), signal.SIGINT)
            return await super().complete(messages, sampling, sample)

    assert ask(Interrupted(delay=3600.0), 10, journal).interrupted


async def test_generate_uses_a_thread_inside_a_running_loop(journal: Journal) -> None:
    assert ask(Adder(), 100, journal).answered == 100


async def test_two_models_at_one_endpoint_share_its_limit(journal: Journal) -> None:
    first, second = Adder(delay=0.002), Adder(delay=0.002)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, first.now + second.now)
            await asyncio.sleep(0.0005)

    watching = asyncio.create_task(watch())
    limits = Limits(max_connections=10)
    halves = (
        run_of(model, sums(200, 200 * n), journal, limits).go() for n, model in enumerate((first, second))
    )
    tallies = await asyncio.gather(*halves)
    watching.cancel()
    assert ([tally.answered for tally in tallies], most) == ([200, 200], 10)


async def test_two_runs_at_once_ask_each_request_once(either_journal: Journal) -> None:
    first_model, second_model = Adder(delay=0.002), Adder(delay=0.002)
    first, second = await asyncio.gather(
        *(run_of(model, sums(600), either_journal).go() for model in (first_model, second_model))
    )
    assert (first.total, second.total, first.answered + second.answered, first.held + second.held) == (
        600,
        600,
        600,
        600,
    )
    assert set((first_model.asked + second_model.asked).values()) == {1}


async def test_cancelling_keeps_the_answers(either_journal: Journal) -> None:
    model = Adder(delay=0.02)
    task = asyncio.create_task(run_of(model, sums(10_000), either_journal).go())
    while model.asked.total() < 200:  # more than are under way at once
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert either_journal.counts()["ok"] > 0
    assert ask(Adder(), 100, either_journal).complete


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
    # The queue holds one claim (at most 4,000 requests, when the model is faster than the journal), the batch
    # that was claimed last and the batch that is looked up next (1,000 each), on any machine.
    most_ahead = 4000 + 1000 + 1000 + Limits().max_connections

    def watched() -> Iterator[Request]:
        nonlocal ahead
        for number, request in enumerate(sums(2 * most_ahead)):
            ahead = max(ahead, number - model.asked.total())
            yield request

    generate(model, watched(), GREEDY, journal=journal)
    assert ahead <= most_ahead


def test_progress_is_shown_and_the_money_counted(journal: Journal) -> None:
    reports: list[tuple[int, int]] = []

    class Watcher(Display):
        def update(self, snapshot: Snapshot) -> None:
            reports.append((snapshot.tally.done, snapshot.in_flight))

    tally = generate(
        Adder(delay=0.05),
        sums(100),
        GREEDY,
        journal=journal,
        progress=Watcher(),
        limits=Limits(max_connections=8),
    )
    assert len(reports) >= 3
    assert (reports[-1][0], max(in_flight for _, in_flight in reports)) == (100, 8)
    assert tally.cost == 0.0
    unknown = Adder()
    unknown.name = "unknown/model"
    assert generate(unknown, sums(1, 500), GREEDY, journal=journal, prices=Prices.load()).cost is None


def test_odd_characters_are_kept_or_replaced(journal: Journal) -> None:
    answers = {"1+1": "caf\u00e9 \U0001f600", "2+1": "half \ud83d a pair", "3+1": "nul\0nul"}
    model = Adder(lambda prompt, nth: Completion(answers[prompt]))
    requests = [Request((Message("user", prompt),)) for prompt in answers]
    generate(model, requests, GREEDY, journal=journal)
    assert fetch(journal, model, requests)["text"].to_list() == [
        "café 😀",
        "half \ufffd a pair",
        "nul\ufffdnul",
    ]
