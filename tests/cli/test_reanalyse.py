"""`tiltmeter reanalyse`, its example and its page: their figures are those that the commands print."""

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
from tiltmeter.associations.released._published import complete_counts, counts_behind
from tiltmeter.labelling.scoring import score_sample

EXAMPLE = ROOT / "examples" / "badf_reanalysis"
PAGE = ROOT / "docs" / "associations-published.md"
RACE = ("two1_QWEN3-32B_sim_race_all_summ_base.csv", "--counts", "recovered_counts_4id.csv")


@pytest.fixture
def released_files(shared: Path, tmp_path: Path) -> Path:
    """Released files and recovered counts in one folder, as the example has them."""
    for file in (*(shared / "data" / "badf").glob("*.csv"), *(shared / "golden" / "badf").glob("*.csv")):
        shutil.copyfile(file, tmp_path / file.name)
    return tmp_path


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_commands_of_the_example_print_the_output_in_its_readme(
    released_files: Path, tiltmeter: Tiltmeter
) -> None:
    blocks = re.findall(
        r"```console\n\$ tiltmeter (.*)\n((?:.*\n)*?)```", (EXAMPLE / "README.md").read_text()
    )
    assert len(blocks) == 3
    for command, printed in blocks:
        done = tiltmeter(*shlex.split(command), exits=0)
        assert stripped(done.stdout) == stripped(printed), command


@pytest.mark.verify
def test_the_tables_of_the_page_are_those_of_the_script(released_files: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "figures.py", released_files, released_files],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [block for block in done.stdout.strip().split("\n\n") if block.startswith("|")]
    rules, *tables = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(), re.MULTILINE)
    assert "`together`" in rules
    assert len(printed) == 6
    assert [table.strip() for table in tables] == printed


def test_the_figures_in_the_text_of_the_page_are_computed(released_files: Path) -> None:
    text = re.sub(r"\s+", " ", PAGE.read_text())
    released = [read_released(path) for path in released_files.glob("*QWEN3*.csv")]
    assert f"in all {sum(table.height for table in released):,} rows" in text
    unknown = []
    for category in ("race", "religions"):
        counts = read_counts(released_files / "recovered_counts_4id.csv")
        table = read_released(released_files / f"two1_QWEN3-32B_sim_{category}_all_summ_base.csv")
        unknown.append((~complete_counts(counts_behind(table, counts, None, None))["known"]).sum())
    assert f"In {unknown[0]} cells of race and {unknown[1]} of religion" in text
    lists = score_sample(released_files / "Sample_eva.csv")
    assert f"Of the {3 * 50} typed scores, {lists.disagreements.height} differ" in text
    v = lists.figures.filter(pl.col("metric") == "v_measure")["estimate"].item()
    assert f"V-measure follows from the other two ({v:.4f})" in text
    assert read_counts(released_files / "recovered_counts_gender.csv")["count"].min() == 6


def test_reanalyse_prints_json_and_writes_rows(released_files: Path, tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("reanalyse -f json --tests 5000 --examples 2 -o rows.parquet", *RACE, exits=0)
    (document,) = json.loads(done.stdout)
    assert document["families"] == {
        "released": 1157,
        "bound": 111_125,
        "used": 5000,
        "supported": 5000,
        "stated": True,
    }
    rows = pl.read_parquet(released_files / "rows.parquet")
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
def test_mistakes_in_the_arguments_of_reanalyse_are_explained(
    released_files: Path, tiltmeter: Tiltmeter, arguments: tuple[str, ...], message: str
) -> None:
    done = tiltmeter("reanalyse", *arguments, exits=2, says=message)
    assert not done.stdout
