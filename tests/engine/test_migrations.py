"""Journals of an older version are migrated as a whole, by one process, or stay exactly as they were."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, Table, inspect, text

from support.journals import rows_of
from support.postgres import PostgresServer
from support.programs import go_on, start_code
from tiltmeter.engine import open_journal
from tiltmeter.engine._database import SCHEMA, connect
from tiltmeter.engine.upkeep import check, export_rows, import_rows, prune, repair, stats
from tiltmeter.errors import InputError
from tiltmeter.models._base import SERVED

# The tables of the first schema. Never to be changed.
SCHEMA_1 = """
    CREATE TABLE completions (
        "key" {blob} NOT NULL, model TEXT NOT NULL, sample INTEGER NOT NULL, status VARCHAR(8) NOT NULL,
        attempts INTEGER NOT NULL, created_at FLOAT NOT NULL, text TEXT, thinking TEXT, finish_reason TEXT,
        refusal TEXT, input_tokens INTEGER, output_tokens INTEGER, latency FLOAT, error_kind TEXT,
        error_detail TEXT, PRIMARY KEY ("key")
    );
    CREATE TABLE claims ("key" {blob} NOT NULL, owner VARCHAR(32) NOT NULL, PRIMARY KEY ("key")){claims};
    CREATE TABLE meta (name VARCHAR(64) NOT NULL, value VARCHAR(255) NOT NULL, PRIMARY KEY (name));
    CREATE TABLE owners (
        owner VARCHAR(32) NOT NULL, process VARCHAR(255) NOT NULL, beat INTEGER NOT NULL, PRIMARY KEY (owner)
    );
    INSERT INTO meta VALUES ('schema', '1');
    INSERT INTO owners VALUES ('far', 'another-host/boot/ns|17|42', 3);
    INSERT INTO claims VALUES ({key3}, 'far');
    INSERT INTO completions VALUES
        ({key1}, 'sim/m', 0, 'ok', 1, 1.5, 'an answer', NULL, 'stop', NULL, 3, 4, 0.5, NULL, NULL),
        ({key2}, 'sim/m', 1, 'failed', 6, 2.5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'server', 'broke');
"""
KEYS = [bytes([number]) * 32 for number in (1, 2, 3)]

OPEN = """
    import sys
    from tiltmeter.engine import open_journal
    print("ready", flush=True)
    sys.stdin.readline()
    with open_journal(sys.argv[1]) as journal:
        print(journal.counts())
"""
OPEN_AND_STOP_WITHIN = """
    import sys, time
    from tiltmeter.engine import _database as database, open_journal
    def stop_within(*given):
        print("within", flush=True)
        time.sleep(60)
    database.update = stop_within  # the version is written after the tables are made
    open_journal(sys.argv[1])
"""


def write_schema_1(where: str) -> Engine:
    engine = connect(where)
    local = engine.dialect.name == "sqlite"
    form = "x'{}'" if local else r"'\x{}'"
    keys = {f"key{number}": form.format(key.hex()) for number, key in enumerate(KEYS, 1)}
    script = SCHEMA_1.format(
        blob="BLOB" if local else "BYTEA", claims=" WITHOUT ROWID" if local else "", **keys
    )
    with engine.begin() as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    return engine


def content(engine: Engine) -> dict[str, Any]:
    """Every table of the database with its columns and rows."""
    with engine.connect().execution_options(reads=True) as connection:
        by_name = {}
        for name in sorted(inspect(connection).get_table_names()):
            table = Table(name, MetaData(), autoload_with=connection)
            by_name[name] = (table.columns.keys(), sorted(map(repr, connection.execute(table.select()))))
        return by_name


def test_an_old_journal_is_brought_up_to_date_and_keeps_everything(where: str) -> None:
    old = write_schema_1(where)
    before = content(old)
    with open_journal(where) as journal:
        rows = journal.fetch(KEYS).select("text", "error").rows()
        assert rows == [("an answer", None), (None, "server: broke"), (None, None)]
        assert journal.counts() == {"ok": 1, "failed": 1}
        journal.name_model("sim/m", "sim/mild")
    after = content(old)
    assert after["meta"][1] == [f"('schema', '{SCHEMA}')"]
    assert [after[name] for name in ("claims", "owners")] == [before[name] for name in ("claims", "owners")]
    columns, rows = before["completions"]
    assert after["completions"] == ([*columns, *SERVED], [f"{row[:-1]}, None, None, None)" for row in rows])
    assert "'sim/mild'" in after["models"][1][0]
    old.dispose()


def test_an_old_journal_is_read_without_being_changed(where: str, tmp_path: Path) -> None:
    old = write_schema_1(where)
    with old.begin() as connection:
        connection.execute(text("DELETE FROM claims"))
        connection.execute(text("DELETE FROM owners"))
    before = content(old)
    assert check(where).sound
    assert (stats(where).schema, stats(where).answers) == (1, 1)
    assert export_rows(where, tmp_path / "rows.jsonl") == 2
    assert import_rows(where, tmp_path / "new.sqlite").answers == 1
    assert content(old) == before
    old.dispose()
    assert rows_of(tmp_path / "new.sqlite")[KEYS[0]].text == "an answer"


def test_rows_exported_by_an_earlier_version_are_imported(where: str, tmp_path: Path) -> None:
    row = {
        "key": KEYS[0].hex(),
        "model": "sim/m",
        "sample": 0,
        "status": "ok",
        "attempts": 1,
        "created_at": 1.5,
        "text": "an answer",
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert import_rows(tmp_path / "rows.jsonl", where).answers == 1
    assert rows_of(where)[KEYS[0]].served_model is None


def test_a_damaged_file_of_an_earlier_version_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    old = write_schema_1(str(path))
    with old.begin() as connection:
        for number in range(10, 400):
            values = {"key": number.to_bytes(4, "big") * 8, "text": f"answer {number} " * 20}
            columns = "key, model, sample, status, attempts, created_at, text"
            insert = f"INSERT INTO completions ({columns}) VALUES (:key, 'm', 0, 'ok', 1, 1.0, :text)"
            connection.execute(text(insert), values)
        connection.execute(text("DELETE FROM claims"))
        connection.execute(text("DELETE FROM owners"))
    old.dispose()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(4096) + content[len(content) // 2 + 4096 :])
    done = repair(path)
    assert done.was == "damaged"
    assert done.rows > 200


def shape(engine: Engine) -> dict[str, Any]:
    """Every table with its columns, their types and its key."""
    inspector = inspect(engine)
    return {
        name: (
            [
                (column["name"], str(column["type"]), column["nullable"])
                for column in inspector.get_columns(name)
            ],
            inspector.get_pk_constraint(name),
        )
        for name in sorted(inspector.get_table_names())
    }


def test_migrated_tables_are_those_of_a_new_journal(where: str) -> None:
    old = write_schema_1(where)
    open_journal(where).close()
    migrated = shape(old)
    with old.begin() as connection:
        for name in migrated:
            connection.execute(text(f"DROP TABLE {name}"))
    open_journal(where).close()
    assert migrated == shape(old)
    old.dispose()


@pytest.mark.verify
def test_of_two_processes_one_migrates_and_the_other_waits(where: str) -> None:
    write_schema_1(where).dispose()
    both = [start_code(OPEN, where, ready="ready") for _ in range(2)]
    for process in both:
        go_on(process)
    for process in both:
        assert process.communicate(timeout=60) == ("{'ok': 1, 'failed': 1}\n", "")


@pytest.mark.verify
def test_killed_while_migrating_leaves_the_journal_as_it_was(where: str) -> None:
    engine = write_schema_1(where)
    before = content(engine)
    with start_code(OPEN_AND_STOP_WITHIN, where, ready="within") as process:
        process.send_signal(signal.SIGKILL)
    assert content(engine) == before
    engine.dispose()
    with open_journal(where) as journal:
        assert journal.counts() == {"ok": 1, "failed": 1}


def test_a_migration_that_fails_leaves_the_journal_as_it_was(where: str) -> None:
    engine = write_schema_1(where)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE models (of_another_program INTEGER)")
    before = content(engine)
    with pytest.raises(InputError, match=f"from schema 1 to {SCHEMA}") as caught:
        open_journal(where)
    assert "\n" not in str(caught.value)
    assert content(engine) == before
    engine.dispose()


@pytest.mark.parametrize(
    ("version", "message"), [("99", r"newer Tiltmeter \(schema 99"), ("two", "is not valid")]
)
def test_a_version_that_is_not_known_is_refused_and_not_touched(
    where: str, version: str, message: str
) -> None:
    open_journal(where).close()
    engine = connect(where)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE meta SET value = '{version}'"))
        connection.execute(text("DROP TABLE models"))
    before = content(engine)
    with pytest.raises(InputError, match=message):
        open_journal(where)
    assert content(engine) == before
    engine.dispose()


FOREIGN = {
    "one-name-in-common": "CREATE TABLE completions (prompt TEXT, answer TEXT);",
    "both-names-in-common": "CREATE TABLE completions (id INTEGER); "
    "CREATE TABLE meta (name TEXT, value TEXT);",
    "with-a-schema": "CREATE TABLE meta (name TEXT, value TEXT); INSERT INTO meta VALUES ('schema', '1');",
    "other-columns-of-meta": "CREATE TABLE meta (id INTEGER, body TEXT); CREATE TABLE owners (id INTEGER);",
}
"""Databases of other programs, some of whose tables have the names of ours."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_database_of_another_program_is_never_altered(tmp_path: Path, name: str) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FOREIGN[name])
    before = path.read_bytes()
    calls = (open_journal, connect, check, repair, stats, lambda where: prune(where, failed=True, apply=True))
    for call in calls:
        with pytest.raises(
            InputError, match=r"a database of another program|is a database, but not a journal"
        ) as caught:
            call(path)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]


def test_another_program_with_an_open_log_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE completions (prompt TEXT)")
        connection.execute("INSERT INTO completions VALUES ('mine')")
        before = (path.read_bytes(), path.with_name("other.sqlite-wal").read_bytes())
        with pytest.raises(InputError, match="a database of another program"):
            repair(path)
        assert (path.read_bytes(), path.with_name("other.sqlite-wal").read_bytes()) == before
        assert connection.execute("SELECT count(*) FROM completions").fetchone() == (1,)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_server_database_with_tables_of_another_program_is_not_altered(
    postgres: PostgresServer, database: str, name: str
) -> None:
    postgres.execute(FOREIGN[name], database.rpartition("/")[2])
    engine = connect(database)
    before = shape(engine)
    with pytest.raises(InputError, match="a database of another program"):
        open_journal(database)
    assert shape(engine) == before
    engine.dispose()
