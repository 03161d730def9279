"""`tiltmeter reanalyse`, the example and the page of its figures: every figure there is what the commands print today."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from tiltmeter.associations.released import read_counts, read_released
from tiltmeter.associations.released.published import complete_counts, counts_behind
from tiltmeter.labelling.scoring import score_sample

EXAMPLE = ROOT / "examples" / "badf_reanalysis"
PAGE = ROOT / "docs" / "associations-published.md"
RACE = ("two1_QWEN3-32B_sim_race_all_summ_base.csv", "--counts", "recovered_counts_4id.csv")


@pytest.fixture
def data(shared: Path, tmp_path: Path) -> Path:
    """Released files and recovered counts in one folder, as the example has them."""
    for file in (*(shared / "data" / "badf").glob("*.csv"), *(shared / "golden" / "badf").glob("*.csv")):
        shutil.copyfile(file, tmp_path / file.name)
    return tmp_path


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_example_prints_what_it_says(data: Path, tiltmeter: Tiltmeter) -> None:
    blocks = re.findall(
        r"```console\n\$ tiltmeter (.*)\n((?:.*\n)*?)```", (EXAMPLE / "README.md").read_text()
    )
    assert len(blocks) == 3
    for command, printed in blocks:
        done = tiltmeter(*shlex.split(command), exits=0)
        assert stripped(done.stdout) == stripped(printed), command


@pytest.mark.verify
def test_the_tables_of_the_page_are_those_of_the_script(data: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "figures.py", data, data], capture_output=True, text=True, check=True
    )
    printed = [block for block in done.stdout.strip().split("\n\n") if block.startswith("|")]
    rules, *tables = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE)
    assert "`together`" in rules
    assert len(printed) == 6
    assert [table.strip() for table in tables] == printed


def test_the_figures_in_the_text_of_the_page(data: Path) -> None:
    text = re.sub(r"\s+", " ", PAGE.read_text())
    released = [read_released(path) for path in data.glob("*QWEN3*.csv")]
    assert f"in all {sum(table.height for table in released):,} rows" in text
    unknown = []
    for category in ("race", "religions"):
        counts = read_counts(data / "recovered_counts_4id.csv")
        table = read_released(data / f"two1_QWEN3-32B_sim_{category}_all_summ_base.csv")
        unknown.append((~complete_counts(counts_behind(table, counts, None, None))["known"]).sum())
    assert f"In {unknown[0]} cells of race and {unknown[1]} of religion" in text
    lists = score_sample(data / "Sample_eva.csv")
    assert f"Of the {3 * 50} typed scores, {lists.disagreements.height} differ" in text
    v = lists.figures.filter(pl.col("metric") == "v_measure")["estimate"].item()
    assert f"V-measure follows from the other two ({v:.4f})" in text
    assert read_counts(data / "recovered_counts_gender.csv")["count"].min() == 6


def test_json_and_rows(data: Path, tiltmeter: Tiltmeter) -> None:
    done = tiltmeter(
        "reanalyse", *RACE, "-f", "json", "--tests", "5000", "--examples", "2", "-o", "rows.parquet", exits=0
    )
    (document,) = json.loads(done.stdout)
    assert document["families"] == {
        "released": 1157,
        "bound": 111_125,
        "used": 5000,
        "supported": 5000,
        "stated": True,
    }
    rows = pl.read_parquet(data / "rows.parquet")
    assert rows.height == 2559
    overall = {row["rule"]: row["rows"] for row in document["rules"] if row["identity"] is None}
    assert overall == {rule: rows[rule].sum() for rule in overall}
    assert overall["fdr"] == (rows["q"] < 0.05).sum() > 279
    white = {row["fact"]: row["rows"] for row in document["facts"] if row["identity"] == "white race"}
    assert (
        white["single"] == rows.filter((pl.col("identity") == "white race") & (pl.col("count") == 1)).height
    )
    assert len(document["kept"]) == len(document["not_kept"]) == 2
    assert document["kept"][0]["concept"] == "nervous"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RACE[0], "--counts", "none.csv"), "there is no file none.csv"),
        (
            (RACE[0], "--counts", "recovered_counts_gender.csv"),
            "the counts do not contain all 2559 released rows",
        ),
        ((*RACE, "--tests", "1156"), "--tests 1156: the released rows alone are from 1157 tests"),
        ((*RACE, "-o", "rows.xlsx"), "rows.xlsx: unknown file extension '.xlsx'"),
        ((*RACE, "-f", "xml"), "is not one of table, json"),
        ((RACE[0],), "--counts"),
    ],
)
def test_mistakes(data: Path, tiltmeter: Tiltmeter, arguments: tuple[str, ...], message: str) -> None:
    done = tiltmeter("reanalyse", *arguments, exits=2, says=message)
    assert not done.stdout
