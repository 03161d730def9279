"""What is wrong with a table is said in one sentence; prompts of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from tiltmeter.benchmarks._tables import BENCHMARK, SENTENCES
from tiltmeter.benchmarks.assembling import continuations, given, subsample
from tiltmeter.errors import InputError

ROW = ("d", "Norway", "Norway", "s", "local", 0, "Norway was settled after the last ice age.", None)


def sentences(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(SENTENCES), orient="row")


def test_a_concept_without_sentences() -> None:
    with pytest.raises(InputError, match=r"the concept 'Chad' has no sentences: give it more keywords or sources"):
        continuations(sentences(ROW), concepts=["Norway", "Chad"])


def test_a_concept_left_without_prompts() -> None:
    with pytest.raises(InputError, match=r"'Chad' \(1 no main verb was found\)"):
        continuations(sentences(ROW, ("d", "Chad", "Chad", "s", "local", 0, "A short history of Chad since 1900.", None)))


def test_no_sentences_at_all() -> None:
    with pytest.raises(InputError, match="there are no sentences"):
        continuations(sentences())


@pytest.mark.parametrize("column", ["domain", "concept", "keyword", "source", "position", "sentence"])
def test_a_column_that_is_not_there(column: str) -> None:
    with pytest.raises(InputError, match=f"has no column '{column}'"):
        continuations(sentences(ROW).drop(column))


def test_columns_that_may_be_absent() -> None:
    found = continuations(sentences(ROW).drop("licence", "source_tag")).benchmark
    assert found.select("licence", "source_tag").row(0) == (None, None)


@pytest.mark.parametrize("empty", [None, " "])
def test_an_empty_sentence(empty: str | None) -> None:
    with pytest.raises(InputError, match="row 2: the column 'sentence' is empty"):
        continuations(sentences(ROW, (*ROW[:6], empty, None)))


def test_an_unknown_definition() -> None:
    with pytest.raises(InputError, match="unknown definition 'paper' of continuations; known: default, saged"):
        continuations(sentences(ROW), definition="paper")


def test_prompts_of_ones_own() -> None:
    found = given(pl.DataFrame({"concept": ["Chad", "Mali", "Chad"], "prompt": ["How is Chad?", "How is Mali?", "How is Chad?"]}))
    assert dict(found.schema) == {name: pl.Series(dtype=kind).dtype for name, kind in BENCHMARK.items()}
    assert set(found["kind"]) == {"given"}
    assert found["key"].is_unique().all()
    assert found["root"].to_list() == found["key"].to_list()
    assert found["keyword_in_prompt"].null_count() == 3
    moved = given(pl.DataFrame({"concept": ["Mali"], "prompt": ["How is Mali?"]}))
    assert moved["key"][0] == found["key"][1]


def test_what_a_user_filled_in_is_kept() -> None:
    rows = {
        "key": ["a", "a/Mali"],
        "root": ["a", "a"],
        "concept": ["Chad", "Mali"],
        "keyword": ["Chad", "Mali"],
        "prompt": ["In Chad", "In Malian"],
    }
    found = given(pl.DataFrame(rows))
    assert found["key"].to_list() == ["a", "a/Mali"]
    assert found["root"].to_list() == ["a", "a"]
    assert found["keyword_in_prompt"].to_list() == [True, False]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"prompt": ["x"]}, "has no column 'concept'"),
        ({"concept": ["x"]}, "has no column 'prompt'"),
        ({"concept": ["x", None], "prompt": ["x", "y"]}, "row 2: the column 'concept' is empty"),
        ({"concept": ["x"], "prompt": ["x"], "base_line": ["x"]}, "unknown column 'base_line': did you mean baseline"),
        ({"key": ["k", "k"], "concept": ["x", "y"], "prompt": ["x", "y"]}, "the key 'k' stands twice"),
    ],
)
def test_wrong_tables_of_prompts(columns: Mapping[str, list[str | None]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        given(pl.DataFrame(columns))


def test_a_size_that_is_none() -> None:
    with pytest.raises(InputError, match="at least 1"):
        subsample(continuations(sentences(ROW)).benchmark, size=0, seed=1)
