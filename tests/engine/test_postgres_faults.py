"""A server that goes away and comes back: nothing is lost or doubled; if it stays away, one sentence."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from support.journals import failure, far_owner, key, row
from support.postgres import PASSWORD, PostgresServer
from tiltmeter.engine import Journal, Keys, Limits, Request, generate, open_journal
from tiltmeter.engine._journal import new_owner
from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, Sampling
from tiltmeter.models._function import FunctionModel

GREEDY = Sampling(temperature=0.0)
COUNT = 400


def slow_model(requests: Counter[str], then: Callable[[], None]) -> FunctionModel:
    """Return a model that takes two and a half seconds for 400 prompts over 8 connections.

    After a quarter of them `then` happens.
    """

    async def answer(messages: list[dict[str, str]]) -> Completion:
        prompt = messages[-1]["content"]
        requests[prompt] += 1
        if requests.total() == COUNT // 4:
            then()
        await asyncio.sleep(0.05)
        return Completion(text=f"answer to {prompt}")

    return FunctionModel("python/here:answer", answer, {})


def ask(journal: Journal, model: FunctionModel) -> Any:
    requests = [Request((Message("user", f"prompt {number}"),)) for number in range(COUNT)]
    tally = generate(model, requests, GREEDY, journal=journal, limits=Limits(max_connections=8))
    return tally, journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in requests])


@pytest.mark.verify
def test_a_run_survives_a_server_that_is_killed_and_started_again(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fall_and_rise() -> None:
        postgres.kill()
        time.sleep(2.5)
        postgres.start()

    requests: Counter[str] = Counter()
    away = threading.Thread(target=fall_and_rise)
    with open_journal(database) as journal:
        tally, table = ask(journal, slow_model(requests, away.start))
        away.join()
        assert (tally.answered, tally.failures, tally.complete) == (COUNT, 0, True)
        assert set(requests.values()) == {1}
        assert table["text"].to_list() == [f"answer to prompt {number}" for number in range(COUNT)]
        assert journal.counts() == {"ok": COUNT, "failed": 0}
    assert postgres.execute("SELECT count(*) FROM claims", database.rpartition("/")[2]) == [(0,)]
    sentences = [record.getMessage() for record in caplog.records if record.name == "tiltmeter.engine"]
    assert "retrying for 60 s" in sentences[0]
    assert "is available again" in sentences[-1]
    assert PASSWORD not in caplog.text
    assert {record.name for record in caplog.records} <= {
        "tiltmeter.engine",
        "asyncio",
    }  # no complaints of a connection pool


@pytest.mark.verify
def test_a_server_that_stays_away_is_one_sentence(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltmeter.engine._journal.PATIENCE", 1.0)
    requests: Counter[str] = Counter()
    with open_journal(database) as journal:
        with pytest.raises(InputError, match="committed answers are kept, run again to resume") as caught:
            ask(journal, slow_model(requests, postgres.kill))
        assert "\n" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert 0 < requests.total() < COUNT
        postgres.start()
        committed = journal.counts()["ok"]
        assert 0 < committed <= requests.total()
        monkeypatch.setattr("tiltmeter.engine._journal.EXPIRY", 0.5)  # the run could not give up its claims
        again: Counter[str] = Counter()
        tally, _ = ask(journal, slow_model(again, lambda: None))
        assert (tally.held, tally.answered, again.total()) == (
            committed,
            COUNT - committed,
            COUNT - committed,
        )


@pytest.mark.verify
def test_claims_outlive_the_server_and_their_owner(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, near = far_owner(), new_owner()
    with open_journal(database) as journal, open_journal(database) as second:
        journal.claim([key(1), key(2)], elsewhere)
        assert second.claim([key(1)], near).awaited == {key(1)}
        monkeypatch.setattr("tiltmeter.engine._journal.EXPIRY", 0.0)
        postgres.kill()
        postgres.start()
        # No process could see a heart beat while the server was away: watching begins again.
        assert second.claim([key(1)], near).awaited == {key(1)}
        assert journal.claim([key(1), key(2)], elsewhere).claimed == {key(1), key(2)}
        journal.record([row(1)])
        assert second.held([key(1), key(2)]) == {key(1)}


@contextmanager
def last_commit_unheard(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Break the connection after the next commit and before the answer of the server."""
    dialect, done = journal._engine.dialect, list[bool]()
    commit = dialect.do_commit

    def commit_and_break(connection: Any) -> None:
        commit(connection)
        if not done:
            done.append(True)
            connection.driver_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(dialect, "do_commit", commit_and_break)
        yield done
    assert done == [True]


def test_a_commit_whose_answer_is_lost_is_done_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first_owner, second_owner = new_owner(), new_owner()
    keys = [key(number) for number in range(5)]
    with open_journal(database) as journal, open_journal(database) as second:

        def unheard(act: Callable[..., Any], *arguments: object) -> Any:
            with last_commit_unheard(journal, monkeypatch):
                return act(*arguments)

        assert unheard(journal.claim, keys, first_owner).claimed == set(keys)
        unheard(journal.record, [row(0), failure(1)])
        unheard(journal.record, [row(number) for number in range(2000, 4000)])
        unheard(journal.beat, first_owner)
        unheard(journal.name_model, "sim/m", "a name")
        assert unheard(journal.counts) == {"ok": 2001, "failed": 1}
        assert second.claim(keys, second_owner) == ({key(0)}, {key(1)}, {key(2), key(3), key(4)})
        unheard(journal.release, first_owner)
        assert second.claim([key(2)], second_owner).claimed == {key(2)}


def test_a_failure_kept_twice_does_not_take_a_claim_made_in_between(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_owner, second_owner = new_owner(), new_owner()
    third_owner = new_owner()
    with open_journal(database) as journal, open_journal(database) as second:
        journal.claim([key(1)], first_owner)

        def others_turn(seconds: float) -> bool:
            assert second.claim([key(1)], second_owner).claimed == {key(1)}
            return True

        monkeypatch.setattr(journal._closed, "wait", others_turn)
        with last_commit_unheard(journal, monkeypatch):
            journal.record([failure(1)])
        assert journal.claim([key(1)], third_owner).awaited == {key(1)}


def end_connections(postgres: PostgresServer, database: str) -> None:
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = '{database.rpartition('/')[2]}'"
    )


def test_connections_the_server_has_ended_are_replaced(postgres: PostgresServer, database: str) -> None:
    with open_journal(database) as journal:
        for number in range(3):
            end_connections(postgres, database)
            journal.record([row(number)])
        assert journal.counts()["ok"] == 3


def test_claims_that_could_not_be_given_up_pass_on(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_owner, second_owner = new_owner(), new_owner()
    with open_journal(database) as journal:
        journal.claim([key(1)], first_owner)
        with monkeypatch.context() as patched:
            patched.setattr("tiltmeter.engine._journal.PATIENCE", 0.0)
            end_connections(postgres, database)
            with pytest.raises(InputError, match="run again"):
                journal.release(first_owner)
        assert journal.claim([key(1)], second_owner).claimed == {key(1)}


def test_permanent_errors_of_a_server_are_not_tried_again(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_journal(database) as journal:
        postgres.execute("DROP TABLE claims", database.rpartition("/")[2])
        monkeypatch.setattr("tiltmeter.engine._journal.PATIENCE", 3600.0)  # trying again would be a hang
        with pytest.raises(InputError, match="the database reported"):
            journal.record([row(1)])
        assert journal.counts() == {
            "ok": 0,
            "failed": 0,
        }  # the answer is not there without the rest of its transaction
