"""The storyteller, a real neural model that runs in this process, through the whole method: what it was trained to attach is discovered."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from support.storyteller import FOLDER, planted
from tiltmeter.runs import Run, load

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(not (FOLDER / "model.safetensors").is_file(), reason="the storyteller's weights are not made yet"),
]
MODEL = f"hf/{ROOT / 'tests' / 'fixtures' / 'storyteller'}"
RUN = ("-m", MODEL, "-P", "encoder=none", "--display", "none", "--out", "run")


def found_in(run: Run) -> set[tuple[str, str]]:
    single = run.findings.filter(pl.col("concept").is_not_null() & pl.col("context").is_null())
    return set(single.select("group", "concept").iter_rows())


def planted_in(category: str) -> set[tuple[str, str]]:
    return {(identity, concept) for identity, effects in planted(category).items() for concept in effects}


def test_planted_associations_are_discovered(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    command = ("run", "associations/gender", *RUN, "--limit", "16", "--judge", "sim/fair")
    done = tiltmeter(*command)
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    expect_discovery(run)
    again = tiltmeter(*command)
    assert again.returncode == 0, again.stderr
    repeated = load(tmp_path / "run")
    assert repeated.about["models"][0]["tally"]["answered"] == 0
    assert repeated.about["tables"] == run.about["tables"]
    # The same stories, read by their words alone.
    replayed = ("-m", "replay/run", "-P", "encoder=none", "-P", "extraction=lexical", "--display", "none", "--out", "lexical")
    read = tiltmeter("run", "associations/gender", *replayed, "--limit", "16")
    assert read.returncode == 0, read.stderr
    expect_discovery(load(tmp_path / "lexical"))


def expect_discovery(run: Run) -> None:
    assert found_in(run) >= planted_in("gender")
    assert len(found_in(run) - planted_in("gender")) <= 1
    lists = run.stage("lists")
    assert lists.filter(pl.col("status") == "missing").height < 0.02 * lists.height


def test_the_open_box_as_a_setting(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("run", "associations/gender", *RUN, "--limit", "12", "-P", "setting=open_box", "--judge", "sim/fair")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "run")
    assert not run.design["prompt"].str.contains("Emily|John|Grace|Henry").any()
    assert run.design["source_prompt"].null_count() == 0
    assert len(found_in(run) & planted_in("gender")) >= 3
    assert len(found_in(run) - planted_in("gender")) <= 1
