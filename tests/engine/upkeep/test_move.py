"""Rows that are exported and imported again, with every kind of file and database."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from support.journals import NANO, SIM, execute, failure, fill, key, row, rows_of
from support.property_tests import PER_TEST_FIXTURES
from tiltmeter.engine import Row, open_journal
from tiltmeter.engine._journal import new_owner
from tiltmeter.engine.upkeep import check, export_rows, import_rows, repair, stats
from tiltmeter.errors import InputError

TEXTS = st.none() | st.text(st.characters() | st.sampled_from('\0\ud800\udfff\n"\u2028😀'), max_size=30)
NUMBERS = st.none() | st.integers(0, 2**31 - 1)
COMMON: dict[str, Any] = {
    "model": st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10
    ),
    "sample": st.integers(0, 2**31 - 1),
    "attempts": st.integers(0, 2**31 - 1),
    "created_at": st.floats(0, 1e12),
    "thinking": TEXTS,
    "finish_reason": TEXTS,
    "refusal": TEXTS,
    "input_tokens": NUMBERS,
    "output_tokens": NUMBERS,
    "latency": st.none() | st.floats(0, 1e9) | st.just(math.nan),
}
COMMON |= {
    "key": st.binary(min_size=32, max_size=32),
    **dict.fromkeys(("text", "error_kind", "error_detail"), st.none()),
}
ANSWERS = st.builds(Row, **{**COMMON, "status": st.just("ok"), "text": TEXTS.filter(bool)})
FAILED = {
    "status": st.just("failed"),
    "error_kind": st.sampled_from(["server", "timeout"]),
    "error_detail": TEXTS,
}
FAILURES = st.builds(Row, **{**COMMON, **FAILED})
ROWS = st.lists(ANSWERS | FAILURES, max_size=30, unique_by=lambda row: row.key)


def plain(rows: dict[bytes, Row]) -> dict[bytes, Row]:
    """A latency of NaN and none are the same."""
    return {
        name: row._replace(latency=None if math.isnan(row.latency or 0) else row.latency)
        for name, row in rows.items()
    }


@settings(max_examples=12, suppress_health_check=PER_TEST_FIXTURES)
@given(rows=ROWS)
def test_every_row_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("round")
    fill(folder / "a.sqlite", rows)
    exported = plain(rows_of(folder / "a.sqlite"))
    assert set(exported) == {row.key for row in rows}
    for name in ("rows.parquet", "rows.jsonl"):
        assert export_rows(folder / "a.sqlite", folder / name) == len(rows)
        import_rows(folder / name, folder / f"{name}.sqlite")
        assert plain(rows_of(folder / f"{name}.sqlite")) == exported


@pytest.mark.verify
@settings(max_examples=5, suppress_health_check=PER_TEST_FIXTURES)
@given(rows=ROWS)
def test_rows_come_back_by_way_of_a_server(
    tmp_path_factory: pytest.TempPathFactory, database: str, rows: list[Row]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    fill(database, [])
    execute(database, "DELETE FROM completions")
    fill(folder / "a.sqlite", rows)
    import_rows(folder / "a.sqlite", database)
    export_rows(database, folder / "rows.parquet")
    import_rows(database, folder / "b.sqlite")
    import_rows(folder / "rows.parquet", folder / "c.sqlite")
    assert (
        plain(rows_of(database)) == plain(rows_of(folder / "a.sqlite")) == plain(rows_of(folder / "b.sqlite"))
    )
    assert plain(rows_of(folder / "c.sqlite")) == plain(rows_of(folder / "a.sqlite"))


def test_nan_in_a_server_is_nothing_elsewhere(tmp_path: Path, database: str) -> None:
    fill(database, [row(1, latency=math.nan), row(2)])
    for name in ("rows.parquet", "rows.jsonl"):
        export_rows(database, tmp_path / name)
        import_rows(tmp_path / name, tmp_path / f"{name}.sqlite")
        assert rows_of(tmp_path / f"{name}.sqlite")[key(1)].latency is None


def test_more_rows_than_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.engine.upkeep._transfer.BATCH", 7)
    fill(tmp_path / "a.sqlite", [row(number) for number in range(100)])
    rows = rows_of(tmp_path / "a.sqlite")
    for source in ("rows.parquet", "rows.jsonl", "a.sqlite"):
        if source != "a.sqlite":
            export_rows(tmp_path / "a.sqlite", tmp_path / source)
        assert import_rows(tmp_path / source, tmp_path / f"of-{source}.sqlite") == (100, 100, 0)
        assert rows_of(tmp_path / f"of-{source}.sqlite") == rows


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "journal.sqlite"])
def test_answers_stay_failures_give_way_and_twice_is_once(where: str, tmp_path: Path, name: str) -> None:
    source = tmp_path / "source" / "journal.sqlite"
    fill(source, [row(1, "new"), row(2, "new"), failure(3, "timeout"), row(4, "new"), failure(5)])
    file = source if name == "journal.sqlite" else tmp_path / name
    if file != source:
        export_rows(source, file)
    fill(where, [row(1, "old"), failure(2), row(3, "old"), failure(5, "timeout"), row(6, "old")])
    for added in ((5, 2, -1), (5, 0, 0)):
        assert import_rows(file, where) == added
        texts = {number: rows_of(where)[key(number)].text for number in (1, 2, 3, 4, 6)}
        assert texts == {1: "old", 2: "new", 3: "old", 4: "new", 6: "old"}
        assert rows_of(where)[key(5)].error_kind == "server"


def test_only_rows_of_the_chosen_models_are_exported(where: str, tmp_path: Path) -> None:
    fill(where, [row(1), row(2, model=SIM), row(3, model="sim/fair x")])
    assert export_rows(where, tmp_path / "o.parquet", models=["sim/mild", NANO]) == 2
    assert set(pl.read_parquet(tmp_path / "o.parquet")["model"]) == {SIM, NANO}
    with pytest.raises(InputError, match="has no rows of this model"):
        export_rows(where, tmp_path / "o.parquet", models=["sim/none"])
    assert pl.read_parquet(tmp_path / "o.parquet").height == 2
    output = io.BytesIO()
    export_rows(where, output, models=["sim/fair"])
    assert [json.loads(line)["key"] for line in output.getvalue().splitlines()] == [key(3).hex()]


def test_names_of_models_move_along(tmp_path: Path, database: str) -> None:
    with open_journal(tmp_path / "a.sqlite") as journal:
        journal.record([row(1)])
        journal.name_model(NANO, "nano")
    import_rows(tmp_path / "a.sqlite", database)
    import_rows(database, tmp_path / "b.sqlite")
    assert [model.name for model in stats(tmp_path / "b.sqlite").models] == ["nano"]


def test_while_a_run_is_at_work(tmp_path: Path) -> None:
    fill(tmp_path / "a.sqlite", [row(1), row(2)])
    with open_journal(tmp_path / "b.sqlite") as running:
        running.claim([key(1), key(3)], new_owner())
        assert import_rows(tmp_path / "a.sqlite", tmp_path / "b.sqlite").answers == 2
        running.record([row(1, "later"), row(3, "mine")])
        assert running.fetch([key(1), key(2), key(3)])["text"].to_list() == ["answer 1", "answer 2", "mine"]
    assert export_rows(tmp_path / "b.sqlite", tmp_path / "o.jsonl") == 3


FLAWS: dict[str, Any] = {
    "its key is not valid: data should have at least 32 bytes": {"key": b"short"},
    "its key is not valid": {"key": None},
    "its model is not valid": {"model": None},
    "its model is not valid: string should have at least 1 character": {"model": ""},
    "its status is not valid: input should be 'ok' or 'failed'": {"status": "done"},
    "its created_at is not valid": {"created_at": math.inf},
    "its sample is not valid: input should be a valid integer": {"sample": None},
    "its sample is not valid: input should be greater than or equal to 0": {"sample": -1},
    "its output_tokens is not valid: input should be less than or equal to 2147483647": {
        "output_tokens": 2**31
    },
    'its status is "ok" but it has no answer': {"text": None, "finish_reason": None},
    "its latency is not valid": {"latency": -1.0},
}


def refusal_of(file: Path) -> str:
    """Return the error of a file that is not imported, after a check that no row of it is."""
    with pytest.raises(InputError) as caught:
        import_rows(file, file.parent / "b.sqlite")
    assert not (file.parent / "b.sqlite").exists()
    return str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("message", FLAWS)
def test_a_bad_row_is_named_and_nothing_is_imported(tmp_path: Path, kind: str, message: str) -> None:
    fill(tmp_path / "a.sqlite", [row(number) for number in range(5)])
    export_rows(tmp_path / "a.sqlite", tmp_path / "good.parquet")
    valid = pl.read_parquet(tmp_path / "good.parquet")
    flawed = pl.DataFrame([{**valid.row(3, named=True), **FLAWS[message]}], schema=valid.schema)
    frame, file = pl.concat([valid[:3], flawed, valid[4:]]), tmp_path / f"rows.{kind}"
    if kind == "parquet":
        frame.write_parquet(file)
    else:
        frame.with_columns(pl.col("key").bin.encode("hex")).write_ndjson(file)
    complaint = refusal_of(file)
    assert f"{file}, {'row' if kind == 'parquet' else 'line'} 4" in complaint
    assert message in complaint


GOOD = {
    "key": key(9).hex(),
    "model": "m",
    "sample": 0,
    "status": "ok",
    "attempts": 1,
    "created_at": 1.0,
    "text": "yes",
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps(GOOD)[:-5], "line 3: it is not valid JSON; is the file complete?"),
        ("[1]", "line 3: its key is not valid"),
        ("7", "line 3: it is not a row: input should be an array or an object"),
        ("[" * 100_000, "line 3: it is not valid JSON"),
        ("\xff\xfe", "line 3"),
        (json.dumps({**GOOD, "key": "zz" * 32}), "line 3: its key is not valid: data should be valid hex"),
        (json.dumps({**GOOD, "key": 7}), "line 3: its key is not valid"),
        (
            json.dumps({**GOOD, "text": ["x"]}),
            "line 3: its text is not valid: input should be a valid string",
        ),
        (json.dumps({**GOOD, "attempts": "1"}), "line 3: its attempts is not valid: input should be"),
        (json.dumps({**GOOD, "attempts": 1.5}), "line 3: its attempts is not valid: input should be"),
        (json.dumps({**GOOD, "attempts": 10**30}), "line 3: its attempts is not valid: input should be"),
        (
            json.dumps({**GOOD, "created_at": "now"}),
            "line 3: its created_at is not valid: input should be a valid number",
        ),
        (
            json.dumps({**GOOD, "more": 1}),
            "a journal has no column more; was it written by a newer Tiltmeter?",
        ),
        (
            json.dumps({"key": key(1).hex()}),
            "line 3: it has no model; only files written by tiltmeter journal export can be read",
        ),
    ],
)
def test_a_line_that_is_no_row(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        f"{json.dumps(GOOD)}\n\n".encode() + line.encode("latin-1") + b"\n" + json.dumps(GOOD).encode()
    )
    complaint = refusal_of(file)
    assert "rows.jsonl" in complaint
    assert message in complaint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    fill(tmp_path / "a.sqlite", [row(number) for number in range(50)])
    export_rows(tmp_path / "a.sqlite", tmp_path / "rows.parquet")
    content = (tmp_path / "rows.parquet").read_bytes()
    (tmp_path / "torn.parquet").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "middle.parquet").write_bytes(content[:200] + b"\0" * 3000 + content[3200:])
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    pl.read_parquet(tmp_path / "rows.parquet").with_columns(pl.col("model").str.len_chars()).write_parquet(
        tmp_path / "types.parquet"
    )
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "notes.sqlite").write_text("notes")
    (tmp_path / "folder").mkdir()
    for name, message in {
        "torn.parquet": "is the file complete",
        "empty.parquet": "is the file complete",
        "middle.parquet": "is the file complete",
        "other.parquet": "it has no key",
        "types.parquet": "row 1: its model is not valid: input should be a valid string",
        "rows.csv.gz": "neither a journal nor a file that ends in",
        "notes.sqlite": "neither a journal nor",
        "none.parquet": "there is no such file",
        "folder": "there is no such file",
    }.items():
        assert message in refusal_of(tmp_path / name), name


def test_a_journal_with_bad_rows_or_itself_is_not_imported(tmp_path: Path) -> None:
    fill(tmp_path / "a.sqlite", [row(1), row(2)])
    with pytest.raises(InputError, match="is also the one to import into"):
        import_rows(tmp_path / "a.sqlite", f"sqlite:///{tmp_path / 'a.sqlite'}")
    execute(tmp_path / "a.sqlite", "UPDATE completions SET status = 'odd' WHERE sample = 0")
    assert re.search(
        r"its status is not valid: .*\); run tiltmeter journal check --repair",
        refusal_of(tmp_path / "a.sqlite"),
    )


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    fill(tmp_path / "a.sqlite", [row(1), row(2)])
    (tmp_path / "o.parquet").write_text("before")
    (tmp_path / "folder.jsonl").mkdir()
    execute(tmp_path / "a.sqlite", "UPDATE completions SET sample = 'x' WHERE key = :key", key=key(2))
    for name, message in {
        "o.parquet": "its sample is not valid: input should be a valid integer); "
        "run tiltmeter journal check --repair on it first",
        "new.jsonl": "it contains an invalid row (its sample is not valid",
        "folder.jsonl": "run tiltmeter journal check --repair",
        "o.csv": "unknown kind of file",
    }.items():
        with pytest.raises(InputError, match=re.escape(message)):
            export_rows(tmp_path / "a.sqlite", tmp_path / name)
    execute(tmp_path / "a.sqlite", "UPDATE completions SET sample = 0")
    for name in ("folder.jsonl", "x" * 300 + ".parquet", "o.parquet/o.jsonl"):
        with pytest.raises(InputError, match="cannot write"):
            export_rows(tmp_path / "a.sqlite", tmp_path / name)
    assert (tmp_path / "o.parquet").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir() if "sqlite" not in path.name) == [
        "folder.jsonl",
        "o.parquet",
    ]


@pytest.mark.parametrize("name", ["pipe.sqlite", "pipe.jsonl"])
def test_a_named_pipe_is_no_journal_and_is_not_waited_for(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="it is not a file"):
        import_rows(pipe, tmp_path / "new.sqlite")
    for call in (open_journal, stats, check, repair):
        with pytest.raises(InputError, match="not a file, but a named pipe"):
            call(pipe)
    assert not (tmp_path / "new.sqlite").exists()
