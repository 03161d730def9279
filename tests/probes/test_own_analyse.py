"""A probe that analyses its measures itself: what it gives is what the run stores."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tiltmeter
from tiltmeter.datasets import Library
from tiltmeter.models import Sampling
from tiltmeter.probes.direct import Direct
from tiltmeter.study import NO_TOOLS, Settings, Study, Tools


class Doubtful(Direct):
    """Adds a remark to each number."""

    __module__ = Direct.__module__  # its wordings are those beside that module

    def analyse(self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> dict[str, pl.DataFrame]:
        made = super().analyse(measures, settings, tools)
        return made | {"findings": made["findings"].with_columns(note=pl.lit("in doubt"))}


def test_a_run_stores_what_analyse_gives(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path))
    monkeypatch.setattr(Library, "default", lambda **_: library)
    study = Study(name="doubtful", title="A probe with its own analysis", parts=[Doubtful()], sampling=Sampling())
    run = tiltmeter.run(study, model="sim/mild", limit=20, out=tmp_path / "run")
    assert set(run.findings["note"]) == {"in doubt"}
    assert run.grades.height == run.findings.height
