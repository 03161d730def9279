"""Runs for the tests of the gate: real ones on simulated models, and copies of them with other findings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._files.paths import sha256
from tiltmeter.runs import Run, load


def altered(
    run: Run,
    to: Path,
    change: Callable[[pl.DataFrame], pl.DataFrame] = lambda findings: findings,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Return a copy of a run with other findings and a run.json that fits them."""
    shutil.copytree(run.path, to)
    change(run.findings).write_parquet(to / "findings.parquet")
    about_run = run.about | dict(about or {})
    about_run["tables"] |= {"findings": {"sha256": sha256(to / "findings.parquet")}}
    (to / "run.json").write_text(json.dumps(about_run))
    return load(to)


def number(**values: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that gives the first key finding with other values."""

    def change(findings: pl.DataFrame) -> pl.DataFrame:
        finding = findings.filter("key").head(1)
        return finding.with_columns(
            pl.lit(value, dtype=finding.schema[name]).alias(name) for name, value in values.items()
        )

    return change
