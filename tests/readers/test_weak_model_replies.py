"""Replies of a small real model, read as the probes read them.

`weak_model_replies.jsonl` holds replies of SmolLM2-135M-Instruct (4 bits, Apache-2.0) from a llama.cpp server
to prompts of 13 probes, each labelled by two language-model readers independently of each other and of the
rules; the few on which they disagreed are left out. The columns: `set`, `probe`, `prompt_id`, `answer`, the
`outcome` and the `label` (as the probe calls it), and the factors that the rules use. The rules were written
with the sets A to E in view. Set F was not: keep it apart, and look at its figures only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.probes._listing import PROBES

REPLIES = Path(__file__).parent / "weak_model_replies.jsonl"
RIGHT = {"A": 0.99, "B": 0.96, "C": 0.95, "D": 0.93, "E": 0.9, "F": 0.88}
"""Smallest share of replies with the outcome and the label of the two readers, by set."""
UNWARRANTED = {"A": 0.0, "B": 0.01, "C": 0.02, "D": 0.04, "E": 0.05, "F": 0.04}
"""Largest share of replies with a label that the two readers do not see, by set."""


@pytest.fixture(scope="module")
def read() -> pl.DataFrame:
    """One row per reply: `set`, what was read, and what the two readers say."""
    replies = [json.loads(line) for line in REPLIES.read_text(encoding="utf-8").splitlines()]
    by_probe: dict[str, list[dict[str, Any]]] = {}
    for reply in replies:
        by_probe.setdefault(reply["probe"], []).append(reply)
    tables = []
    for probe, rows in by_probe.items():
        labelled = pl.DataFrame(rows, infer_schema_length=None)
        labels = PROBES.load(probe).read(labelled.drop("outcome", "label"))
        expected = labelled.select(
            "set", "probe", said_outcome="outcome", said_label=pl.col("label").cast(pl.String)
        )
        tables.append(expected.hstack(labels.select("outcome", pl.col("label").cast(pl.String))))
    return pl.concat(tables)


@pytest.mark.parametrize("name", RIGHT)
def test_most_are_read_as_two_readers_read_them(read: pl.DataFrame, name: str) -> None:
    of_set = read.filter(set=name)
    is_correct = (pl.col("outcome") == pl.col("said_outcome")) & pl.col("label").eq_missing(
        pl.col("said_label")
    )
    unwarranted = pl.col("label").is_not_null() & pl.col("label").ne_missing(pl.col("said_label"))
    shares = of_set.select(right=is_correct.mean(), unwarranted=unwarranted.mean()).row(0, named=True)
    assert of_set.height > 100
    assert shares["right"] >= RIGHT[name]
    assert shares["unwarranted"] <= UNWARRANTED[name]
