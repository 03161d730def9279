"""Journals with known rows, for the tests of their maintenance."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import select, text

from tiltmeter.engine import Row, open_journal
from tiltmeter.engine._database import completions, connect
from tiltmeter.engine._journal import Owner, new_owner

NANO = "openai/gpt-nano@https://api.openai.com/v1"
SIM = "sim/mild bias=0.1"


def key(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def row(number: int, text: str | None = None, **values: Any) -> Row:
    answer = Row(
        key=key(number),
        model=NANO,
        sample=0,
        status="ok",
        attempts=1,
        created_at=1000.0 + number,
        text=f"answer {number}" if text is None else text,
        thinking=None,
        finish_reason="stop",
        refusal=None,
        input_tokens=3,
        output_tokens=4,
        latency=0.5,
    )
    return answer._replace(**values)


def failure(number: int, kind: str = "server", **values: Any) -> Row:
    return Row(
        key(number), NANO, 0, "failed", 6, 1000.0 + number, error_kind=kind, error_detail="broke"
    )._replace(**values)


def fill(where: str | Path, rows: list[Row]) -> None:
    with open_journal(where) as journal:
        journal.record(rows)


def rows_of(where: str | Path) -> dict[bytes, Row]:
    """Return every row with all of its columns, by key."""
    engine = connect(where)
    try:
        with engine.connect() as connection:
            rows = connection.execute(select(*(completions.c[name] for name in Row._fields))).all()
    finally:
        engine.dispose()
    return {row[0]: Row._make(row) for row in rows}


def execute(where: str | Path, statement: str, **values: Any) -> None:
    """Change the database of a journal directly."""
    engine = connect(where)
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def dead_owner() -> Owner:
    """Return the owner of a run of a process of this machine that has ended."""
    machine, _, _ = new_owner().process.rsplit("|", 2)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return Owner("dead", f"{machine}|{gone.pid}|1")


def far_owner() -> Owner:
    """Return the owner of a run of another machine."""
    return Owner("far", f"another-host/boot/ns|{os.getpid()}|42")
