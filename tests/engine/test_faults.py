"""Faults of servers and killed processes: nothing is lost, asked twice or invented."""

from __future__ import annotations

import signal
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import misbehaving as bad
from support.misbehaving import MisbehavingServer
from support.programs import go_on, run_code, start_code
from tiltmeter.engine import Journal, Keys, Limits, Request, generate, open_journal
from tiltmeter.errors import ProviderError
from tiltmeter.models import Message, Sampling, create_model

pytestmark = pytest.mark.verify

GREEDY = Sampling(temperature=0.0)
PASSING: dict[str, Callable[[], Any]] = {
    "429 with Retry-After": lambda: bad.rate_limited(0.05),
    "429 without": bad.rate_limited,
    "500": bad.server_error,
    "503": lambda: bad.server_error(503),
    "529": lambda: bad.server_error(529),
    "reset before": bad.reset,
    "reset within": lambda: bad.reset(0.5),
    "hang": bad.hang,
    "truncated JSON": bad.truncated_json,
    "invalid JSON": bad.invalid_json,
    "empty choices": bad.empty_choices,
    "HTML page": bad.html_error_page,
    "HTML page with 200": lambda: bad.html_error_page(200),
}


def prompts(count: int) -> list[Request]:
    return [Request((Message("user", f"prompt {number}"),)) for number in range(count)]


def ask(server: MisbehavingServer, journal: Journal, requests: list[Request], **limits: Any) -> Any:
    model = create_model("vllm/m", base_url=server.url)
    tally = generate(model, requests, GREEDY, journal=journal, limits=Limits(**{"timeout": 60.0, **limits}))
    return tally, journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in requests])


def echo(request: dict[str, Any], nth: int) -> str:
    return f"answer to {bad.prompt_of(request)}"


def echoes(count: int) -> list[str]:
    return [f"answer to prompt {number}" for number in range(count)]


def late(seconds: float) -> MisbehavingServer:
    return MisbehavingServer(lambda request, nth: bad.slow(seconds, echo(request, nth)))


def test_every_fault_that_passes_is_survived(journal: Journal) -> None:
    faults = list(PASSING.values())

    def script(request: dict[str, Any], nth: int) -> Any:
        number = int(bad.prompt_of(request).split()[1])
        return faults[number]() if number < len(faults) and nth == 1 else echo(request, nth)

    with MisbehavingServer(script) as server:
        tally, table = ask(server, journal, prompts(100), timeout=4.0)
        assert (tally.answered, tally.errors.total(), server.requests) == (
            100,
            len(faults),
            100 + len(faults),
        )
        assert table["text"].to_list() == echoes(100)
        assert set(server.paid.values()) == {1}


def answer_all_but_one(fault: Callable[[], Any]) -> MisbehavingServer:
    return MisbehavingServer(
        lambda request, nth: fault() if bad.prompt_of(request) == "prompt 1" else echo(request, nth)
    )


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_stays_is_a_failed_row_and_nothing_is_invented(journal: Journal, fault: str) -> None:
    with answer_all_but_one(PASSING[fault]) as server:
        limits = {"retries": 0, "timeout": 4.0} if fault == "hang" else {"retries": 1, "timeout": 60.0}
        tally, table = ask(server, journal, prompts(3), deadline=1.5, **limits)
    assert table["status"].to_list() == ["ok", "failed", "ok"]
    assert (table["text"][1], tally.answered, tally.failures) == (None, 2, 1)


@pytest.mark.parametrize(
    "fault", [bad.context_too_long, lambda: bad.status(400, None, {"error": {"message": "no"}})]
)
def test_requests_that_a_server_never_answers_are_asked_once(
    journal: Journal, fault: Callable[[], Any]
) -> None:
    with answer_all_but_one(fault) as server:
        tally, table = ask(server, journal, prompts(3))
        assert (server.asked["prompt 1"], tally.failures, table["status"][1]) == (1, 1, "failed")


def test_filters_and_null_content_are_kept_as_they_came(journal: Journal) -> None:
    sentences = [
        bad.content_filter(),
        bad.null_content(),
        bad.refusal("no"),
        bad.wrong_charset("café"),
        bad.filtered_request(),
    ]
    with MisbehavingServer(lambda request, nth: sentences[int(bad.prompt_of(request).split()[1])]) as server:
        tally, table = ask(server, journal, prompts(5))
        assert tally.answered == server.requests == 5
    assert (table["text"].to_list(), table["refusal"][2]) == ([None, None, None, "café", None], "no")


@pytest.mark.parametrize("fault", [bad.wrong_key, bad.unknown_model, bad.insufficient_quota])
def test_a_server_that_answers_nothing_is_one_sentence_at_once(
    journal: Journal, fault: Callable[[], Any]
) -> None:
    with MisbehavingServer(lambda request, nth: fault()) as server:
        with pytest.raises(ProviderError) as caught:
            ask(server, journal, prompts(5000))
        assert server.requests <= 64
    assert "\n" not in str(caught.value)


FIREWALL = bad.html_error_page(403)


@pytest.mark.parametrize("connections", [1, 64])
@pytest.mark.parametrize("number", [0, 3])
def test_one_prompt_that_a_firewall_rejects_does_not_end_the_model(
    journal: Journal, connections: int, number: int
) -> None:
    """The request is rejected at once, while the first answers to the others are still being written."""

    def script(request: dict[str, Any], nth: int) -> Any:
        return FIREWALL if bad.prompt_of(request) == f"prompt {number}" else bad.slow(0.1, echo(request, nth))

    with MisbehavingServer(script) as server:
        tally, table = ask(server, journal, prompts(20), max_connections=connections)
        assert (tally.answered, tally.failed, tally.stopped) == (19, {"auth": 1}, None)
        assert table["status"].to_list() == [
            "failed" if position == number else "ok" for position in range(20)
        ]
        again, _ = ask(server, journal, prompts(20), max_connections=connections)
    assert (again.held, again.failed) == (19, {"auth": 1})
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize("connections", [1, 64])
def test_a_key_without_permission_is_one_sentence_after_a_few_requests(
    journal: Journal, connections: int
) -> None:
    with MisbehavingServer(lambda request, nth: FIREWALL) as server:
        with pytest.raises(
            ProviderError, match=r"answered 403: an HTML page titled '403 Bad Gateway' \(no key was sent\)$"
        ):
            ask(server, journal, prompts(5000), max_connections=connections)
        assert server.requests <= 64


@pytest.mark.parametrize("fault", [bad.wrong_key, bad.unknown_model, bad.insufficient_quota])
def test_answers_in_flight_are_kept_when_another_request_is_rejected(
    journal: Journal, fault: Callable[[], Any]
) -> None:
    """One of several keys behind a gateway is wrong: what was sent with the others is paid for."""

    def script(request: dict[str, Any], nth: int) -> Any:
        return fault() if bad.prompt_of(request) == "prompt 2" else bad.slow(0.5, echo(request, nth))

    with MisbehavingServer(script) as server:
        tally, table = ask(server, journal, prompts(20))
        assert tally.stopped is not None
        assert table["status"].to_list().count("ok") == server.paid.total() >= 2
        ask(server, journal, prompts(20))
    assert set(server.paid.values()) == {1}


CHILD = """
    import sys
    from tiltmeter.engine import Limits, Request, generate, _journal as journal, open_journal
    from tiltmeter.models import Message, Sampling, create_model
    journal.EXPIRY = 3600.0  # waiting until the claims of a killed process expire would be a hang
    url, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    requests = (Request((Message("user", f"prompt {n}"),)) for n in range(count))
    with open_journal(path) as journal:
        model, limits = create_model("vllm/m", base_url=url), Limits(max_connections=16)
        print("open", flush=True)
        sys.stdin.readline()
        tally = generate(model, requests, Sampling(temperature=0.0), journal=journal, limits=limits)
    print(tally.answered, tally.held, tally.interrupted)
"""


def child(server: MisbehavingServer, path: Path, count: int, *, begins: bool = True) -> subprocess.Popen[str]:
    started = start_code(CHILD, server.url, path, count, ready="open")
    if begins:
        go_on(started)
    return started


def kill(process: subprocess.Popen[str], server: MisbehavingServer, after: int) -> None:
    """Kill a process after this number of answers."""
    while server.paid.total() < after:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def texts(server: MisbehavingServer, path: Path, count: int) -> list[str | None]:
    model = create_model("vllm/m", base_url=server.url)
    with open_journal(path) as journal:
        return journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in prompts(count)])[
            "text"
        ].to_list()


def test_kill_9_loses_at_most_half_a_second_and_a_second_run_completes(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    count = 600
    delay = 0.04
    with late(delay) as server:
        kill(child(server, path, count), server, after=count // 2)
        time.sleep(0.2)
        paid = server.paid.total()
        with open_journal(path) as journal:
            committed = journal.counts()["ok"]
        assert committed > 0
        # Sixteen connections at 25 answers a second each: half a second of that, and those that were under
        # way.
        assert paid - committed <= 16 / delay * 0.5 + 16
        out, errors = child(server, path, count).communicate(timeout=60)
        assert out.split() == [str(count - committed), str(committed), "False"], errors
        assert texts(server, path, count) == echoes(count)
        assert (
            sum(times > 1 for times in server.paid.values()) == paid - committed
        )  # only what was in the lost half second


def test_two_processes_share_a_journal_and_each_answer_is_paid_once(tmp_path: Path) -> None:
    path, count = tmp_path / "j.db", 800
    with late(0.02) as server:
        both = [child(server, path, count, begins=False) for _ in range(2)]
        for process in both:
            go_on(process)
        outputs = [process.communicate(timeout=60) for process in both]
        answered = [int(out.split()[0]) for out, _ in outputs]
        stored = [int(out.split()[1]) for out, _ in outputs]
        assert sum(answered) == sum(stored) == count, outputs
        assert min(answered) > 0
        assert (server.requests, set(server.paid.values())) == (count, {1})
        assert texts(server, path, count) == echoes(count)


def test_one_of_two_processes_is_killed_and_the_other_takes_over(tmp_path: Path) -> None:
    path, count = tmp_path / "j.db", 500
    with late(0.04) as server:
        doomed, survivor = child(server, path, count), child(server, path, count)
        kill(doomed, server, after=150)
        out, errors = survivor.communicate(timeout=60)
        answered, stored = map(int, out.split()[:2])
        assert answered + stored == count, errors
        assert texts(server, path, count) == echoes(count)


def test_sigterm_from_outside_drains_and_commits_and_there_are_never_more_requests_than_connections_allowed(
    tmp_path: Path,
) -> None:
    with late(0.3) as server:
        process = child(server, tmp_path / "j.db", 1000)
        while server.paid.total() < 30:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=30)
        assert out.split()[2] == "True", errors
        assert int(out.split()[0]) == server.paid.total() == server.requests
        assert server.max_concurrent <= 16


def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))\n"
    long = "long " * 2000
    with MisbehavingServer(lambda request, nth: long) as server:
        done = run_code(
            limit + textwrap.dedent(CHILD),
            server.url,
            tmp_path / "j.db",
            5000,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode != 0
        assert "InputError: journal" in done.stderr
        assert "could not be stored" in done.stderr.splitlines()[-1]
        assert server.requests < 5000
    assert set(texts(server, tmp_path / "j.db", 5000)) <= {long, None}


MEMORY = """
    import resource, sys
    from support.adder import Adder
    from tiltmeter.engine import Request, Limits, generate, open_journal
    from tiltmeter.models import Message, Sampling
    class Forgetful(Adder):
        async def complete(self, messages, sampling, sample):
            self.asked.clear()
            return await super().complete(messages, sampling, sample)
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    def ask(count):
        requests = (Request((Message("user", f"{n}+1"),)) for n in range(count))
        generate(Forgetful(), requests, Sampling(), journal=journal, limits=Limits(max_connections=256))
    with open_journal(sys.argv[1]) as journal:
        ask(5000)
        before = peak()
        ask(40_000)
        print(peak() - before, journal.counts()["ok"])
"""


def test_memory_stays_flat(tmp_path: Path) -> None:
    grown, answered = map(int, run_code(MEMORY, tmp_path / "j.db").stdout.split())
    assert answered == 40_000
    assert grown < 25  # MB
