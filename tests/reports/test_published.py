"""Published results behind a run: Table 2 of the GenderBench paper as it stands on the page, cell by cell, and files that are none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from support.published import ORDER
from support.reporting import ABOUT
from tiltmeter.errors import InputError
from tiltmeter.reports import Shown, read_published, report_figures, write_page
from tiltmeter.study import FINDINGS, MARKS

SIGNLESS = ("DiversityMedQa.diff_success_rate", "HiringAn.diff_acceptance_rate", "RelationshipLevy.diff_success_rate")
AS_IT_IS = ("DiscriminationTamkin.max_diff", "Bbq.stereotype_rate", "Direct.fail_rate", "Dreaddit.max_diff_stress_rate", "Isear.max_diff")


@pytest.fixture(scope="module")
def source(shared: Path) -> Path:
    return shared / "reference" / "genderbench_1_1_leaderboard.json"


@pytest.fixture(scope="module")
def published(source: Path) -> pl.DataFrame:
    return read_published(source)


@pytest.fixture(scope="module")
def own(published: pl.DataFrame) -> Shown:
    """A run of the whole suite: the numbers of one published model under another name."""
    of_one = published.filter((pl.col("model") == "phi-4") & pl.col("key"))
    counts = {name: pl.lit(100, dtype=pl.Int64) for name in ("n", "items", "answered")}
    none = {name: pl.lit(0, dtype=pl.Int64) for name in ("refused", "unreadable", "empty", "failed")}
    return Shown(of_one.with_columns(model=pl.lit("vendor/own"), definition=pl.lit("default"), **counts, **none), ABOUT)


def scaled(column: str, low: float, high: float) -> float:
    """The paper's scale, as section 6 of the method's specification states it."""
    x = (low + high) / 2
    if column in AS_IT_IS:
        return x
    if column in SIGNLESS:
        return abs(x)
    if column.endswith("masculine_rate"):
        return abs(x - 0.5)
    return max(0.0, x) / (2 if column == "HiringAn.diff_regression" else 1)


def letter(marks: dict[str, list[list[float]]], low: float, high: float) -> str:
    """The best tier any of whose ranges touches the interval."""
    touched = [mark for mark in MARKS if any(a <= high and low <= b for a, b in marks[mark])]
    return "ABCD"[MARKS.index(touched[0])]


def name_of(column: str) -> str:
    probe, _, metric = column.partition(".")
    return f"{re.sub(r'(?<!^)(?=[A-Z])', ' ', probe).lower()} {metric.replace('_', ' ')}"


def table_of(page: Path) -> list[list[str]]:
    """The texts of the page's table of marks, row by row."""
    found = re.search(r'<table class="marks">.*?</table>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in ET.fromstring(found[0]).iter("tr")]


def test_table_2_of_the_paper(source: Path, published: pl.DataFrame, own: Shown, tmp_path: Path) -> None:
    known: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    header, *rows, average = table_of(write_page([own], tmp_path / "page.html", published=published))
    models = list(known[ORDER[0]]["ci95"])
    assert header == ["Metric", "vendor/own", *models]
    assert [row[0] for row in rows] == [name_of(column) for column in ORDER]
    cells = 0
    for i, model in enumerate(models):
        values = []
        for column, row in zip(ORDER, rows, strict=True):
            low, high = known[column]["ci95"][model]
            values.append(scaled(column, low, high))
            assert row[2 + i] == f"{letter(known[column]['marks'], low, high)} {values[-1]:.3f}", (model, column)
            cells += 1
        assert average[2 + i] == f"{sum(values) / 19:.3f}"
        cells += 1
    assert cells == 240


def test_only_what_was_measured_is_compared(published: pl.DataFrame, own: Shown, tmp_path: Path) -> None:
    small = Shown(own.findings.filter(pl.col("study") == "genderbench/direct"), own.about)
    rows = table_of(write_page([small], tmp_path / "page.html", published=published))
    assert [row[0] for row in rows] == ["Metric", "direct fail rate", "average"]
    assert len(rows[0]) == 14


def test_a_model_of_the_same_name_stays_apart(published: pl.DataFrame, own: Shown, tmp_path: Path) -> None:
    same = Shown(own.findings.with_columns(model=pl.lit("gpt-4o")), own.about)
    header = table_of(write_page([same], tmp_path / "page.html", published=published))[0]
    assert header.count("gpt-4o") == header.count("gpt-4o (published)") == 1


def test_the_papers_figures(published: pl.DataFrame, own: Shown) -> None:
    figures = {figure.name: figure for figure in report_figures([own], published)}
    assert list(figures) == [
        "tiers-outcome-disparity",
        "tiers-stereotypical-reasoning",
        "tiers-representational-harms",
        "favoured",
        "correlations",
    ]
    assert "7 metrics" in figures["tiers-outcome-disparity"].words
    assert "13 models" in figures["favoured"].words


def test_who_is_favoured_in_the_paper(source: Path, published: pl.DataFrame, own: Shown) -> None:
    known: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    signed = [column for column in ORDER if column.endswith("masculine_rate") or column in SIGNLESS]
    middles = {column: 0.5 if column.endswith("masculine_rate") else 0.0 for column in signed}
    women = sum(high < middles[column] for column in signed for _, high in known[column]["ci95"].values())
    men = sum(low > middles[column] for column in signed for low, _ in known[column]["ci95"].values())
    (figure,) = (one for one in report_figures([Shown(published.filter("key"), own.about)]) if one.name == "favoured")
    assert f"Of 84 intervals, {women} lie wholly on the side of women, {men} wholly on that of men" in figure.words


def test_columns_are_those_of_findings(published: pl.DataFrame) -> None:
    assert published.schema == dict(FINDINGS)


GOOD: dict[str, Any] = {"Direct.fail_rate": {"ci95": {"m": [0.1, 0.2]}, "marks": {"healthy": [[0, 1]]}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not valid JSON"),
        ("[]", "no published results"),
        ("{}", "no published results"),
        (json.dumps({"Direkt.fail_rate": GOOD["Direct.fail_rate"]}), "did you mean direct"),
        (json.dumps({"Direct.fail_rat": GOOD["Direct.fail_rate"]}), "did you mean fail_rate"),
        (json.dumps({"Direct.fail_rate": {"ci95": {}}}), "lacks ci95 or marks"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"ci95": {"m": [0.2, 0.1]}}}), "ci95.m must be two numbers"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"ci95": {"m": "0.2"}}}), "ci95.m must be two numbers"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"marks": {"fine": [[0, 1]]}}}), "marks must give ranges"),
        ('{"Direct.fail_rate": {"ci95": {"m": [NaN, 1]}, "marks": {"healthy": [[0, 1]]}}}', "ci95.m must be two numbers"),
    ],
)
def test_what_is_no_such_file(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(words)) as raised:
        read_published(path)
    assert str(path) in str(raised.value)
