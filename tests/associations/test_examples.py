"""What shows an association is its sentences; a count of associations has no answers that moved it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Tiltmeter
from tiltmeter.runs import load


@pytest.mark.verify
def test_associations_carry_sentences_and_counts_have_no_examples(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter(
        "run", "associations/gender", "-m", "sim/biased", "-P", "encoder=none", "--limit", "150", "--display", "none", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    single = run.stage("associations").filter("reported")
    assert single.height == run.findings.filter(metric="association").height > 0
    assert single.select(pl.col("examples").list.len().min()).item() > 0
    assert run.stage("associations").filter(~pl.col("reported"))["examples"].drop_nulls().is_empty()
    assert run.examples.height == 0
    assert {"model", "part", "influence", "prompt", "answer", "outcome", "label"} <= set(run.examples.columns)
