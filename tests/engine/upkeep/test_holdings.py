"""Statistics of a journal; rows that pruning removes or refuses to remove, and space that it frees."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.journals import NANO, SIM, dead_owner, failure, far_owner, fill, key, row, rows_of
from support.programs import run_code
from tiltmeter.engine import open_journal
from tiltmeter.engine._database import SCHEMA
from tiltmeter.engine._journal import new_owner
from tiltmeter.engine.upkeep import ModelStats, prune, stats
from tiltmeter.errors import InputError

AT_5 = datetime.fromtimestamp(1005, UTC)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("chosen", "gone"),
    [
        ({}, []),
        ({"failed": True}, [3, 4, 13]),
        ({"before": AT_5}, [0, 1, 2, 3, 4]),
        ({"before": AT_5.replace(tzinfo=None)}, [0, 1, 2, 3, 4]),
        ({"model": "sim/mild"}, [10, 11, 12, 13]),
        ({"model": NANO}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"model": "openai/gpt-nano", "failed": True, "before": AT_5}, [3, 4]),
    ],
)
def test_pruning_removes_the_rows_it_names(where: str, chosen: dict[str, Any], gone: list[int]) -> None:
    rows = [failure(n) if n in (3, 4, 13) else row(n) for n in (*range(8), *range(10, 14))]
    rows = [row._replace(model=SIM) if row.created_at >= 1010 else row for row in rows]
    fill(where, rows)
    counted = prune(where, **chosen)
    assert counted.size_after is None
    assert len(rows_of(where)) == len(rows)
    answers = len(set(gone) - {3, 4, 13})
    assert (counted.answers, counted.failed) == (answers, len(gone) - answers)
    assert (counted.input_tokens, counted.output_tokens) == (3 * answers, 4 * answers)
    done = prune(where, **chosen, apply=True)
    assert done[:5] == counted[:5]
    assert {row.key for row in rows} - set(rows_of(where)) == {key(number) for number in gone}


def test_models_whose_names_only_begin_alike_are_not_pruned(where: str) -> None:
    fill(
        where,
        [
            row(number, model=f"openai/{name}")
            for number, name in enumerate(("gpt-4@x", "gpt-4o@x", "gpt_4@x", "gpt-4"), 1)
        ],
    )
    prune(where, model="openai/gpt-4", apply=True)
    assert set(rows_of(where)) == {key(2), key(3)}
    with pytest.raises(InputError, match="did you mean openai/gpt_4@x"):
        prune(where, model="openai/gpt_4@y", apply=True)


def test_rows_are_pruned_by_the_name_that_a_user_gave(where: str) -> None:
    fill(where, [row(1, model="replay@sha256:1"), row(2, model="replay@sha256:2")])
    with open_journal(where) as journal:
        journal.name_model("replay@sha256:2", "replay/mine.csv")
    prune(where, model="replay/mine.csv", apply=True)
    assert set(rows_of(where)) == {key(1)}


def test_claims_of_the_dead_go_and_the_living_are_left_alone(where: str) -> None:
    with open_journal(where) as journal:
        journal.record([failure(1)])
        journal.claim([key(7)], dead_owner())
        assert prune(where).claims == 1
        assert len(stats(where).claimants) == 1
        assert prune(where, apply=True).claims == 1
        assert stats(where).claimants == []
        owner = new_owner()
        journal.claim([key(8)], owner)
        with pytest.raises(InputError, match="a run is using it"):
            prune(where, failed=True, apply=True)
        assert len(rows_of(where)) == 1
        journal.release(owner)
    assert prune(where, failed=True, apply=True).failed == 1


def test_pruning_watches_runs_on_other_machines(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.engine._journal.EXPIRY", 0.6)
    monkeypatch.setattr("tiltmeter.engine.upkeep._holdings._LOOK", 0.05)
    with open_journal(where) as journal:
        journal.record([failure(1)])
        far = far_owner()
        journal.claim([key(9)], far)
        ended = threading.Event()

        def live() -> None:
            while not ended.wait(0.1):
                journal.beat(far)

        heart = threading.Thread(target=live)
        heart.start()
        messages: list[str] = []
        try:
            with pytest.raises(InputError, match="is using it \\(another-host, process"):
                prune(where, failed=True, apply=True, say=messages.append)
        finally:
            ended.set()
            heart.join()
        assert (len(messages), len(rows_of(where))) == (1, 1)
        assert prune(where, failed=True, apply=True).claims == 1
    assert rows_of(where) == {}


def test_pruning_makes_the_file_smaller(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    fill(path, [row(number, "x" * 2000, model=SIM if number % 4 else NANO) for number in range(1000)])
    done = prune(path, model=SIM, apply=True)
    assert done.note is None
    assert done.size_after is not None
    assert max(done.size_after, path.stat().st_size) < done.size_before / 3
    assert len(rows_of(path)) == 250


def test_a_server_says_what_becomes_of_the_space(database: str) -> None:
    fill(database, [failure(1)])
    assert "VACUUM FULL" in str(prune(database, failed=True, apply=True).note)


def test_without_room_to_shrink_the_rows_are_gone_all_the_same(tmp_path: Path) -> None:
    # The limit on file size has the effect of a disk that is nearly full.
    path = tmp_path / "j.sqlite"
    fill(path, [row(number, "x" * 2000) for number in range(1000)] + [failure(2000)])
    code = """
        import resource, sys
        from tiltmeter.engine.upkeep import prune
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
        print(prune(sys.argv[1], failed=True, apply=True).note)
    """
    printed = run_code(code, path).stdout
    assert "the rows are removed" in printed
    assert "the file was not made smaller" in printed
    assert len(rows_of(path)) == 1000


def test_statistics_of_a_journal_are_by_model(where: str) -> None:
    odd = [
        row(10, "yes", thinking="why not", output_tokens=None, input_tokens=None),
        row(11)._replace(text=None, refusal="no"),
    ]
    failures = [failure(20), failure(21), *(failure(30 + number, "timeout") for number in range(3))]
    fill(
        where,
        [
            *(row(number, "ähm") for number in range(10)),
            *odd,
            *failures,
            row(50, "hm", model=SIM, created_at=5.0),
        ],
    )
    with open_journal(where) as journal:
        journal.name_model(SIM, "sim/mine")
    statistics = stats(where)
    nano = ModelStats(
        model=NANO,
        name=None,
        answers=12,
        failed={"timeout": 3, "server": 2},
        input_tokens=11 * 3,
        output_tokens=11 * 4,
        unmetered=1,
        text_bytes=10 * 4 + 3 + 7,
        first=1000.0,
        last=1032.0,
    )
    simulated = ModelStats(
        model=SIM,
        name="sim/mine",
        answers=1,
        failed={},
        input_tokens=3,
        output_tokens=4,
        unmetered=0,
        text_bytes=2,
        first=5.0,
        last=5.0,
    )
    assert statistics.models == [nano, simulated]
    assert list(statistics.models[0].failed) == ["timeout", "server"]
    assert (statistics.answers, statistics.failed) == (13, 5)
    assert (statistics.schema, statistics.claimants) == (SCHEMA, [])
    assert statistics.size > 10_000
    assert "hunter2" not in repr(statistics)


def test_statistics_of_a_journal_name_the_processes_with_claims(where: str) -> None:
    owner = new_owner()
    dead = dead_owner()
    far = far_owner()
    with open_journal(where) as journal:
        journal.claim([key(1), key(2)], owner)
        journal.claim([key(3)], far)
        journal.claim([key(4)], dead)
        by_name = {claimant.owner: claimant for claimant in stats(where).claimants}
    states = {owner.token: ("alive", 2), "far": ("elsewhere", 1), "dead": ("dead", 1)}
    assert {token: (claimant.state, claimant.claims) for token, claimant in by_name.items()} == states
    assert by_name["far"].process == f"another-host, process {os.getpid()}"


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


def test_statistics_of_an_empty_journal_are_zero(where: str) -> None:
    fill(where, [])
    statistics = stats(where)
    assert (statistics.models, statistics.answers, statistics.failed) == ([], 0, 0)
