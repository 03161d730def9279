"""The journal: its rows, its claims, and errors of files that cannot be one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.journals import dead_owner, failure, far_owner, key, row
from support.programs import run_code
from tiltmeter.engine import Journal, open_journal
from tiltmeter.engine._journal import Owner, new_owner
from tiltmeter.errors import InputError


def test_rows_come_back_in_the_order_asked_for(either_journal: Journal) -> None:
    either_journal.record([row(number) for number in range(2000)] + [failure(5000)])
    table = either_journal.fetch([key(3), key(5000), key(99999), key(1), key(3)])
    answer_3, answer_1 = ("answer 3", "ok", None), ("answer 1", "ok", None)
    rows = [answer_3, (None, "failed", "server: broke"), (None, "missing", None), answer_1, answer_3]
    assert table.select("text", "status", "error").rows() == rows
    assert table["key"][0] == key(3).hex()
    assert either_journal.fetch([key(number) for number in range(2000)])["text"].to_list() == [
        f"answer {n}" for n in range(2000)
    ]
    assert either_journal.fetch([]).columns == table.columns
    assert either_journal.counts() == {"ok": 2000, "failed": 1}


def test_only_answers_are_held(either_journal: Journal) -> None:
    either_journal.record([row(1), failure(2)])
    assert either_journal.held([key(1), key(2), key(3)]) == {key(1)}
    assert either_journal.held([]) == set()


def test_an_answer_is_never_replaced_and_a_failure_is(either_journal: Journal) -> None:
    either_journal.record([row(1, "first"), failure(2)])
    either_journal.record([row(1, "second"), failure(1), row(2, "at last")])
    table = either_journal.fetch([key(1), key(2)])
    assert table.select("text", "error").rows() == [("first", None), ("at last", None)]


def test_claims_keep_others_away_until_recorded_or_released(either_journal: Journal, where: str) -> None:
    with open_journal(where) as second:
        first_owner, second_owner = new_owner(), new_owner()
        keys = [key(number) for number in range(1500)]
        either_journal.record([row(0)])
        assert either_journal.claim(keys[:1000], first_owner) == ({key(0)}, set(keys[1:1000]), set())
        claims = second.claim(keys, second_owner)
        assert claims == ({key(0)}, set(keys[1000:]), set(keys[1:1000]))
        either_journal.record([row(1), failure(2)])
        assert second.claim(keys[:4], second_owner) == ({key(0), key(1)}, {key(2)}, {key(3)})
        either_journal.release(first_owner)
        assert second.claim(keys[3:1000], second_owner).claimed == set(keys[3:1000])


def test_claims_of_a_dead_process_pass_on_at_once(either_journal: Journal) -> None:
    machine, _, started = new_owner().process.rsplit("|", 2)
    for owner in (dead_owner(), Owner("earlier", f"{machine}|{os.getpid()}|{started}0"), new_owner()):
        assert either_journal.claim([key(1)], owner).claimed == {key(1)}


def test_claims_elsewhere_pass_on_when_the_heart_stops(
    either_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, near = far_owner(), new_owner()
    either_journal.claim([key(1)], elsewhere)
    monkeypatch.setattr("tiltmeter.engine._journal.EXPIRY", 0.0)
    assert either_journal.claim([key(1)], near).awaited == {key(1)}
    either_journal.beat(elsewhere)
    assert either_journal.claim([key(1)], near).awaited == {key(1)}
    assert either_journal.claim([key(1)], near).claimed == {key(1)}


def test_places_where_no_journal_can_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    notes = "these are notes, not a database, and they are long enough to be looked at" * 20
    (tmp_path / "notes.db").write_text(notes)
    open_journal(tmp_path / "j.db").close()
    for place, message in (
        (str(tmp_path), "cannot be opened"),
        (str(tmp_path / "file" / "sub" / "j.db"), "cannot create the folder"),
        (f"sqlite:///file:{tmp_path / 'j.db'}?mode=ro&uri=true", "read-only"),
        (str(tmp_path / "notes.db"), r"notes\.db.*not a journal"),
    ):
        with pytest.raises(InputError, match=message):
            open_journal(place)
    assert (tmp_path / "notes.db").read_text() == notes


@pytest.mark.parametrize(
    "url", ["mysql://user:hunter2@host/db", "nonsense://host", "sqlite+nothing:///x.db", "://"]
)
def test_urls_that_cannot_be_used_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="journal") as caught:
        open_journal(url)
    assert "hunter2" not in str(caught.value)


def test_missing_folders_are_made_and_a_journal_in_memory_works(tmp_path: Path) -> None:
    open_journal(tmp_path / "a" / "b" / "j.db").close()
    assert (tmp_path / "a" / "b" / "j.db").is_file()
    with open_journal("sqlite://") as journal:
        journal.record([row(1)])
        assert journal.counts()["ok"] == 1


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    # The limit on file size has the effect of a full disk: the writing of a batch fails in the middle.
    code = """
        import resource, sys
        from tiltmeter.engine import Row, open_journal
        from tiltmeter.errors import InputError
        def rows(first, count):
            keys = [number.to_bytes(32, "big") for number in range(first, first + count)]
            return [Row(key, "sim/m", 0, "ok", 1, 1.0, "x" * 1000) for key in keys]
        with open_journal(sys.argv[1]) as journal:
            journal.record(rows(0, 100))
            resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
            try:
                journal.record(rows(1000, 5000))
            except InputError as error:
                print(error)
    """
    printed = run_code(code, tmp_path / "j.db").stdout
    assert "run again; committed answers are kept" in printed
    assert "xxxx" not in printed
    with open_journal(tmp_path / "j.db") as journal:
        assert journal.counts()["ok"] == 100
