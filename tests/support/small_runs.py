"""Runs without a model, whose tables all contain the same number.

Also a program: URL, number, seconds to pause.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.runs import folder_to_fill
from tiltmeter.schema import DESIGN, FINDINGS, RESPONSES

TABLES = ("design", "responses", "measures", "findings")


def fill(url: str, value: int, pause: float = 0.0) -> None:
    """Write a run whose tables all contain `value`, with a pause between its claim and its end."""
    folder = folder_to_fill(url)
    with folder.filling({"study": "genderbench"}):
        print("filling", flush=True)
        time.sleep(pause)
        for name in TABLES:
            with folder.table(name, {}) as add:
                add(table(name, value))
        folder.write_json(about(value, folder.sizes()))


def table(name: str, value: int) -> pl.DataFrame:
    columns: dict[str, Mapping[str, Any]] = {"design": DESIGN, "responses": RESPONSES, "findings": FINDINGS}
    core = columns.get(name, {"model": pl.String, "part": pl.String, "outcome": pl.String})
    return pl.DataFrame({column: [None] for column in core}, schema=dict(core)).with_columns(
        state=pl.lit(value)
    )


def about(value: int, tables: dict[str, Any]) -> dict[str, Any]:
    texts = dict.fromkeys(("tiltmeter", "python", "written", "title", "definition"), "x")
    empty: dict[str, Any] = {
        "packages": {},
        "sampling": {},
        "parts": {},
        "models": [],
        "data": [],
        "problems": [],
        "params": {},
    }
    empty |= dict.fromkeys(("limit", "repeats", "system_message"))
    return (
        texts
        | empty
        | {
            "study": "genderbench",
            "seed": value,
            "resamples": 1,
            "level": 0.95,
            "complete": True,
            "tables": tables,
        }
    )


if __name__ == "__main__":
    try:
        fill(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    except InputError as error:
        sys.exit(str(error))
