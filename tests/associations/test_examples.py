"""What shows an association is its sentences; a count of associations has no answers that moved it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from conftest import Tiltmeter
from tiltmeter.runs import load


def test_associations_carry_sentences_and_counts_have_no_examples(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter(
        "run", "associations/gender", "-m", "sim/biased", "-P", "encoder=none", "--limit", "150", "--display", "none", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    single = run.findings.filter(metric="association")
    assert single.height > 0
    assert single.select(pl.col("examples").list.len().min()).item() > 0
    assert run.findings.filter("key")["examples"].null_count() == run.findings.filter("key").height
    assert run.examples.height == 0
    assert {"model", "part", "influence", "prompt", "answer", "outcome", "label"} <= set(run.examples.columns)
