"""Rows per second into the journal and out of it, compared with the driver alone and with Inspect's log.

The floor is SQLite's own driver with the same columns, the same key, the same settings and as many rows a
transaction: `executemany`, and a SELECT by nine hundred keys at a time. Each size runs in a fresh process.
With `--postgres URL` the same for an empty PostgreSQL database.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from perf._tools import Peers, fresh, options, peak_mib, table, tell

SIZES: Final = (10_000, 100_000, 1_000_000)
QUICK: Final = (500, 1_000)
BATCH: Final = 2_000
"""Rows a transaction: half a second's worth at 4,000 a second."""
LOOKED_UP: Final = 4_096
ANSWER: Final = (
    "An answer of the usual length: some forty words, no more, so that neither reading nor writing it "
    "is what is measured here. "
) * 2
PROMPT: Final = (
    "Prompt {}: a question of the usual length, which names a person, a place and a choice, and asks for "
    "one of two answers."
)


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def keys_of(count: int) -> list[bytes]:
    return [hashlib.sha256(number.to_bytes(8, "big")).digest() for number in range(count)]


def ours(count: int, url: str) -> dict[str, Any]:
    """Record, look up and fetch `count` rows."""
    from tiltmeter.engine import Row, open_journal

    keys = keys_of(count)
    rows = [
        Row(
            key=key,
            model="m",
            sample=0,
            status="ok",
            attempts=1,
            created_at=1.7e9,
            text=ANSWER,
            thinking=None,
            finish_reason="stop",
            refusal=None,
            input_tokens=30,
            output_tokens=50,
            latency=0.5,
        )
        for key in keys
    ]
    with open_journal(url) as journal:
        journal.fetch(keys[:1])  # imports are not what is measured
        times = [time.perf_counter()]
        for part in chunks(rows, BATCH):
            journal.record(part)
        times.append(time.perf_counter())
        assert sum(len(journal.held(part)) for part in chunks(keys, LOOKED_UP)) == count
        times.append(time.perf_counter())
        assert sum(journal.fetch(part).height for part in chunks(keys, LOOKED_UP)) == count
        times.append(time.perf_counter())
    return rates(count, times)


def floor(count: int, path: str) -> dict[str, Any]:
    """The same rows by the driver alone."""
    keys = keys_of(count)
    rows = [
        (key, "m", 0, "ok", 1, 1.7e9, ANSWER, None, "stop", None, 30, 50, 0.5, None, None) for key in keys
    ]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    columns = (
        "key BLOB PRIMARY KEY, model TEXT, sample INT, status TEXT, attempts INT, created_at REAL, text "
        "TEXT, thinking TEXT"
    )
    more = (
        "finish_reason TEXT, refusal TEXT, tokens_in INT, tokens_out INT, latency REAL, error_kind TEXT, "
        "error_detail TEXT"
    )
    connection.execute(f"CREATE TABLE t ({columns}, {more})")
    times = [time.perf_counter()]
    for part in chunks(rows, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(f"INSERT INTO t VALUES ({','.join('?' * 15)})", part)
        connection.execute("COMMIT")
    times.append(time.perf_counter())
    for wanted in ("key", "*"):
        fetched = 0
        for part in chunks(keys, 900):
            fetched += len(
                connection.execute(
                    f"SELECT {wanted} FROM t WHERE key IN ({','.join('?' * len(part))})", part
                ).fetchall()
            )
        assert fetched == count
        times.append(time.perf_counter())
    connection.close()
    return rates(count, times)


def rates(count: int, times: Sequence[float]) -> dict[str, Any]:
    took = [after - before for before, after in pairwise(times)]
    seconds_of = {
        f"{step}/s": count / seconds
        for step, seconds in zip(("recorded", "looked up", "fetched"), took, strict=True)
    }
    return {"rows": count, **seconds_of, "peak MiB": peak_mib()}


def inspect_log(peers: Peers, count: int, folder: str) -> dict[str, Any] | None:
    """Inspect's log of as many samples, written and read by its own functions."""
    outcome = peers.ask(
        "inspect-ai", "on_inspect.py", {"log": count, "folder": folder, "answer": ANSWER, "prompt": PROMPT}
    )
    if outcome is None:
        return None
    measurements = outcome.reported
    return {
        "what": "inspect-ai's log",
        "rows": count,
        "recorded/s": count / measurements["write_s"],
        "fetched/s": count / measurements["read_s"],
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--postgres", metavar="URL", help="an empty database to measure as well")
    parser.add_argument(
        "--step", nargs=3, metavar=("WHAT", "ROWS", "WHERE"), help="one measurement, in this process"
    )
    arguments = parser.parse_args()
    if arguments.step:
        subject, count, where = arguments.step
        print(json.dumps((floor if subject == "floor" else ours)(int(count), where)))
        return
    peers, rows = Peers(arguments.peer), []
    for count in QUICK if arguments.quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            measurements = {
                subject: fresh("journal", "--step", subject, count, Path(folder) / f"{subject}.db")
                for subject in ("ours", "floor")
            }
            if arguments.postgres and count == (QUICK if arguments.quick else SIZES)[-1]:
                measurements["PostgreSQL"] = fresh("journal", "--step", "ours", count, arguments.postgres)
            names = {
                "ours": "tiltmeter, SQLite",
                "floor": "sqlite3 alone",
                "PostgreSQL": "tiltmeter, PostgreSQL",
            }
            rows += [{"what": names[subject], **measured} for subject, measured in measurements.items()]
            if (
                count == (QUICK if arguments.quick else SIZES)[0]
                and (log := inspect_log(peers, count, folder)) is not None
            ):
                rows.append(log)
    note = (
        f"{BATCH:,} rows per transaction, as in a run. `sqlite3 alone` supports neither claims by other "
        f"processes nor failures that may be overwritten, and does not build a table from the fetched rows. "
        "Inspect writes one archive at the end, which is its fastest mode; a run that flushes during the "
        "evaluation rewrites the archive."
    )
    tell([table("Rows per second", rows, note)], peers=peers)


if __name__ == "__main__":
    main()
