"""What a journal is said to hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.journals import NANO, SIM, dead_owner, failure, far_owner, fill, key, row
from tiltmeter.engine import open_journal
from tiltmeter.engine.database import SCHEMA
from tiltmeter.engine.journal import new_owner
from tiltmeter.engine.upkeep import ModelStats, stats
from tiltmeter.errors import InputError


def test_by_model(where: str) -> None:
    odd = [row(10, "yes", thinking="why not", output_tokens=None, input_tokens=None), row(11)._replace(text=None, refusal="no")]
    failures = [failure(20), failure(21), *(failure(30 + number, "timeout") for number in range(3))]
    fill(where, [*(row(number, "ähm") for number in range(10)), *odd, *failures, row(50, "hm", model=SIM, created_at=5.0)])
    with open_journal(where) as journal:
        journal.name_model(SIM, "sim/mine")
    found = stats(where)
    nano = ModelStats(NANO, None, 12, {"timeout": 3, "server": 2}, 11 * 3, 11 * 4, 1, 10 * 4 + 3 + 7, 1000.0, 1032.0)
    assert found.models == [nano, ModelStats(SIM, "sim/mine", 1, {}, 3, 4, 0, 2, 5.0, 5.0)]
    assert list(found.models[0].failed) == ["timeout", "server"]
    assert (found.answers, found.failed, found.schema, found.claimants) == (13, 5, SCHEMA, [])
    assert found.size > 10_000
    assert "hunter2" not in repr(found)


def test_who_claims(where: str) -> None:
    mine, dead, far = new_owner(), dead_owner(), far_owner()
    with open_journal(where) as journal:
        journal.claim([key(1), key(2)], mine)
        journal.claim([key(3)], far)
        journal.claim([key(4)], dead)
        found = {one.owner: one for one in stats(where).claimants}
    states = {mine.token: ("alive", 2), "far": ("elsewhere", 1), "dead": ("dead", 1)}
    assert {token: (one.state, one.claims) for token, one in found.items()} == states
    assert found["far"].process == f"another-host, process {os.getpid()}"


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path, database: str) -> None:
    with pytest.raises(InputError, match=r"there is no journal .*none\.sqlite; name another with --journal"):
        stats(tmp_path / "sub" / "none.sqlite")
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        with pytest.raises(InputError, match="there is no journal in postgresql") as caught:
            stats(database)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(InputError, match="in memory"):
        stats("sqlite://")


def test_an_empty_journal(where: str) -> None:
    fill(where, [])
    found = stats(where)
    assert (found.models, found.answers, found.failed) == ([], 0, 0)
