"""The whole method with the storyteller, a real neural model: associations of its training are discovered."""

from __future__ import annotations

import polars as pl
import pytest

from associations.conftest import Study
from conftest import ROOT
from support.storyteller import FOLDER, planted
from tiltmeter.runs import Run

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(
        not (FOLDER / "model.safetensors").is_file(), reason="the storyteller's weights are not made yet"
    ),
]
MODEL = f"hf/{ROOT / 'tests' / 'fixtures' / 'storyteller'}"
RUN = (
    "run",
    "associations/gender",
    "-m",
    MODEL,
    "-P",
    "encoder=none",
    "-P",
    "names=grid",
    "--display",
    "none",
)


def found_in(run: Run) -> set[tuple[str, str]]:
    single = run.findings.filter(pl.col("concept").is_not_null() & pl.col("context").is_null())
    return set(single.select("group", "concept").iter_rows())


def planted_in(category: str) -> set[tuple[str, str]]:
    return {(identity, concept) for identity, effects in planted(category).items() for concept in effects}


def test_planted_associations_are_discovered(study: Study) -> None:
    command = (*RUN, "--limit", "16", "--judge", "sim/fair")
    run = study(*command)
    tables = run.about["tables"]
    expect_discovery(run)
    repeated = study(*command).about
    assert (repeated["models"][0]["tally"]["answered"], repeated["tables"]) == (0, tables)
    # The same stories are read by words only.
    replayed = (
        "-m",
        "replay/run",
        "-P",
        "encoder=none",
        "-P",
        "names=grid",
        "-P",
        "extraction=words",
        "--display",
        "none",
        "--limit",
        "16",
    )
    expect_discovery(study("run", "associations/gender", *replayed, out="words"))


def expect_discovery(run: Run) -> None:
    assert found_in(run) >= planted_in("gender")
    assert len(found_in(run) - planted_in("gender")) <= 1
    lists = run.table("lists")
    assert lists.filter(pl.col("status") == "missing").height < 0.02 * lists.height


def test_planted_associations_are_found_in_the_setting_open_box(study: Study) -> None:
    run = study(*RUN, "--limit", "12", "-P", "setting=open_box", "--judge", "sim/fair")
    assert not run.design["prompt"].str.contains("Emily|John|Grace|Henry").any()
    assert run.design["source_prompt"].null_count() == 0
    assert len(found_in(run) & planted_in("gender")) >= 3
    assert len(found_in(run) - planted_in("gender")) <= 1
