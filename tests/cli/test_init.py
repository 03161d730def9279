"""The example of a study file: `tiltmeter init`, and its page in the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from conftest import ROOT, Tiltmeter
from tiltmeter.runs import resolve
from tiltmeter.runs._resolving import SamplingKeys, StudyDocument


def test_init_writes_the_example_of_the_documentation(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("init", exits=0)
    assert done.stdout.startswith("study.yaml written; edit it, then: tiltmeter plan study.yaml")
    written = (tmp_path / "study.yaml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "study-files.md").read_text(encoding="utf-8")
    match = re.search("```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert match is not None
    assert match[1] == written
    document = yaml.safe_load(written)
    assert set(document) == set(StudyDocument.model_fields), "the example has every key"
    assert set(document["sampling"]) == set(SamplingKeys.model_fields)


def test_the_example_has_the_defaults_of_its_study(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("init mine.yaml", exits=0)
    example, default = resolve(tmp_path / "mine.yaml"), resolve("genderbench")
    for name in ("definition", "seed", "repeats", "resamples", "level", "system_message", "judge", "replace"):
        assert getattr(example.settings, name) == getattr(default.settings, name), name
    assert example.sampling == default.sampling


def test_the_example_runs(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    tiltmeter("init mine.yaml", exits=0)
    tiltmeter("run mine.yaml -m sim/fair --limit 10 --out run --display none", exits=0)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert list(about["parts"]) == ["gest", "direct", "hiring_an"]


def test_nothing_is_overwritten(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\n")
    tiltmeter("init", exits=2, says="study.yaml exists; choose another name, or remove it first")
    assert (tmp_path / "study.yaml").read_text() == "study: genderbench\n"
    tiltmeter("init mine.csv", exits=2, says="it ends in .yaml")
    tiltmeter("init nowhere/mine.yaml", exits=2, says="there is no folder nowhere")
