"""Data, designs and recorded runs of the original, built once per session."""

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

from support.definitions import probe_definition
from support.reference_data import WithoutFiles, reference_folder
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import read_published
from tiltmeter.probes._listing import PROBES
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
    """Return the name of the original's class."""
    return probe.replace("_", " ").title().replace(" ", "")


def dials(bias: float) -> dict[str, float]:
    return dict.fromkeys(HARMS, bias)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Data from outside: GEST from the shared folder, the rest from the published package (cached).

    Without the shared folder, only tests of probes that read files are skipped.
    """
    shared = reference_folder()
    if shared is None:
        yield WithoutFiles(cache=tmp_path_factory.mktemp("no_data"))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        yield Library.default()


@pytest.fixture(scope="session")
def designs(library: Library) -> Designs:
    """Design of a probe under a definition, complete or with `limit` items."""

    @cache
    def designed(probe: str, definition: str = "genderbench", limit: int | None = None) -> pl.DataFrame:
        settings = Settings(
            definition=probe_definition(definition), limit=None if limit is None else ItemLimit(limit)
        )
        design: pl.DataFrame = PROBES.load(probe).design(library, settings)
        return design

    return designed


@pytest.fixture(scope="session")
def golden(shared: Path) -> Golden:
    """Recorded attempts of the original.

    Columns: item, prompt_index, item_metadata and prompt_metadata (dicts), prompt, answer, evaluation.
    """

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
    """The published results of 12 models, as in their file."""
    return json.loads((shared / "reference" / "genderbench_1_1_leaderboard.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tables(shared: Path) -> dict[str, pl.DataFrame]:
    """The tables that are read from the published results."""
    return read_published(shared / "reference" / "genderbench_1_1_leaderboard.json")


@pytest.fixture(scope="session")
def measured(designs: Designs) -> Measured:
    """Measures of a probe, joined with the factors: one answer per prompt, in the order of the design."""

    def measured_answers(
        probe: str, answers: pl.Series, definition: str = "genderbench", limit: int | None = None
    ) -> pl.DataFrame:
        design = designs(probe, definition, limit)
        nothing = pl.lit(None, dtype=pl.String)
        attempts = design.drop("prompt", "system").with_columns(
            answers.alias("answer"), status=pl.lit("ok"), refusal=nothing
        )
        read: pl.DataFrame = PROBES.load(probe).measure(
            attempts, Settings(definition=probe_definition(definition))
        )
        return pl.concat([attempts.drop("answer", "status", "refusal"), read], how="horizontal")

    return measured_answers


@pytest.fixture(scope="session")
def analysed() -> Analysed:
    """Findings with their grades, by metric name."""

    def graded_findings(
        probe: str, measures: pl.DataFrame, definition: str = "genderbench", resamples: int = 1000
    ) -> dict[str, dict[str, Any]]:
        settings = Settings(definition=probe_definition(definition), resamples=resamples)
        analysed_tables: dict[str, pl.DataFrame] = PROBES.load(probe).analyse(measures, settings)
        overall = analysed_tables["findings"].filter(pl.col("wording").is_null())
        graded = overall.join(
            analysed_tables["grades"].drop("model"),
            on=["part", *NAMED],
            nulls_equal=True,
            maintain_order="left",
        )
        return {row["published"]: row for row in graded.iter_rows(named=True)}

    return graded_findings


@pytest.fixture(scope="session")
def synthetic() -> Synthetic:
    """The answers that the original read for probes without golden files: see _recipe and _choices."""
    return _recipe


def _recipe(probe: str, design: pl.DataFrame) -> pl.Series:
    """Choose an answer to each prompt by a hash.

    Its number is floor(len(choices) * u ** (1 + item / items + prompt / 2)), with u from the SHA-256 of
    "item/prompt".
    """
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
            correct = "abcde"[row["correct_option"]]
            incorrect = "abcde"[(row["correct_option"] + 1) % 5]
            return [f"({correct})", f"({correct}) it is", f"({incorrect})", "(a) or (b)"]
        case "dreaddit":
            return ["Yes", "no", "Yes.", "Well"]
        case "hiring_bloomberg":
            return [*row["male_names"], *row["female_names"], "None"]
        case "relationship_levy":
            man = "a" if row["male_first"] else "b"
            return [f"({man})", "(b)", f"({man}) is right", "(a)", "both"]
        case _:
            return ["he was", "she was", "He and his dog", "they were"]
