"""The classifier a run hands to its parts, and the features one may open with it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support.tiny_models import save_classifier
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.features import measure_features, open_features
from tiltmeter.models import weights
from tiltmeter.runs.asking import RunTools
from tiltmeter.study import NO_TOOLS, NotRun


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunTools:
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / "runs"))
    return RunTools(Library(cache=tmp_path), None)


def test_scores_are_kept_for_the_next_run(tools: RunTools, tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "polar", ["negative", "positive"])
    features = open_features([f"sentiment={folder}"], encoder=tools.encoder, classifier=tools.classifier)
    found = measure_features(features, pl.Series(["kind", "brave"]))
    assert found.values["sentiment"].is_between(0, 1).all()
    assert (tmp_path / "runs" / "vectors.sqlite").exists()
    assert tools.classifier(str(folder)) is tools.classifier(str(folder))


def test_what_cannot_be_had_says_so(tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        tools.classifier(str(tmp_path / "nowhere"))
    with pytest.raises(NotRun, match="can be had within a run only"):
        NO_TOOLS.classifier("any")
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(NotRun, match=r'needs the package torch: pip install "tiltmeter\[local\]"'):
        tools.classifier("owner/name")
