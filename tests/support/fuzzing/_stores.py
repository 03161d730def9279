"""Files that Tiltmeter wrote, damaged since: run folders, journals, stores of vectors, caches."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from support.fuzzing._make import of_file
from support.fuzzing._tables import as_file
from support.fuzzing.contract import Target
from tiltmeter import load, run
from tiltmeter.benchmarks._builder import SourcePage, WebClient
from tiltmeter.benchmarks._builder.web import FetchError
from tiltmeter.benchmarks._tables import SENTENCES
from tiltmeter.engine import Row, open_journal
from tiltmeter.engine._journal import Owner
from tiltmeter.exports import export
from tiltmeter.gating import Rules, gate
from tiltmeter.models._text_models import RowCache
from tiltmeter.runs._stage_store import StageStore
from tiltmeter.schema import StageTable
from tiltmeter.study import Stage


@cache
def _run() -> dict[str, bytes]:
    """Return the files of a small complete run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        run(
            "genderbench/direct",
            model="sim/mild",
            limit="6",
            out=out,
            display="none",
            journal=str(Path(folder) / "journal.sqlite"),
        )
        return {
            str(path.relative_to(out)): path.read_bytes()
            for path in out.rglob("*")
            if path.is_file() and path.suffix != ".html"
        }


def _look(folder: Path) -> object:
    """Use a run as commands do: a page, evidence, a gate, an export, a comparison with itself."""
    loaded = load(folder)
    loaded.report(folder / "page.html")
    export(loaded, "markdown", folder.parent / "out.md")
    gate(loaded, Rules())
    return loaded.evidence("fail_rate", limit=3)


def _of_run(name: str, kind: str) -> Target:
    def read(data: bytes, folder: Path) -> object:
        place = folder / "run"
        for file, content in _run().items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(data if file == name else content)
        return _look(place)

    return Target(f"run folder: {name}", read, lambda: [_run()[name]], kind)


@cache
def _database(name: str) -> Sequence[bytes]:
    """Return the file of a journal of forty answers, or of a store of sixty vectors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database.sqlite"
        if name == "journal":
            with open_journal(path) as journal:
                journal.record(
                    [
                        Row(bytes([i] * 32), "m", 0, "ok", 1, 1.0, f"answer {i}", latency=0.1)
                        for i in range(40)
                    ]
                )
        else:
            _store_of_ones(path).rows([f"text {i}" for i in range(60)])
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        return [path.read_bytes()]


def _store_of_ones(path: Path) -> RowCache:
    return RowCache("m", lambda texts, _: np.ones((len(texts), 3), dtype=np.float32), path, 8)


def _journal(path: Path) -> object:
    keys = [bytes([i] * 32) for i in range(50)]
    with open_journal(path) as journal:
        journal.counts()
        journal.held(keys)
        table = journal.fetch(keys)
        assert table.height == len(keys)
        journal.claim(keys[40:], Owner("token", "process"))
        journal.record([Row(keys[45], "m", 0, "ok", 1, 1.0, "kept")])
        texts = journal.fetch(keys[45:46])["text"].to_list()
        assert texts == ["kept"] or table["status"][45] == "ok", texts
        return table


def _vectors(path: Path) -> object:
    rows = _store_of_ones(path).rows([f"text {i}" for i in range(30, 70)])
    assert rows.shape == (40, 3)
    return rows


def _cached(data: bytes, folder: Path) -> object:
    """Read a cached page."""

    async def ask() -> object:
        url = "http://127.0.0.1:9/page"
        async with WebClient(folder) as client:
            place = client._place(url, {})
            place.parent.mkdir(parents=True)
            place.write_bytes(data)

            async def refuse(*_: Any) -> Any:
                raise FetchError("no network here")

            setattr(client, "_try", refuse)  # noqa: B010 - in the place of the network
            try:
                return await client.get(url, {}, SourcePage, lambda reply: SourcePage(url, "x"))
            except FetchError as error:
                return str(error)

    return asyncio.run(ask())


_KEPT = {
    "source": "u",
    "title": "Chad",
    "text": "Chad.",
    "status": "ok",
    "problem": None,
    "licence": None,
    "links": [["Lake", "lake"]],
}


def _stage(name: str, kind: str) -> Target:
    def read(data: bytes, folder: Path) -> object:
        table = StageTable(SENTENCES, required=("concept", "sentence"))
        stage = Stage("sentences", {"sentences": table}, (), lambda *tables: pl.DataFrame())
        store = StageStore(folder, {}, of_run=False)
        with store.carrying_out(stage, {"a": 1}):
            pass  # a table without rows
        (folder / name).write_bytes(data)
        with store.carrying_out(stage, {"a": 1}):
            pass
        return store.read(stage, "sentences")

    return Target(f"build: {name}", read, lambda: [_stage_bytes(name)], kind)


def _stage_bytes(name: str) -> bytes:
    if name.endswith(".json"):
        return json.dumps(
            {"inputs": "x", "tables": {"sentences": "y"}, "problems": ["z"], "whole": True}
        ).encode()
    rows = [
        {
            "domain": "d",
            "concept": "Chad",
            "keyword": "Chad",
            "source": "s",
            "source_tag": "t",
            "position": 1,
            "sentence": "Chad is.",
        }
    ]
    return as_file(Path(name).suffix, json.dumps(rows))


def targets() -> list[Target]:
    """Return the readers of files that Tiltmeter writes."""
    tables = ("design", "responses", "measures", "findings")
    return [
        _of_run("run.json", "json"),
        _of_run("study.yaml", "yaml"),
        *(_of_run(f"{name}.parquet", "parquet") for name in tables),
        _of_run("stages/examples.parquet", "parquet"),
        of_file("journal", ".sqlite", _journal, lambda: _database("journal")),
        of_file("vectors", ".sqlite", _vectors, lambda: _database("vectors")),
        Target("wiki cache", _cached, lambda: [json.dumps(_KEPT).encode()], "json"),
        _stage("sentences.json", "json"),
        _stage("sentences.csv", "csv"),
        _stage("sentences.parquet", "parquet"),
    ]
