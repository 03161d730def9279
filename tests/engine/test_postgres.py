"""A journal on a server: bulk, many threads and processes, and errors of a server that cannot be used."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from support.journals import failure, key, row
from support.postgres import PASSWORD, PostgresServer
from support.programs import run_code
from support.property_tests import PER_TEST_FIXTURES
from tiltmeter.engine import Journal, Row, open_journal
from tiltmeter.engine._journal import new_owner
from tiltmeter.errors import InputError

ODD = ["tab\there", "line\nbreak\r\n", "\\N", "\\.", "back\\slash", "", "{NULL}", "quo\"te's"]
ODD += ["ümläut 漢字 🙂", "%s %(key)s", "nul\0", "\ud800"]


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.mark.parametrize("count", [3, 2500])
def test_every_text_and_null_comes_back(database: str, count: int) -> None:
    rows = [
        row(n, ODD[n % len(ODD)], thinking=ODD[-1 - n % len(ODD)], latency=n / 3, input_tokens=None)
        for n in range(count)
    ]
    bare = [failure(n + count, error_detail=ODD[n % len(ODD)]) for n in range(count)]
    with open_journal(database) as journal:
        for batch in (rows, bare, rows[::-1]):
            journal.record(batch)
        table = journal.fetch([key(n) for n in range(2 * count)])
        texts = [text.replace("\0", "�").replace("\ud800", "�") for text in ODD]
        assert table["text"].to_list() == [texts[n % len(ODD)] for n in range(count)] + [None] * count
        assert (
            table["thinking"].to_list() == [texts[-1 - n % len(ODD)] for n in range(count)] + [None] * count
        )
        assert table["latency"].to_list() == [n / 3 for n in range(count)] + [None] * count
        assert table["input_tokens"].null_count() == 2 * count
        assert table["error"].to_list()[count:] == [f"server: {texts[n % len(ODD)]}" for n in range(count)]


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(max_examples=15, suppress_health_check=PER_TEST_FIXTURES)
@given(rows=st.lists(st.tuples(st.integers(0, 5), TEXTS), max_size=12), copied=st.booleans())
def test_a_batch_is_kept_as_if_row_by_row(
    either_journal: Journal, rows: list[tuple[int, str | None]], copied: bool
) -> None:
    """Both databases, whether the rows travel one way or the other."""
    remaining: dict[int, str | None] = {}
    for number, answer in rows:
        if remaining.get(number) is None:
            remaining[number] = answer
    base = int.from_bytes(os.urandom(8), "big") << 32
    filler = [row(base + number, "filler") for number in range(1000, 2100)] if copied else []
    attempts = (
        failure(base + number) if answer is None else row(base + number, answer) for number, answer in rows
    )
    either_journal.record([*filler, *attempts])
    table = either_journal.fetch([key(base + number) for number in remaining])
    assert table["text"].to_list() == list(remaining.values())
    assert table["status"].to_list() == [
        "failed" if answer is None else "ok" for answer in remaining.values()
    ]


def test_without_the_right_to_temporary_tables_bulk_works_all_the_same(
    postgres: PostgresServer, database: str
) -> None:
    postgres.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
    postgres.execute(f"REVOKE TEMPORARY ON DATABASE {name_of(database)} FROM PUBLIC")
    postgres.execute("GRANT CREATE ON SCHEMA public TO plain", name_of(database))
    with open_journal(postgres.url_of(name_of(database), user="plain", password="plain")) as journal:
        journal.record([row(number) for number in range(2500)])
        assert journal.counts()["ok"] == 2500
    for statement in ("REASSIGN OWNED BY plain TO tiltmeter; ", "DROP OWNED BY plain", "DROP ROLE plain"):
        postgres.execute(statement, name_of(database))


def test_lookups_never_read_the_whole_journal(postgres: PostgresServer, database: str) -> None:
    def whole_reads() -> object:
        query = (
            "SELECT pg_stat_clear_snapshot(), seq_scan FROM pg_stat_user_tables WHERE relname = 'completions'"
        )
        return postgres.execute(query, name_of(database))[0][1]

    open_journal(database).close()
    before = whole_reads()
    with open_journal(database) as journal:
        owner, keys = new_owner(), [key(number) for number in range(100)]
        for _ in range(10):  # the server settles on a plan while the journal is empty
            journal.claim(keys, owner)
            journal.held(keys)
            journal.fetch(keys)
            journal.record([row(number) for number in range(10)])
    assert whole_reads() == before


def test_threads_share_a_journal(either_journal: Journal) -> None:
    keys = [key(number) for number in range(600)]

    def work(number: int) -> int:
        owner, count = new_owner(), 0
        for start in range(0, 600, 50):
            begin = (start + 75 * number) % 600
            claims = either_journal.claim(keys[begin : begin + 50], owner)
            either_journal.record(
                [Row(claimed, "sim/m", 0, "ok", 1, 1.0, f"by {number}") for claimed in claims.claimed]
            )
            count += len(claims.claimed)
        either_journal.release(owner)
        return count

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 600
    assert either_journal.counts() == {"ok": 600, "failed": 0}


def test_a_failure_recorded_by_another_leaves_a_claim_alone(either_journal: Journal, where: str) -> None:
    with open_journal(where) as second:
        first_owner, second_owner = new_owner(), new_owner()
        assert either_journal.claim([key(1)], first_owner).claimed == {key(1)}
        second.record([failure(1)])
        assert second.claim([key(1)], second_owner).awaited == {key(1)}
        second.record([row(1)])
        assert second.claim([key(1)], second_owner).answered == {key(1)}


WRITERS = """
    import os, sys, time
    from tiltmeter.engine import Limits, Request, generate, open_journal
    from tiltmeter.models import Message, Sampling, create_model
    import support.asked, sqlalchemy, psycopg, aiohttp
    import tiltmeter.engine._generation
    where, folder = sys.argv[1:]
    children = []
    for number in range(16):
        if child := os.fork():
            children.append(child)
            continue
        try:
            os.environ["ASKED"] = f"{folder}/{number}"
            first = 0 if number < 8 else 25 * number
            requests = [Request((Message("user", f"prompt {n}"),)) for n in range(first, first + 300)]
            with open_journal(where) as journal:
                model = create_model("python/support.asked:answer")
                limits = Limits(max_connections=8)
                tally = generate(model, requests, Sampling(temperature=0.0), journal=journal, limits=limits)
            os._exit(0 if tally.complete and not tally.errors else 3)
        finally:
            os._exit(4)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.verify
def test_sixteen_processes_ask_every_prompt_once(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "asked"
    folder.mkdir()
    done = run_code(WRITERS, database, folder, timeout=120)
    assert done.stdout == f"{[0] * 16}\n", done.stderr
    requests = Counter(line for path in folder.iterdir() for line in path.read_text().splitlines())
    assert requests == Counter({f"prompt {number}": 1 for number in range(25 * 15 + 300)})
    with open_journal(database) as journal:
        assert journal.counts() == {"ok": 25 * 15 + 300, "failed": 0}


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_notation_of_the_address_is_accepted(database: str, scheme: str) -> None:
    with open_journal(database.replace("postgresql+psycopg", scheme)) as journal:
        journal.record([row(1)])
        assert journal.held([key(1)]) == {key(1)}


def test_errors_of_a_server_that_cannot_be_used_name_the_cause(
    postgres: PostgresServer, database: str
) -> None:
    name = name_of(database)
    postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
    for url, message in {
        postgres.url_of(name, password="hunter2-no"): "the user or the password",
        postgres.url_of(name, user="stranger"): "the user or the password",
        postgres.url_of(name).replace(f":{PASSWORD}", ""): "requires a password",
        postgres.url_of("nosuch"): "no such database",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/x": "no server answers",
        f"postgresql://u:{PASSWORD}@nosuch.invalid/x": "no such host",
        f"{database}?colour={PASSWORD}": "does not support",
        database.replace("+psycopg", "+psycopg2"): "not postgresql+psycopg2",
        f"{database}?options=-c%20default_transaction_read_only=on&sslpassword={PASSWORD}": "is read-only",
        postgres.url_of(name, user="guest"): "may not create or write",
    }.items():
        with pytest.raises(InputError, match=r"^journal postgres") as caught:
            open_journal(url)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
    postgres.execute("DROP ROLE guest")


def test_without_the_driver_the_extra_is_named() -> None:
    code = f"""
        import sys
        sys.modules["psycopg"] = None
        from tiltmeter.engine import open_journal
        from tiltmeter.errors import InputError
        try:
            open_journal("postgresql://me:{PASSWORD}@host/db")
        except InputError as error:
            print(error)
    """
    printed = run_code(code).stdout
    assert "pip install 'tiltmeter[postgres]'" in printed
    assert PASSWORD not in printed
