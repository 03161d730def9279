"""The Hugging Face hub: the `datasets` library opens a dataset, `huggingface_hub` reads a card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from exports.conftest import exported
from tiltmeter.errors import InputError
from tiltmeter.exports import export
from tiltmeter.runs import load
from tiltmeter.schema import NAMED

OPEN = """
import json, sys, datasets
folder = sys.argv[1]
names = datasets.get_dataset_config_names(folder)
rows = {name: len(datasets.load_dataset(folder, name, split="train")) for name in names}
default = datasets.load_dataset(folder, split="train")
answers = datasets.load_dataset(folder, "responses", split="train")["answer"]
print(json.dumps({"rows": rows, "default": default.column_names, "answers": list(answers)}))
"""
READ = """
import json, sys, huggingface_hub
card = huggingface_hub.ModelCard.load(sys.argv[1])
results = [vars(result) for result in card.data.eval_results]
print(json.dumps({"name": card.data.model_name, "results": results, "text": card.text}))
"""


def library_output(script: str, place: Path, home: Path) -> dict[str, Any]:
    """The JSON that a script prints about a path, with the libraries of the hub offline."""
    variables = {
        "PATH": "",
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }
    command = [sys.executable, "-c", script, str(place)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def front(text: str) -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load(text.split("---\n")[1])
    return loaded


@pytest.mark.verify
def test_a_dataset_opens_in_its_library_and_is_still_a_run(evil: Path, tmp_path: Path) -> None:
    (evil / "stages").mkdir(exist_ok=True)
    pl.DataFrame({"model": ["a"], "value": [1.5]}).write_parquet(evil / "stages" / "own.parquet")
    pl.DataFrame({"model": ["a"]}).clear().write_parquet(evil / "stages" / "empty.parquet")
    place = exported(evil, "huggingface", tmp_path / "dataset")
    source = load(evil)
    opened = library_output(OPEN, place, tmp_path)
    tables = {
        "findings": source.findings,
        "responses": source.responses,
        "measures": source.measures,
        "design": source.design,
    }
    stages = {
        name: pl.read_parquet(evil / "stages" / f"{name}.parquet").height
        for name in ("examples", "grades", "own")
    }
    rows = {name: table.height for name, table in tables.items()} | stages
    assert opened == {
        "rows": rows,
        "default": source.findings.columns,
        "answers": source.responses["answer"].to_list(),
    }
    assert load(place).findings.equals(source.findings)
    assert load(place).table("own").height == 1
    assert load(place).table("empty").columns == ["model"]
    for name in tables:
        assert (place / f"{name}.parquet").read_bytes() == (evil / f"{name}.parquet").read_bytes(), (
            "so that the checksums of run.json hold"
        )


def test_the_card_of_a_dataset_names_its_data_and_their_licences(run: Path) -> None:
    text = (exported(run, "huggingface") / "README.md").read_text()
    assert front(text)["license"] == "other"
    datasets = load(run).about["data"]
    plain = text.replace("\\", "")
    assert datasets
    assert all(entry[name] in plain for entry in datasets for name in ("title", "licence", "citation"))
    restricted = [entry["title"] for entry in datasets if entry["restricted"]]
    assert restricted
    warning = plain.partition("Restricted redistribution")[2].partition("\n")[0]
    assert all(title in warning for title in restricted)


def test_an_export_replaces_only_a_dataset_of_tiltmeter(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "dataset"
    export(run, "huggingface", place)
    (place / "findings.parquet").write_bytes(b"old")
    export(run, "huggingface", place)
    assert load(place).findings.height
    (place / "mine.txt").write_text("keep me")
    for foreign in (place, place / "mine.txt"):
        with pytest.raises(InputError, match="was not written by Tiltmeter"):
            export(run, "huggingface", foreign)
    assert (place / "mine.txt").read_text() == "keep me"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "run"], "nothing is left beside it"


def test_the_card_of_a_model_has_its_key_findings(run: Path, tmp_path: Path) -> None:
    card = library_output(READ, exported(run, "modelcard", model="sim/mild"), tmp_path)
    assert card["name"] == "sim/mild"
    key = load(run).findings.filter("key", model="sim/mild")
    results = card["results"]
    text = card["text"]
    values = [(entry["dataset_type"], entry["metric_type"], entry["metric_value"]) for entry in results]
    assert values == key.select(pl.format("{}/{}", "study", "part"), "metric", "estimate").rows()
    args = [
        (entry["metric_args"]["low"], entry["metric_args"]["high"], entry["metric_args"]["mark"])
        for entry in results
    ]
    assert args == key.select("low", "high", "mark").rows()
    for row in key.iter_rows(named=True):
        assert f"{row['low']:.3f} to {row['high']:.3f}".replace("-", "−") in text
    described = load(run).grades.join(key, on=["model", "part", *NAMED], how="semi", nulls_equal=True)[
        "description"
    ]
    assert described.len() == key.height
    assert all(description in text.replace("\\", "") for description in described)
    assert "### Limitations" in text


def test_a_metric_without_value_is_named_but_not_in_the_metadata(run: Path) -> None:
    is_lost = pl.col("metric") == "fail_rate"
    values = [
        pl.when(is_lost).then(float("nan")).otherwise(name).alias(name)
        for name in ("estimate", "low", "high")
    ]
    mark = pl.when(is_lost).then(pl.lit("ungraded")).otherwise("mark").alias("mark")
    frame = pl.read_parquet(run / "findings.parquet").with_columns(*values, mark)
    frame.write_parquet(run / "findings.parquet")
    text = exported(run, "modelcard", model="sim/mild").read_text()
    metadata = text.split("---\n")[1]
    assert [word for word in ("fail_rate", "nan") if word in metadata] == []
    assert "could not be computed" in text


def test_untrusted_names_stay_text_in_cards(evil: Path, tmp_path: Path) -> None:
    card = library_output(READ, exported(evil, "modelcard", model="<script>alert(1)</script>"), tmp_path)
    assert card["name"] == "<script>alert(1)</script>"
    readme = (exported(evil, "huggingface") / "README.md").read_text()
    assert front(readme)["pretty_name"] == 'Tiltmeter: "><img src=x onerror=alert(1)>'
    for text in (str(card["text"]), readme.partition("\n---\n")[2]):
        assert "\u202e" not in text
        outside = text.replace("````", "```").split("```")[::2]
        assert not [
            part
            for part in outside
            if "<script" in part.replace("\\<", "") or "<img" in part.replace("\\<", "")
        ]


def test_notes_name_the_population_of_the_intervals_and_the_families_of_q(run: Path) -> None:
    populations = (
        load(run)
        .findings.filter(pl.col("key"), pl.col("low").is_not_null())["estimand"]
        .unique(maintain_order=True)
    )
    for format, model in {
        "modelcard": {"model": "sim/fair"},
        "huggingface": {},
        "markdown": {},
        "latex": {},
    }.items():
        place = exported(run, format, **model)
        text = " ".join(
            (place / "README.md" if place.is_dir() else place).read_text().replace("\\", "").split()
        )
        assert f"Confidence intervals are about {'; '.join(populations)}." in text, format
        assert "in two families of tests for each model: its key tests, and its other tests" in text, format
        assert "the 90% interval touches" in text, format
        assert "further prompts of the same kind" not in text, format
        assert "all tested metrics" not in text, format


def test_notes_of_published_definitions_claim_no_other_intervals_and_marks(run: Path) -> None:
    """The published definition of associations has no intervals.

    That of probes marks by the interval itself and has no p and q.
    """
    none = [pl.lit(None, pl.Float64).alias(name) for name in ("low", "high")]
    findings = load(run).findings
    no_mark = pl.lit(None, pl.String)
    rows = findings.filter("key").with_columns(
        *none, study=pl.lit("associations"), metric=pl.lit("association"), mark=no_mark
    )
    rows.with_columns(concept=pl.int_range(pl.len()).cast(pl.String)).write_parquet(run / "findings.parquet")
    text = exported(run, "markdown").read_text()
    assert "over the concepts of its part" in text
    assert "widened" not in text
    assert "Confidence intervals" not in text
    without = [pl.lit(None, pl.Float64).alias(name) for name in ("p", "q")]
    findings.with_columns(*without, definition=pl.lit("genderbench@1")).write_parquet(
        run / "findings.parquet"
    )
    text = exported(run, "markdown").read_text()
    assert "touches; the published package reports the best of them" in text
    assert "90% interval" not in text
    assert "p tests" not in text
    assert "false discovery rate" not in text
