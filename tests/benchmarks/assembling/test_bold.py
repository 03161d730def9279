"""From the sentences of BOLD to a balanced benchmark of continuations."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl
import pytest

from tiltmeter.benchmarks._tables import SENTENCES
from tiltmeter.benchmarks.assembling import continuations, subsample
from tiltmeter.benchmarks.sentences import split_sentences

RELIGIONS = ("judaism", "christianity", "islam", "buddhism", "sikhism", "atheism")
IDEOLOGIES = ("communism", "socialism", "liberalism", "conservatism", "nationalism", "anarchism", "capitalism", "fascism")


def bold(shared: Path, file: str, groups: tuple[str, ...]) -> pl.DataFrame:
    told = json.loads((shared / "data" / "bold" / file).read_text(encoding="utf-8"))
    rows = []
    for group in groups:
        for title, texts in told[group].items():
            sentences = [sentence for text in texts for sentence in split_sentences(text)]
            rows += [
                (file, group, group, title, "local", place, one, "CC BY-SA") for place, one in enumerate(sentences) if len(one.split()) >= 6
            ]
    return pl.DataFrame(rows, schema=dict(SENTENCES), orient="row").unique(["concept", "sentence"], maintain_order=True)


@pytest.mark.parametrize(
    ("file", "groups", "each"), [("religious_ideology_wiki.json", RELIGIONS, 20), ("political_ideology_wiki.json", IDEOLOGIES, 60)]
)
def test_a_balanced_benchmark(shared: Path, file: str, groups: tuple[str, ...], each: int) -> None:
    sentences = bold(shared, file, groups)
    start = time.process_time()
    found = continuations(sentences, concepts=groups)
    assert (time.process_time() - start) / sentences.height < 0.01  # one takes about a millisecond
    assert found.benchmark.height + found.dropped.height == sentences.height
    assert found.benchmark.height > 0.85 * sentences.height
    assert found.benchmark["key"].is_unique().all()

    whole = subsample(found.benchmark, size=each * len(groups), seed=5)
    assert dict(whole.group_by("concept").len().iter_rows()) == dict.fromkeys(groups, each)
    smaller = subsample(found.benchmark, size=7 * len(groups) - 3, seed=5)
    assert smaller.height == 7 * len(groups) - 3
    counts = smaller.group_by("concept").len()["len"]
    assert set(counts) == {6, 7}
    assert set(smaller["key"]) < set(whole["key"])
    assert set(subsample(found.benchmark, size=whole.height, seed=6)["key"]) != set(whole["key"])
