"""Damage of every kind is found and repaired, and the repair invents nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from support.journals import dead_owner, execute, failure, fill, key, row, rows_of
from support.programs import go_on, run_code, start_code
from support.property_tests import PER_TEST_FIXTURES
from tiltmeter.engine import Row, open_journal
from tiltmeter.engine._journal import new_owner
from tiltmeter.engine.upkeep import Problem, check, repair, stats
from tiltmeter.errors import InputError

PAGE = 4096
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HOLD = """
import sys
from tiltmeter.engine import open_journal
journal = open_journal(sys.argv[1])
journal.counts()
print("open", flush=True)
input()
"""
FILL_THE_DISK = """
    import resource, sys
    from tiltmeter.engine.upkeep import repair
    from tiltmeter.errors import InputError
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        repair(sys.argv[1])
    except InputError as error:
        print(error)
"""


def long_row(number: int) -> Row:
    """Return a row; lengths differ, and every seventh row takes several pages."""
    length = 9_000 + number if number % 7 == 0 else 40 * (number % 30)
    return row(
        number,
        f"{number}:" + (LETTERS * (1 + length // 13))[number * 31 % 26 :][:length],
        input_tokens=number % 400,
    )


ROWS = [long_row(number) if number % 11 else failure(number) for number in range(600)]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact") / "j.sqlite"
    with open_journal(path) as journal:
        journal.record(ROWS)
        journal.name_model(ROWS[0].model, "nano")
    return path


@pytest.fixture
def copy(intact: Path, tmp_path: Path) -> Path:
    shutil.copy(intact, tmp_path / "j.sqlite")
    return tmp_path / "j.sqlite"


@contextmanager
def with_log(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection whose writes stay in the log."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    yield connection
    connection.close()


def insert(connection: sqlite3.Connection, rows: list[Row]) -> None:
    """Insert rows in one transaction."""
    connection.execute("BEGIN")
    connection.executemany(
        f"INSERT INTO completions ({', '.join(Row._fields)}) VALUES ({', '.join('?' * len(Row._fields))})",
        rows,
    )
    connection.execute("COMMIT")


def with_batches(tmp_path: Path, rows: list[Row], *logged: list[Row]) -> tuple[bytes, bytes, list[int]]:
    """Write a journal of these rows whose log has the further batches, a transaction each.

    Returns the bytes of the journal and of its log, and the size of the log after each batch.
    """
    source, sizes = tmp_path / "source.sqlite", [0]
    fill(source, rows)
    with with_log(source) as connection:
        log = source.with_name("source.sqlite-wal")
        for batch in logged:
            insert(connection, batch)
            sizes.append(log.stat().st_size)
        return source.read_bytes(), log.read_bytes(), sizes


def place(folder: Path, main: bytes, logged: bytes) -> Path:
    folder.mkdir()
    (folder / "j.sqlite").write_bytes(main)
    (folder / "j.sqlite-wal").write_bytes(logged)
    return folder / "j.sqlite"


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_sound_journals_are_left_as_they_are(where: str, tmp_path: Path) -> None:
    fill(where, ROWS[:50])
    before = files(tmp_path)
    problems = check(where)
    assert (problems.state, problems.rows, problems.problems, problems.sound) == ("sound", 50, [], True)
    assert ("tools of the server" in " ".join(problems.notes)) == where.startswith("postgresql")
    done = repair(where)
    assert (done.was, done.rows, done.removed, done.aside, done.lost) == ("sound", 50, 0, None, 0)
    assert files(tmp_path) == before


def test_places_without_a_journal_cannot_be_checked(tmp_path: Path, database: str) -> None:
    for act in (check, repair):
        for nowhere in (tmp_path / "none.sqlite", database):
            with pytest.raises(InputError, match="there is no journal"):
                act(nowhere)
        with sqlite3.connect(tmp_path / "other.sqlite") as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
        with pytest.raises(InputError, match="a database of another program"):
            check(tmp_path / "other.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]


BAD = {
    "its model is not valid: string should have at least 1 character": "model = ''",
    "its status is not valid: input should be 'ok' or 'failed'": "status = 'maybe'",
    'its status is "ok" but it has no answer': "text = NULL, finish_reason = NULL",
    "its created_at is not valid: input should be greater than or equal to 0": "created_at = -1",
    "its attempts is not valid: input should be greater than or equal to 0": "attempts = -4",
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_no_run_can_use_are_removed(where: str, case: str) -> None:
    fill(where, [row(number) for number in range(10)])
    execute(where, f"UPDATE completions SET {BAD[case]} WHERE created_at IN (1003, 1007)")
    problems = check(where)
    assert (problems.state, problems.rows, problems.sound) == ("bad rows", 10, False)
    assert [(problem.what, problem.number) for problem in problems.problems] == [
        (f"invalid rows ({case})", 2)
    ]
    assert problems.problems[0].example in (key(3).hex(), key(7).hex())
    done = repair(where)
    assert (done.was, done.rows, done.removed, done.lost) == ("bad rows", 8, 2, 0)
    assert set(rows_of(where)) == {key(number) for number in range(10)} - {key(3), key(7)}
    assert check(where).sound


def test_values_that_only_sqlite_takes_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    fill(path, [row(number) for number in range(5)])
    execute(path, "UPDATE completions SET key = x'00ff' WHERE created_at = 1001")
    execute(path, "UPDATE completions SET text = x'01ff' WHERE created_at = 1002")
    assert [(problem.what, problem.number) for problem in check(path).problems] == [
        ("invalid rows (its key is not valid: data should have at least 32 bytes)", 1),
        ("invalid rows (its text is not valid: input should be a valid string)", 1),
    ]
    assert repair(path).removed == 2
    assert set(rows_of(path)) == {key(0), key(3), key(4)}


def test_claims_without_an_owner_are_removed(where: str) -> None:
    with open_journal(where) as journal:
        journal.claim([key(1)], dead_owner())
    assert check(where).sound
    execute(where, "DELETE FROM owners")
    assert check(where).problems == [Problem("claims without an owner", 1)]
    repair(where)
    assert check(where).sound


def test_bad_rows_are_not_removed_under_a_run(where: str) -> None:
    fill(where, [row(1)])
    execute(where, "UPDATE completions SET model = ''")
    with open_journal(where) as journal:
        journal.claim([key(1)], new_owner())
        with pytest.raises(InputError, match="a run is using it"):
            repair(where)
    assert len(rows_of(where)) == 1


def test_every_cut_of_the_log_keeps_what_was_committed_before_it(tmp_path: Path) -> None:
    main, logged, sizes = with_batches(
        tmp_path, ROWS[:40], *(ROWS[start : start + 5] for start in range(40, 60, 5))
    )
    assert logged
    edges = {min(max(0, size + near), len(logged)) for size in sizes for near in (-1, 0, 1)}
    for cut in sorted({*range(0, len(logged), 2711), *edges, len(logged)}):
        path = place(tmp_path / "cut", main, logged[:cut])
        expected = 40 + 5 * (sum(size <= cut for size in sizes) - 1)
        problems = check(path)
        assert (problems.state, problems.rows) == ("sound", expected), cut
        assert path.with_name("j.sqlite-wal").read_bytes() == logged[:cut]
        assert list(rows_of(path).values()) == ROWS[:expected]
        shutil.rmtree(path.parent)


def test_a_log_with_a_flipped_bit_ends_there(tmp_path: Path) -> None:
    main, logged, sizes = with_batches(tmp_path, ROWS[:40], ROWS[40:45], ROWS[45:50])
    path = place(
        tmp_path / "flipped",
        main,
        logged[: (at := sizes[1] + 500)] + bytes([logged[at] ^ 1]) + logged[at + 1 :],
    )
    assert check(path).rows == 45
    assert list(rows_of(path).values()) == ROWS[:45]


@pytest.mark.parametrize("small", [True, False], ids=["hides-rows", "breaks-pages"])
def test_a_log_of_another_file_is_not_used(tmp_path: Path, copy: Path, small: bool) -> None:
    second = tmp_path / "other" / "o.sqlite"
    second.parent.mkdir()
    fill(second, [] if small else [row(number) for number in range(900, 1500)])
    with with_log(second) as connection:
        insert(connection, [row(number) for number in range(2000, 2300)])
        connection.execute("UPDATE completions SET sample = 1 WHERE created_at > 3100")
        if small:
            connection.execute("UPDATE owners SET beat = 1")
            connection.execute("VACUUM")  # writes all of its pages to the log
        shutil.copy(f"{second}-wal", f"{copy}-wal")
    before = files(tmp_path)
    problems = check(copy)
    assert problems.state == "foreign log", problems
    assert files(tmp_path) == before
    done = repair(copy)
    assert (done.was, done.rows, done.lost) == ("foreign log", len(ROWS), 0)
    assert Path(str(done.aside)).read_bytes() == before["j.sqlite-wal"]
    assert list(rows_of(copy).values()) == ROWS
    assert check(copy).sound


def damaged(path: Path, places: list[tuple[int, int]], filler: bytes = b"\0") -> None:
    with path.open("r+b") as file:
        for place, length in places:
            file.seek(place)
            file.write((filler * length)[:length])


def is_subset(path: Path) -> int:
    """Every row is one of those that were written.

    Only a number may have become 0, which nothing in an SQLite file betrays.
    """
    rows = rows_of(path)
    written = {expected.key: expected for expected in ROWS}
    for name, recovered in rows.items():
        assert all(
            now == before or (now == 0 and isinstance(before, float | int))
            for now, before in zip(recovered, written[name], strict=True)
        )
    return len(rows)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "least"),
    [("torn tail", 300), ("torn page", 590), ("some pages", 400), ("last pages", 590), ("index pages", 600)],
)
def test_damage_costs_only_the_rows_it_hits(copy: Path, name: str, least: int) -> None:
    size, data = copy.stat().st_size, copy.read_bytes()
    match name:
        case "torn tail":
            os.truncate(copy, size * 2 // 3)
        case "torn page":
            os.truncate(copy, size - 1000)
        case "some pages":
            damaged(copy, [(number * PAGE, PAGE) for number in range(10, size // PAGE, 20)])
        case "last pages":
            damaged(copy, [(size - 2 * PAGE, 2 * PAGE)], b"\x07")
        case _:
            damaged(
                copy,
                [
                    (number * PAGE, PAGE)
                    for number in range(1, size // PAGE)
                    if data[number * PAGE] in (0x02, 0x0A)
                ],
                b"\xa5",
            )
    before = files(copy.parent)
    problems = check(copy)
    assert problems.state == "damaged"
    assert files(copy.parent) == before
    done = repair(copy)
    assert problems.readable == done.rows == is_subset(copy) >= least
    assert problems.rows == done.claimed is not None
    assert max(done.rows, 0 if name == "torn tail" else 590) <= done.claimed <= 600
    assert Path(str(done.aside)).read_bytes() == before["j.sqlite"]
    assert check(copy).sound
    assert repair(copy).was == "sound"
    if name == "some pages":
        assert stats(copy).models[0].name == "nano"


UNUSABLE: dict[str, Callable[[bytes], bytes]] = {
    "no header": lambda data: b"\0" * 100 + data[100:],
    "no schema": lambda data: b"\0" * PAGE + data[PAGE:],
    "zeros": lambda _: b"\0" * 9000,
    "notes": lambda _: b"these are notes, not a journal" * 500,
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_sqlite_cannot_open_is_left_as_it_is(copy: Path, case: str) -> None:
    copy.write_bytes(UNUSABLE[case](copy.read_bytes()))
    before = files(copy.parent)
    assert (check(copy).state, check(copy).readable) == ("unusable", 0)
    with pytest.raises(InputError, match="no row can be read from it; it was not changed"):
        repair(copy)
    assert files(copy.parent) == before


SECTORS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 8)), min_size=1, max_size=12)


@pytest.mark.verify
@settings(max_examples=6, suppress_health_check=PER_TEST_FIXTURES)
@given(sectors=SECTORS, cut=st.none() | st.floats(0.1, 1))
def test_no_damage_makes_a_row_say_something_else(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, sectors: list[tuple[int, int]], cut: float | None
) -> None:
    path = tmp_path_factory.mktemp("damage") / "j.sqlite"
    shutil.copy(intact, path)
    size = path.stat().st_size
    damaged(path, [(place * 512 % size, length * 512) for place, length in sectors])
    os.truncate(path, size if cut is None else int(size * cut))
    if check(path).state == "damaged":
        repair(path)
        assert is_subset(path) > 0
        assert check(path).sound


@settings(max_examples=6, suppress_health_check=PER_TEST_FIXTURES)
@given(data=st.data())
def test_a_check_of_garbage_does_not_crash(
    intact: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("garbage") / "j.sqlite"
    shutil.copy(intact, path)
    pages = path.stat().st_size // PAGE
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, pages - 1)) * PAGE + data.draw(
            st.sampled_from([0, 0, 3, 8, 16, 100, 2000])
        )
        damaged(
            path, [(place, data.draw(st.integers(1, 200)))], data.draw(st.binary(min_size=1, max_size=64))
        )
    log = data.draw(st.none() | st.binary(max_size=200))
    if log is not None:
        path.with_name("j.sqlite-wal").write_bytes(log)
    problems = check(path)
    if problems.state == "damaged":
        assert repair(path).rows == problems.readable
        assert check(path).sound


def test_a_repair_saves_the_rows_of_the_log(tmp_path: Path) -> None:
    main, logged, _ = with_batches(tmp_path, ROWS[:300], ROWS[300:500])
    path = place(tmp_path / "place", main, logged)
    damaged(path, [(20 * PAGE, 3 * PAGE)], b"\x0d\xff")
    done = repair(path)
    assert is_subset(path) == done.rows >= 450
    assert {row.key for row in ROWS[300:500]} <= set(rows_of(path))
    assert Path(f"{done.aside}-wal").read_bytes() == logged


def test_removed_rows_do_not_come_back(copy: Path) -> None:
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM completions WHERE created_at < 1400")
    connection.close()
    damaged(copy, [(copy.stat().st_size - PAGE, PAGE)])
    if check(copy).sound:  # the last page was a free one
        damaged(copy, [(20, 4)], b"\xff")
    repair(copy)
    assert not {row.key for row in ROWS[:400]} & set(rows_of(copy))


def test_pruned_rows_are_not_called_lost(copy: Path) -> None:
    execute(copy, "DELETE FROM completions WHERE created_at < 1400")
    damaged(copy, [(36, 4)], b"\x01")  # the number of free pages
    done = repair(copy)
    assert (done.was, done.rows, done.claimed, done.lost) == ("damaged", 200, 200, 0)


def test_rows_that_kept_high_numbers_after_pruning_are_recovered(copy: Path) -> None:
    execute(copy, "UPDATE completions SET rowid = rowid + 1000000")
    damaged(copy, [(36, 4)], b"\x01")  # the number of free pages
    done = repair(copy)
    assert (done.was, done.rows, done.lost) == ("damaged", 600, 0)
    assert list(rows_of(copy).values()) == ROWS


def test_a_journal_that_is_open_elsewhere_is_not_replaced(copy: Path) -> None:
    with start_code(HOLD, copy, ready="open") as process:
        damaged(copy, [(20 * PAGE, 2 * PAGE)])
        before = copy.read_bytes()
        with pytest.raises(InputError, match="another process has it open"):
            repair(copy)
        assert copy.read_bytes() == before
        go_on(process)
    assert repair(copy).was == "damaged"


def test_a_full_disk_leaves_everything_as_it_was(copy: Path) -> None:
    damaged(copy, [(30 * PAGE, 4 * PAGE)])
    before = files(copy.parent)
    assert "disk" in run_code(FILL_THE_DISK, copy).stdout
    assert files(copy.parent) == before


def test_a_journal_of_an_older_schema_can_be_checked(copy: Path) -> None:
    execute(copy, "UPDATE meta SET value = '1'")
    assert (check(copy).state, check(copy).schema) == ("sound", 1)
