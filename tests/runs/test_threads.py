"""Findings do not depend on the number of threads of Polars, on which the order of rows in a table might depend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.verify

STUDIES = {
    "probes": "genderbench/gest",
    "associations": "associations/gender",
    "benchmarks": "benchmarks/g20",
}


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_one_thread_and_four_give_the_same_tables(
    study: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    for threads in ("1", "4"):
        arguments = [
            "run",
            study,
            "--model",
            "sim/biased",
            "--limit",
            "20",
            "--display",
            "none",
            "--out",
            f"threads-{threads}",
        ]
        variables = environment | {
            "POLARS_MAX_THREADS": threads,
            "TILTMETER_RUNS": str(tmp_path / f"runs-{threads}"),
        }
        command = [sys.executable, "-m", "tiltmeter.cli", *arguments]
        subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=300)
    one, four = tmp_path / "threads-1", tmp_path / "threads-4"
    tables = [
        path.relative_to(one) for path in sorted(one.rglob("*.parquet")) if path.name != "responses.parquet"
    ]  # they have a time
    assert {Path("design.parquet"), Path("measures.parquet"), Path("findings.parquet")} < set(tables)
    for table in tables:
        assert pl.read_parquet(one / table).equals(pl.read_parquet(four / table)), table
