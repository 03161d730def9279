"""Tables do not depend on the number of threads of Polars, which can change the order of rows."""

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
        command = [sys.executable, "-m", "tiltmeter", *arguments]
        subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=300)
    with_one = tmp_path / "threads-1"
    with_four = tmp_path / "threads-4"
    # The responses have times.
    paths = [path for path in sorted(with_one.rglob("*.parquet")) if path.name != "responses.parquet"]
    tables = [path.relative_to(with_one) for path in paths]
    assert {Path("design.parquet"), Path("measures.parquet"), Path("findings.parquet")} < set(tables)
    for table in tables:
        assert pl.read_parquet(with_one / table).equals(pl.read_parquet(with_four / table)), table
